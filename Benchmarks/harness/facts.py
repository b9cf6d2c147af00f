"""Facts about the machine for readers: processors, memory, kernel, and the time of a sync of its disk."""

import os
import platform
import re
import tempfile
import time
from pathlib import Path

from . import machine, process

SYNCED_BYTES = 8_192


def facts(count: int = 1_000) -> dict:
    """For `pages`; the disk is the one of the directory for temporary files, where every side keeps its data."""
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    memory = int(re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE).group(1))
    virtual = " (virtual)" if re.search(r"^flags\s*:.*\bhypervisor\b", info, re.MULTILINE) else ""
    return {
        "facts": {
            "processors": f"{len(os.sched_getaffinity(0))} of {model.group(1) if model else platform.machine()}{virtual}",
            "memory": f"{memory / 1024 / 1024:.0f} GiB",
            "kernel": f"{platform.system()} {platform.release()}",
            "file system": file_system(Path(tempfile.gettempdir())),
            "PostgreSQL": version("postgres", "--version"),
            "etcd": version("etcd", "--version"),
            "Redis": version("redis-server", "--version"),
            "Pathmirror": process.run([machine.pathmirror(), "version"]).strip(),
        },
        "fdatasync": fdatasync(count),
    }


def version(name: str, *words) -> str:
    """The version in the first line of a program's output, or that line."""
    line = process.run([machine.program(name), *words]).strip().split("\n")[0]
    found = re.search(r"\d+\.\d+(\.\d+)?", line)
    return found.group(0) if found else line


def file_system(folder: Path) -> str:
    """The kind of the file system that a folder is in."""
    found, kind = "", ""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, this, *_ = line.split(" ")
        if (f"{folder.resolve()}/").startswith(place.rstrip("/") + "/") and len(place) >= len(found):
            found, kind = place, this
    return kind or "unknown"


def fdatasync(count: int) -> dict:
    """Appends that are synced one by one, as a log's are; milliseconds."""
    times = []
    with tempfile.NamedTemporaryFile(prefix="pathmirror-sync-") as file:
        # Like a write-ahead log's files, the file has its full size before the writes.
        os.posix_fallocate(file.fileno(), 0, SYNCED_BYTES * count)
        os.fsync(file.fileno())
        block = os.urandom(SYNCED_BYTES)
        for _ in range(count):
            os.write(file.fileno(), block)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    share = {name: round(times[min(count - 1, int(count * part))], 4) for name, part in
             (("min", 0), ("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1))}
    return {"bytes": SYNCED_BYTES, "count": count, **share, "times": [[part / 100, round(times[min(count - 1, count * part // 100)], 4)]
                                                                       for part in range(0, 101, 2)]}
