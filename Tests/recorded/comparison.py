"""Compares two recordings: directories with one transcript a play."""

import difflib
from pathlib import Path

SUFFIX = ".txt"
# A diverged play differs in every later line: these are enough to see the reason.
MOST_LINES = 60


def transcripts(recording: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(recording.glob(f"*{SUFFIX}"))}


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """A readable report for each play that differs; none without a difference."""
    reports = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            reports.append(f"{name}: only in the old recording")
        elif name not in old:
            reports.append(f"{name}: only in the new recording")
        elif old[name] != new[name]:
            reports.append(_difference(name, old[name], new[name]))
    return reports


def _difference(name: str, old: str, new: str) -> str:
    lines = list(difflib.unified_diff(old.split("\n"), new.split("\n"), f"old/{name}", f"new/{name}", lineterm="", n=4))
    left_out = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], *([f"… and {left_out} more lines"] if left_out > 0 else [])])
