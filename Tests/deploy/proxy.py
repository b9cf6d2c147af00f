"""The shipped proxy configuration in a directory and on ports of its own, run by the real nginx."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from deployment import DEPLOY, tool

NGINX = DEPLOY / "nginx"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy:
    """`server` is the file that becomes server.conf: http.conf or tls.conf. Started on entry, stopped on exit."""

    def __init__(self, directory: Path, gateways: list[int], server: str = "http.conf", tls: Path | None = None):
        self.directory = directory
        self.port, self.tls_port = free_port(), free_port()
        self._process = None
        self._write(gateways, server, tls)

    def _write(self, gateways: list[int], server: str, tls: Path | None):
        where = self.directory
        main = (NGINX / "nginx.conf").read_text()
        main = _replaced(main, "pid /var/run/nginx.pid;", f"pid {where}/nginx.pid;\n{_user()}")
        main = _replaced(main, "worker_processes auto;", "worker_processes 2;")
        main = _replaced(main, "error_log /dev/stderr warn;", f"error_log {where}/error.log notice;")
        main = _replaced(main, "access_log /dev/stdout pathmirror;", f"access_log {where}/access.log pathmirror;")
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        main = _replaced(main, "http {", "http {\n" + "".join(f"{kind}_temp_path {where}/{kind};\n" for kind in kinds))
        for name, port in zip(("gateway-a:9000", "gateway-b:9000"), gateways, strict=True):
            # Once in each of the two upstreams.
            main = _replaced(main, f"server {name} ", f"server 127.0.0.1:{port} ", times=2)
        block = _replaced((NGINX / server).read_text(), "listen 80 ", f"listen 127.0.0.1:{self.port} ")
        if tls is not None:
            block = _replaced(block, "listen 443 ", f"listen 127.0.0.1:{self.tls_port} ")
            shutil.copytree(tls, where / "tls")
        (where / "pathmirror").mkdir()
        (where / "nginx.conf").write_text(main)
        (where / "pathmirror/server.conf").write_text(block)
        shutil.copy(NGINX / "gateway.conf", where / "pathmirror/gateway.conf")

    def command(self, *options: str) -> list[str]:
        return [tool("nginx"), "-p", str(self.directory), "-c", str(self.directory / "nginx.conf"), *options]

    def __enter__(self):
        self._process = subprocess.Popen(
            self.command("-g", "daemon off;"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 20
        while not _accepts(self.port):
            try:
                self._process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                assert time.monotonic() < deadline, "nginx does not listen after 20 s"
            else:
                raise AssertionError(f"nginx ended: {self._process.stderr.read()}")
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=20)
        self._process.stderr.close()


def _replaced(text: str, old: str, new: str, times: int = 1) -> str:
    assert text.count(old) == times, f"the shipped configuration no longer has {old!r} {times} times"
    return text.replace(old, new)


def _user() -> str:
    # Workers of a root nginx change user; the test's directory is closed to others.
    return "user root;" if os.geteuid() == 0 else ""


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
