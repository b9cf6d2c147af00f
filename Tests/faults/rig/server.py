"""PostgreSQL on a disk that may lose data, with a clock that may step."""

import os
import random
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import psycopg
from harness.cluster import postgres_bin
from harness.ports import free_port
from harness.process import Process, alive, kill_all
from harness.scratch import unprivileged_user
from harness.waiting import wait_until
from lossy import powercut

HERE = Path(__file__).resolve().parents[1]


def build_library(name: str, into: Path) -> Path:
    """Compiles one of the libraries of preload/ with any C compiler of the machine."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise RuntimeError("no C compiler: install the Debian package gcc (scripts/install-dependencies faults)")
    library = into / f"{name}.so"
    subprocess.run([compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", library, HERE / "preload" / f"{name}.c", "-ldl"], check=True)
    library.chmod(0o755)
    return library


class Clock:
    """The wall clock of one or more programs, which tests can step."""

    def __init__(self, library: Path, file: Path):
        self.file = file
        file.write_bytes(struct.pack("<q", 0))
        file.chmod(0o644)
        self.environment = {"STEPPED_CLOCK": str(file), "LD_PRELOAD": str(library)}

    def step(self, seconds: float):
        """Sets the error of the clock."""
        with open(self.file, "r+b") as file:
            file.write(struct.pack("<q", round(seconds * 1e9)))


def family(pid: int) -> list[int]:
    """The server and all its processes."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    return [pid, *(child for child, parent in parents.items() if parent == pid)]


class Server:
    """One PostgreSQL server. `root` must be reachable for the user that it runs as."""

    def __init__(self, root: Path, logs: Path, library: Path | None, clock: Clock | None = None,
                 settings: dict | None = None, template: Path | None = None):
        self.root, self.logs, self.library = root, logs, library
        self.data, self.journal = root / "pgdata", root / "journal"
        self.port = free_port()
        self.user = unprivileged_user()
        self.process: Process | None = None
        self.settings = settings or {}
        self.clock = clock
        (self.journal / "grave").mkdir(parents=True)
        for path in (self.journal, self.journal / "grave"):
            self._own(path)
        if template and template.exists():
            self._copy(template, self.data)
        else:
            self.data.mkdir()
            self._own(self.data)
            subprocess.run([postgres_bin() / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                            "--locale=C.UTF-8", "--no-sync", "--data-checksums", "--wal-segsize=1"],
                           check=True, capture_output=True, cwd="/", **self._identity())
            if template:
                self._copy(self.data, template)

    def _own(self, path: Path):
        if self.user:
            shutil.chown(path, self.user)

    def _identity(self) -> dict:
        return {"user": self.user} if self.user else {}

    @staticmethod
    def _copy(source: Path, target: Path):
        subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)

    def _arguments(self) -> list:
        settings = {
            "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "on", "full_page_writes": "on",
            "wal_sync_method": "fdatasync", "max_connections": 100, "shared_buffers": "32MB", "checkpoint_timeout": "30s",
            "max_wal_size": "32MB", "min_wal_size": "4MB", "autovacuum_naptime": "10s", "restart_after_crash": "on",
            "log_line_prefix": "%m [%p] ", **self.settings}
        version = int((self.data / "PG_VERSION").read_text())
        if version >= 18:
            settings["io_method"] = "sync"
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def start(self, patience: float = 60):
        """Starts the server and waits until it takes queries."""
        preload, env = [], {}
        if self.library:
            preload.append(str(self.library))
            env |= {"LOSSY_ROOT": str(self.data), "LOSSY_JOURNAL": str(self.journal), "LOSSY_SYNC_US": "700"}
        if self.clock:
            env |= self.clock.environment
            preload.append(env["LD_PRELOAD"])
        if preload:
            env["LD_PRELOAD"] = ":".join(preload)

        def attempt():
            if self.process is None or not self.process.running:
                self.process = Process([postgres_bin() / "postgres", "-D", self.data, "-p", self.port, *self._arguments()],
                                       "postgres", self.logs, env, self.user)
            try:
                with psycopg.connect(self.url("postgres"), connect_timeout=2):
                    return True
            except psycopg.OperationalError:
                return False

        wait_until(attempt, "PostgreSQL to take queries", patience, 0.05)

    def kill(self):
        """Kills every process of the server at once with SIGKILL."""
        if not self.process:
            return
        self.freeze()
        pids = family(self.process.pid)
        kill_all(pids)
        self.process.child.wait()
        wait_until(lambda: not any(alive(pid) for pid in pids), "killed PostgreSQL processes to be gone")

    def freeze(self):
        """Stops all processes with SIGSTOP, repeatedly until no new one was started meanwhile."""
        seen: list[int] = []
        while seen != (pids := family(self.process.pid)):
            self._signal(pids, signal.SIGSTOP)
            seen = pids

    def thaw(self):
        self._signal(family(self.process.pid), signal.SIGCONT)

    @staticmethod
    def _signal(pids: list[int], number: int):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def stop(self, mode: str = "fast"):
        subprocess.run([postgres_bin() / "pg_ctl", "-D", self.data, "-m", mode, "-w", "-t", "30", "stop"],
                       check=False, capture_output=True, cwd="/", **self._identity())
        if self.process:
            self.process.kill()

    def cut_power(self, dice: random.Random, manner: str | None = None) -> powercut.Loss:
        """Kills all processes, and the disk loses a part of the changes without an fsync. The server stays stopped."""
        self.kill()
        return powercut.cut(self.data, self.journal, dice, manner)

    def keep_copy(self, name: str):
        """Copies the files at one time, as a snapshot of the disk does."""
        target = self.root / name
        self.freeze()
        try:
            shutil.rmtree(target, ignore_errors=True)
            self._copy(self.data, target)
        finally:
            self.thaw()

    def put_back(self, name: str):
        """Replaces the files of the killed server by the copy. The server stays stopped."""
        shutil.rmtree(self.data)
        self._copy(self.root / name, self.data)
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        if self.library:
            powercut.forget(self.journal)

    def url(self, database: str = "pm", port: int | None = None) -> str:
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}"
