"""Feeds of a moving namespace: the state of each message moves along, also of failed ones, and webhooks continue."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import cli, sql
from harness.endpoint import OPTIONS, Answer, Endpoint
from harness.feeds import ADMIN, PATIENT, Feed
from harness.moves import held, move, mover
from harness.waiting import wait_until

STATES = "SELECT state, key, attempts FROM pathmirror.feed_message ORDER BY key, seq"


@pytest.fixture(params=["there", "back"])
def way(request, serve, database_url, postgres):
    """A gateway that may deliver here, its primary database, the URLs of source and target of `m`, and the target's name."""
    other = postgres.create_database()
    gateway = serve("--create-namespaces", *OPTIONS)
    cli.succeeds("database", "add", "b", other, "--database-url", database_url)
    is_back = request.param == "back"
    if is_back:
        cli.succeeds("namespace", "create", "m", "--in", "b", "--database-url", database_url)
        rest = gateway.rest.at(ns="m")
        wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 60)
    ends = (other, database_url, "home") if is_back else (database_url, other, "b")
    return gateway, database_url, *ends


def served(rest):
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 60)


def test_letters_of_every_state(way):
    gateway, home, source, target, to = way
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    feed = Feed(rest, ns="m", headers=ADMIN).make(
        on_dead="stop", max_attempts=2, ack_deadline="2s", backoff=PATIENT["backoff"])
    # A dead message with two parked ones after it; a dead one with a requested retry; one that failed once.
    rest.set("orders/a", 0)
    rest.set("orders/b", 0)
    for _ in range(2):
        feed.nack(feed.next(2), reason="no")
    for number in (1, 2):
        rest.set("orders/a", number)
    dead = wait_until(lambda: len(found := feed.dead()) == 2 and found, "two dead letters")
    letters = {letter["key"]: letter for letter in dead}
    rest.set("orders/c", 0)
    failed = feed.one()
    assert failed["key"] == "c"
    feed.nack([failed], delay="1h", reason="later")
    assert feed.retry_dead(key="b") == 1
    wait_until(lambda: feed.status()["set_aside"] == 2, "the parked messages")
    before = wait_until(lambda: len(found := sql.rows(source, STATES)) == 5 and found, "five letters")
    assert [state for state, _, _ in before] == ["dead", "blocked", "blocked", "retry", "failing"]

    assert move(home, "m", to)["database"] == to
    served(rest)
    assert sql.rows(target, STATES) == before and sql.rows(source, STATES) == []
    assert feed.dead() == [letters["a"]]
    # The retried message arrives with its id, and so does the failed one, as after every takeover of a feed.
    more = {message["key"]: message for message in (feed.take()[0], feed.take()[0])}
    assert (more["b"]["id"], more["c"]["id"], more["c"]["attempt"]) == (letters["b"]["id"], failed["id"], 2)
    status = feed.status()
    assert (status["dead_letters"], status["set_aside"]) == (1, 2)
    assert feed.retry_dead(key="a") >= 1
    after = feed.take(3)
    assert [message["value"] for message in after] == [0, 1, 2] and after[0]["id"] == letters["a"]["id"]
    rest.set("orders/d", 0)
    assert [message["key"] for message in feed.take()] == ["d"]
    assert feed.dead() == []
    cli.verify("--database-url", home, "--ns", "m")


def test_a_webhook_that_fails_meanwhile(way):
    gateway, home, source, target, to = way
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    is_up = []
    with Endpoint(lambda delivery: Answer(200 if is_up else 500)) as endpoint:
        feed = Feed(rest, ns="m", headers=ADMIN).make(
            webhook=endpoint.hook(), backoff={"first": "10ms", "max": "50ms"}, max_attempts=1_000)
        last = Feed(rest, "last", ns="m", headers=ADMIN).make(
            webhook=endpoint.hook("/last"), backoff={"first": "1ms", "max": "5ms"}, max_attempts=2)
        for number in range(5):
            rest.set(f"orders/o{number}", {"n": number})
        letters = wait_until(lambda: len(found := last.dead()) == 5 and found, "five dead letters", 60)
        wait_until(lambda: sql.rows(source, "SELECT count(*) FROM pathmirror.feed_message WHERE state = 'failing'") != [(0,)], "attempts", 60)
        assert move(home, "m", to)["database"] == to
        served(rest)
        rest.set("orders/o5", {"n": 5})
        assert {letter["id"] for letter in letters} <= {letter["id"] for letter in last.dead()}
        is_up.append(True)
        seen = len(endpoint.deliveries)
        wanted = {f"o{number}" for number in range(6)}

        def delivered(path):
            return {message["key"] for delivery in endpoint.deliveries[seen:] if delivery.path == path for message in delivery.messages}

        wait_until(lambda: wanted <= delivered("/hook"), "the failed messages", 120)
        assert last.retry_dead(all=True) >= 5
        wait_until(lambda: wanted <= delivered("/last"), "the dead messages", 120)
        # An id belongs to one message, from whichever database it is delivered.
        ids = {(delivery.path, message["id"], message["key"]) for delivery in endpoint.deliveries for message in delivery.messages}
        assert len(ids) == len({(path, identity) for path, identity, _ in ids}) == 12
        for one in (feed, last):
            one.drained()
            assert one.dead() == []
    assert sql.rows(source, "SELECT count(*) FROM pathmirror.feed_message") == [(0,)]


@pytest.mark.parametrize("way", ["back"], indirect=True)
def test_whoever_asks_meanwhile_is_told_to_come_again(way):
    """During the move the gateway answers as if the database were away, not that the feed is unknown."""
    gateway, home, source, target, to = way
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    feed = Feed(rest, ns="m", headers=ADMIN).make()
    rest.set("orders/a", 0)
    feed.take()
    pull = {"max": 1, "wait": "0s"}
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(feed.call, "POST", "pull", {"max": 1, "wait": "20s"})
        left = "select 1 from pathmirror.former_namespace where name = 'm' and moved_to is not null"
        # The mover writes there when the namespace has left.
        with held(home, "lock table pathmirror.placement in share row exclusive mode"):
            process = mover(home, "m", to)
            wait_until(lambda: sql.rows(source, left), "the namespace to have left")
            for asks in [lambda: feed.call("GET"), lambda: feed.call("GET", "status"), lambda: feed.call("DELETE"),
                         lambda: rest.send("GET", "/.feeds?ns=m"), lambda: feed.call("POST", "pull", pull),
                         lambda: feed.call("POST", "ack", {"ids": ["x"]})]:
                # The gateway that works the feed learns of the move a little later, and delivers no message until then.
                answer = wait_until(lambda: (said := asks()).status != 200 and said, "the feed to have left")
                assert answer.status == 503 and int(answer.headers["Retry-After"]) > 0, answer.body
        assert process.wait(60) == 0, process.stderr.read()
        assert waiting.result(60).status == 503
    served(rest)
    wait_until(lambda: feed.call("POST", "pull", pull).status == 200, "the feed to be worked")
    rest.set("orders/b", 0)
    assert [message["key"] for message in feed.take()] == ["b"]
    other = Feed(rest, "none", ns="m", headers=ADMIN)
    assert [other.call("GET").status, other.call("POST", "pull", pull).status] == [404, 404]
