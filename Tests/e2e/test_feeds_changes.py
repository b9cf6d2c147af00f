"""Held and failed messages when their feed changes, and the size of an answer."""

import time

from harness.feeds import PATIENT
from harness.waiting import wait_until


def test_another_path_begins_with_messages_of_its_own(feed, tree):
    """An entry has messages with the same numbers under both paths. The state of those of the former path does not apply to the new path.
    """
    feed.make(**{**PATIENT, "path": "/orders/{order_id}"})
    tree.send("PATCH", tree.url(""), b'{"orders/a":1,"shipments/a":"S"}')
    out = feed.one()
    assert out["path"] == "/orders/a"
    feed.apply("/shipments/{id}", **PATIENT)
    # The next gateway that works the feed forgets it.
    wait_until(lambda: feed.settle("ack", [out])[out["id"]] != "done", "the former message to be released")
    message = feed.one()
    assert (message["path"], message["value"], message["attempt"]) == ("/shipments/a", "S", 1)


def test_a_seek_back_delivers_what_was_dead_and_set_aside(feed, tree):
    feed.make(**PATIENT, max_attempts=1, on_dead="stop")
    for number in (1, 2, 3):
        tree.set("orders/x", number)
    feed.nack(feed.next(1))
    wait_until(lambda: (status := feed.status())["dead_letters"] == 1 and status["set_aside"] == 2, "the key to be stopped")
    feed.ask("POST", "seek", {"to": "beginning"})
    assert [message["value"] for message in feed.take(3)] == [1, 2, 3]
    wait_until(lambda: feed.status()["set_aside"] == 0 and feed.dead() == [], "nothing to be left of them")
    assert feed.has_nothing_else()


def test_a_dead_letter_that_a_seek_delivers_is_none_any_more(feed, tree):
    feed.make(**PATIENT, max_attempts=1)
    tree.set("orders/x", 1)
    feed.nack(feed.next(1))
    wait_until(lambda: feed.dead(), "a dead letter")
    feed.ask("POST", "seek", {"to": "beginning"})
    feed.take(1)
    assert feed.dead() == [] and feed.status()["dead_letters"] == 0


def test_a_feed_that_stops_no_keys_any_more_delivers_what_was_set_aside(feed, tree):
    feed.make(**PATIENT, max_attempts=1, on_dead="stop")
    for number in (1, 2, 3):
        tree.set("orders/x", number)
    feed.nack(feed.next(1))
    wait_until(lambda: feed.status()["set_aside"] == 2, "the rest of the key to be set aside")
    feed.apply(**PATIENT, max_attempts=1)
    assert [message["value"] for message in feed.take(2)] == [2, 3]
    assert [letter["value"] for letter in feed.dead()] == [1]


def test_what_is_delivered_once_more_counts_as_waiting(feed, tree):
    """Alerts on lag count redelivered messages as they count messages of the log."""
    feed.make(**PATIENT, max_attempts=1)
    tree.set("orders/x", 1)
    feed.nack(feed.next(1))
    wait_until(lambda: feed.dead(), "a dead letter")
    feed.ask("POST", "dead/retry", {"all": True})

    def waits():
        status = feed.status()
        return status["retrying"] == 1 and status["lag_seconds"] > 0 and status["oldest_unacknowledged"] and status["set_aside"] == 0

    wait_until(waits, "the message to wait, and that to be seen")
    feed.take(1)
    wait_until(lambda: (status := feed.status())["retrying"] == 0 and status["lag_seconds"] == 0, "nothing to wait")


def test_an_answer_has_a_bounded_size(feed, tree):
    """Each message has a megabyte: an answer to a pull of a thousand does not have all of them."""
    feed.make(**PATIENT)
    for number in range(12):
        tree.set(f"orders/k{number}", "x" * 1_000_000)
    feed.wait_for_free(12)
    first = feed.call("POST", "pull", {"max": 1000, "consumer": "c"})
    assert first.status == 200 and 4_000_000 < len(first.body) < 6_000_000
    assert len({message["key"] for message in first.json()["messages"] + feed.next(12 - len(first.json()["messages"]))}) == 12


def test_records_are_counted_with_what_they_hold(feed, tree):
    """Each message of a small tree includes the whole tree: the size of waiting messages is limited, not only their number."""
    tree.set("data", {"o": {f"k{number}": "x" * 1_000 for number in range(1_000)}})
    feed.make("/data/o/{key}", **PATIENT, include=["record"], record_depth=1, start="snapshot")
    wait_until(lambda: feed.status()["pending_messages"] > 10, "some to wait")
    answer = feed.call("POST", "pull", {"max": 1000})
    assert answer.status == 200 and 0 < len(answer.body) < 8_000_000
    assert feed.status()["pending_messages"] < 200, "64 MiB of messages of a megabyte each"


def test_large_dead_letters_come_in_pages(feed, tree):
    feed.make(**PATIENT, max_attempts=1)
    for number in range(20):
        tree.set(f"orders/k{number}", "x" * 1_000_000)
    left = 20
    while left:
        messages = feed.next(1)
        feed.nack(messages)
        left -= len(messages)
    wait_until(lambda: feed.status()["dead_letters"] == 20, "all to be dead")
    found, after, begin = [], None, time.monotonic()
    while page := feed.call("GET", "dead", limit=1000, **({"after": after} if after else {})).json()["dead"]:
        assert len(page) <= 10
        found += page
        after = page[-1]["id"]
        assert time.monotonic() < begin + 60
    assert len({letter["id"] for letter in found}) == 20
