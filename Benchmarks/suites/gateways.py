"""Many gateways on one database: the cost of a write of one gateway for each of the others."""

import json
import os
import selectors
import socket
import subprocess
import threading
import time
from pathlib import Path

from harness import machine, process, processor
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Load, Wrong, wrk
from harness.report import typical
from suites.puts import LENGTH

NAME = "gateways"
KEYS = 100
# Writes a second: so few that each is committed and announced by itself.
RATE = 200
SECRET = "a secret of the benchmark's own"
# The other gateways' use of the written namespace.
WAYS = {"nothing": "which has not loaded the namespace", "tree": "which has the namespace in memory",
        "stream": "which streams it to one listener"}


def run(context: Context):
    count = context.pick(20, 4)
    with Gateway() as gateway:
        gateway.sql("alter system set max_connections = 1000")
        gateway.restart()
        gateway.request("PUT", "/bench.json", json.dumps({f"k{key}": "y" * LENGTH for key in range(1, KEYS + 1)}))
        alone = write(gateway, context, 1).cost
        with Others(gateway, count - 1) as others:
            compare(gateway, others, context, alone)
        result = json.loads(gateway.command("log", "verify", "--json"))
        if not result["clean"]:
            raise Wrong(f"log verify found {result['differences']} differences")


class Others:
    """Gateways of the same database, each a process, and the processor time of them and their sessions."""

    def __init__(self, gateway: Gateway, count: int):
        self.gateway, self.count = gateway, count
        self.ports, self.children = [], []
        self.sockets: list[socket.socket] = []
        self.events = 0
        self._ends = threading.Event()
        self._reader: threading.Thread | None = None
        # The existing sessions are the first gateway's.
        self._before = set(self._sessions())

    def __enter__(self) -> "Others":
        secret = self.gateway.root / "secret"
        secret.write_text(SECRET + "\n")
        secret.chmod(0o600)
        url = "postgresql:///pathmirror?" + "&".join(
            f"{name}={value}" for name, value in
            (("host", self.gateway.data / "run"), ("port", "5432"), ("user", "pathmirror")))
        for number in range(self.count):
            port = machine.free_port()
            with open(self.gateway.root / f"gateway-{number}", "wb") as log:
                self.children.append(process.start(
                    [self.gateway.binary, "serve", "--database-url", url, "--listen", f"127.0.0.1:{port}",
                     "--admin-secret-file", secret, *Gateway.OPTIONS],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.gateway.variables}))
            self.ports.append(port)
        end = time.monotonic() + 120
        for port in self.ports:
            while not self._answers(port, "GET", "/.health/ready"):
                if time.monotonic() > end:
                    raise process.Failed("the other gateways did not get ready")
                time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self._ends.set()
        if self._reader:
            self._reader.join()
        for each in self.sockets:
            each.close()
        for child in self.children:
            process.stop(child)

    def begin(self, way: str):
        """Sets their use of the namespace."""
        if way == "tree":
            for port in self.ports:
                if not self._answers(port, "GET", f"/bench/k1.json?auth={SECRET.replace(' ', '%20')}"):
                    raise Wrong("a gateway did not load the namespace")
        elif way == "stream":
            for port in self.ports:
                stream = socket.create_connection(("127.0.0.1", port))
                stream.sendall(f"GET /bench.json?auth={SECRET.replace(' ', '%20')} HTTP/1.1\r\nHost: localhost\r\n"
                               "Accept: text/event-stream\r\n\r\n".encode())
                self.sockets.append(stream)
            self._reader = threading.Thread(target=self._read)
            self._reader.start()
            end = time.monotonic() + 60
            while self.events < len(self.ports):
                if time.monotonic() > end:
                    raise Wrong("the streams did not begin")
                time.sleep(0.05)

    @property
    def used(self) -> float:
        """Seconds of processor time of the gateways and their sessions."""
        total = sum(processor.used_by(child.pid) for child in self.children)
        for pid in self._sessions():
            if pid not in self._before:
                try:
                    total += processor.used_by(pid)
                except (FileNotFoundError, ProcessLookupError):
                    pass
        return total

    def _sessions(self) -> list[int]:
        postmaster = str(self.gateway.postmaster)
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1] == postmaster:
                    found.append(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def _answers(self, port: int, method: str, target: str) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = b""
                while piece := connection.recv(65_536):
                    answer += piece
        except OSError:
            return False
        return answer.startswith(b"HTTP/1.1 200")

    def _read(self):
        selector = selectors.DefaultSelector()
        for each in self.sockets:
            each.setblocking(False)
            selector.register(each, selectors.EVENT_READ)
        while not self._ends.is_set():
            for key, _ in selector.select(0.2):
                self.events += key.fileobj.recv(1 << 20).count(b"event: ")


def write(gateway: Gateway, context: Context, seed: int) -> Load:
    """PUTs at a steady rate, far below the capacity of the machine."""
    return wrk(gateway, "/", context.pick(6, 3), 8, "put.lua", ("leaf", KEYS, seed, LENGTH, RATE / 2))


def cost(gateway: Gateway, context: Context, others: Others, seed: int) -> float:
    """The cost of a write for one of the others, in microseconds."""
    gateway.checkpoint()
    context.quiet.wait()
    before, start = others.used, time.monotonic()
    # Their work without writes.
    time.sleep(context.pick(6, 3))
    idle = (others.used - before) / (time.monotonic() - start)
    before, start = others.used, time.monotonic()
    load = write(gateway, context, seed)
    elapsed = time.monotonic() - start
    return (others.used - before - idle * elapsed) * 1e6 / (load.per_second * context.pick(6, 3)) / others.count


def compare(gateway: Gateway, others: Others, context: Context, alone: float):
    for way, text in WAYS.items():
        context.progress(f"{others.count} other gateways: {way}")
        others.begin(way)
        each = [cost(gateway, context, others, 10 + number) for number in context.rounds(4, 1, until=90)]
        context.measure(f"processor time of a write to another gateway, {text} / of the write, with one gateway",
                        [value / alone for value in each], absolute=f"{typical(each)} against {typical([alone])} microseconds")
    context.note(f"{others.count + 1} gateways on one PostgreSQL and one machine, {RATE} PUTs a second at one of them; a gateway's sessions in "
                 "PostgreSQL count as its own, and what it does while nobody writes does not")
