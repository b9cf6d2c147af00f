"""`pathmirror replay feed`: former messages are delivered again, in order, beside live ones; and the figures of feeds in the metrics."""

import json
import re

from harness import cli
from harness.feeds import PATIENT
from harness.waiting import wait_until


def replay(dev, feed, *words) -> dict:
    text = cli.succeeds("replay", "feed", feed.name, "--ns", feed.ns, "--data", dev.data, "--json", *words)
    return json.loads(text)


def write(tree, orders: int, rounds: int):
    """Writes `count` orders, each `rounds` times; one entry a round."""
    for round in range(rounds):
        tree.patch("orders", {f"o{number}": round for number in range(orders)})


def take_all(feed, count: int) -> list[dict]:
    """Takes `count` messages; each must be a first attempt."""
    taken = []

    def enough():
        messages = feed.pull(500, "500ms")
        feed.ack(messages)
        taken.extend(messages)
        return len(taken) >= count

    wait_until(enough, f"{count} messages", 60, 0)
    assert all(message["attempt"] == 1 for message in taken)
    return taken


def in_order_by_key(messages: list[dict]) -> bool:
    keys: dict[str, list[int]] = {}
    for message in messages:
        keys.setdefault(message["key"], []).append(message["seq"])
    return all(seqs == sorted(seqs) for seqs in keys.values())


def test_more_than_is_taken_up_at_once(dev, feed, tree):
    feed.make(**PATIENT)
    write(tree, 500, 5)
    first = take_all(feed, 2_500)
    feed.drained()
    assert replay(dev, feed, "--from", "1") == {"entries": 5, "messages": 2_500, "toCome": 0, "dryRun": False}
    again = take_all(feed, 2_500)
    assert sorted(message["id"] for message in again) == sorted(message["id"] for message in first)
    assert in_order_by_key(again)
    assert feed.has_nothing_else()


def test_other_keys_go_on(dev, feed, tree):
    feed.make(**PATIENT)
    write(tree, 2, 3)
    take_all(feed, 6)
    feed.drained()
    assert replay(dev, feed, "--from", "1", "--key", "o1")["messages"] == 3
    held = feed.next(3)
    assert [message["key"] for message in held] == ["o1"] * 3
    tree.set("orders/o0", "live")
    assert feed.take()[0]["value"] == "live"
    feed.ack(held)
    assert feed.has_nothing_else()


def test_while_it_is_held_it_is_not_delivered_again(dev, feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    held = feed.one()
    outcome = replay(dev, feed, "--from", "1")
    assert (outcome["messages"], outcome["toCome"]) == (0, 1)
    feed.ack([held])
    feed.drained()
    assert replay(dev, feed, "--from", "1")["messages"] == 1
    once_more = feed.one()
    assert once_more["id"] == held["id"]
    assert replay(dev, feed, "--from", "1")["messages"] == 1, "it waits already: that is enough"
    feed.ack([once_more])
    assert feed.has_nothing_else()


def test_into_another(dev, feed, tree):
    feed.make(**PATIENT)
    write(tree, 3, 1)
    take_all(feed, 3)
    feed.drained()
    other = feed.named("other").make(**PATIENT)
    assert replay(dev, feed, "--from", "1", "--into", "other")["messages"] == 3
    assert len(take_all(other, 3)) == 3
    assert feed.status()["pending_messages"] == 0


def test_what_fails_is_a_dead_letter_in_the_end(dev, feed, tree):
    feed.make(max_attempts=2, **PATIENT)
    tree.set("orders/a", 1)
    take_all(feed, 1)
    feed.drained()
    replay(dev, feed, "--from", "1")
    for attempt in (1, 2):
        message = feed.one()
        assert message["attempt"] == attempt
        feed.nack([message], reason="no")
    assert [letter["id"] for letter in feed.dead()] == [message["id"]]


def test_figures(dev, feed, tree):
    feed.make(max_attempts=1, **PATIENT)
    write(tree, 4, 1)
    messages = feed.next(4)
    feed.nack(messages[:1], reason="no")
    feed.ack(messages[1:2])

    def figures() -> dict[str, float]:
        text = dev.rest.send("GET", "/.metrics", None, {}).body.decode()
        return {name: float(value) for name, value in re.findall(
            rf'^pathmirror_feed_(\w+){{feed="{feed.ns}/{feed.name}"}} (\S+)$', text, re.MULTILINE)}

    def is_so():
        found = figures()
        return found.get("dead_letters") == 1 and found.get("held_messages") == 2 and found.get("acknowledged_total") == 1

    wait_until(is_so, "the figures to be reported", 20, 0.2)
    found = figures()
    assert (found["up"], found["redelivered_total"], found["holds_back_seconds"]) == (1, 0, 0)
    feed.ack(messages[2:])
    wait_until(lambda: figures()["lag_seconds"] == 0, "the feed to have caught up", 20, 0.2)
