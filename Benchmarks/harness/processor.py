"""Processor time of a gateway, its PostgreSQL and a load generator: the cost of a write, independent of other programs."""

import os
import resource
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def _own(fields: list[str]) -> float:
    return (int(fields[11]) + int(fields[12])) * _TICK


def used_by(pid: int) -> float:
    """Seconds of processor time that one process has had, system calls included."""
    return _own(_fields(pid))


class Meter:
    """Counts from its creation; `used` is in seconds. Programs that were waited for count as load generators."""

    def __init__(self, server_pid: int, postmaster_pid: int | None = None):
        self._server, self._postmaster = server_pid, postmaster_pid
        self._start = self._now()

    @property
    def used(self) -> float:
        return self._now() - self._start

    def _now(self) -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return _own(_fields(self._server)) + (self._postgres() if self._postmaster else 0) + children.ru_utime + children.ru_stime

    def _postgres(self) -> float:
        """The postmaster, its children, and those of them that have ended."""
        fields = _fields(self._postmaster)
        total = _own(fields) + (int(fields[13]) + int(fields[14])) * _TICK
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                fields = _fields(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == self._postmaster:
                total += _own(fields)
        return total
