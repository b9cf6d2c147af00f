"""Two gateways work a feed while gateways and PostgreSQL are killed, frozen and restarted: the model holds, and the other gateway takes
over.

PATHMIRROR_E2E_FEED_ROUNDS is the number of rounds of each fault, PATHMIRROR_E2E_SEED is the seed."""

import os
import random
import signal
import time

import pytest
from feed_load import Load
from feed_model import FeedModel
from harness import cli, sql
from harness.feeds import ADMIN, PATIENT, Feed
from harness.gateway import start_serve
from harness.ports import free_port
from harness.rest import Rest
from harness.waiting import wait_until

ROUNDS = int(os.environ.get("PATHMIRROR_E2E_FEED_ROUNDS", "4"))
# A message held through a killed gateway has no reachable holder: its deadline must pass before another consumer gets it.
DEFINITION = {"ack_deadline": "2s", "backoff": {"first": "1ms", "max": "20ms"}, "max_attempts": 1000}
# "Within seconds", on a machine that is busy with other tests.
TAKEOVER = 15.0


class Pair:
    """Two gateways with a feed on one database."""

    def __init__(self, cluster, scratch, logs):
        self.cluster, self.scratch, self.logs = cluster, scratch, logs
        self.url = cluster.create_database()
        self.gateways = [start_serve(self.url, scratch, logs, port=free_port(), name=name) for name in ("one", "two")]
        self.feeds = [Feed(gateway.rest, headers=ADMIN) for gateway in self.gateways]
        self.feeds[0].make(start="beginning", **DEFINITION)
        wait_until(lambda: self.feeds[1].call("GET").status == 200, "the other gateway to know the feed")

    def kill(self, number: int):
        """Kills a gateway with SIGKILL, and starts a new one at its port, which becomes ready without help."""
        gateway = self.gateways[number]
        gateway.process.kill()
        self.gateways[number] = start_serve(self.url, self.scratch, self.logs, port=gateway.port, wait=False)

    def sweep(self):
        for gateway in self.gateways:
            gateway.process.send(signal.SIGCONT)
            gateway.sweep()

    def judge(self, model: FeedModel):
        model.dead = {letter["id"] for letter in self.feeds[0].dead(limit=1000)}
        print(model.judge(sql.log_entries(self.url)))
        cli.verify("--database-url", self.url)


@pytest.fixture
def pair(own_postgres, scratch, logs):
    pair = Pair(own_postgres, scratch, logs)
    try:
        yield pair
    finally:
        pair.sweep()


@pytest.fixture
def dice():
    seed = int(os.environ.get("PATHMIRROR_E2E_SEED", random.randrange(10**9)))
    print(f"seed {seed}")
    return random.Random(seed)


def model() -> FeedModel:
    return FeedModel(max_attempts=1000, may_expire=True)


def test_a_feed_is_consumed_through_either_gateway(pair):
    """Messages of one gateway are settled through the other."""
    one, two = pair.feeds
    for number in range(6):
        one.rest.set(f"orders/k{number}", number)
    first, second = one.next(3, "a"), two.next(3, "b")
    assert len({message["key"] for message in first + second}) == 6
    two.ack(first, consumer="a")
    one.ack(second, consumer="b")
    assert two.has_nothing_else() and one.has_nothing_else()
    assert one.status()["acknowledged"] == two.status()["acknowledged"] == 8


def test_a_definition_is_the_same_on_both(pair):
    one, two = pair.feeds
    two.apply(**{**DEFINITION, "max_attempts": 7})
    wait_until(lambda: one.definition()["max_attempts"] == 7, "the other gateway to know the change")
    one.remove()
    wait_until(lambda: two.call("GET").status == 404, "the other gateway to know that it is gone")
    wait_until(lambda: two.call("POST", "pull", {}).status == 404, "nothing to be delivered any more")


@pytest.mark.acceptance
def test_gateways_are_killed(pair, dice):
    notes = model()
    with Load(pair.feeds, notes, dice.randrange(10**6)) as load:
        for number in range(ROUNDS * 2):
            load.progress(TAKEOVER + 15)
            time.sleep(dice.uniform(0, 0.1))
            pair.kill(number % 2)
        for gateway in pair.gateways:
            gateway.wait_ready()
        load.finish()
    pair.judge(notes)


@pytest.mark.acceptance
def test_a_gateway_that_is_gone_for_good(pair, dice):
    """If the gateway that works the feed ends, the other one continues within seconds."""
    for number in (0, 1):
        gone = pair.gateways[number]
        for key in range(5):
            pair.feeds[1 - number].rest.set(f"orders/r{number}k{key}", key)
        taken = pair.feeds[number].next(5, "a")
        assert len(taken) == 5
        gone.process.kill()
        start = time.monotonic()
        other = pair.feeds[1 - number]

        def answers():
            answer = other.call("POST", "pull", {"consumer": "b", "wait": "1s"})
            assert answer.status in (200, 503), (answer.status, answer.body)
            assert answer.status != 503 or answer.headers["Retry-After"], "a 503 says when to try again"
            found.extend(answer.json()["messages"] if answer.status == 200 else [])
            return len({message["id"] for message in found}) == 5

        found: list[dict] = []
        wait_until(answers, "the messages of a dead gateway", TAKEOVER + 10)
        print(f"taken over after {time.monotonic() - start:.1f} s")
        assert {message["id"] for message in found} == {message["id"] for message in taken}
        other.ack({message["id"] for message in found}, consumer="b")
        pair.gateways[number] = start_serve(pair.url, pair.scratch, pair.logs, port=gone.port, name="again")
        # This thread's connection was to the ended gateway.
        pair.feeds[number].rest.close()


@pytest.mark.acceptance
def test_a_frozen_gateway(pair, dice):
    """A frozen gateway delivers and acknowledges nothing out of turn when it resumes; the other one has taken over meanwhile."""
    notes = model()
    with Load(pair.feeds, notes, dice.randrange(10**6), consumers=6) as load:
        for number in range(ROUNDS):
            load.progress(TAKEOVER + 15)
            frozen, other = pair.gateways[number % 2], pair.feeds[1 - number % 2].through(
                Rest(pair.gateways[1 - number % 2].port, patience=8))
            frozen.process.freeze()
            try:
                # Writers and consumers block with the frozen gateway. Another client writes a message of its own, whose delivery shows
                # that the feed works.
                start = time.monotonic()
                wait_until(lambda: other.rest.put("orders/fresh", {"n": number}).status == 200, "the other gateway to take a write", 30)
                asked = notes.now()

                def goes_on():
                    try:
                        answer = other.call("POST", "pull", {"consumer": "fresh", "max": 5, "wait": "200ms"})
                    except TimeoutError:
                        return False
                    if answer.status != 200 or not (messages := answer.json()["messages"]):
                        return False
                    notes.delivered("fresh", messages, asked)
                    ids = [message["id"] for message in messages]
                    notes.settles("fresh", ids)
                    settled = other.call("POST", "ack", {"ids": ids, "consumer": "fresh"})
                    if settled.status == 200:
                        notes.acknowledged(settled.json()["results"])
                    return settled.status == 200 and "done" in settled.json()["results"].values()

                wait_until(goes_on, "the other gateway to take over", TAKEOVER + 60)
                print(f"went on after {time.monotonic() - start:.1f} s")
            finally:
                frozen.process.send(signal.SIGCONT)
        load.finish(90)
    pair.judge(notes)


@pytest.mark.acceptance
def test_postgresql_is_killed(pair, dice):
    notes = model()
    with Load(pair.feeds, notes, dice.randrange(10**6)) as load:
        for _ in range(ROUNDS):
            load.progress(TAKEOVER + 15)
            time.sleep(dice.uniform(0, 0.1))
            pair.cluster.kill()
            pair.cluster.start()
        for gateway in pair.gateways:
            gateway.wait_ready()
        load.finish(90)
    pair.judge(notes)


@pytest.mark.acceptance
def test_everything_is_restarted(pair, dice):
    """An orderly stop loses nothing either, and hands the feed over at once."""
    notes = model()
    with Load(pair.feeds, notes, dice.randrange(10**6)) as load:
        for number in range(ROUNDS):
            load.progress(TAKEOVER + 15)
            gateway = pair.gateways[number % 2]
            gateway.process.stop()
            load.progress(TAKEOVER + 15)
            pair.gateways[number % 2] = start_serve(pair.url, pair.scratch, pair.logs, port=gateway.port)
        load.finish()
    pair.judge(notes)


def test_an_acknowledgement_is_durable_before_it_is_answered(pair):
    """PostgreSQL and both gateways are killed right after the answer."""
    one, two = pair.feeds
    for number in range(ROUNDS):
        for key in "abc":
            one.rest.set(f"orders/{key}", number)
        messages = one.next(3, "c", 60)
        one.ack(messages[:2], consumer="c")
        for place in (0, 1):
            pair.gateways[place].process.kill()
        pair.cluster.kill()
        pair.cluster.start()
        for place in (0, 1):
            pair.kill(place)
        for place in (0, 1):
            pair.gateways[place].wait_ready()
            pair.feeds[place].rest.close()
        again = []

        def comes_again():
            answer = two.call("POST", "pull", {"consumer": "d", "wait": "500ms"})
            again.extend(answer.json()["messages"] if answer.status == 200 else [])
            return again

        wait_until(comes_again, "the third message", 60)
        assert [message["id"] for message in again] == [messages[2]["id"]]
        two.ack(again, consumer="d")


def test_pruning_keeps_what_a_feed_has_not_had(serve, database_url):
    gateway = serve()
    feed = Feed(gateway.rest, headers=ADMIN).make(start="beginning", **PATIENT)
    values = list(range(50))
    for number in values:
        gateway.rest.set("orders/a", number)
    feed.take(10)
    cli.succeeds("log", "snapshot", "--database-url", database_url)
    cli.command("log", "prune", "--keep", "1 entry", "--yes", "--database-url", database_url)
    assert [message["value"] for message in feed.take(40)] == values[10:]
    assert feed.has_nothing_else()
