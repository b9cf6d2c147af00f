"""A feed through a gateway that does not work it: an end at one gateway reaches both, and no message is lost between them."""

import signal
import threading
import time

import pytest
from harness import cli
from harness.feeds import ADMIN, PATIENT, Feed, FeedStream
from harness.waiting import wait_until

# Longer than `give back at once` may take, and much shorter than a pull that continues to wait.
AT_ONCE = 5.0
DATABASE_SECRET = "a-database-secret-of-the-default-namespace"


class Pair:
    """A feed through the gateway that works it, and through the other one."""

    def __init__(self, gateways, **definition):
        feeds = [Feed(gateway.rest, headers=ADMIN) for gateway in gateways]
        feeds[0].make(**definition)
        number = wait_until(lambda: self._owner(feeds, gateways), "a gateway to work the feed")
        self.owner, self.other = feeds[number - 1], feeds[2 - number]
        self.working, self.passing = gateways[number - 1], gateways[2 - number]
        # Each gateway then knows the one that works the feed.
        for feed in feeds:
            assert feed.pull() == []

    @staticmethod
    def _owner(feeds, gateways) -> int | None:
        """The number of the connection, from 1; the gateway that works the feed reports it."""
        address = feeds[0].status()["gateway"]
        return next((n for n, gateway in enumerate(gateways, 1) if address == f"http://127.0.0.1:{gateway.port}"), None)

    @property
    def both(self) -> list[Feed]:
        return [self.owner, self.other]


@pytest.fixture
def secret(scratch):
    file = scratch / "database-secret"
    file.write_text(DATABASE_SECRET + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def make_pair(serve, secret):
    def make(*options, tune="", **definition):
        options = ("--database-secret-file", f"default={secret}", "--clock-skew", "0s", *options)
        return Pair([serve(*options, name=name, tune=tune) for name in ("one", "two")], **{**PATIENT, **definition})

    return make


@pytest.fixture
def pair(make_pair):
    return make_pair()


def token(feed: Feed, secret, *words) -> dict:
    text = cli.succeeds("token", "mint", "--feed", feed.name, "--ns", "default", "--secret-file", secret, *words)
    return {"Authorization": f"Bearer {text.strip()}"}


@pytest.mark.parametrize("consumer", [None, "c1"])
def test_a_stream_that_is_closed_takes_nothing_more(pair, consumer):
    """Neither gateway continues to pull in the name of a closed stream."""
    names = {} if consumer is None else {"consumer": consumer}
    for number, feed in enumerate(pair.both):
        feed.rest.set(f"orders/a{number}", 1)
        with FeedStream(feed, **names) as stream:
            first, = stream.wait_for_count(1)
            feed.ack([first])
        feed.rest.set(f"orders/b{number}", 2)
        start = time.monotonic()
        message = pair.owner.one("c2")
        assert (message["key"], message["attempt"]) == (f"b{number}", 1)
        pair.owner.ack([message])
        assert time.monotonic() - start < AT_ONCE


def test_what_a_closed_stream_had_goes_back(pair):
    pair.other.rest.set("orders", {"a": 1, "b": 2})
    with FeedStream(pair.other, consumer="c1") as stream:
        first, second = stream.wait_for_count(2)
        pair.other.ack([first], consumer="c1")
    start = time.monotonic()
    again = pair.owner.one("c2")
    assert (again["id"], again["attempt"]) == (second["id"], 1) and time.monotonic() - start < AT_ONCE


def test_a_stream_that_comes_back_is_not_kept_waiting(pair):
    """A stream resumes under the consumer name that it had before."""
    for feed in pair.both:
        for value in range(3):
            with FeedStream(feed, consumer="c1") as stream:
                feed.rest.set("orders/a", f"{feed.rest.port} {value}")
                start = time.monotonic()
                message, = stream.wait_for_count(1)
                feed.ack([message], consumer="c1")
                assert time.monotonic() - start < AT_ONCE and message["attempt"] == 1


def test_head_takes_nothing(pair):
    pair.owner.rest.set("orders", {"a": 1, "b": 2})
    held = pair.owner.next(1, "c1")
    for feed in pair.both:
        answer = feed.call("HEAD", "stream", headers={"Last-Event-ID": held[0]["id"]}, consumer="c1")
        assert answer.status == 200 and answer.body == b"" and answer.headers["Content-Type"].startswith("text/event-stream")
        feed.rest.close()
    assert pair.owner.named("none").call("HEAD", "stream").status == 404
    # Held messages stay held, and other messages are free for other consumers.
    assert pair.owner.next(1, "c2")[0]["attempt"] == 1
    pair.owner.ack(held, consumer="c1")


def waiting_pulls(pair, headers) -> tuple[list[threading.Thread], dict]:
    """Starts a long waiting pull through each gateway, and returns the threads and their answers."""
    answers: dict = {}

    def pull(number, feed):
        answers[number] = feed.by(headers).call("POST", "pull", {"wait": "60s", "consumer": f"w{number}"})

    threads = [threading.Thread(target=pull, args=one, daemon=True) for one in enumerate(pair.both)]
    for thread in threads:
        thread.start()
    return threads, answers


def ended(pair, threads, answers):
    for thread in threads:
        thread.join(15)
    assert [answers[number].status for number in sorted(answers)] == [401, 401], answers
    # No pull waits in their names any more.
    pair.owner.rest.set("orders/later", "tango-4711")
    assert pair.owner.one("c2")["attempt"] == 1


def test_a_pull_ends_with_its_token(pair, secret):
    ended(pair, *waiting_pulls(pair, token(pair.owner, secret, "--expires-in", "3s")))


def test_a_pull_ends_with_the_secret_that_signed_its_token(pair, secret):
    headers = token(pair.owner, secret)
    threads, answers = waiting_pulls(pair, headers)
    wait_until(lambda: pair.owner.by(headers).pull() == [], "the token to be good")
    time.sleep(1)
    assert not answers
    secret.write_text("another-database-secret-of-this-namespace\n")
    ended(pair, threads, answers)


def test_a_target_with_a_scheme_and_host(pair):
    pair.other.rest.set("orders/a", 1)
    target = f"http://127.0.0.1:{pair.other.rest.port}{pair.other.target('pull')}"
    answer = pair.other.rest.send("POST", target, b'{"wait":"5s"}', ADMIN)
    assert answer.status == 200 and [message["key"] for message in answer.json()["messages"]] == ["a"]


def test_a_last_event_id_that_is_too_long(pair):
    for feed in pair.both:
        for size, status in ((200, 200), (201, 400), (2000, 400)):
            answer = feed.call("HEAD", "stream", headers={"Last-Event-ID": "x" * size})
            assert answer.status == status, (size, answer.status)
            feed.rest.close()


def test_a_forwarded_request_counts_as_the_clients(make_pair):
    """A forwarded request counts once, at the gateway that received it."""
    pair = make_pair("--trusted-proxies", "127.0.0.1/32", "--rate-limit-per-address", "30/m:3")
    one, two = ({"X-Forwarded-For": address} for address in ("192.0.2.1", "192.0.2.2"))
    wait_until(lambda: pair.other.call("POST", "pull", {}, headers=one).status == 429, "the client's rate to be used up")
    assert pair.other.call("POST", "pull", {}, headers=two).status == 200
    assert pair.owner.call("GET", "status", headers=one).status == 200
    # A stream that was admitted once may pull on.
    with FeedStream(pair.other.by({**ADMIN, **two})) as stream:
        for number in range(8):
            pair.owner.rest.set("orders/a", number)
            pair.owner.ack([stream.wait_for_count(number + 1)[number]])


def test_what_a_frozen_gateway_handed_out(make_pair):
    """The pull fails, and its messages are delivered again."""
    pair = make_pair(tune="feed-takeover=30s", ack_deadline="4s", backoff={"first": "1ms", "max": "5ms"})
    pair.other.rest.set("orders/a", 1)
    pair.working.process.freeze()
    try:
        answer = pair.other.call("POST", "pull", {"consumer": "c1", "resume": True})
        assert answer.status == 503 and answer.headers["Retry-After"]
    finally:
        pair.working.process.send(signal.SIGCONT)
    message = pair.other.one("c2")
    assert message["key"] == "a"
    pair.other.ack([message])


def test_everything_of_the_status_is_known_to_both(pair):
    """Only the gateway that works the feed knows the holders of messages; the other one asks it."""
    pair.owner.rest.set("orders/a", 1)
    message = pair.owner.one("c1")
    theirs, ours = pair.owner.status(), pair.other.status()
    assert ours["consumers"] == theirs["consumers"] == ["c1"]
    assert ours["oldest_unacknowledged"] == theirs["oldest_unacknowledged"] and ours["oldest_unacknowledged"]["id"] == message["id"]
    assert ours["gateway"] == theirs["gateway"] and ours["held_messages"] == 1


def test_the_status_of_a_feed_whose_gateway_is_silent(make_pair):
    """The other gateway answers with the state of the database, and does not take the feed over meanwhile."""
    pair = make_pair(tune="feed-takeover=30s")
    pair.owner.rest.set("orders/a", 1)
    pair.owner.one("c1")
    pair.working.process.freeze()
    try:
        status = pair.other.status()
    finally:
        pair.working.process.send(signal.SIGCONT)
    assert status["oldest_unacknowledged"] is None and status["consumers"] == [] and status["head"] == 1
    assert pair.other.status()["consumers"] == ["c1"]
