"""Consumers whose connections end at any byte, which restart at their position, and acknowledge by a cursor."""

import http.client
import io
import json
import socket
import struct
import threading
import time

from harness.feeds import ADMIN

from .feeds import PASSING, Consumer


class Cut(OSError):
    """The budget of bytes of an answer has been read."""


class _Bytes(io.RawIOBase):
    """The bytes of a connection, up to a limit."""

    def __init__(self, connection: socket.socket, budget: int):
        super().__init__()
        self._connection, self._budget = connection, budget

    def readable(self) -> bool:
        return True

    def readinto(self, target) -> int:
        if self._budget == 0:
            raise Cut("cut")
        count = self._connection.recv_into(memoryview(target)[:self._budget])
        self._budget -= count
        return count


class Exchange:
    """A request on a connection of its own, with at most `budget` bytes of the answer read."""

    def __init__(self, port: int, method: str, target: str, body: bytes = b"", headers: dict | None = None, budget: int = 1 << 40,
                 patience: float = 10.0):
        self.socket = socket.create_connection(("127.0.0.1", port), patience)
        self.socket.settimeout(patience)
        fields = {"Host": "127.0.0.1", **ADMIN, **({"Content-Length": len(body)} if method == "POST" else {}), **(headers or {})}
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
        self._budget = budget
        try:
            self.socket.sendall(head.encode() + body)
        except OSError:
            self.socket.close()
            raise

    def makefile(self, *_):
        """The method of a socket that http.client needs."""
        return io.BufferedReader(_Bytes(self.socket, self._budget))

    def answer(self) -> http.client.HTTPResponse:
        answer = http.client.HTTPResponse(self)
        answer.begin()
        return answer

    def end(self, how: str):
        """`reset`, `close`, or `abandon`: the connection stays open without a reader."""
        if how == "abandon":
            return
        if how == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Restarting(Consumer):
    """A consumer with a cursor: the id up to which it has processed all messages that it received under its present name."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.cursor: str | None = None
        self.cuts = 0

    def cut(self, exchange: Exchange):
        """Ends a connection in some manner; few connections are left open."""
        how = "close" if self.calm else self.dice.choice(["reset", "close", "close", "abandon"])
        self.cuts += 1
        exchange.end(how)
        if how == "abandon":
            # A gateway delivers messages to this consumer in vain, which must end at some time.
            threading.Timer(self.dice.uniform(0.05, 2.0), exchange.socket.close).start()

    def budget(self) -> int:
        """A number of bytes of an answer: often none or few, at times all."""
        return 1 << 40 if self.calm else int(10 ** self.dice.uniform(0, 5)) - 1

    def rename(self):
        self.lives += 1
        self.cursor, self.resumes = None, False

    def passes(self, what: str, gateway: str, status: int, body: bytes) -> bool:
        """Whether a fault explains this answer."""
        if status not in PASSING:
            self.history.complain(f"{what} of feed {self.notes.name} at {gateway}: {status} {body[:200]!r}")
        return False


class Puller(Restarting):
    """Pulls. Some answers are lost; at times `after` names the processed messages instead of an acknowledgement."""

    pause = 0.05

    def step(self) -> bool:
        asked = time.monotonic()
        body = {"max": self.dice.randrange(1, 20), "wait": "300ms", "consumer": self.known_as}
        if self.resumes:
            body |= {"resume": True} | ({"after": self.cursor} if self.cursor else {})
        if not self.calm and self.dice.random() < 0.2:
            self.lose(body)
            return True
        gateway, answer = self.call("pull", body)
        if answer is None:
            return False
        self.resumes, self.cursor = False, None
        self.notes.gave(self.known_as, answer["messages"], asked, gateway)
        if answer["messages"]:
            self.work(answer["messages"])
        return True

    def lose(self, body: dict):
        """Sends a request and drops the answer. Then it continues as before, resumes, or takes another name."""
        exchange = None
        try:
            exchange = Exchange(self.doors[self.gateway()], "POST", self.notes.target("pull"), json.dumps(body).encode(), patience=1.0)
            left = self.budget()
            while left > 0 and (data := exchange.socket.recv(min(left, 65536))):
                left -= len(data)
                if left > 0 and self.dice.random() < 0.5:
                    break
        except OSError:
            pass
        if exchange:
            self.cut(exchange)
        die = self.dice.random()
        if die < 0.2:
            self.rename()
        elif die < 0.4:
            self.resumes = True

    def work(self, messages: list[dict]):
        if self.calm or self.dice.random() > 0.3 or any(self.poison(message) for message in messages):
            return super().work(messages)
        # Processes some of them, and is killed before an acknowledgement. After the restart it names its cursor.
        done = messages[:self.dice.randrange(len(messages) + 1)]
        if done:
            self.notes.says([message["id"] for message in done])
            self.cursor = done[-1]["id"]
        self.resumes = True


class StreamConsumer(Restarting):
    """Reads the feed as an event stream that ends at any byte, and opens it again with the id of the last event that it processed."""

    pause = 0.02

    def step(self) -> bool:
        if not self.calm and self.dice.random() < 0.05:
            self.rename()
        gateway = self.gateway()
        resumed = {"Last-Event-ID": self.cursor} if self.cursor and self.dice.random() < 0.8 else {}
        target = self.notes.target("stream", consumer=self.known_as, max=self.dice.choice([1, 3, 10, 40]))
        asked, exchange = time.monotonic(), None
        try:
            exchange = Exchange(self.doors[gateway], "GET", target, headers={"Accept": "text/event-stream", **resumed},
                                budget=200 + self.budget(), patience=self.dice.choice([0.4, 1.5, 4.0]))
            answer = exchange.answer()
            if answer.status != 200:
                return self.passes("stream", gateway, answer.status, answer.read())
            if not resumed:
                # Unacknowledged messages are delivered again, and the cursor begins with them.
                self.cursor = None
            self.follow(answer, asked, gateway)
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            if exchange:
                self.cut(exchange)
        return True

    def follow(self, answer: http.client.HTTPResponse, asked: float, gateway: str):
        """Processes events, one after another, until the stream ends."""
        fields, open_ids = {}, []
        until = asked + self.dice.uniform(0.2, 6.0)
        while not self.stopped.is_set() and time.monotonic() < until and (line := answer.readline()):
            text = line.decode().rstrip("\r\n")
            if text and not text.startswith(":"):
                name, _, rest = text.partition(":")
                fields[name] = rest.removeprefix(" ")
            elif not text and fields:
                if fields.get("event") == "message":
                    message = json.loads(fields["data"])
                    if not fields["id"].startswith(message["id"] + "@"):
                        self.history.complain(f"an event of feed {self.notes.name} at {gateway} has the id {fields['id']}: {message}")
                    self.notes.gave(self.known_as, [message], asked, gateway)
                    if not self.process(message, fields["id"], open_ids):
                        return
                fields = {}

    def process(self, message: dict, event_id: str, open_ids: list[str]) -> bool:
        """Processes an event; False if that was impossible, so that the stream must end."""
        die = self.dice.random()
        if self.poison(message) or (die < 0.02 and not self.calm):
            self.settle("nack", [message["id"]], reason="refused", delay="0s")
            # Earlier messages without an acknowledgement are delivered again.
            self.cursor = None
            return False
        if die < 0.1:
            self.stopped.wait(self.dice.random() * 0.3)
        self.notes.says([message["id"]])
        self.cursor = event_id
        open_ids.append(message["id"])
        if die > 0.85:
            self.settle("ack", list(open_ids))
            open_ids.clear()
        return True
