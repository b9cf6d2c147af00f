"""The compose stack, under a project name, ports, addresses and secrets of its own."""

import contextlib
import json
import os
import secrets
import subprocess
import time
from pathlib import Path

from harness.ports import free_port
from harness.rest import Rest
from harness.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
GATEWAYS = ("gateway-a", "gateway-b")
SERVERS = (*GATEWAYS, "postgres", "prometheus", "proxy")
# The image's user, and nginx's.
GATEWAY_USER, PROXY_USER = 10001, 101


class ReadsItsWrites(Rest):
    """Two gateways take turns, and one may lack the writes of the other: so each request names the last entry that this client knows."""

    known = 0

    def at(self, path: str = "", **params) -> "ReadsItsWrites":
        deeper = super().at(path, **params)
        deeper.__class__, deeper.origin = ReadsItsWrites, self.source
        return deeper

    @property
    def source(self) -> "ReadsItsWrites":
        return getattr(self, "origin", self)

    def send(self, method, target, body=None, headers=None):
        response = super().send(method, target, body, {"X-Pathmirror-Min-Seq": str(self.source.known), **(headers or {})})
        self.source.known = max(self.source.known, int(response.headers["X-Pathmirror-Seq"] or 0))
        return response


# The addresses of the networks of the proxy, Prometheus and PostgreSQL.
SUBNETS = tuple(os.environ.get(name, default) for name, default in (
    ("STACK_SUBNET", "172.30.247.0/24"), ("STACK_MONITORING_SUBNET", "172.30.248.0/24"), ("STACK_DATABASE_SUBNET", "172.30.249.0/24")))


class Stack:
    """`DOCKER` is the container program; `STACK_COMPOSE_FILES` names further compose files, for the needs of an engine; `overlays` are
    files of the checkout that extend docker-compose.yml."""

    def __init__(self, directory: Path, project: str = "pathmirror-stack-test", overlays: tuple[str, ...] = (),
                 subnets: tuple[str, ...] = SUBNETS):
        self.directory = directory
        self.docker = os.environ.get("DOCKER", "docker")
        self.port, self.tls_port, self.prometheus_port = free_port(), free_port(), free_port()
        self.passwords = {name: secrets.token_hex(24) for name in
                          ("POSTGRES_PASSWORD", "PATHMIRROR_OWNER_PASSWORD", "PATHMIRROR_GATEWAY_PASSWORD", "PATHMIRROR_REPLICATION_PASSWORD")}
        self.secret = secrets.token_hex(24)
        # Credentials, which no log may contain.
        self.credentials = [self.secret, *self.passwords.values()]
        self.secret_file = self.private("admin-secret", self.secret, GATEWAY_USER)
        # Remembers the entries that its clients have seen.
        self._reader = ReadsItsWrites(self.port)
        self.files = [ROOT / "docker-compose.yml", *[ROOT / overlay for overlay in overlays],
                      *filter(None, os.environ.get("STACK_COMPOSE_FILES", "").split(":"))]
        self.settings = {
            **self.passwords, "COMPOSE_PROJECT_NAME": project,
            "PATHMIRROR_ADMIN_SECRET_FILE": str(self.secret_file),
            **dict(zip(("PATHMIRROR_SUBNET", "PATHMIRROR_MONITORING_SUBNET", "PATHMIRROR_DATABASE_SUBNET"), subnets, strict=True)),
            "PROXY_HTTP_ADDRESS": f"127.0.0.1:{self.port}", "PROMETHEUS_PORT": str(self.prometheus_port),
            "PROXY_HTTPS_ADDRESS": "127.0.0.1", "PROXY_HTTPS_PORT": str(self.tls_port), "PATHMIRROR_LOG_LEVEL": "debug",
        }

    def private(self, name: str, text: str, user: int) -> Path:
        """A file that only one of the containers' users may read, if the tests run as root."""
        self.directory.chmod(0o755)
        path = self.directory / name
        path.write_text(text + "\n")
        if os.geteuid() == 0:
            os.chown(path, user, -1)
            path.chmod(0o400)
        return path

    @property
    def rest(self) -> Rest:
        """The administrator, through the proxy."""
        client = ReadsItsWrites(self.port, headers={"Authorization": f"Bearer {self.secret}"})
        client.origin = self._reader
        return client

    @property
    def anybody(self) -> Rest:
        return Rest(self.port)

    # Commands

    def environment(self, **settings: str) -> dict[str, str]:
        files = ":".join(str(path) for path in self.files)
        return {**os.environ, **self.settings, **settings, "COMPOSE_FILE": files, "DOCKER": self.docker}

    def run(self, *command, check: bool = True, patience: float = 300, **settings: str) -> subprocess.CompletedProcess:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, env=self.environment(**settings), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=patience)
        if check:
            said = f"{done.stdout}{done.stderr}"[-5000:]
            assert done.returncode == 0, f"{' '.join(str(word) for word in command)}: {done.returncode}\n{said}"
        return done

    def compose(self, *words, **options) -> subprocess.CompletedProcess:
        return self.run(self.docker, "compose", *words, **options)

    def up(self, *words, **options):
        self.compose("up", "--detach", "--wait", *words, **options)

    def execute(self, service: str, *words, **options) -> str:
        """The output of a command in a running container."""
        return self.compose("exec", "-T", service, *words, **options).stdout

    def sql(self, statement: str, user: str = "postgres", **options) -> str:
        return self.execute("postgres", "psql", "-U", user, "-d", "pathmirror", "-Atc", statement, **options).strip()

    def inspect(self, service: str) -> dict:
        container = self.compose("ps", "--all", "--quiet", service).stdout.strip()
        (found,) = json.loads(self.run(self.docker, "inspect", container).stdout)
        return found

    def address(self, service: str) -> str:
        """In the proxy's network."""
        networks = self.inspect(service)["NetworkSettings"]["Networks"]
        return networks[f"{self.settings['COMPOSE_PROJECT_NAME']}_front"]["IPAddress"]

    def logs(self) -> str:
        return self.compose("logs", "--no-color").stdout

    # Life

    def build(self):
        self.compose("build", patience=1500)

    def down(self):
        self.compose("down", "--volumes", "--remove-orphans", check=False)

    def wait_until_served(self, patience: float = 60) -> float:
        """Waits until reads and writes pass through the proxy to both gateways; returns the seconds."""
        begin = time.monotonic()

        def served():
            with contextlib.suppress(OSError):
                return self.rest.put("served", 1).status == 200 and all(self.is_ready(name) for name in GATEWAYS)

        wait_until(served, "the stack to serve", patience, 0.2)
        return time.monotonic() - begin

    def is_ready(self, gateway: str) -> bool:
        done = self.compose("exec", "-T", "proxy", "curl", "-fsS", "-m", "3", "-o", "/dev/null",
                            f"http://{gateway}:9000/.health/ready", check=False)
        return done.returncode == 0
