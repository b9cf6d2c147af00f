"""Compares the allocations of the hot paths with the bounds of allocations.json. This guard against growing costs works on a busy machine
as well. A change that needs more raises the bound in the same commit, and the commit gives the reason."""

import http.client
import json
import os
import socket
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.allocations import Allocations
from harness.binary import pathmirror
from harness.gateway import start_serve
from harness.scratch import scratch_directory
from harness.websocket_client import RealtimeClient

pytestmark = pytest.mark.skipif("/debug/" in pathmirror(), reason="the bounds are those of the release build")

BOUNDS = json.loads(Path(__file__).with_name("allocations.json").read_text())
VALUE = "x" * 189
# Postpones background work until after the tests: its allocations would be in some windows and not in others.
QUIET = ["--retention-interval", "0s", "--loops", "1", "--log-level", "warning"]


class Measured:
    """A gateway whose allocations are counted, and one keep-alive connection to it."""

    def __init__(self, gateway, counts: Allocations):
        self.gateway, self.counts = gateway, counts
        self.connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)

    def send(self, method: str, target: str, body=None) -> bytes:
        self.connection.request(method, target, None if body is None else json.dumps(body))
        answer = self.connection.getresponse()
        content = answer.read()
        assert answer.status in (200, 204), (answer.status, content)
        return content

    def put(self, number: int, path: str = "/bench/k1"):
        self.send("PUT", f"{path}.json?print=silent", f"{VALUE}{number:09d}")

    def puts(self, path: str = "/bench/k1") -> float:
        return self.counts.each(lambda number: self.put(number, path))


@pytest.fixture(scope="module")
def measured(postgres, logs):
    url = postgres.create_database()
    with scratch_directory("allocations") as folder:
        counts = Allocations(folder)
        gateway = start_serve(url, folder, logs, *QUIET, tune="poll-interval=60s,heartbeat=5s", env=counts.environment, name="counted")
        try:
            made = Measured(gateway, counts)
            made.send("PUT", "/bench.json?print=silent", {f"k{number}": VALUE for number in range(100)})
            yield made
        finally:
            gateway.sweep()
            postgres.drop_database(url)


def judged(name: str, found: float) -> str | None:
    """Returns the error of a number of allocations, or None. A number far below its bound is an error, because the bound would guard
    nothing."""
    bound = BOUNDS[name]
    if found > bound:
        return f"{name}: {found:.1f} allocations, and at most {bound} are allowed (Tests/e2e/allocations.json)"
    if bound >= 1 and found < 0.6 * bound:
        return f"{name}: {found:.1f} allocations are much fewer than {bound}: lower that bound in Tests/e2e/allocations.json, so that it stays so"
    return None


def check(name: str, found: float):
    print(f"{name}: {found:.2f} allocations, bound {BOUNDS[name]}")
    assert judged(name, found) is None, judged(name, found)


class Stream:
    """A listener by server-sent events that reads each event at once, so that no event waits in a queue."""

    def __init__(self, port: int, path: str):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.sendall(f"GET {path}.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode())
        self.buffer = b""
        self.read()

    def read(self):
        """Reads one event."""
        while b"event: put" not in self.buffer or not self.buffer.endswith(b"\n\n"):
            more = self.socket.recv(65536)
            assert more, "the stream ended"
            self.buffer += more
        assert self.buffer.count(b"event: put") == 1
        self.buffer = b""

    def close(self):
        self.socket.close()


class Listen:
    """A listener by a realtime WebSocket that reads each event at once."""

    def __init__(self, port: int, path: str):
        self.client = RealtimeClient(port).greet()
        self.client.listen(path)

    def read(self):
        self.client.push()

    def close(self):
        self.client.socket.plain.close()


@contextmanager
def listening(measured: Measured, kind, path: str, count: int):
    listeners = [kind(measured.gateway.port, path) for _ in range(count)]
    try:
        yield listeners
    finally:
        for listener in listeners:
            listener.close()


def test_reads(measured):
    measured.send("PUT", "/small.json?print=silent", VALUE)
    check("GET of 200 bytes", measured.counts.each(lambda _: measured.send("GET", "/small.json")))
    check("query of 20 of 100 children",
          measured.counts.each(lambda _: measured.send("GET", "/bench.json?orderBy=%22$key%22&limitToFirst=20")))


def test_writes(measured):
    check("PUT of 200 bytes", measured.puts())
    check("PATCH of ten paths", measured.counts.each(
        lambda number: measured.send("PATCH", "/bench.json?print=silent", {f"k{key}": f"{VALUE}{number:09d}" for key in range(10)})))


def test_writes_by_websocket(measured):
    with RealtimeClient(measured.gateway.port) as client:
        check("WebSocket put of 200 bytes", measured.counts.each(lambda number: client.put("/bench/k1", f"{VALUE}{number:09d}")))


@pytest.mark.parametrize(("kind", "name"), [(Stream, "event of an SSE listener"), (Listen, "event of a WebSocket listener")])
def test_an_event_costs_the_same_for_each_listener(measured, kind, name):
    path = f"/{kind.__name__}"
    measured.put(0, path)

    def cost(count: int) -> float:
        with listening(measured, kind, path, count) as listeners:
            def write(number: int):
                measured.put(number, path)
                for listener in listeners:
                    listener.read()

            return measured.counts.each(write, count=50)

    few, many, more = cost(1), cost(21), cost(61)
    check(name, (many - few) / 20)
    # Linear: each of the next forty takes no more than each of the first twenty.
    assert (more - many) / 40 <= max((many - few) / 20, 0) + 0.5


def test_a_write_costs_the_same_in_a_large_tree(measured):
    few = measured.puts()
    measured.send("PUT", "/deep.json?print=silent", {f"n{node}": {f"k{key}": key for key in range(100)} for node in range(500)})
    measured.send("PUT", "/wide.json?print=silent", {f"k{key}": key for key in range(50_000)})
    # More levels cost a few allocations each. A cost per child would be thousands.
    assert measured.puts("/deep/n7/k7") <= few + 20
    assert measured.puts("/wide/k7777") <= few + 20


def test_a_write_costs_the_same_beside_listeners_elsewhere(measured):
    few = measured.puts()
    measured.put(0, "/elsewhere")
    with listening(measured, Stream, "/elsewhere", 100):
        assert measured.puts() <= few + 10


def test_a_path_that_does_more_is_noticed(measured):
    """Tests the check itself: a request that does more is over the bound, and a call that does nothing is far under it."""
    measured.send("PUT", "/object.json?print=silent", {f"k{number}": number for number in range(30)})
    found = measured.counts.each(lambda number: measured.send("PUT", "/object.json?print=silent", {f"k{key}": number for key in range(30)}))
    assert "at most" in (judged("PUT of 200 bytes", found) or "")
    assert "lower that bound" in (judged("PUT of 200 bytes", measured.counts.each(lambda _: os.getpid())) or "")
