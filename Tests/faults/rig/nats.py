"""A NATS server with JetStream, and the contents of its streams, by the protocol itself, so that no client library is needed."""

import json
import shutil
import signal
import socket
import time
from pathlib import Path

from harness.ports import free_port
from harness.process import Process
from harness.waiting import wait_until

STREAM = "FEEDS"


class Nats:
    """One server on this machine; the store is on disk, and an orderly end keeps all that was acknowledged."""

    def __init__(self, root: Path, logs: Path):
        if not shutil.which("nats-server"):
            raise RuntimeError("no nats-server: install the Debian package nats-server (scripts/install-dependencies faults)")
        self.root, self.logs, self.port = root / "nats", logs, free_port()
        self.process: Process | None = None

    def start(self, patience: float = 20):
        """Starts the server and waits until JetStream answers."""
        if self.process is None or not self.process.running:
            self.process = Process([shutil.which("nats-server"), "-js", "-sd", self.root, "-a", "127.0.0.1", "-p", self.port], "nats", self.logs)
        wait_until(self._answers, "JetStream to answer", patience, 0.05)

    def _answers(self) -> bool:
        try:
            return "streams" in self.ask("INFO", {})
        except (OSError, ValueError):
            return False

    def make_stream(self, subjects: list[str]):
        answer = self.ask(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": subjects, "storage": "file", "num_replicas": 1,
                                                      "retention": "limits", "discard": "old", "max_msgs": -1, "max_bytes": -1})
        if "error" in answer:
            raise RuntimeError(f"the stream can't be made: {answer['error']}")

    def freeze(self):
        self.process.send(signal.SIGSTOP)

    def thaw(self):
        self.process.send(signal.SIGCONT)

    def stop(self):
        self.process.stop()

    def close(self):
        if self.process and self.process.running:
            self.process.kill()

    # The protocol

    def ask(self, what: str, body: dict) -> dict:
        """A request to JetStream, and its answer."""
        with Session(self.port) as session:
            return json.loads(session.request(f"$JS.API.{what}", json.dumps(body).encode()))

    def messages(self, subject: str, patience: float = 60) -> list[dict]:
        """The bodies of all messages with this subject, in the stream's order."""
        with Session(self.port) as session:
            session.send(b"SUB deliver 2\r\n")
            config = {"deliver_subject": "deliver", "deliver_policy": "all", "ack_policy": "none", "filter_subject": subject}
            made = json.loads(session.request(f"$JS.API.CONSUMER.CREATE.{STREAM}", json.dumps({"stream_name": STREAM, "config": config}).encode()))
            if "error" in made:
                raise RuntimeError(f"the stream can't be read: {made['error']}")
            # Deliveries may come before the answer: pending and delivered messages are all of them.
            count = made["num_pending"] + made["delivered"]["consumer_seq"]
            found = session.kept["deliver"]
            deadline = time.monotonic() + patience
            while len(found) < count and time.monotonic() < deadline:
                session.take()
            return [json.loads(body) for body in found]


class Session:
    """One connection to a server. A context."""

    def __init__(self, port: int, timeout: float = 10):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._buffer = b""
        self.kept: dict[str, list[bytes]] = {"deliver": [], "answer": []}
        self._line()
        self.send(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"lang":"test","version":"1"}\r\nSUB answer 1\r\n')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def send(self, data: bytes):
        self._socket.sendall(data)

    def request(self, subject: str, body: bytes) -> bytes:
        self.send(b"PUB %s answer %d\r\n%s\r\n" % (subject.encode(), len(body), body))
        while not self.kept["answer"]:
            self.take()
        return self.kept["answer"].pop(0)

    def take(self):
        """Reads one message and keeps its body under the name of its subscription."""
        while True:
            words = self._line().split()
            if words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                size = int(words[-1])
                head = int(words[-2]) if words[0] == b"HMSG" else 0
                data = self._exactly(size + 2)[:-2]
                self.kept["answer" if words[2] == b"1" else "deliver"].append(data[head:])
                return
            elif words[0] == b"-ERR":
                raise ValueError(words)

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._more()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def _more(self):
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionResetError("the server has closed the connection")
        self._buffer += data
