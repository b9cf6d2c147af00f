"""The path of the program under test."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def pathmirror() -> str:
    """The binary named by PATHMIRROR_BINARY, else the release build of this checkout."""
    named = os.environ.get("PATHMIRROR_BINARY")
    binary = Path(named) if named else REPOSITORY / ".build" / "release" / "pathmirror"
    if not os.access(binary, os.X_OK):
        raise RuntimeError(f"no executable at {binary}: build with `make build`, or set PATHMIRROR_BINARY")
    return str(binary.resolve())
