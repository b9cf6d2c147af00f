"""Counts the allocations of a program. Neither time nor other programs affect this count (preload/allocations.c)."""

import os
import shutil
import statistics
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]


def build_library(into: Path) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise RuntimeError("no C compiler: install the Debian package gcc (scripts/install-dependencies faults)")
    library = into / "allocations.so"
    subprocess.run([compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", library, FOLDER / "preload" / "allocations.c"], check=True)
    return library


class Allocations:
    """The counts of a program that is started with `environment`."""

    def __init__(self, folder: Path):
        self._file = folder / "allocations"
        self._file.write_bytes(bytes(16))
        self.environment = {"LD_PRELOAD": str(build_library(folder)), "ALLOCATIONS": str(self._file)}

    @property
    def times(self) -> int:
        return struct.unpack("<2Q", self._file.read_bytes())[0]

    def each(self, work: Callable[[int], None], count: int = 300, windows: int = 5) -> float:
        """Returns the allocations of one call of `work`: the median of several windows of `count` calls. A first window fills caches and
        buffers, and does not count. Each call gets another number."""
        found, number = [], 0
        for _ in range(windows + 1):
            before = self.times
            for _ in range(count):
                number += 1
                work(number)
            found.append((self.times - before) / count)
        return statistics.median(found[1:])
