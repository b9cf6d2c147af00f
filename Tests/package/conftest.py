"""A separate Debian for the package, with nothing but the essential packages."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from clean_root import CleanRoot
from harness.cluster import Cluster


@pytest.fixture(scope="session")
def package() -> Path:
    """The package of `make deb`."""
    return Path(os.environ["PATHMIRROR_PACKAGE"]).resolve()


@pytest.fixture(scope="session")
def clean_root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("debian") / "root"
    root = CleanRoot(folder)
    yield root
    root.unmount()
    # No folder of the machine may still be mounted there.
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    assert not [place for place in mounted if place.startswith(str(folder))]
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def database_url(tmp_path_factory):
    """An empty database on a PostgreSQL of the machine, which the clean root reaches over the loopback interface."""
    folder = tmp_path_factory.mktemp("postgres")
    for place in (folder, *list(folder.parents)[:2]):
        place.chmod(0o755)
    logs = folder / "logs"
    logs.mkdir()
    cluster = Cluster(folder, logs)
    cluster.start()
    try:
        subprocess.run(["psql", "-q", "-d", cluster.url("postgres"), "-c", "create database pathmirror"], check=True)
        yield cluster.url("pathmirror")
    finally:
        cluster.stop()
