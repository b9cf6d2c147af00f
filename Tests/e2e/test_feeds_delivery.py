"""Pulling and settling: order of a key, who holds what, deadlines, and what an acknowledgement answers."""

import threading
import time

import pytest
from harness.feeds import PATIENT, told
from harness.raw import raw_connection
from harness.waiting import wait_until

# A deadline that passes while a test waits for it.
SHORT = {"ack_deadline_ms": 400, "backoff": {"first_ms": 1, "max_ms": 5}}


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
    puller = threading.Thread(target=lambda: found.extend(feed.pull(wait_ms=20_000)))
    puller.start()
    tree.set("orders/a", 1)
    puller.join(15)
    assert keys(found) == ["a"], "the pull slept on"


def test_a_pull_gives_up_in_time(feed):
    feed.make(**PATIENT)
    start = time.monotonic()
    assert feed.pull(wait_ms=300) == []
    assert 0.25 < time.monotonic() - start < 5


def test_who_waits_and_goes_away_takes_nothing_along(feed, tree):
    """A consumer that was killed while it waited is given nothing that then belongs to nobody until a deadline."""
    feed.make(**PATIENT)
    body = b'{"wait_ms":60000,"consumer":"gone"}'
    for _ in range(5):
        with raw_connection(feed.rest.port) as plain:
            plain.sendall(f"POST {feed.target('pull')} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer owner\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            # Behind it on the same connection nothing is answered, so it is another that shows that the pull has arrived.
            assert feed.pull(wait_ms=50) == []
    assert feed.pull(wait_ms=50) == []
    tree.set("orders/a", 1)
    assert keys(feed.take()) == ["a"]


def test_many_wait_and_each_message_goes_to_one(feed, tree):
    feed.make(**PATIENT)
    found, lock = [], threading.Lock()

    def consume(name):
        while True:
            messages = feed.pull(1, 10_000, name)
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
    assert len(feed.pull()) == 100, "the default"
    assert len(feed.next(7)) == 7
    assert len(feed.pull(1000, 5000)) == 23
    assert feed.pull(1000) == []


def test_an_acknowledged_message_does_not_come_again(feed, tree):
    feed.make(**SHORT)
    tree.set("orders/a", 1)
    message = feed.one()
    assert feed.settle("ack", [message]) == {message["id"]: "done"}
    assert feed.settle("ack", [message]) == {message["id"]: "unknown"}
    assert feed.settle("nack", [message]) == {message["id"]: "unknown"}
    assert feed.settle("extend", [message], delay_ms=1000) == {message["id"]: "unknown"}
    # The deadline would be over by the time that this one came a second time.
    tree.set("orders/b", 1)
    assert (feed.one()["key"], feed.one()["key"], feed.one()["attempt"]) == ("b", "b", 3)


def test_ids_that_are_not_outstanding(feed, tree):
    feed.make(**PATIENT)
    seq = tree.set("orders/a", 1).seq
    strange = [f"{feed.ns}:{seq}:0", f"{feed.ns}:{seq + 1000}:0", f"other:{seq}:0", "", "x", f"{feed.ns}:{seq}", f"{feed.ns}:-1:0",
               f"{feed.ns}:99999999999999999999:0", f"{feed.ns}:{seq}:s0", "ä" * 100]
    results = feed.settle("ack", strange)
    assert set(results) == set(strange)
    assert set(results.values()) <= {"unknown"}, results
    # It was not acknowledged before anybody held it.
    assert feed.take()[0]["key"] == "a"


def test_messages_of_other_feeds_are_not_ours(feed, tree):
    feed.make(**PATIENT)
    other = feed.named("copies").make(**PATIENT)
    tree.set("orders/a", 1)
    message = feed.one()
    assert other.settle("ack", [message]) == {message["id"]: "unknown"}
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
    feed.nack([feed.one()], delay_ms=700)
    tree.set("orders/b", 1)
    assert keys(feed.take()) == ["b"], "another key need not wait"
    assert feed.one()["attempt"] == 2
    assert time.monotonic() - start > 0.65


def test_without_a_delay_a_nack_waits_for_the_backoff(feed, tree):
    feed.make(ack_deadline_ms=600_000, backoff={"first_ms": 200, "max_ms": 400})
    tree.set("orders/a", 1)
    start = time.monotonic()
    for attempt in range(1, 6):
        message = feed.one()
        assert message["attempt"] == attempt
        feed.nack([message])
    # Four pauses; however they are spread, they are there, and none is much longer than the longest.
    assert 0.3 < time.monotonic() - start < 10


def test_a_key_is_delivered_in_order(feed, tree):
    feed.make(**PATIENT)
    for number in range(10):
        tree.set("orders/a", number)
        tree.set("orders/b", number)
    found = feed.take(20)
    assert [message["value"] for message in found if message["key"] == "a"] == list(range(10))
    assert [message["value"] for message in found if message["key"] == "b"] == list(range(10))
    assert [message["seq"] for message in found] == sorted(message["seq"] for message in found)


def test_no_two_hold_messages_of_one_key(feed, tree):
    feed.make(**PATIENT)
    for number in range(4):
        tree.set("orders/a", number)
    first = feed.next(3, "c1")
    assert [message["value"] for message in first] == [0, 1, 2], "one consumer may hold several of a key, in order"
    # c2 may have other keys, but not this one, of which a message waits.
    tree.set("orders/b", "other")
    assert told(feed.next(1, "c2")) == [("b", "created", "other")]
    assert feed.pull(consumer="c2") == []
    feed.ack(first[:2])
    assert feed.pull(consumer="c2") == [], "c1 still holds one of them"
    feed.ack(first[2:])
    assert told(feed.next(1, "c2")) == [("a", "updated", 3)]


def test_what_is_behind_a_nacked_message_goes_back_with_it(feed, tree):
    feed.make(**PATIENT)
    for number in range(4):
        tree.set("orders/a", number)
    tree.set("orders/b", "other")
    messages = feed.next(5)
    a, b = messages[:4], messages[4]
    feed.ack(a[:1])
    feed.nack(a[1:2])
    assert set(feed.settle("ack", a[2:]).values()) == {"expired"}
    assert feed.settle("ack", [b]) == {b["id"]: "done"}, "another key has nothing to do with it"
    again = feed.next(3)
    assert [message["id"] for message in again] == [message["id"] for message in a[1:]]
    # Those behind it did not fail: that was no attempt.
    assert [message["attempt"] for message in again] == [2, 1, 1]
    feed.ack(again)
    assert feed.has_nothing_else()


def test_acknowledging_out_of_order(feed, tree):
    """A later message may be done with before an earlier one, which then comes again alone."""
    feed.make(**PATIENT)
    for number in range(3):
        tree.set("orders/a", number)
    messages = feed.next(3)
    feed.ack(messages[2:])
    feed.nack(messages[:1])
    again = feed.next(2)
    assert [(message["value"], message["attempt"]) for message in again] == [(0, 2), (1, 1)]
    feed.ack(again)
    assert feed.has_nothing_else()


def test_a_deadline_that_passes(feed, tree):
    feed.make(**SHORT)
    tree.set("orders/a", 1)
    message = feed.one("c1")
    again = feed.one("c2")
    assert again == {**message, "attempt": 2}
    assert feed.settle("ack", [message], consumer="c1") == {message["id"]: "expired"}
    assert feed.settle("ack", [message], consumer="c2") == {message["id"]: "done"}


def test_a_deadline_that_passed_is_told(feed, tree):
    feed.make(ack_deadline_ms=50, backoff={"first_ms": 60_000, "max_ms": 60_000})
    tree.set("orders/a", 1)
    message = feed.one()
    wait_until(lambda: feed.status()["held_messages"] == 0, "the deadline to pass")
    assert feed.settle("ack", [message]) == {message["id"]: "expired"}


def test_extending_keeps_a_message(feed, tree):
    feed.make(**SHORT)
    tree.set("orders/a", 1)
    tree.set("orders/b", 1)
    a, b = feed.next(2, "c1")
    assert feed.settle("extend", [a], delay_ms=600_000) == {a["id"]: "done"}
    again = feed.one("c2")
    assert (again["key"], again["attempt"]) == ("b", 2), "only the other one comes again"
    feed.settle("extend", [again], delay_ms=600_000)
    assert feed.pull(wait_ms=600, consumer="c3") == []
    assert feed.settle("ack", [a, again]) == {a["id"]: "done", again["id"]: "done"}


def test_extending_can_shorten(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    message = feed.one()
    assert feed.settle("extend", [message], delay_ms=50) == {message["id"]: "done"}
    assert feed.one()["attempt"] == 2


def test_strict_order_of_a_namespace(feed, tree):
    feed.make(order="namespace", **PATIENT)
    for number in range(3):
        tree.set("orders/a", number)
        tree.set("orders/b", number)
    first = feed.next(2, "c1")
    assert [(message["key"], message["value"]) for message in first] == [("a", 0), ("b", 0)]
    assert feed.pull(consumer="c2") == [], "nobody else is served while c1 holds messages"
    feed.nack(first[:1])
    again = feed.take(6, "c2")
    assert [(message["key"], message["value"]) for message in again] == [(key, number) for number in range(3) for key in "ab"]


def test_one_write_of_many_records(feed, tree):
    """Each record has a message; their ids differ in the last part, and are the same whenever they come again."""
    feed.make(**PATIENT)
    seq = tree.set("orders", {f"k{number}": number for number in range(50)}).seq
    messages = feed.next(50)
    assert {message["seq"] for message in messages} == {seq}
    assert len({message["id"] for message in messages}) == 50
    assert {message["key"]: message["value"] for message in messages} == {f"k{number}": number for number in range(50)}
    feed.nack(messages)
    again = feed.next(50)
    assert {message["key"]: message["id"] for message in again} == {message["key"]: message["id"] for message in messages}
    # The whole place is replaced: one is new, one is gone, one is other than it was.
    feed.ack(again)
    tree.set("orders", {"k1": 1, "k2": "other", "new": True})
    changed = feed.take(50)
    assert {(message["key"], message["event"]) for message in changed} == {
        ("k2", "updated"), ("new", "created"), *((f"k{number}", "deleted") for number in range(50) if number not in (1, 2))}


def test_writes_below_and_above_the_pattern(feed, tree):
    feed.make("/shops/{shop}/orders/{order_id}", include=["value", "old"], **PATIENT)
    tree.set("shops/s1/orders/o1/lines/1/count", 3)
    tree.set("shops/s1", {"name": "x", "orders": {"o1": {"lines": {"1": {"count": 4}}}, "o2": 1}})
    tree.delete("shops")
    found = feed.take(5)
    assert [message["captures"] for message in found[:2]] == [{"shop": "s1", "order_id": "o1"}] * 2
    assert [message["key"] for message in found[:2]] == ["s1/o1"] * 2
    assert [(message["path"], message["event"]) for message in found] == [
        ("/shops/s1/orders/o1", "created"), ("/shops/s1/orders/o1", "updated"), ("/shops/s1/orders/o2", "created"),
        ("/shops/s1/orders/o1", "deleted"), ("/shops/s1/orders/o2", "deleted")]


def test_a_pattern_below_its_last_capture(feed, tree):
    feed.make("/orders/{order_id}/status", include=["value", "old"], **PATIENT)
    tree.set("orders/o1", {"status": "new", "total": 1})
    tree.set("orders/o1/total", 2)
    tree.set("orders/o1/status", "paid")
    tree.set("orders/o2", {"total": 2})
    tree.delete("orders/o1/status")
    tree.set("orders/o3/status", "new")
    found = feed.take(4)
    assert [(message["key"], message["event"], message["value"], message["old"]) for message in found] == [
        ("o1", "created", "new", None), ("o1", "updated", "paid", "new"), ("o1", "deleted", None, "paid"), ("o3", "created", "new", None)]
    assert found[0]["path"] == "/orders/o1/status"


def test_keys_of_every_kind(feed, tree):
    feed.make(**PATIENT)
    names = ["0", "01", "-1", "a b", "ä", "日本", "😀", "a:b", "a,b", 'quo"te', "back\\slash", "%41", "x" * 700, "+", "null"]
    tree.set("orders", {name: 1 for name in names})
    found = feed.next(len(names))
    assert {message["key"] for message in found} == set(names)
    assert {message["captures"]["order_id"] for message in found} == set(names)
    feed.ack(found)
    assert feed.has_nothing_else()


@pytest.mark.parametrize("value", [0, -0.5, 1e300, 9007199254740993, "", "ä\u0000\n\"", True, False, {"a": {"b": [1, 2, 3]}}, "x" * 100_000])
def test_values_of_every_kind(feed, tree, value):
    feed.make(**PATIENT)
    tree.set("orders/a", value)
    assert feed.take()[0]["value"] == value == tree.value("orders/a")


def test_status_counts(feed, tree):
    feed.make(**PATIENT)
    seqs = [tree.set(f"orders/k{number}", number).seq for number in range(5)]
    messages = feed.next(3, "c1")
    status = feed.status()
    assert (status["name"], status["held_messages"], status["dead_letters"], status["head"]) == ("orders", 3, 0, seqs[-1])
    assert status["lag_entries"] >= 3 and status["lag_seconds"] >= 0
    assert status["oldest_unacknowledged"]["id"] == messages[0]["id"]
    feed.ack(messages[:2])
    feed.nack(messages[2:])
    feed.take(3, "c2")
    feed.drained()
    status = feed.status()
    assert (status["delivered"], status["acknowledged"], status["redelivered"]) == (6, 5, 1)
    assert status["oldest_unacknowledged"] is None and status["seq"] == status["head"] == seqs[-1]


def test_the_lag_of_a_feed_that_nobody_consumes_grows(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    first = wait_until(lambda: (status := feed.status())["lag_seconds"] > 0.2 and status, "a lag in seconds")
    for number in range(5):
        tree.set("orders/a", number)
    later = wait_until(lambda: (status := feed.status())["lag_seconds"] > first["lag_seconds"] and status, "more seconds")
    assert later["lag_entries"] > first["lag_entries"]
