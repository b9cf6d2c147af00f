"""The paths of the deployment files, and the programs that check them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def tool(name: str) -> str:
    """The program's path; the test is skipped with the reason if the program is not installed."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed (scripts/install-dependencies test)")
    return found


def run(*command, check: bool = True, **options) -> subprocess.CompletedProcess:
    """Runs a program to its end; a failure shows the output."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=60, **options)
    if check:
        assert done.returncode == 0, f"{command[0]} failed ({done.returncode}):\n{done.stdout}{done.stderr}"
    return done


def load(path: Path) -> dict:
    with path.open(encoding="utf-8") as file:
        return yaml.safe_load(file)


def release_binary() -> Path:
    """The built gateway; the test is skipped without one."""
    path = Path(os.environ.get("PATHMIRROR_BINARY", ROOT / ".build/release/pathmirror"))
    if not path.exists():
        pytest.skip("pathmirror is not built (make build)")
    return path
