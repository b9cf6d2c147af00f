"""Three nodes, etcd and gateways: the rig of the fault campaign, with Patroni's PostgreSQL instead of its own."""

import json
import threading
from pathlib import Path

import psycopg
from harness import cli
from harness.gateway import start_serve
from harness.ports import free_port
from harness.waiting import Late, wait_until
from nodes import TIMES, Etcd, Node
from rig.proxies import Proxies
from rig.rig import MIRROR, OPTIONS, TUNE, Rig


class Ensemble(Rig):
    """`names` are the gateways; clients reach them by `door-<name>`. Gateways and commands name all nodes in their URL."""

    def __init__(self, root: Path, logs: Path, patroni: Path, strict: bool, times: dict | None = None, names=("a", "b"), options=()):
        # Without the rig's own start, which creates a PostgreSQL: the other parts of it are used.
        self.root, self.logs, self.names = root, logs, names
        self.options, self.tune = [*OPTIONS, *options], TUNE
        self.clocks, self.gateways, self.doors = {}, {}, {}
        self.down, self.ended = set(), []
        self.ports = {name: free_port() for name in names}
        self._closing, self._stranger, self._lock = threading.Event(), None, threading.Lock()
        self.times = {**TIMES, **(times or {})}
        self.proxies = Proxies(logs)
        self.etcd = Etcd(root, logs)
        self.nodes = [Node(name, root, logs, patroni, self.etcd, self.proxies, strict, self.times) for name in ("n1", "n2", "n3")]

    @property
    def url(self) -> str:
        return self.url_of("pm")

    def url_of(self, database: str) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write&connect_timeout=3"

    def start(self):
        self.etcd.start()
        for node in self.nodes:
            node.start()
            # The first makes the cluster; the others copy it.
            wait_until(lambda: node.ask("/health")[0] == 200, f"node {node.name} to run", 90, 0.2)
        self.wait_whole(90)
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            connection.execute("create database pm")
        for name in self.names:
            self.doors[name] = self.proxies.open(f"door-{name}", self.ports[name])
            self.start_gateway(name)
            self.gateways[name].wait_ready(60)
        definition = self.root / "mirrors.json"
        definition.write_text(json.dumps([MIRROR]))
        cli.succeeds("mirror", "apply", definition, "--yes", "--database-url", self.url)
        threading.Thread(target=self._supervise, daemon=True).start()

    def start_gateway(self, name: str):
        place = self.root / f"gateway-{name}"
        place.mkdir(exist_ok=True)
        self.gateways[name] = start_serve(self.url, place, self.logs, *self.options, port=self.ports[name], name=f"gateway-{name}",
                                          tune=self.tune, wait=False)

    # Roles of nodes

    def primary(self, but: Node | None = None) -> Node | None:
        """The node that Patroni reports as the leader; with `but`, another one than this."""
        return next((node for node in self.nodes if node is not but and node.ask("/primary")[0] == 200), None)

    def synchronous(self) -> Node | None:
        return next((node for node in self.nodes if node.ask("/synchronous")[0] == 200), None)

    def is_whole(self) -> bool:
        """Waits for one primary; the others stream from it, one of them synchronously."""
        primary = self.primary()
        if primary is None or self.synchronous() is None:
            return False
        said = json.loads(primary.ask("/patroni")[1])
        return len([one for one in said.get("replication", []) if one["state"] == "streaming"]) == 2

    def wait_whole(self, patience: float = 120):
        try:
            wait_until(self.is_whole, "all nodes to have joined", patience, 0.2)
        except Late as late:
            raise Late(f"{late}\n" + "\n".join(f"{node.name}: {node.ask('/patroni')}" for node in self.nodes)) from None

    def heal(self):
        for node in self.nodes:
            node.cut_off(False)
            node.thaw()
            if not node.process.running:
                node.start()
        self.wait_whole()
        for name in self.names:
            wait_until(lambda: self.gateways[name].ready(), f"gateway {name} to be ready", 40, 0.1)

    def close(self):
        self._closing.set()
        with self._lock:
            self.down |= set(self.names)
        for gateway in self.gateways.values():
            gateway.sweep()
        for node in self.nodes:
            node.close()
        self.etcd.close()
        self.proxies.close()
