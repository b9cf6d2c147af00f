"""Clients on one thread that contend for a number by transactions, as SDKs do, and also write elsewhere."""

import json
import selectors
import time
from dataclasses import dataclass, field

from oracle.hashes import node_hash

from .websocket import PING, PONG, TEXT, frame
from .websocket_client import RealtimeClient

# SDKs report `maxretry` after so many refusals.
ATTEMPTS = 25


@dataclass
class Result:
    """The outcome of the transactions. Times are seconds."""

    seconds: float = 0
    # How often each transaction was sent until it succeeded.
    sends: list[int] = field(default_factory=list)
    given_up: int = 0
    # From a transaction's first attempt to its success.
    times: list[float] = field(default_factory=list)
    # From each other write to its answer.
    answers: list[float] = field(default_factory=list)

    def __str__(self):
        def quantiles(values):
            ordered = sorted(values) or [0]
            return " ".join(f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.4g}" for share in (0.5, 0.99, 1))

        return (f"{len(self.sends)} transactions in {self.seconds:.1f} s, {self.given_up} given up; p50, p99, most: sends {quantiles(self.sends)}; "
                f"seconds {quantiles(self.times)}; {len(self.answers)} other writes, answered after {quantiles(self.answers)}")


class Contender:
    """One client. `pause`: seconds between two of its other writes; None: it has none."""

    def __init__(self, port: int, path: str, name: str, pause: float | None, result: Result):
        client = RealtimeClient(port).greet()
        self.path, self.name, self.pause, self.result = path, name, pause, result
        pushed = client.listen(path)
        self.value = pushed["b"]["d"] if pushed else None
        self.socket, self.number = client.socket.plain, client.number
        self.socket.setblocking(False)
        self.input, self.output = bytearray(client.socket._buffer), b""
        self.transaction, self.attempts, self.began = None, 0, 0.0
        self.others: dict[int, float] = {}
        self.due = time.monotonic()
        self.is_stopping = False

    @property
    def is_done(self) -> bool:
        return self.transaction is None and not self.others

    def send(self, body: dict) -> int:
        self.number += 1
        text = json.dumps({"t": "d", "d": {"r": self.number, "a": "p", "b": body}}, separators=(",", ":"))
        self.write(frame(text.encode(), mask=b"\0\0\0\0"))
        return self.number

    def write(self, data: bytes):
        self.output += data
        try:
            self.output = self.output[self.socket.send(self.output):]
        except BlockingIOError:
            pass

    def attempt(self):
        if self.attempts == 0:
            self.began = time.monotonic()
        self.attempts += 1
        self.transaction = self.send({"p": self.path, "d": (self.value or 0) + 1, "h": node_hash(self.value)})

    def tick(self, now: float):
        if self.output:
            self.write(b"")
        if self.pause is None or now < self.due or self.is_stopping:
            return
        self.due = max(self.due + self.pause, now - self.pause)
        self.others[self.send({"p": f"elsewhere/{self.name}", "d": self.number})] = now

    def read(self):
        try:
            more = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        assert more, f"{self.name}: closed by the server"
        self.input += more
        while len(self.input) >= 2:
            size, start = self.input[1], 2
            if size == 126:
                if len(self.input) < 4:
                    return
                size, start = int.from_bytes(self.input[2:4], "big"), 4
            assert size < 65536
            if len(self.input) < start + size:
                return
            opcode, payload = self.input[0] & 15, bytes(self.input[start:start + size])
            del self.input[:start + size]
            if opcode == PING:
                self.write(frame(payload, PONG))
            elif opcode == TEXT:
                self.take(json.loads(payload)["d"])

    def take(self, data: dict):
        if "r" not in data:
            assert data["a"] == "d" and data["b"]["p"] == self.path, data
            self.value = data["b"]["d"]
            return
        number, status = data["r"], data["b"]["s"]
        if number in self.others:
            assert status == "ok", data
            self.result.answers.append(time.monotonic() - self.others.pop(number))
        elif number == self.transaction:
            self.transaction = None
            assert status in ("ok", "datastale"), data
            if status == "ok":
                self.result.sends.append(self.attempts)
                self.result.times.append(time.monotonic() - self.began)
            elif self.attempts == ATTEMPTS:
                self.result.given_up += 1
            if status == "ok" or self.attempts == ATTEMPTS:
                self.attempts = 0
            if self.attempts > 0 or not self.is_stopping:
                self.attempt()


def contend(ports: list[int], path: str, count: int, pause: float | None, seconds: float) -> Result:
    """Has `count` clients, spread over the gateways, add one to a number without a pause; returns once all is answered."""
    result = Result()
    clients = [Contender(ports[number % len(ports)], path, f"c{number}", pause, result) for number in range(count)]
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        began = time.monotonic()
        for number, client in enumerate(clients):
            # Spread over the pause, as the clocks of clients are.
            client.due = began + (pause or 0) * number / count
            client.attempt()
        while not all(client.is_done for client in clients):
            now = time.monotonic()
            assert now < began + seconds + 60, "clients without an answer"
            for client in clients:
                client.is_stopping = now >= began + seconds
                client.tick(now)
            for key, _ in selector.select(0.001):
                key.data.read()
        result.seconds = time.monotonic() - began
    for client in clients:
        client.socket.close()
    return result
