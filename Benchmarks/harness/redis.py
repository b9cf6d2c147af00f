"""A Redis of the benchmarks' own."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from . import machine, process
from .processor import Meter


class Redis:
    """A Redis that answers once it has written to disk, as the other engines do. Use as a context."""

    def __init__(self):
        self.root = Path(tempfile.mkdtemp(prefix="pathmirror-redis-"))
        self.target = machine.free_port()

    def __enter__(self) -> "Redis":
        self._child = process.start(
            [machine.program("redis-server"), "--port", self.target, "--bind", "127.0.0.1", "--dir", self.root, "--save", "",
             "--appendonly", "yes", "--appendfsync", "always"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while True:
            try:
                self.ask("PING")
                return self
            except process.Failed:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def __exit__(self, *_):
        process.stop(self._child)
        shutil.rmtree(self.root, ignore_errors=True)

    def ask(self, *words) -> str:
        return process.run([machine.program("redis-cli"), "-p", self.target, *words])

    def meter(self) -> Meter:
        return Meter(self._child.pid)
