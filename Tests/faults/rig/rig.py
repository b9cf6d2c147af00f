"""PostgreSQL, gateways and the proxies on both sides of each: the targets of a round of faults."""

import json
import threading
import time
from pathlib import Path

import psycopg
from harness import cli, endpoint
from harness.gateway import Gateway, start_serve
from harness.ports import free_port
from harness.waiting import wait_until

from .proxies import Proxies
from .server import Clock, Server

MIRROR = {"name": "recs", "path": "/rec/{id}", "columns": {"n": "bigint", "t": "text"}}
# All waits are shorter than in production: a fault must be over within seconds.
OPTIONS = ("--dead-after", "2500ms", "--session-timeout", "8s", "--shutdown-timeout", "3s", "--commit-deadline", "8s", *endpoint.OPTIONS)
TUNE = "poll-interval=500ms,stream-keep-alive=2s,feed-takeover=2500ms"


class Rig:
    """`names` are the gateways. They reach PostgreSQL through `link-<name>`, and clients reach them through `door-<name>`."""

    def __init__(self, root: Path, logs: Path, library: Path | None, template: Path | None = None, names=("a", "b", "c"),
                 clock: Path | None = None, settings: dict | None = None, options=(), timing=OPTIONS, tune=TUNE, namespaces=("default",)):
        self.root, self.logs, self.names, self.namespaces = root, logs, names, namespaces
        self.options, self.tune = [*timing, *options], tune
        # One for PostgreSQL, and one for each gateway.
        self.clocks = {name: Clock(clock, root / f"clock-{name}") for name in ("postgres", *names)} if clock else {}
        self.server = Server(root, logs, library, self.clocks.get("postgres"), settings, template)
        self.proxies = Proxies(logs)
        self.gateways: dict[str, Gateway] = {}
        self.ports = {name: free_port() for name in names}
        self.links: dict[str, int] = {}
        self.doors: dict[str, int] = {}
        # Gateways that a fault has stopped, and the last output of those that ended by themselves.
        self.down: set[str] = set()
        self.ended: list[str] = []
        # The gateways among them that had been ready: a serving gateway may not end because it lost the database.
        self.exits: list[str] = []
        self._closing = threading.Event()
        self._stranger: psycopg.Connection | None = None
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self.server.url()

    def start(self):
        self.server.start()
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
            connection.execute("create database pm")
        for name in self.names:
            self.links[name] = self.proxies.open(f"link-{name}", self.server.port)
            self.doors[name] = self.proxies.open(f"door-{name}", self.ports[name])
            self.start_gateway(name)
        for name in self.names:
            self.gateways[name].wait_ready(60)
        definition = self.root / "mirrors.json"
        definition.write_text(json.dumps([MIRROR]))
        cli.succeeds("mirror", "apply", definition, "--yes", "--database-url", self.url)

        threading.Thread(target=self._supervise, daemon=True).start()

    def _supervise(self):
        """Restarts gateways that end by themselves, as systemd does: a gateway that finds no database at its start ends."""
        while not self._closing.wait(0.5):
            with self._lock:
                for name in self.names:
                    process = self.gateways[name].process
                    if name not in self.down and not process.running:
                        self.ended.append(f"{process.child.returncode}: {process.stderr()[-300:]}")
                        if "pathmirror: ready on " in process.stdout():
                            self.exits.append(f"{process.name} ended by itself with {process.child.returncode}: {process.stderr()[-300:]}")
                        self.start_gateway(name)

    def kill_gateway(self, name: str, politely: bool = False):
        """Stops a gateway until it is started again."""
        with self._lock:
            self.down.add(name)
        process = self.gateways[name].process
        if politely:
            # Without its database, threads that are opening connections end one after another.
            process.stop(patience=60)
        elif process.running:
            process.kill()

    def revive_gateway(self, name: str):
        with self._lock:
            self.start_gateway(name)
            self.down.discard(name)

    def start_gateway(self, name: str):
        """Starts a gateway without waiting for it."""
        place = self.root / f"gateway-{name}"
        place.mkdir(exist_ok=True)
        env = self.clocks[name].environment if self.clocks else {}
        self.gateways[name] = start_serve(self.server.url(port=self.links[name]), place, self.logs, *self.options,
                                          port=self.ports[name], name=f"gateway-{name}", ns=",".join(self.namespaces), env=env, tune=self.tune, wait=False)

    # Reads of the database without proxies

    def rows(self, query: str, *values, patience: float = 30) -> list[tuple]:
        """Runs a statement and returns its rows; repeats it while the database is away."""
        deadline = time.monotonic() + patience
        while True:
            try:
                with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
                    done = connection.execute(query, values)
                    return done.fetchall() if done.description else []
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def head(self, namespace: str = "default") -> int:
        return self.rows("select head from pathmirror.namespace where name = %s", namespace)[0][0]

    def backends(self) -> list[int]:
        """The server's processes that serve gateways and clients."""
        return [pid for pid, in self.rows("select pid from pg_stat_activity where backend_type = 'client backend' "
                                          "and pid <> pg_backend_pid() order by backend_start, pid")]

    def terminate(self, pids: list[int]):
        self.rows("select count(pg_terminate_backend(pid)) from unnest(%s::int[]) as pid", pids)

    def hold_head(self):
        """Locks the row that every writer needs, in a session of a stranger."""
        connection = psycopg.connect(self.url, connect_timeout=5, options="-c lock_timeout=3000")
        try:
            connection.execute("select head from pathmirror.namespace for update")
        except psycopg.Error:
            connection.close()
            return
        self._stranger = connection

    def leave_head(self):
        if self._stranger:
            try:
                self._stranger.rollback()
                self._stranger.close()
            except psycopg.Error:
                pass
            self._stranger = None

    def heal(self):
        """Ends the remaining faults, and waits until every gateway serves."""
        self.leave_head()
        for name in self.names:
            for route in (f"link-{name}", f"door-{name}"):
                self.proxies.disarm(route)
                self.proxies.refuse(route, False)
                self.proxies.set(route)
        for clock in self.clocks.values():
            clock.step(0)
        for name in self.names:
            wait_until(lambda: self.gateways[name].ready(), f"gateway {name} to be ready", 40, 0.1)

    def caught_up(self):
        """Waits until every mirror has reached the head."""
        wait_until(lambda: self.rows("select coalesce(bool_and(seq is not distinct from head), true) from pathmirror.mirror_status")[0][0],
                   "the mirrors to catch up", 60, 0.2)

    def feeds_at(self, head: int) -> bool:
        """Whether all messages of every feed are done, up to this entry."""
        return self.rows("select bool_and(seq >= %s) from pathmirror.feed_progress", head)[0][0] is True

    def close(self):
        self._closing.set()
        with self._lock:
            self.down |= set(self.names)
        self.leave_head()
        for gateway in self.gateways.values():
            gateway.sweep()
        self.server.kill()
        self.proxies.close()
