"""The command line: `pathmirror log …`, `import`, `export`, `migrate`."""

import json
import subprocess

from .binary import pathmirror
from .process import run


def command(*words, stdin: bytes | None = None, patience: float = 120) -> subprocess.CompletedProcess:
    """Runs a command to its end. Any exit status is allowed."""
    return run([pathmirror(), *words], patience, stdin)


def succeeds(*words, stdin: bytes | None = None, patience: float = 120) -> str:
    """Runs a command that must exit with 0; returns its standard output."""
    finished = command(*words, stdin=stdin, patience=patience)
    assert finished.returncode == 0, \
        f"pathmirror {' '.join(map(str, words))} exited with {finished.returncode}:\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def objects(text: str) -> list[dict]:
    """Parses the output of `--json`: one object a line."""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def verify(*source) -> str:
    """`log verify` must find nothing."""
    return succeeds("log", "verify", *source)
