"""A `pathmirror dev` of the benchmarks' own, with its PostgreSQL."""

import http.client
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from . import machine, process
from .processor import Meter


class Gateway:
    """A gateway on a data directory that is removed at the end. Use as a context.

    `binary` is the measured one, unless it is given."""

    OPTIONS = ["--log-level", "warning"]
    TUNE = "idle-timeout=10m,stream-keep-alive=10m"
    # The same for an earlier build, which reads these variables and not PATHMIRROR_TUNE.
    EARLIER = {"PATHMIRROR_IDLE_TIMEOUT_MS": "600000", "PATHMIRROR_SSE_KEEPALIVE_MS": "600000"}

    def __init__(self, binary: str | None = None, options: list | None = None, tune: str = ""):
        self.binary = binary or machine.pathmirror()
        self.options = [*self.OPTIONS, *(options or [])]
        # The last value of a repeated name counts.
        self.variables = {**self.EARLIER, "PATHMIRROR_TUNE": ",".join(filter(None, (self.TUNE, tune)))}
        self.root = Path(tempfile.mkdtemp(prefix="pathmirror-bench-"))
        # If root runs this, PostgreSQL runs as another user, who needs access to the folder.
        self.root.chmod(0o711)
        self.data = self.root / "data"
        self.port = machine.free_port()
        self.child: subprocess.Popen | None = None

    def __enter__(self) -> "Gateway":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def start(self):
        out = self.root / "out"
        with open(out, "wb") as stdout, open(self.root / "err", "ab") as stderr:
            self.child = process.start(
                [self.binary, "dev", "--port", self.port, "--data", self.data, *self.options],
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env={**os.environ, **self.variables})
        end = time.monotonic() + 60
        while not re.search(r"^pathmirror: ready on ", out.read_text(), re.MULTILINE):
            if self.child.poll() is not None or time.monotonic() > end:
                raise process.Failed("pathmirror dev did not get ready:\n" + (self.root / "err").read_text()[-2000:])
            time.sleep(0.02)

    def stop(self):
        if self.child:
            process.stop(self.child)
            self.child = None

    def restart(self):
        self.stop()
        self.start()

    @property
    def pid(self) -> int:
        return self.child.pid

    def meter(self) -> Meter:
        return Meter(self.pid, self.postmaster)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, target: str, body: str | None = None, patience: float = 120,
                headers: dict | None = None) -> bytes:
        """One request; anything but 2xx is a failure."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)
        try:
            connection.request(method, target, body.encode() if body is not None else None, headers or {})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise process.Failed(f"{method} {target} was answered with {answer.status}: {content[:200]!r}")
        return content

    def command(self, *words, patience: float = 180) -> str:
        """Runs a subcommand on this data directory."""
        return process.run([self.binary, *words, "--data", self.data], patience)

    # MARK: its PostgreSQL

    @property
    def postmaster(self) -> int:
        """The process id of PostgreSQL's first process."""
        return int((self.data / "pgdata" / "postmaster.pid").read_text().split("\n", 1)[0])

    @property
    def environment(self) -> dict:
        return {"PGHOST": str(self.data / "run"), "PGPORT": "5432", "PGUSER": "pathmirror", "PGDATABASE": "pathmirror"}

    def sql(self, text: str, patience: float = 180) -> str:
        """Runs SQL or psql's own commands; the rows without decoration."""
        return process.run([machine.program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"], patience, text,
                           self.environment).strip()

    def checkpoint(self):
        """Called before each measurement, so that it does not write the dirty pages of another one."""
        self.sql("checkpoint")
