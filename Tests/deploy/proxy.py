"""The shipped proxy configuration in a directory and on ports of its own, run by the real nginx."""

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

from deployment import DEPLOY, run, tool

NGINX = DEPLOY / "nginx"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy:
    """`server` is the file that becomes server.conf: http.conf or tls.conf. Started on entry, stopped on exit."""

    def __init__(
        self, directory: Path, gateways: list[int], server: str = "http.conf", tls: Path | None = None, outer_proxies: str = ""
    ):
        self.directory = directory
        self.outer_proxies = outer_proxies
        self.port, self.tls_port = free_port(), free_port()
        self._process = None
        self._write(gateways, server, tls)

    def _write(self, gateways: list[int], server: str, tls: Path | None):
        where = self.directory
        # nginx writes to /tmp; each test gets a folder of its own instead.
        files = {path.name: _older(path.read_text()).replace("/tmp/", f"{where}/") for path in NGINX.iterdir()}
        main = files["nginx.conf"]
        main = _replaced(main, "worker_processes auto;", f"worker_processes 2;\n{_user()}")
        main = _replaced(main, "worker_connections 65536;", "worker_connections 1024;")
        main = _replaced(main, "error_log /dev/stderr warn;", f"error_log {where}/error.log notice;")
        main = _replaced(main, "error_log /dev/stderr emerg;", f"error_log {where}/requests.log emerg;")
        main = _replaced(main, "access_log /dev/stdout pathmirror;", f"access_log {where}/access.log pathmirror;")
        files["nginx.conf"] = _replaced(main, "include /etc/nginx/server.conf;", f"include {where}/server.conf;")
        for name, port in zip(("gateway-a:9000", "gateway-b:9000"), gateways, strict=True):
            files["upstreams.conf"] = files["upstreams.conf"].replace(f"server {name} resolve", f"server 127.0.0.1:{port}")
        files["outer-proxies.conf"] = self.outer_proxies or files["outer-proxies.conf"]
        block = _replaced(files[server], "listen 8080 ", f"listen 127.0.0.1:{self.port} ")
        if tls is not None:
            block = _replaced(block, "listen 8443 ", f"listen 127.0.0.1:{self.tls_port} ")
            block = block.replace("/etc/nginx/tls/", f"{where}/tls/")
            shutil.copytree(tls, where / "tls")
            (where / "https-port.conf").write_text(f'set $https_port ":{self.tls_port}";\n')
        files["server.conf"] = block
        for name, text in files.items():
            (where / name).write_text(text)
        (where / "out").mkdir()

    def log(self) -> str:
        """The whole output of nginx."""
        return "".join((self.directory / name).read_text() for name in ("access.log", "error.log", "requests.log"))

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


def _older(text: str) -> str:
    """The same configuration for Debian's nginx, if that is older than the image's."""
    version = tuple(int(part) for part in re.findall(r"\d+", run(tool("nginx"), "-v").stderr)[:3])
    if version < (1, 27, 4):
        text = text.replace("keepalive_min_timeout 10s;", "")
    if version < (1, 25, 1):
        text = text.replace(" ssl default_server", " ssl http2 default_server").replace("http2 on;", "")
    return text


def _user() -> str:
    # Workers of a root nginx change user; the test's directory is closed to others.
    return "user root;" if os.geteuid() == 0 else ""


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
