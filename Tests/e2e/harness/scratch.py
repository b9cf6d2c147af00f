"""Directories that an unprivileged PostgreSQL can reach; removed at the end."""

import os
import pwd
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path


def unprivileged_user() -> str | None:
    """The user that runs PostgreSQL if the tests run as root, which PostgreSQL refuses; None for the current user."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@contextmanager
def scratch_directory(label: str, keep: bool = False):
    """A new directory that others may traverse (pytest's own are closed to every other user)."""
    path = Path(tempfile.mkdtemp(prefix=f"pathmirror-e2e-{label}-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)
