"""Thousands of client connections, in a process of their own (clients/connections.c)."""

import queue
import subprocess
import threading

from . import process
from .clients import client


class Connections:
    """A helper process that holds connections until the context ends.

    `kinds`: the number of each kind; the kinds are those of clients/connections.c. Listeners listen on `path`. Each time all connections
    together have received another event each, the process reports the number of events of each and the time (monotonic nanoseconds): see
    `reached`."""

    def __init__(self, port: int, path: str = "/", **kinds: int):
        self.count = sum(kinds.values())
        # Events that each listener had before those now counted, which the caller sets.
        self.seen = 0
        words = [word for kind, count in kinds.items() for word in (kind.replace("_", "-"), count)]
        self._child = process.start([client("connections"), port, path, *words], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
        self._lines: queue.Queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        if self._line(60) != ["ready"]:
            raise process.Failed(f"{kinds} connections could not be opened")

    def __enter__(self) -> "Connections":
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        process.stop(self._child)

    @property
    def pid(self) -> int:
        return self._child.pid

    def _read(self):
        for line in self._child.stdout:
            self._lines.put(line.split())
        self._lines.put(["ended"])

    def _line(self, patience: float) -> list[str] | None:
        try:
            return self._lines.get(timeout=patience)
        except queue.Empty:
            return None

    def reached(self, patience: float) -> tuple[int, int] | None:
        """The next report: (events a listener, time); nil when there is none in time."""
        line = self._line(patience)
        if line == ["ended"]:
            raise process.Failed("the listeners' process ended early")
        return (int(line[0]), int(line[1])) if line else None
