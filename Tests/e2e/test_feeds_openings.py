"""Streams that end at any byte and are opened again by the last id that arrived, beside consumers that hold keys.

PATHMIRROR_E2E_FEED_SEEDS names other seeds."""

import json
import os
import socket
import struct

import pytest
from feed_load import Load, Worker
from feed_model import FeedModel
from harness import sql
from harness.feeds import ADMIN, PATIENT, Feed, FeedStream
from harness.waiting import PATIENCE, wait_until

SEEDS = [int(seed) for seed in os.environ.get("PATHMIRROR_E2E_FEED_SEEDS", "1,2").split(",")]
EVENTS = int(os.environ.get("PATHMIRROR_E2E_FEED_EVENTS", "600"))


class CutStream(Worker):
    """Opens one stream after another, reads some bytes of each, and acknowledges by the last id only."""

    def __init__(self, seed: int, feeds: list[Feed], model: FeedModel, name: str):
        super().__init__(seed)
        self.feeds, self.model, self.consumer = feeds, model, name
        self.last: str | None = None
        self.received = 0

    def step(self):
        feed, asked = self.dice.choice(self.feeds), self.model.now()
        with socket.create_connection(("127.0.0.1", feed.rest.port), PATIENCE) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            extra = {**feed.headers, **({"Last-Event-ID": self.last} if self.last else {})}
            lines = [f"GET {feed.target('stream', consumer=self.consumer, max=self.dice.randrange(1, 40))} HTTP/1.1", "Host: x",
                     *(f"{name}: {value}" for name, value in extra.items()), "", ""]
            connection.sendall("\r\n".join(lines).encode())
            self.read(connection, asked, self.dice.choice([0, 100, 700, 2_000, 6_000]) + self.dice.randrange(400))
            self.model.released.setdefault(self.consumer, []).append(self.model.now())
            if self.dice.random() < 0.5:
                # The connection is cut without a close.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def read(self, connection: socket.socket, asked: int, most: int):
        connection.settimeout(0.05)
        text = b""
        while most > 0 and not self.stop.is_set():
            try:
                piece = connection.recv(min(most, 1 + self.dice.randrange(500)))
            except TimeoutError:
                break
            if not piece:
                break
            most -= len(piece)
            text += piece
            *events, text = text.split(b"\n\n")
            for event in events:
                self.take(event, asked)

    def take(self, event: bytes, asked: int):
        fields = dict(line.split(": ", 1) for line in event.decode().split("\n") if line.startswith(("id: ", "data: ")))
        if "data" not in fields:
            return
        message = json.loads(fields["data"])
        self.model.delivered(self.consumer, [message], asked)
        self.model.settles(self.consumer, [message["id"]])
        self.last = fields["id"]
        self.received += 1


def run(feeds: list[Feed], model: FeedModel, seed: int, database_url: str):
    with Load(feeds, model, seed, consumers=2, pause=0.005) as load:
        cut = [CutStream(seed * 100 + 80 + number, feeds, model, f"s{number}") for number in range(3)]
        for worker in cut:
            worker.start()
        try:
            def received():
                load.fail()
                for worker in cut:
                    if worker.failure:
                        raise worker.failure
                return all(worker.received >= EVENTS / 3 for worker in cut)

            wait_until(received, f"{EVENTS} events", 120)
        finally:
            for worker in cut:
                worker.stop.set()
            for worker in cut:
                worker.join(60)
        load.finish()
    inferred = feeds[0].status()["acknowledged"] - len(model.done)
    assert inferred > EVENTS / 20, "streams acknowledge by the ids that they name"
    print(f"seed {seed}: {model.judge(sql.log_entries(database_url))}, {inferred} by inference")


@pytest.mark.acceptance
@pytest.mark.parametrize("seed", SEEDS)
def test_streams_that_end_at_any_byte(serve, seed):
    gateway = serve()
    feed = Feed(gateway.rest, headers=ADMIN).make(start="beginning", max_attempts=1000, **PATIENT)
    run([feed], FeedModel(max_attempts=1000), seed, gateway.database_url)


@pytest.mark.acceptance
def test_streams_that_end_at_any_byte_through_another_gateway(serve):
    gateway, second = serve(name="one"), serve(name="two")
    feed = Feed(gateway.rest, headers=ADMIN).make(start="beginning", max_attempts=1000, **PATIENT)
    wait_until(lambda: feed.status()["state"] == "running", "the feed to be worked", 30)
    run([feed, feed.through(second.rest)], FeedModel(max_attempts=1000), 5, gateway.database_url)


def test_what_never_reached_the_consumer_is_not_acknowledged(feed, tree):
    """Key a is held by another consumer when the stream is opened again, and only key b comes on the new connection."""
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    with FeedStream(feed, consumer="c1", max=1) as stream:
        lost, = stream.wait_for_count(1)
    # As if the connection had ended before that message: the consumer has not received it. Another consumer takes its key.
    assert feed.one("c2")["id"] == lost["id"]
    tree.set("orders/b", 1)
    with FeedStream(feed, consumer="c1", max=1) as stream:
        last, = stream.wait_for_count(1)
    assert last["key"] == "b"
    feed.nack([lost], consumer="c2", delay="0s")
    with FeedStream(feed, last_event_id=last["id"], consumer="c1") as stream:
        again, = stream.wait_for_count(1)
        assert again["id"] == lost["id"]
        feed.ack([again], consumer="c1")
    assert feed.has_nothing_else()


def test_what_an_earlier_opening_was_handed_is_not_acknowledged(feed, tree):
    """The first connection was handed a and b, and brought neither; the second was handed only b, as a is held elsewhere."""
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    tree.set("orders/a", 2)
    # Two messages of one key are handed out together only if both are there.
    feed.wait_for_free(2)
    with FeedStream(feed, consumer="c1") as stream:
        first, second = stream.wait_for_count(2)
    assert feed.one("c2")["id"] == first["id"]
    tree.set("orders/b", 1)
    with FeedStream(feed, consumer="c1") as stream:
        other, = stream.wait_for_count(1)
    with FeedStream(feed, last_event_id=other["id"], consumer="c1"):
        feed.ack([first], consumer="c2")
        # The later message of key a was never acknowledged.
    assert feed.one("c3")["id"] == second["id"]
    wait_until(lambda: feed.status()["acknowledged"] == 2, "two to be acknowledged")


def test_a_nacked_message_is_not_acknowledged_by_a_later_id(feed, tree):
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    tree.set("orders/b", 1)
    with FeedStream(feed, consumer="c1", max=2) as stream:
        first, last = stream.wait_for_count(2)
        feed.nack([first], consumer="c1", delay="60s")
    with FeedStream(feed, last_event_id=last["id"], consumer="c1"):
        wait_until(lambda: feed.status()["acknowledged"] == 1, "the last message to be acknowledged")
    assert feed.status()["pending_messages"] == 1


def test_the_id_that_an_opening_began_with_says_nothing_about_it(feed, tree):
    """A client that received nothing names the same id again."""
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    with FeedStream(feed, consumer="c1") as stream:
        known, = stream.wait_for_count(1)
    # Another consumer has the message when the stream is opened again, and returns it.
    assert feed.one("c2")["id"] == known["id"]
    tree.set("orders/b", 1)
    with FeedStream(feed, last_event_id=known["id"], consumer="c1") as stream:
        missed, = stream.wait_for_count(1)
        feed.nack([known], consumer="c2", delay="0s")
        stream.wait_for_count(2)
    with FeedStream(feed, last_event_id=known["id"], consumer="c1") as stream:
        assert {message["id"] for message in stream.wait_for_count(2)} == {known["id"], missed["id"]}
        feed.ack(stream.messages, consumer="c1")


def test_an_event_of_an_older_connection_acknowledges_nothing(feed, tree):
    """An older connection had no id and delivered nothing. Its messages are not acknowledged when the consumer names an event from before
    it."""
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/x", 1)
    other = feed.one("c2")
    tree.set("orders/a", 1)
    with FeedStream(feed, consumer="c1") as stream:
        known, = stream.wait_for_count(1)
    feed.nack([other], consumer="c2", delay="0s")
    # Both are sent on this connection, the other message first; the consumer reads neither.
    with FeedStream(feed, consumer="c1") as lost:
        assert [message["id"] for message in lost.wait_for_count(2)] == [other["id"], known["id"]]
    with FeedStream(feed, last_event_id=stream.ids[0], consumer="c1") as again:
        assert [message["id"] for message in again.wait_for_count(2)] == [other["id"], known["id"]]
    assert feed.status()["acknowledged"] == 0
    with FeedStream(feed, last_event_id=again.ids[1], consumer="c1"):
        wait_until(lambda: feed.status()["acknowledged"] == 2, "both to be acknowledged")


def test_the_id_of_an_event_settles_its_message(feed, tree):
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    with FeedStream(feed, consumer="c1") as stream:
        stream.wait_for_count(1)
        assert feed.settle("ack", stream.ids, consumer="c1") == {stream.ids[0]: "done"}
    assert feed.has_nothing_else()


def test_a_pull_that_resumes_acknowledges_the_one_before(feed, tree):
    """A pull with `resume` acknowledges the pull before, but not messages of a pull without `resume`."""
    feed.make(start="beginning", **PATIENT)
    for number in range(4):
        tree.set(f"orders/k{number}", number)

    def pull(most: int, **members) -> list[dict]:
        return feed.ask("POST", "pull", {"max": most, "wait": "5s", "consumer": "c1", **members})["messages"]

    feed.wait_for_free(4)
    plain, = pull(1)
    first, second = pull(2, resume=True)
    assert first["id"] == plain["id"]
    again = pull(4, resume=True, after=first["id"])
    assert [message["id"] for message in again][0] == second["id"] and len(again) == 3
    wait_until(lambda: feed.status()["acknowledged"] == 1, "one to be acknowledged")
    assert pull(4, resume=True, after=again[-1]["id"], wait="0s") == []
    wait_until(lambda: feed.status()["acknowledged"] == 4, "all to be acknowledged")
    # Messages of a pull without `resume` need an acknowledgement of their own.
    tree.set("orders/z", 1)
    other = feed.one("c1")
    assert pull(1, resume=True, after=other["id"])[0]["id"] == other["id"]
