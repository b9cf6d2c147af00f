"""The machine that the benchmarks run on: programs, limits, and whether others use it."""

import os
import resource
import shutil
import socket
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class Missing(Exception):
    """A missing program; the text names it and the way to install or build it."""


def pathmirror() -> str:
    """The binary named by PATHMIRROR_BINARY, else the release build of this checkout."""
    named = os.environ.get("PATHMIRROR_BINARY")
    binary = Path(named) if named else REPOSITORY / ".build" / "release" / "pathmirror"
    if not os.access(binary, os.X_OK):
        raise Missing(f"no executable at {binary}: build with `make build`, or set PATHMIRROR_BINARY")
    return str(binary.resolve())


def program(name: str) -> str:
    """A program of PostgreSQL's (the newest that Debian installed) or of the search path."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[-3]))
    found = str(installed[-1]) if installed else shutil.which(name)
    if not found:
        raise Missing(f"no {name}: install the missing packages with `scripts/install-dependencies run bench`")
    return found


def raise_open_files(wanted: int) -> int:
    """Lets this process and its children have `wanted` open files where allowed; returns how many it got."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
    except (ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def resident_bytes(pid: int) -> int:
    """The process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"no memory figures for process {pid}")


def settled_resident_bytes(pid: int, patience: float = 5) -> int:
    """The resident memory once it has stopped changing."""
    end = time.monotonic() + patience
    last = resident_bytes(pid)
    while time.monotonic() < end:
        time.sleep(0.3)
        now = resident_bytes(pid)
        if abs(now - last) < 64 * 1024:
            return now
        last = now
    return last


def _busy_and_total() -> tuple[int, int]:
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


class Quiet:
    """Waits for other programs to pause, within a limit for the whole run, and records their use in spite of that."""

    def __init__(self, budget: float):
        self._budget = budget
        self.shares: list[float] = []

    def wait(self):
        while True:
            before = _busy_and_total()
            time.sleep(0.25)
            after = _busy_and_total()
            share = (after[0] - before[0]) / max(1, after[1] - before[1])
            if share < 0.15 or self._budget <= 0:
                self.shares.append(share)
                return
            self._budget -= 0.25
