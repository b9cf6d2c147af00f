"""Pulling and settling: waiting consumers, holders of messages, deadlines, and the answers to acknowledgements."""

import select
import socket
import threading
import time

from harness.feeds import ADMIN, PATIENT, Feed
from harness.gateway import SECRET
from harness.raw import raw_connection
from harness.waiting import wait_until

# A deadline that passes while a test waits for it.
SHORT = {"ack_deadline": "400ms", "backoff": {"first": "1ms", "max": "5ms"}}


def keys(messages) -> list[str]:
    return [message["key"] for message in messages]


def test_a_message(feed, tree):
    feed.make(include=["value", "old"], **PATIENT)
    first = tree.set("orders/o1", {"total": 5}).seq
    second = tree.patch("orders/o1", {"total": 6, "note": "x"}).seq
    third = tree.delete("orders/o1").seq
    created, updated, deleted = feed.next(3)
    assert {name: created[name] for name in ("seq", "path", "key", "captures", "op", "event", "value", "attempt")} == {
        "seq": first, "path": "/orders/o1", "key": "o1", "captures": {"order_id": "o1"}, "op": "set", "event": "created",
        "value": {"total": 5}, "attempt": 1}
    assert created["old"] is None and deleted["value"] is None
    assert [message["id"] for message in (created, updated, deleted)] == [f"{feed.ns}:{seq}:0" for seq in (first, second, third)]
    assert (updated["op"], updated["event"], updated["value"], updated["old"]) == (
        "update", "updated", {"total": 6, "note": "x"}, {"total": 5})
    assert (deleted["op"], deleted["event"], deleted["old"]) == ("remove", "deleted", {"total": 6, "note": "x"})


def test_nothing_is_there_until_something_is_written(feed, tree):
    feed.make(**PATIENT)
    assert feed.pull() == []
    tree.set("orders/a", 1)
    assert keys(feed.take()) == ["a"]
    assert feed.has_nothing_else()


def test_a_pull_waits_for_what_is_written_meanwhile(feed, tree):
    feed.make(**PATIENT)
    found = []
    puller = threading.Thread(target=lambda: found.extend(feed.pull(wait="20s")))
    puller.start()
    tree.set("orders/a", 1)
    puller.join(15)
    assert keys(found) == ["a"], "the pull slept on"


def test_a_pull_gives_up_in_time(feed):
    feed.make(**PATIENT)
    start = time.monotonic()
    assert feed.pull(wait="300ms") == []
    assert 0.25 < time.monotonic() - start < 5


def test_who_waits_and_goes_away_takes_nothing_along(feed, tree):
    """A consumer that was killed while it waited gets no message, which would be blocked until a deadline."""
    feed.make(**PATIENT)
    body = b'{"wait":"60s","consumer":"gone"}'
    for _ in range(5):
        with raw_connection(feed.rest.port) as plain:
            plain.sendall(f"POST {feed.target('pull')} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer owner\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            # Requests after it on the same connection get no answer, so another client's pull shows that the first one has arrived.
            assert feed.pull(wait="50ms") == []
    assert feed.pull(wait="50ms") == []
    tree.set("orders/a", 1)
    assert keys(feed.take()) == ["a"]


def test_many_wait_and_each_message_goes_to_one(feed, tree):
    feed.make(**PATIENT)
    found, lock = [], threading.Lock()

    def consume(name):
        while True:
            messages = feed.pull(1, "10s", name)
            with lock:
                found.extend((name, message["key"]) for message in messages)
                if len(found) >= 24:
                    return
            if not messages:
                return
            feed.ack(messages, consumer=name)

    consumers = [threading.Thread(target=consume, args=(f"c{number}",)) for number in range(6)]
    for consumer in consumers:
        consumer.start()
    for number in range(24):
        tree.set(f"orders/k{number}", number)
    wait_until(lambda: len(found) >= 24, "24 messages")
    for number in range(6):
        tree.set(f"orders/end{number}", number)
    for consumer in consumers:
        consumer.join(20)
    wanted = [f"k{number}" for number in range(24)]
    assert sorted(key for _, key in found if key.startswith("k")) == sorted(wanted)


def test_max_is_kept(feed, tree):
    feed.make(start="beginning", **PATIENT)
    tree.patch("orders", {f"k{number:03}": number for number in range(130)})
    feed.wait_for_free(130)
    assert len(feed.pull()) == 100, "the default"
    assert len(feed.next(7)) == 7
    assert len(feed.pull(1000, "5s")) == 23
    assert feed.pull(1000) == []


def test_an_acknowledged_message_does_not_come_again(feed, tree):
    feed.make(**SHORT)
    tree.set("orders/a", 1)
    message = feed.one()
    assert feed.settle("ack", [message]) == {message["id"]: "done"}
    assert feed.settle("ack", [message]) == {message["id"]: "unknown"}
    assert feed.settle("nack", [message]) == {message["id"]: "unknown"}
    assert feed.settle("extend", [message], delay="1s") == {message["id"]: "unknown"}
    # A second delivery of this message would come after the deadline.
    tree.set("orders/b", 1)
    assert (feed.one()["key"], feed.one()["key"], feed.one()["attempt"]) == ("b", "b", 3)


def test_ids_that_are_not_outstanding(feed, tree):
    feed.make(**PATIENT)
    seq = tree.set("orders/a", 1).seq
    strange = [f"{feed.ns}:{seq}:0", f"{feed.ns}:{seq + 1000}:0", f"other:{seq}:0", "", "x", f"{feed.ns}:{seq}", f"{feed.ns}:-1:0",
               f"{feed.ns}:99999999999999999999:0", f"{feed.ns}:{seq}:s0", "ä" * 100]
    results = feed.settle("ack", strange)
    assert set(results) == set(strange)
    assert set(results.values()) <= {"unknown", "expired"}, results
    assert results[strange[1]] == results["x"] == "unknown", results
    # No consumer could acknowledge it before one held it.
    assert feed.take()[0]["key"] == "a"


def test_messages_of_other_feeds_are_not_ours(feed, tree):
    feed.make(**PATIENT)
    other = feed.named("copies").make(**PATIENT)
    tree.set("orders/a", 1)
    message = feed.one()
    assert other.settle("ack", [message])[message["id"]] in ("unknown", "expired"), "no consumer has it from there"
    assert other.one()["id"] == message["id"], "ids are the same in all feeds of a namespace"
    feed.ack([message])
    assert other.settle("ack", [message]) == {message["id"]: "done"}


def test_only_the_holder_may_settle_where_one_is_named(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    message = feed.one("c1")
    assert feed.settle("ack", [message], consumer="c2") == {message["id"]: "expired"}
    assert feed.settle("nack", [message], consumer="c2") == {message["id"]: "expired"}
    assert feed.settle("ack", [message], consumer="c1") == {message["id"]: "done"}


def test_a_nack_redelivers_with_another_attempt(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    first = feed.one()
    for attempt in (2, 3, 4):
        feed.nack([first], reason="not now")
        again = feed.one()
        assert again == {**first, "attempt": attempt}, "only the attempt differs"


def test_a_nack_may_say_when(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    start = time.monotonic()
    feed.nack([feed.one()], delay="700ms")
    tree.set("orders/b", 1)
    assert keys(feed.take()) == ["b"], "another key need not wait"
    assert feed.one()["attempt"] == 2
    assert time.monotonic() - start > 0.65


def test_without_a_delay_a_nack_waits_for_the_backoff(feed, tree):
    feed.make(ack_deadline="10m", backoff={"first": "200ms", "max": "400ms"})
    tree.set("orders/a", 1)
    start = time.monotonic()
    for attempt in range(1, 6):
        message = feed.one()
        assert message["attempt"] == attempt
        feed.nack([message])
    # Four pauses: each exists at any jitter, and none is much longer than the longest.
    assert 0.3 < time.monotonic() - start < 10


def test_a_deadline_that_passes(feed, tree):
    feed.make(**SHORT)
    tree.set("orders/a", 1)
    message = feed.one("c1")
    again = feed.one("c2")
    assert again == {**message, "attempt": 2}
    assert feed.settle("ack", [message], consumer="c1") == {message["id"]: "expired"}
    assert feed.settle("ack", [message], consumer="c2") == {message["id"]: "done"}


def test_a_deadline_that_passed_is_told(feed, tree):
    feed.make(ack_deadline="3s", backoff={"first": "1m", "max": "1m"})
    tree.set("orders/a", 1)
    message = feed.one()
    wait_until(lambda: feed.status()["held_messages"] == 1, "the message to be seen held")
    wait_until(lambda: feed.status()["held_messages"] == 0, "the deadline to pass")
    assert feed.settle("ack", [message]) == {message["id"]: "expired"}


def test_extending_keeps_a_message(feed, tree):
    feed.make(**SHORT)
    tree.set("orders/a", 1)
    tree.set("orders/b", 1)
    a, b = feed.next(2, "c1")
    assert feed.settle("extend", [a], delay="10m") == {a["id"]: "done"}
    again = feed.one("c2")
    assert (again["key"], again["attempt"]) == ("b", 2), "only the other one comes again"
    feed.settle("extend", [again], delay="10m")
    assert feed.pull(wait="600ms", consumer="c3") == []
    assert feed.settle("ack", [a, again]) == {a["id"]: "done", again["id"]: "done"}


def test_extending_can_shorten(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    message = feed.one()
    assert feed.settle("extend", [message], delay="50ms") == {message["id"]: "done"}
    assert feed.one()["attempt"] == 2


def status_when(feed, **wanted) -> dict:
    """Returns the figures once they have these values; figures may lag a little."""
    return wait_until(lambda: (status := feed.status()).items() >= wanted.items() and status, f"{wanted} in {feed.status()}")


def test_status_counts(feed, tree):
    feed.make(**PATIENT)
    seqs = [tree.set(f"orders/k{number}", number).seq for number in range(5)]
    messages = feed.next(3, "c1")
    status = status_when(feed, name="orders", held_messages=3, pending_messages=5, dead_letters=0, head=seqs[-1], consumers=["c1"])
    assert status["lag_entries"] >= 3 and status["lag_seconds"] >= 0
    assert status["oldest_unacknowledged"]["id"] == messages[0]["id"]
    feed.ack(messages[:2])
    feed.nack(messages[2:])
    feed.take(3, "c2")
    status = status_when(feed, delivered=6, acknowledged=5, redelivered=1, oldest_unacknowledged=None, seq=seqs[-1], head=seqs[-1],
                         held_messages=0, pending_messages=0, lag_entries=0)
    assert status["consumers"] == []


def test_the_lag_of_a_feed_that_nobody_consumes_grows(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    first = wait_until(lambda: (status := feed.status())["lag_seconds"] > 0.2 and status, "a lag in seconds")
    for number in range(5):
        tree.set("orders/a", number)
    later = wait_until(lambda: (status := feed.status())["lag_seconds"] > first["lag_seconds"] and status, "more seconds")
    assert later["lag_entries"] > first["lag_entries"]


def test_the_waits_of_one_feed_leave_room_for_others(serve):
    """Only waiting is refused once too many pulls wait, and one feed's consumers have at most a quarter of the seats."""
    gateway = serve(tune="max-feed-waits=16")
    busy = Feed(gateway.rest, "busy", headers=ADMIN).make(**PATIENT)
    other = Feed(gateway.rest, "other", headers=ADMIN).make(path="/others/{key}", **PATIENT)
    for feed in (busy, other):
        assert feed.pull() == []

    def wait(feed):
        """A pull that waits until its connection is closed."""
        body = b'{"wait":"60s"}'
        connection = socket.create_connection(("127.0.0.1", gateway.port))
        connection.sendall(f"POST {feed.target('pull')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return connection

    def is_full(feed) -> bool:
        return feed.call("POST", "pull", {"wait": "300ms"}).status == 429

    def fill(feed):
        """Starts waiting pulls until one is refused."""
        for _ in range(50):
            waiting.append(wait(feed))
            if refused := select.select(waiting, [], [], 0.3)[0]:
                for connection in refused:
                    assert connection.recv(4096).startswith(b"HTTP/1.1 429 ")
                    waiting.remove(connection)
                    connection.close()
                return
        raise AssertionError(f"{len(waiting)} pulls wait")

    waiting = []
    try:
        for feed in (busy, other):
            assert not is_full(feed)
            fill(feed)
            assert is_full(feed)
            # A pull without a wait gets an answer.
            assert feed.pull() == []
        assert len(waiting) == 4 + 2
    finally:
        for connection in waiting:
            connection.close()
    wait_until(lambda: not is_full(busy) and not is_full(other), "room for waiting pulls")
