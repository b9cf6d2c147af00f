"""PostgreSQL nodes under Patroni, with etcd: each in a folder of its own. Other programs reach them through proxies."""

import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from harness.cluster import postgres_bin
from harness.ports import free_port
from harness.process import Process, alive, kill_all
from harness.scratch import unprivileged_user
from harness.waiting import wait_until
from rig.proxies import Proxies

# As small as Patroni's documentation allows, so that a failover takes the least time.
TIMES = {"ttl": 20, "loop_wait": 2, "retry_timeout": 3}
PARAMETERS = {
    "wal_level": "replica", "hot_standby": "on", "wal_log_hints": "on", "max_connections": 100, "max_wal_senders": 10,
    "max_replication_slots": 10, "shared_buffers": "32MB", "max_wal_size": "128MB", "wal_keep_size": "256MB", "checkpoint_timeout": "30s",
    "synchronous_commit": "on", "wal_sender_timeout": "5s", "wal_receiver_timeout": "5s", "tcp_user_timeout": "5s",
    # A standby that has lost its primary looks for the new one; until it is connected, commits wait.
    "wal_retrieve_retry_interval": "500ms",
    "unix_socket_directories": ""}


def tree(pid: int) -> list[int]:
    """A process and all of its descendants, even if their parents have ended."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents.setdefault(int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, new = [], [pid]
    while new:
        found += new
        new = [child for one in new for child in parents.get(one, [])]
    return found


class Etcd:
    """One member: the behaviour of Patroni without a quorum of etcd is not tested here."""

    def __init__(self, root: Path, logs: Path):
        self.root, self.logs = root / "etcd", logs
        self.port, self.peers = free_port(), free_port()
        self.process: Process | None = None

    def start(self):
        here, peers = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peers}"
        self.process = Process(
            ["etcd", "--data-dir", self.root, "--listen-client-urls", here, "--advertise-client-urls", here, "--listen-peer-urls", peers,
             "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}", "--unsafe-no-fsync", "--log-level", "error"], "etcd", self.logs)

        def answers():
            try:
                with urllib.request.urlopen(f"{here}/health", timeout=2) as answer:
                    return json.load(answer)["health"] == "true"
            except OSError:
                return False

        wait_until(answers, "etcd to answer", 30)

    def close(self):
        if self.process and self.process.running:
            self.process.kill()


class Node:
    """A machine: Patroni and its PostgreSQL. Incoming connections use `net-` and `rest-`, and those to etcd use `etcd-`."""

    def __init__(self, name: str, root: Path, logs: Path, patroni: Path, etcd: Etcd, proxies: Proxies, strict: bool, times: dict):
        self.name, self.root, self.logs, self.patroni, self.proxies = name, root / name, logs, patroni, proxies
        self.own, self.rest = free_port(), free_port()
        self.port = proxies.open(f"net-{name}", self.own)
        self.rest_port = proxies.open(f"rest-{name}", self.rest)
        self.etcd_port = proxies.open(f"etcd-{name}", etcd.port)
        self.user = unprivileged_user()
        self.process: Process | None = None
        self.root.mkdir()
        self.config = self.root / "patroni.yml"
        self.config.write_text(json.dumps(self._settings(strict, times), indent=1))
        if self.user:
            shutil.chown(self.root, self.user)

    def _settings(self, strict: bool, times: dict) -> dict:
        everybody = {"username": "postgres"}
        return {
            "scope": "pm", "name": self.name,
            "etcd3": {"hosts": [f"127.0.0.1:{self.etcd_port}"], "protocol": "http", "use_proxies": True},
            "restapi": {"listen": f"127.0.0.1:{self.rest}", "connect_address": f"127.0.0.1:{self.rest_port}"},
            "bootstrap": {
                "dcs": {**times, "maximum_lag_on_failover": 1048576, "synchronous_mode": True, "synchronous_mode_strict": strict,
                        "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": PARAMETERS}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"}, "data-checksums", {"wal-segsize": "1"}]},
            "postgresql": {
                "listen": f"127.0.0.1:{self.own}", "connect_address": f"127.0.0.1:{self.port}", "data_dir": str(self.root / "pgdata"),
                "bin_dir": str(postgres_bin()), "pgpass": str(self.root / "pgpass"),
                "authentication": {"superuser": everybody, "replication": everybody, "rewind": everybody},
                "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]}}

    def start(self):
        """Starts Patroni, which starts PostgreSQL, and does not wait."""
        self.process = Process([self.patroni, self.config], f"patroni-{self.name}", self.logs, {"PYTHONUNBUFFERED": "1"}, self.user)

    # Faults of machines

    def family(self) -> list[int]:
        """Patroni, PostgreSQL and all its processes. The file with the process id leads to a PostgreSQL that Patroni has left running."""
        pids = tree(self.process.pid) if self.process else []
        if (server := self.server()) and server not in pids:
            pids += tree(server)
        return [pid for pid in pids if alive(pid)]

    def server(self) -> int | None:
        try:
            pid = int((self.root / "pgdata" / "postmaster.pid").read_text().split()[0])
            return pid if alive(pid) and "postgres" in Path(f"/proc/{pid}/cmdline").read_text() else None
        except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            return None

    def freeze(self, only_postgres: bool = False):
        """Stops all processes with SIGSTOP, repeatedly until no new one was started meanwhile."""
        seen: list[int] = []
        while set(seen) != set(pids := tree(self.server()) if only_postgres else self.family()):
            self._signal(pids, signal.SIGSTOP)
            seen = pids

    def thaw(self):
        self._signal(self.family(), signal.SIGCONT)

    @staticmethod
    def _signal(pids: list[int], number: int):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def kill(self):
        """Turns the machine's power off."""
        self.freeze()
        pids = self.family()
        kill_all(pids)
        if self.process:
            self.process.child.wait()
        wait_until(lambda: not any(alive(pid) for pid in pids), "killed processes to be gone")

    def kill_postgres(self):
        pid = self.server()
        pids = tree(pid)
        kill_all(pids)
        wait_until(lambda: not any(alive(pid) for pid in pids), "killed processes to be gone")

    def cut_off(self, on: bool):
        """Drops all packets of the node, in both directions."""
        how = "stall" if on else "pass"
        for kind in ("net", "rest", "etcd"):
            self.proxies.set(f"{kind}-{self.name}", how, how)

    # Patroni's reports

    def ask(self, path: str, body: dict | None = None) -> tuple[int, str]:
        """Sends a request to this node's Patroni without its network; the status is 0 if it does not answer."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest}{path}", data=data, method="POST" if data else "GET")
        try:
            with urllib.request.urlopen(request, timeout=60 if data else 2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")
        except OSError:
            return 0, ""

    def close(self):
        self.cut_off(False)
        if self.process:
            self.kill()


def version(patroni: Path) -> str:
    """The versions of the tested programs, for the report."""
    said = subprocess.run([patroni, "--version"], capture_output=True, text=True).stdout.strip()
    postgres = subprocess.run([postgres_bin() / "postgres", "--version"], capture_output=True, text=True).stdout.strip()
    return f"{said}, {postgres}"
