"""The feeds of a round of the feed campaign: of every kind, in several namespaces, with their consumers and administrators."""

import http.client
import json
import time

from harness.endpoint import OTHER_SECRET, SECRET
from harness.feeds import ADMIN
from harness.rest import Rest
from harness.waiting import wait_until
from rig.feed_rig import FeedRig
from rig.nats import STREAM

from .client import Client
from .feed_clients import Puller, StreamConsumer
from .feeds import PASSING, Consumer, FeedNotes, Given, Seek, letters
from .hostile import HostileServer
from .record_writer import RecordWriter

NAMESPACES = ("default", "shop", "chat")
# Namespaces whose first feed is created during a round.
YOUNG = tuple(f"young{number}" for number in range(12))
# Of a delivery to a webhook or a broker. A gateway that takes a feed over waits for a multiple of it.
TIMEOUT_MS = 1000


class Cure:
    """Whether the poisonous messages can be processed by now."""

    def __init__(self):
        self.came = False

    def poison(self, message: dict) -> bool:
        """Whether this is one of the one in seven records that fail."""
        value = message["value"]
        return not self.came and isinstance(value, dict) and value.get("n", 1) % 7 == 0


class FeedField:
    """The feeds, their consumers, and the writers of their records."""

    def __init__(self, rig: FeedRig, history, seed: int):
        self.rig, self.history, self.cure = rig, history, Cure()
        self.server = HostileServer(seed, TIMEOUT_MS / 1000)
        self.secrets = [SECRET, OTHER_SECRET]
        self.destinations: dict[str, dict] = {}
        self.notes: list[FeedNotes] = []
        self.clients: list[Client] = []
        seeds = iter(range(seed + 1, seed + 1000))

        def consume(kind, notes, count, **more):
            # Each has its own name: the last id of a consumer refers to the connections of its name.
            self.clients += [kind(f"{notes.namespace[0]}{notes.name}-{kind.__name__.lower()}{number}", rig.doors, history, next(seeds), notes, **more)
                             for number in range(count)]

        pulled, streamed = self.feed("pulled", "default"), self.feed("streamed", "shop")
        consume(Puller, pulled, 3)
        consume(StreamConsumer, streamed, 2)
        consume(Puller, streamed, 1)
        self.sought = self.feed("sought", "chat")
        consume(Consumer, self.sought, 1)
        consume(StreamConsumer, self.sought, 1)
        # Feeds with some dead letters, which are retried.
        self.retried = [self.feed("retried", "chat", max_attempts=3), self.feed("stopping", "chat", max_attempts=3, on_dead="stop")]
        for notes in self.retried:
            consume(Consumer, notes, 2, poison=self.cure.poison)
        for namespace in NAMESPACES:
            self.hook(self.feed("hook", namespace), 1)
        self.hook(self.feed("batches", "shop"), 20)
        self.hook(self.feed("batches", "chat", strict=True), 8)
        for namespace in NAMESPACES[:2]:
            self.sink(self.feed("nats", namespace), "nats", {"url": f"nats://127.0.0.1:{rig.routes['nats']}", "subject": f"{namespace}.{{key}}", "stream": STREAM})
        self.sink(self.feed("kafka", "shop"), "kafka", {"brokers": rig.kafka.brokers, "topic": "shop"})
        self.sink(self.feed("kafka", "chat"), "kafka", {"brokers": rig.kafka.brokers, "topic": "chat"})
        self.writers = [RecordWriter(f"w{namespace}", rig.doors, history, next(seeds), namespace) for namespace in NAMESPACES]
        self.young, self._seeds = iter(YOUNG), seeds
        self.administrator = FeedAdministrator("admin", rig.doors, history, next(seeds), self)

    def feed(self, name: str, namespace: str, **more) -> FeedNotes:
        notes = FeedNotes(name, "rec", namespace=namespace, **more)
        self.notes.append(notes)
        return notes

    def hook(self, notes: FeedNotes, batch: int):
        url = self.server.add(notes, batch, [SECRET, OTHER_SECRET])
        self.destinations[notes.target()] = {"webhook": {"url": url, "secrets": [SECRET], "batch": batch, "timeout": f"{TIMEOUT_MS}ms", "connect_timeout": "500ms"}}

    def sink(self, notes: FeedNotes, kind: str, definition: dict):
        self.destinations[notes.target()] = {kind: {**definition, "timeout": f"{TIMEOUT_MS}ms", "batch": 20}}

    def definition(self, notes: FeedNotes, **more) -> dict:
        return notes.definition(**self.destinations.get(notes.target(), {}), **more)

    # The round

    def start(self):
        """Creates the feeds, waits until every gateway knows them, and begins."""
        first = Rest(next(iter(self.rig.ports.values())), patience=10)
        for namespace in YOUNG:
            answer = first.send("PUT", f"/rec.json?ns={namespace}", json.dumps({f"k{number}": {"n": number} for number in range(12)}).encode(), ADMIN)
            if answer.status != 200:
                raise RuntimeError(f"namespace {namespace}: {answer.status} {answer.body[:300]!r}")
        for notes in self.notes:
            self.make(notes)
        for port in self.rig.ports.values():
            wait_until(lambda: all(Rest(port).send("GET", notes.target(), None, ADMIN).status == 200 for notes in self.notes), "the feeds to be known", 30)
        for one in [*self.clients, *self.writers, self.administrator]:
            one.start()

    def make(self, notes: FeedNotes):
        """Creates a feed at some gateway, and repeats the request until an answer."""
        body, ports = json.dumps(self.definition(notes)).encode(), list(self.rig.ports.values())

        def attempt():
            for port in ports:
                try:
                    made = Rest(port, patience=10).send("PUT", notes.target(), body, ADMIN)
                except (OSError, http.client.HTTPException):
                    continue
                if made.status not in PASSING:
                    return made
            return None

        answer = wait_until(attempt, f"feed {notes.name} to be made", 30, 0.1)
        if answer.status not in (200, 201):
            raise RuntimeError(f"feed {notes.name}: {answer.status} {answer.body[:300]!r}")

    # Feeds that are created during a round: each the first of its namespace

    def next_young(self) -> FeedNotes | None:
        """Returns None if all namespaces have one."""
        namespace = next(self.young, None)
        return FeedNotes("young", "rec", namespace=namespace) if namespace else None

    def vanish(self, notes: FeedNotes):
        """A consumer takes some messages, and then vanishes."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            for port in self.rig.ports.values():
                asked = time.monotonic()
                try:
                    answer = Rest(port, patience=3).send("POST", notes.target("pull"), b'{"max":5,"wait":"300ms","consumer":"gone"}', ADMIN)
                except (OSError, http.client.HTTPException):
                    continue
                if answer.status == 200 and (messages := answer.json()["messages"]):
                    notes.gave("gone", messages, asked)
                    # The second message is processed, and the progress stored.
                    if len(messages) > 1:
                        notes.says([messages[1]["id"]])
                        try:
                            Rest(port, patience=3).send("POST", notes.target("ack"), json.dumps({"ids": [messages[1]["id"]]}).encode(), ADMIN)
                        except (OSError, http.client.HTTPException):
                            pass
                    return
            time.sleep(0.1)

    def owner(self, notes: FeedNotes) -> str | None:
        """The name of the gateway that works a feed."""
        rows = self.rig.rows("select gateway from pathmirror.feed_status where namespace = %s and name = %s", notes.namespace, notes.name)
        ports = {str(port): name for name, port in self.rig.ports.items()}
        return ports.get((rows[0][0] or "").rpartition(":")[2]) if rows else None

    def begin_young(self, notes: FeedNotes | None):
        """Starts a consumer of a young feed."""
        if notes:
            one = Consumer(f"{notes.namespace}c", self.rig.doors, self.history, next(self._seeds), notes)
            self.notes.append(notes)
            self.clients.append(one)
            one.start()

    def calm(self, on: bool):
        """Sets whether receivers answer correctly, and consumers neither vanish nor refuse."""
        self.server.calm = on
        for one in self.clients:
            one.calm = on

    def end_writes(self):
        for one in [*self.writers, self.administrator]:
            one.stop()
        for one in [*self.writers, self.administrator]:
            one.join(60)

    def retry_all(self):
        """Retries all dead letters, which can be processed by now. Callers repeat this until there are none."""
        self.cure.came = True
        rest = Rest(next(iter(self.rig.ports.values())), patience=10)
        for notes in self.notes:
            if found := letters(rest, notes):
                self.retry(notes, found, rest)

    def retry(self, notes: FeedNotes, found: list[dict], rest: Rest) -> int:
        """The status of the answer."""
        notes.retried |= {(letter["seq"], letter["key"]) for letter in found}
        ids = [letter["id"] for letter in found][:500]
        answer = rest.send("POST", notes.target("dead/retry"), json.dumps({"ids": ids}).encode(), ADMIN)
        if answer.status not in (200, *PASSING):
            self.history.complain(f"dead/retry of {notes.name}: {answer.status} {answer.body[:200]!r}")
        return answer.status

    def finish(self):
        """To be called when nothing is left to deliver: consumers, webhooks and brokers have all messages."""
        for one in self.clients:
            one.stop()
        for one in self.clients:
            one.join(60)
        rest = Rest(next(iter(self.rig.ports.values())))
        for notes in self.notes:
            notes.dead = letters(rest, notes)
            destination = self.destinations.get(notes.target(), {})
            if "nats" in destination:
                self.received(notes, self.rig.nats.messages(f"{notes.namespace}.>"))
            elif "kafka" in destination:
                self.received(notes, self.rig.kafka.all_messages(destination["kafka"]["topic"]))

    @staticmethod
    def received(notes: FeedNotes, messages: list[dict]):
        """A broker has these messages, in this order: their positions stand for times."""
        for place, message in enumerate(messages):
            notes.given.append(Given("broker", message, place, place))
            notes.said.setdefault(message["id"], []).append(place)

    def at_end(self) -> list[str]:
        """Feeds that have not finished the log, or that no gateway works correctly."""
        rows = self.rig.rows("select namespace, name, state, lag_entries, retrying, message, gateway from pathmirror.feed_status")
        late = [f"{namespace}/{name} is {state}, {lag} entries late, {retrying} to be retried, at {gateway}: {message}"
                for namespace, name, state, lag, retrying, message, gateway in rows if lag > 0 or retrying > 0 or state != "running"]
        return late + ["feeds are missing"] * (len(rows) != len(self.notes))

    def letters_left(self) -> list[str]:
        rows = self.rig.rows("select namespace, name, dead_letters, set_aside from pathmirror.feed_status where dead_letters + set_aside > 0")
        return [f"{namespace}/{name} has {dead} dead letters and {aside} messages set aside" for namespace, name, dead, aside in rows]

    def close(self):
        for one in [*self.clients, *self.writers, self.administrator]:
            one.stop()
        self.server.close()


class FeedAdministrator(Client):
    """Changes definitions, moves a feed back, retries dead letters, and reads feeds, while gateways work them."""

    pause = 0.7

    def __init__(self, name, doors, history, seed, field: FeedField):
        super().__init__(name, doors, history, seed)
        self.field = field
        self.did: dict[str, int] = {}

    def step(self) -> bool:
        # A feed with repeated moves back does not finish while the campaign waits for that.
        seeks = 0 if self.field.server.calm else 1
        what = self.dice.choices([self.rotate, self.change, self.seek, self.retry, self.look], [5, 2, seeks, 3, 3])[0]
        try:
            done = what()
        except (OSError, http.client.HTTPException, ValueError, RuntimeError):
            return False
        self.did[what.__name__] = self.did.get(what.__name__, 0) + bool(done)
        return True

    def ask(self, method: str, notes: FeedNotes, what: str = "", body: dict | None = None) -> bool:
        answer = self._rests[self.gateway()].send(method, notes.target(what), None if body is None else json.dumps(body).encode(), ADMIN)
        if answer.status not in (200, *PASSING):
            self.history.complain(f"{method} {notes.target(what)}: {answer.status} {answer.body[:200]!r}")
        return answer.status == 200

    def rotate(self) -> bool:
        """Rotates the secrets of a webhook by the documentation: adds the new one first, then removes the old one."""
        field = self.field
        notes = self.dice.choice([notes for notes in field.notes if "webhook" in field.destinations.get(notes.target(), {})])
        hook = field.destinations[notes.target()]["webhook"]
        now = hook["secrets"]
        hook["secrets"] = now[:1] if len(now) > 1 else [secret for secret in field.secrets if secret not in now] + now
        return self.ask("PUT", notes, "", field.definition(notes))

    def change(self) -> bool:
        notes = self.dice.choice([notes for notes in self.field.notes if notes.target() not in self.field.destinations])
        return self.ask("PUT", notes, "", self.field.definition(notes) | {"backoff": {"first": "10ms", "max": self.dice.choice(["100ms", "200ms", "300ms"])}})

    def seek(self) -> bool:
        """Moves a feed back by some entries, and repeats that until an answer. A move forward would skip undelivered messages."""
        notes = self.field.sought
        head, seq = self.field.rig.rows(
            "select namespace.head, feed.seq from pathmirror.namespace join pathmirror.feed_status as feed on feed.namespace = namespace.name "
            "where namespace.name = %s and feed.name = %s", notes.namespace, notes.name)[0]
        # An attempt without an answer may still take effect, after this one.
        before = min([seq, *(seek.seq for seek in notes.seeks if seek.settled > time.monotonic())])
        seek = Seek(max(0, before - self.dice.randrange(1, 150)), time.monotonic(), float("inf"), head)
        notes.seeks.append(seek)
        while not self.stopped.is_set():
            try:
                if self.ask("POST", notes, "seek", {"seq": seek.seq}):
                    seek.answered = time.monotonic()
                    return True
            except (OSError, http.client.HTTPException, ValueError):
                pass
            # 503 may come after the feed has been moved.
            seek.is_unknown = True
            self.stopped.wait(0.1)
        return False

    def retry(self) -> bool:
        field = self.field
        notes = self.dice.choice([*field.retried, *field.retried, *field.notes])
        rest = self._rests[self.gateway()]
        found = letters(rest, notes)
        return bool(found) and field.retry(notes, self.dice.sample(found, self.dice.randrange(1, len(found) + 1)), rest) == 200

    def look(self) -> bool:
        return self.ask("GET", self.dice.choice(self.field.notes), self.dice.choice(["status", "", "dead"]))
