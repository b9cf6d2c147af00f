"""Consumers of durable feeds: they pull, acknowledge, refuse, are slow, and vanish; and an endpoint of a webhook."""

import http.client
import json
import random
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.endpoint import Answer, Delivery, Endpoint
from harness.feeds import ADMIN
from harness.rest import Rest, query_string
from harness.waiting import wait_until

from .client import PATIENCE, Client

DEADLINE_MS = 2000
QUICK = {"ack_deadline": f"{DEADLINE_MS}ms", "backoff": {"first": "10ms", "max": "200ms"}}
# The answers of a gateway that has no database, or knows no gateway that works the feed.
PASSING = (429, 503)


@dataclass
class Given:
    """A delivered message: the times of the request and of the arrival. For a webhook both are the time of the arrival."""

    consumer: str
    message: dict
    asked: float
    came: float
    gateway: str = ""


@dataclass
class Seek:
    """A feed was moved back to the entry `seq`: the times of the first request and of the answer."""

    seq: int
    invoked: float
    answered: float
    # The newest entry at the time of the request.
    head: int = 0
    # An attempt without an answer may take effect later.
    is_unknown: bool = False

    @property
    def settled(self) -> float:
        """Records that this move cannot take effect from now on."""
        return self.answered + (30.0 if self.is_unknown else 0.0)


@dataclass
class FeedNotes:
    """A feed of the records /COLLECTION/{key}, with the observations of its consumers. Any thread may add."""

    name: str
    collection: str
    max_attempts: int = 1000
    # All messages are in one order, not only those of a key.
    strict: bool = False
    given: list[Given] = field(default_factory=list)
    # By id: the times right before a consumer acknowledged it, and the times of the answer "done".
    said: dict[str, list[float]] = field(default_factory=dict)
    done: dict[str, list[float]] = field(default_factory=dict)
    dead: list[dict] = field(default_factory=list)
    namespace: str = "default"
    on_dead: str = "continue"
    # Retried dead letters, by (seq, key).
    retried: set[tuple[int, str]] = field(default_factory=set)
    seeks: list[Seek] = field(default_factory=list)

    def __post_init__(self):
        self._lock = threading.Lock()

    def definition(self, **more) -> dict:
        order = {"order": "namespace"} if self.strict else {}
        order |= {"on_dead": self.on_dead} if self.on_dead != "continue" else {}
        return {"path": f"/{self.collection}/{{key}}", "start": "beginning", "include": ["value", "old"], "max_attempts": self.max_attempts,
                **QUICK, **order, **more}

    def target(self, what: str = "", **params) -> str:
        """Path and query of a request for the feed."""
        return f"/.feeds/{self.name}{what and '/'}{what}?{query_string({'ns': self.namespace, **params})}"

    def gave(self, consumer: str, messages: list[dict], asked: float, gateway: str = ""):
        came = time.monotonic()
        with self._lock:
            self.given += [Given(consumer, message, asked, came, gateway) for message in messages]

    def says(self, ids: list[str], at: float | None = None):
        """Records an acknowledgement before it is sent: its arrival is unknown. `at`: the time of sending, if earlier."""
        with self._lock:
            for id in ids:
                self.said.setdefault(id, []).append(at or time.monotonic())

    def answered(self, results: dict[str, str]):
        with self._lock:
            for id, result in results.items():
                if result == "done":
                    self.done.setdefault(id, []).append(time.monotonic())

    def keep(self, path: Path):
        """Writes all of it as lines of JSON."""
        with self._lock, open(path, "w") as file:
            for one in self.given:
                file.write(json.dumps(asdict(one)) + "\n")
            file.write(json.dumps({"said": self.said, "done": self.done, "dead": self.dead, "retried": sorted(self.retried),
                                   "seeks": [asdict(seek) for seek in self.seeks]}) + "\n")


class Consumer(Client):
    """Works the messages of one gateway after another. `poison(message)`: whether it can never process a message."""

    pause = 0.02

    def __init__(self, name, doors, history, seed, notes: FeedNotes, poison=lambda message: False):
        super().__init__(name, doors, history, seed)
        self.notes, self.poison = notes, poison
        self.lives, self.resumes = 0, False
        # With `calm`, it neither vanishes nor is slow nor refuses, except for poisonous messages.
        self.calm = False

    @property
    def known_as(self) -> str:
        """A restarted consumer has a new name, unless it resumes."""
        return f"{self.name}.{self.lives}"

    def call(self, what: str, body: dict) -> tuple[str, dict | None]:
        """Asks some gateway; returns its name, and the answer if there is one."""
        gateway = self.gateway()
        try:
            answer = self._rests[gateway].send("POST", self.notes.target(what), json.dumps(body).encode(), ADMIN)
            if answer.status == 200:
                return gateway, answer.json()
        except (OSError, http.client.HTTPException, ValueError):
            return gateway, None
        if answer.status not in PASSING:
            self.history.complain(f"{what} of feed {self.notes.name} at {gateway}: {answer.status} {answer.body[:200]!r}")
        return gateway, None

    def step(self) -> bool:
        asked = time.monotonic()
        resume = {"resume": True} if self.resumes else {}
        gateway, answer = self.call("pull", {"max": self.dice.randrange(1, 40), "wait": "500ms", "consumer": self.known_as, **resume})
        if answer is None:
            return False
        self.resumes = False
        self.notes.gave(self.known_as, answer["messages"], asked, gateway)
        if answer["messages"]:
            self.work(answer["messages"])
        return True

    def work(self, messages: list[dict]):
        die = 1.0 if self.calm else self.dice.random()
        if die < 0.06:
            # The consumer is killed and restarted: under another name, or to resume.
            self.resumes = self.dice.random() < 0.5
            self.lives += not self.resumes
            return
        if die < 0.09:
            self.stopped.wait(DEADLINE_MS / 1000 * self.dice.uniform(0.8, 1.5))
        elif die < 0.13:
            self.settle("extend", [message["id"] for message in messages], delay=f"{DEADLINE_MS}ms")
        refuses = 0.3 if 0.13 <= die < 0.25 else 0.0
        good, bad, stopped = [], [], set()
        for message in messages:
            if message["key"] in stopped:
                # The message returns with the one before it that failed.
                continue
            if self.poison(message) or self.dice.random() < refuses:
                bad.append(message["id"])
                stopped.add(message["key"])
            else:
                good.append(message["id"])
        if good:
            self.settle("ack", good)
        if bad:
            self.settle("nack", bad, reason="refused", **self.dice.choice([{}, {"delay": "0s"}]))

    def settle(self, what: str, ids: list[str], **members):
        """Repeats a request until an answer, as a persistent consumer does."""
        while not self.stopped.is_set():
            if what == "ack":
                self.notes.says(ids)
            _, answer = self.call(what, {"ids": ids, "consumer": self.known_as, **members})
            if answer is not None:
                if what == "ack":
                    self.notes.answered(answer["results"])
                return
            self.stopped.wait(0.05)


class Receiver:
    """The endpoint of a feed's webhook. It fails at times, in each of the ways of real endpoints."""

    def __init__(self, notes: FeedNotes, seed: int):
        self.notes, self.dice = notes, random.Random(seed)
        self.calm = False
        self._endpoint = Endpoint(self.answer)
        self._endpoint.__enter__()

    def hook(self) -> dict:
        return self._endpoint.hook(batch=20, timeout="3s")

    def answer(self, delivery: Delivery) -> Answer:
        """Called for one delivery after another."""
        messages = delivery.messages
        self.notes.gave("webhook", messages, delivery.time)
        die = 1.0 if self.calm else self.dice.random()
        if die < 0.05:
            return Answer(500)
        if die < 0.08:
            return Answer(instead="reset")
        first = self.dice.randrange(len(messages)) if die < 0.16 else len(messages)
        # Messages after a failed one count as not sent: the order is that of the namespace.
        self.notes.says([message["id"] for message in messages[:first]])
        return Answer(body=json.dumps({"failed": [message["id"] for message in messages[first:first + 1]]}).encode())

    def close(self):
        self._endpoint.__exit__()


class FeedWork:
    """The feeds of a round: their definitions, and all consumers."""

    def __init__(self, doors: dict[str, int], ports: dict[str, int], history, seed: int):
        self.ports = ports
        self.registers = FeedNotes("registers", "reg")
        self.records = FeedNotes("records", "rec", max_attempts=4)
        self.marks = FeedNotes("marks", "marks", strict=True)
        self.receiver = Receiver(self.marks, seed)
        self.consumers = [
            *(Consumer(f"con{number}", doors, history, seed + 1 + number, self.registers) for number in range(3)),
            *(Consumer(f"rec{number}", doors, history, seed + 11 + number, self.records, is_poison) for number in range(2))]

    @property
    def notes(self) -> list[FeedNotes]:
        return [self.registers, self.records, self.marks]

    def start(self):
        """Creates the feeds, waits until every gateway knows them, and begins to consume."""
        first = Rest(next(iter(self.ports.values())), patience=PATIENCE)
        for notes in self.notes:
            more = {"webhook": self.receiver.hook()} if notes is self.marks else {}
            target, body = notes.target(), json.dumps(notes.definition(**more)).encode()
            wait_until(lambda: first.send("PUT", target, body, ADMIN).status in (200, 201), f"feed {notes.name} to be made", 30)
            for port in self.ports.values():
                wait_until(lambda: Rest(port).send("GET", target, None, ADMIN).status == 200, f"feed {notes.name} to be known", 30)
        for one in self.consumers:
            one.start()

    def finish(self):
        """To be called when nothing is left to deliver."""
        for one in self.consumers:
            one.stop()
        for one in self.consumers:
            one.join(60)
        for notes in self.notes:
            notes.dead = letters(Rest(next(iter(self.ports.values()))), notes)

    def close(self):
        for one in self.consumers:
            one.stop()
        self.receiver.close()


def letters(rest: Rest, notes: FeedNotes) -> list[dict]:
    """All dead letters of a feed."""
    found, after = [], {}
    while True:
        answer = rest.send("GET", notes.target("dead", limit=1000, **after), None, ADMIN)
        if answer.status != 200:
            raise RuntimeError(f"dead letters of {notes.name}: {answer.status} {answer.body[:200]!r}")
        page = answer.json()["dead"]
        found += page
        if len(page) < 1000:
            return found
        after = {"after": page[-1]["id"]}


def is_poison(message: dict) -> bool:
    """Whether this is one of the one in seven records that fail."""
    return isinstance(message["value"], dict) and message["value"]["n"] % 7 == 0
