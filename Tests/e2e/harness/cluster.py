"""A private PostgreSQL for `pathmirror serve`, which tests may stop and kill."""

import os
import shutil
import subprocess
import uuid
from pathlib import Path

import psycopg

from .ports import free_port
from .process import Process, alive, children, kill_all
from .scratch import unprivileged_user
from .waiting import wait_until


def postgres_bin() -> Path:
    """Returns the folder of initdb and postgres: the newest that Debian installed, else that of the search path."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    found = str(installed[-1]) if installed else shutil.which("initdb")
    if not found:
        raise RuntimeError("no initdb: install the Debian package postgresql")
    return Path(found).parent


class Cluster:
    """One PostgreSQL server. Killing it loses nothing that the kernel has, so fsync is off unless asked for."""

    def __init__(self, root: Path, logs: Path, primary: "Cluster | None" = None):
        """An empty server, or a standby of another."""
        self.root, self.logs = root, logs
        self.data = root / "pgdata"
        self.port = free_port()
        self.user = unprivileged_user()
        self.server: Process | None = None
        self.data.mkdir()
        if self.user:
            shutil.chown(self.data, self.user)
        identity = {"user": self.user} if self.user else {}
        if primary:
            self.data.chmod(0o700)
            subprocess.run([postgres_bin() / "pg_basebackup", "-D", self.data, "-d", primary.url("postgres"), "-R", "-X", "stream",
                            "-c", "fast", "--no-sync"], check=True, capture_output=True, cwd="/", **identity)
            return
        subprocess.run([postgres_bin() / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                        "--locale=C.UTF-8", "--no-sync"], check=True, capture_output=True, cwd="/", **identity)

    def start(self):
        """Starts the server and waits until it takes queries. After a kill, the old backends must be gone first."""
        fsync = os.environ.get("PATHMIRROR_E2E_FSYNC", "off")

        def attempt():
            if self.server is None or not self.server.running:
                self.server = Process(
                    [postgres_bin() / "postgres", "-D", self.data, "-p", self.port, "-c", "listen_addresses=127.0.0.1",
                     "-c", "unix_socket_directories=", "-c", f"fsync={fsync}", "-c", "max_connections=80",
                     "-c", "shared_buffers=64MB", "-c", "max_wal_size=256MB"], "postgres", self.logs, user=self.user)
            try:
                with psycopg.connect(self.url("postgres"), connect_timeout=2):
                    return True
            except psycopg.OperationalError:
                return False

        wait_until(attempt, "PostgreSQL to take queries", 40, 0.05)

    def keep_copy(self) -> Path:
        """A backup: a copy of the files of the server, which must be stopped."""
        copy = self.root / f"backup-{uuid.uuid4().hex[:8]}"
        subprocess.run(["cp", "-a", self.data, copy], check=True)
        return copy

    def put_back(self, copy: Path):
        """Restores the files of the stopped server from a copy."""
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", copy, self.data], check=True)

    def stop(self, mode: str = "fast"):
        """Stops the server in PostgreSQL's terms: `fast` rolls back and exits cleanly, `immediate` crashes."""
        identity = {"user": self.user} if self.user else {}
        subprocess.run([postgres_bin() / "pg_ctl", "-D", self.data, "-m", mode, "-w", "-t", "30", "stop"],
                       check=False, capture_output=True, cwd="/", **identity)
        if self.server:
            self.server.kill()

    def kill(self):
        """kill -9 of the server and every backend at once."""
        family = [self.server.pid, *children(self.server.pid)]
        kill_all(family)
        self.server.child.wait()
        wait_until(lambda: not any(alive(pid) for pid in family), "killed PostgreSQL processes to be gone")

    @staticmethod
    def another_port() -> int:
        return free_port()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """A new, empty database; returns its URL."""
        name = f"e2e_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def drop_database(self, url: str):
        """Drops a database of `create_database`, and ends the connections to it."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{url.rpartition("/")[2]}" WITH (FORCE)')
