"""Starts `pathmirror dev` and `pathmirror serve`, and stops them with all of their child processes."""

import http.client
import json
import os
import re
import tempfile
import time
from pathlib import Path

from . import older
from .binary import pathmirror
from .ports import free_port
from .process import Process, alive, children, kill_all
from .rest import Rest
from .waiting import PATIENCE, Late, wait_until

SECRET = "e2e-administrator-secret-0123456789abcdef"
OPEN_RULES = {"rules": {".read": True, ".write": True}}


class Gateway:
    """One running gateway and a client for it."""

    def __init__(self, process: Process, port: int, database_url: str | None = None, data: Path | None = None):
        self.process, self.port, self.database_url, self.data = process, port, database_url, data
        self.rest = Rest(port)

    def unique(self) -> Rest:
        return self.rest.unique()

    def ready(self) -> bool:
        """Whether the gateway reports that it is ready."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/.health/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        """The current value of a metric. `name` includes the labels, if there are any."""
        text = self.rest.send("GET", "/.metrics").body.decode()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE).group(1))

    def wait_ready(self, patience: float = 30):
        def look():
            if not self.process.running:
                raise Late(f"{self.process.name} ended with {self.process.child.returncode}:\n{self.process.tail()}")
            # Reads the gateway's own line first: another server may answer at the port.
            return "pathmirror: ready on " in self.process.stdout() and self.ready()

        wait_until(look, f"{self.process.name} to be ready", patience)
        return self

    def stop(self) -> int:
        status = self.process.stop()
        self.sweep()
        return status

    def sweep(self):
        """Ends the processes that are left of this gateway, its private PostgreSQL included."""
        if self.process.running:
            self.process.kill()
        if self.data:
            end_private_postgres(self.data)


def start_dev(data: Path, logs: Path, port: int | None = None, *options, name: str = "dev", ns: str = "default",
              env: dict | None = None, patience: float = 30, tune: str = "") -> Gateway:
    """Starts `pathmirror dev` and waits for the line that says it serves. `tune` changes constants (older.py)."""
    port = port or free_port()
    words, variables = older.spoken(pathmirror(), options, tune)
    process = Process([pathmirror(), "dev", "--port", port, "--data", data, "--ns", ns, *words], name, logs, {**(env or {}), **variables})
    gateway = Gateway(process, port, data=data)
    try:
        process.wait_for_output(rf"^pathmirror: ready on http://127\.0\.0\.1:{port}\s*$", patience)
    except BaseException:
        gateway.sweep()
        raise
    return gateway


def _write(file: Path, text: str):
    """Replaces the file in one step: a gateway that starts at the same time may read it."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as new:
        new.write(text)
    os.replace(new.name, file)


def start_serve(database_url: str, scratch: Path, logs: Path, *options, rules: dict | None = OPEN_RULES,
                port: int | None = None, name: str = "serve", ns: str = "default", env: dict | None = None,
                wait: bool = True, plain: bool = True, tune: str = "") -> Gateway:
    """Starts `pathmirror serve`. Without `rules` it denies all but administrators, and without `plain` it serves TLS only.

    `tune` changes constants (older.py)."""
    port = port or free_port()
    secret = scratch / "admin-secret"
    _write(secret, SECRET + "\n")
    arguments = ["serve", "--database-url", database_url, "--ns", ns, "--admin-secret-file", secret]
    if plain:
        arguments += ["--listen", f"127.0.0.1:{port}"]
    if rules is not None:
        _write(scratch / "rules.json", json.dumps(rules))
        arguments += ["--rules", scratch / "rules.json"]
    words, variables = older.spoken(pathmirror(), options, tune)
    gateway = Gateway(Process([pathmirror(), *arguments, *words], name, logs, {**(env or {}), **variables}), port, database_url)
    if wait:
        try:
            if plain:
                gateway.wait_ready()
            else:
                gateway.process.wait_for_output(r"^pathmirror: ready on ", 30)
        except BaseException:
            gateway.sweep()
            raise
    return gateway


def private_postgres(data: Path) -> list[int]:
    """The ids of the PostgreSQL servers that run in a directory of `dev`."""
    found = []
    for pid_file in data.rglob("postmaster.pid"):
        try:
            pid = int(pid_file.read_text().split()[0])
            command = Path(f"/proc/{pid}/cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            continue
        if alive(pid) and re.search(r"postgres", command):
            found.append(pid)
    return found


def end_private_postgres(data: Path, patience: float = PATIENCE):
    deadline = time.monotonic() + patience
    while servers := private_postgres(data):
        for server in servers:
            kill_all([server, *children(server)])
        if time.monotonic() > deadline:
            raise Late(f"PostgreSQL still runs in {data}: {servers}")
        time.sleep(0.02)
