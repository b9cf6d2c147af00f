"""The servers of a campaign: PostgreSQL, one or two gateways on a database of their own, tenants, and the gateways' resources."""

import http.client
import json
import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from harness import sql
from harness.cluster import Cluster
from harness.gateway import Gateway, start_serve
from harness.issuer import hs256
from harness.ports import free_port
from harness.process import resident_bytes
from harness.scratch import scratch_directory
from harness.waiting import wait_until

VICTIM = "victim"
PATIENCE = 60.0
# The options for both kinds of outgoing connections, without any rate limit.
OPTIONS = ("--webhook-allow", "127.0.0.1", "--sink-allow", "127.0.0.1")


def secret_of(ns: str) -> str:
    return f"the-database-secret-of-{ns}-0123456789abcdef"


class Tenant:
    """A namespace and its secret. All requests go to the gateway that works all feeds."""

    def __init__(self, gateway: Gateway, ns: str):
        self.gateway, self.ns, self.secret = gateway, ns, secret_of(ns)

    free_port = staticmethod(free_port)

    def send(self, method: str, target: str, value=None, token: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=120)
        try:
            body = None if value is None else json.dumps(value)
            connection.request(method, target, body, {"Authorization": f"Bearer {token or self.secret}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def write(self, method: str, path: str, value):
        status, answer = self.send(method, f"/{path}.json?ns={self.ns}&print=silent", value)
        if status not in (200, 204):
            raise RuntimeError(f"{method} {self.ns}/{path}: {status} {answer[:300]!r}")

    def feed(self, name: str, **definition):
        """Makes a feed."""
        status, answer = self.send("PUT", f"/.feeds/{name}?ns={self.ns}", definition)
        if status not in (200, 201):
            raise RuntimeError(f"PUT feed {self.ns}/{name}: {status} {answer[:300]!r}")

    def running(self, name: str):
        """Waits until the first gateway works the feed."""
        def look():
            status, answer = self.send("GET", f"/.feeds/{name}/status?ns={self.ns}")
            if status != 200:
                return False
            found = json.loads(answer)
            return found["state"] != "not running" and (found["gateway"] or "").endswith(f":{self.gateway.port}")

        wait_until(look, f"{self.ns}/{name} to be worked", PATIENCE, 0.05)

    def token(self, name: str) -> str:
        """A token for an existing feed."""
        self.running(name)
        found = []

        def accepted():
            now = int(time.time())
            found[:] = [hs256({"v": 0, "iat": now, "exp": now + 86_400, "feed": name, "ns": self.ns}, self.secret)]
            return self.send("GET", f"/.feeds/{name}/status?ns={self.ns}", token=found[0])[0] == 200

        wait_until(accepted, f"a token for {self.ns}/{name}", PATIENCE, 0.1)
        return found[0]


def make_victim(gateway: Gateway, ns: str = VICTIM) -> dict:
    """Feeds and tokens of a well-behaved tenant; the specification of its process without the gateway."""
    tenant, receiver = Tenant(gateway, ns), free_port()
    hook = {"url": f"http://127.0.0.1:{receiver}/hook", "secrets": ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"]}
    for name, more in (("pulled", {}), ("waited", {}), ("acked", {"ack_deadline": "12h"}), ("hooked", {"webhook": hook})):
        tenant.feed(name, path=f"/{name}/{{key}}", **more)
    tenant.running("hooked")
    return {"ns": ns, "secret": tenant.secret, "receiver": receiver, "tokens": {name: tenant.token(name) for name in ("pulled", "waited", "acked")}}


@contextmanager
def cluster(logs: Path):
    """A private PostgreSQL."""
    with scratch_directory("fairness-pg") as path:
        server = Cluster(path, logs)
        try:
            server.start()
            yield server
        finally:
            server.stop("immediate")


@contextmanager
def gateways(postgres: Cluster, logs: Path, namespaces: list[str], options: tuple[str, ...] = ()):
    """A function that starts gateways on one new database, which is removed at the end."""
    started: list[Gateway] = []
    url = postgres.create_database()
    with scratch_directory("fairness") as path:
        secrets = path / "database-secrets.json"
        secrets.write_text(json.dumps({ns: [secret_of(ns)] for ns in namespaces}))
        secrets.chmod(0o600)

        def start() -> Gateway:
            gateway = start_serve(url, path, logs, *OPTIONS, *options, "--database-secret-file", secrets, rules=None, ns=VICTIM,
                                  name=f"gateway{len(started)}")
            started.append(gateway)
            return gateway

        try:
            yield start
        finally:
            for gateway in started:
                gateway.sweep()
            postgres.drop_database(url)


def usage(gateway: Gateway) -> dict:
    """Memory, threads and descriptors of a gateway now; zeros if it has ended."""
    pid = gateway.process.pid
    try:
        return {"rss": resident_bytes(pid), "threads": len(os.listdir(f"/proc/{pid}/task")), "fds": len(os.listdir(f"/proc/{pid}/fd"))}
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return {"rss": 0, "threads": 0, "fds": 0}


def total(gateways_: list[Gateway]) -> dict:
    found = [usage(gateway) for gateway in gateways_]
    return {name: sum(one[name] for one in found) for name in ("rss", "threads", "fds")}


def database_bytes(gateway: Gateway) -> int:
    """The size of the gateway's database on the disk, without the write-ahead log."""
    return sql.rows(gateway.database_url, "SELECT pg_database_size(current_database())")[0][0]


class Sampler:
    """Samples gateways several times a second, and keeps the maximum of each figure. Use as a context."""

    # Resident bytes at which the attack is stopped, because other programs need memory, too.
    ENOUGH = 8 << 30

    def __init__(self, gateways_: list[Gateway], too_much=lambda: None):
        self.gateways, self.too_much, self.most = gateways_, too_much, total(gateways_)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._stop.wait(0.2):
            now = total(self.gateways)
            self.most = {name: max(value, now[name]) for name, value in self.most.items()}
            if now["rss"] > self.ENOUGH:
                self.too_much()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
