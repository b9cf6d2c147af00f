"""Listeners: event streams that resume after every break, and realtime listens that start again."""

import http.client
import json
import time
from dataclasses import dataclass

from harness.waiting import Late
from harness.websocket_client import RealtimeClient

from .client import Client
from .sessions import LOST

# Keep-alives come every two seconds; a listener without data for this long reconnects. A gateway may wait ten seconds for an id that it
# has not read.
SILENCE = 14.0
# The end of the comment that precedes a fresh `put` of an older entry.
REPEATS = "the following events may repeat"


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    kind: str
    seq: int
    path: str
    data: object
    at: float
    gateway: str
    connection: int
    # The gateway announced that it may repeat events, as it has not read the entry that the client named (docs/reference/streaming.md#resuming).
    may_repeat: bool = False


class StreamReader(Client):
    """One stream of the whole tree, over all gateways in turn: each event once, in order."""

    def __init__(self, name, doors, history, seed):
        super().__init__(name, doors, history, seed)
        self.events: list[Event] = []
        self.last_id: str | None = None
        self.connections = 0

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    def step(self) -> bool:
        gateway = self.dice.choice(list(self.doors))
        connection = http.client.HTTPConnection("127.0.0.1", self.doors[gateway], timeout=SILENCE)
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self.last_id} if self.last_id else {})
        try:
            connection.request("GET", "/.json?eventIds=true", None, headers)
            answer = connection.getresponse()
            if answer.status != 200:
                if answer.status != 503:
                    self.refused(gateway, answer.status, answer.read())
                return False
            self.connections += 1
            until = time.monotonic() + self.dice.uniform(4, 20)
            self.take(answer, gateway, until)
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return False
        finally:
            connection.close()
        return True

    def refused(self, gateway: str, status: int, body: bytes):
        """No gateway refuses a stream."""
        self.history.complain(f"a stream at {gateway}: {status} {body[:200]!r}")

    def take(self, answer, gateway: str, until: float):
        """Reads events; changes the gateway after a while."""
        fields: dict[str, str] = {}
        may_repeat = False
        while not self.stopped.is_set() and time.monotonic() < until:
            line = answer.readline()
            if not line.endswith(b"\n"):
                return
            text = line.decode().rstrip("\n")
            if text.startswith(":"):
                may_repeat = may_repeat or REPEATS in text
                continue
            if text:
                name, _, rest = text.partition(":")
                fields[name] = rest.removeprefix(" ")
                continue
            if fields.get("event") in ("put", "patch"):
                body = json.loads(fields["data"])
                seq = int(fields["id"].partition("-")[0])
                self.events.append(Event(fields["event"], seq, body["path"], body["data"], time.monotonic(), gateway, self.connections,
                                         may_repeat))
                may_repeat = False
                self.last_id = fields["id"]
            elif fields and fields.get("event") != "keep-alive":
                self.history.complain(f"a stream at {gateway} said {fields}")
                return
            fields = {}


@dataclass
class Listening:
    """One realtime listen of the registers: its first value, and the later pushes."""

    first: dict
    pushes: list[tuple[str, object]]
    at: float
    gateway: str
    epoch: int


class RealtimeListener(Client):
    """Listens to the registers by the realtime protocol, at one gateway after another."""

    def __init__(self, name, doors, history, seed):
        super().__init__(name, doors, history, seed)
        self.listens: list[Listening] = []

    def step(self) -> bool:
        gateway = self.dice.choice(list(self.doors))
        try:
            client = RealtimeClient(self.doors[gateway])
        except LOST:
            return False
        try:
            client.greet()
            epoch, at = self.history.epoch, time.monotonic()
            first = client.listen("reg")
            listening = Listening((first or {"b": {"d": None}})["b"]["d"] or {}, [], at, gateway, epoch)
            self.listens.append(listening)
            self.follow(client, listening)
        except LOST:
            return False
        finally:
            client.socket.drop()
        return True

    def follow(self, client: RealtimeClient, listening: Listening):
        until = time.monotonic() + self.dice.uniform(4, 25)
        while not self.stopped.is_set() and time.monotonic() < until:
            try:
                push = client.push(1.0)
            except Late:
                continue
            body = push["b"]
            if push["a"] == "d" and body["p"].strip("/").startswith("reg/"):
                listening.pushes.append((body["p"].strip("/").removeprefix("reg/"), body["d"]))
            elif push["a"] == "d" and body["p"].strip("/") == "reg":
                # A slow client gets the whole value; or the gateway starts the listen again.
                listening = Listening(body["d"] or {}, [], time.monotonic(), listening.gateway, self.history.epoch)
                self.listens.append(listening)
            else:
                self.history.complain(f"a listen of reg at {listening.gateway} was pushed {push}")
                return
