"""The benchmarks' own clients, in C: compiled at their first use, into a directory of this run."""

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

from . import machine, process

_SOURCES = machine.REPOSITORY / "Benchmarks" / "clients"


@functools.cache
def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="pathmirror-clients-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@functools.cache
def client(name: str, *libraries: str) -> Path:
    """The program of clients/NAME.c, with libraries that pkg-config knows."""
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        raise machine.Missing("no C compiler: install the missing packages with `scripts/install-dependencies run bench`")
    program = _directory() / name
    flags = process.run([machine.program("pkg-config"), "--cflags", "--libs", *libraries]).split() if libraries else []
    process.run([compiler, "-O2", "-pthread", "-o", program, _SOURCES / f"{name}.c", *flags])
    return program
