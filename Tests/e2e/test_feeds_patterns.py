"""The records of a pattern, writes above, at and below them, and keys and values of every kind."""

import pytest
from harness.feeds import PATIENT


def test_one_write_of_many_records(feed, tree):
    """Each record has a message; their ids differ in the last part, and stay the same at each redelivery."""
    feed.make(**PATIENT)
    seq = tree.set("orders", {f"k{number}": number for number in range(50)}).seq
    messages = feed.next(50)
    assert {message["seq"] for message in messages} == {seq}
    assert len({message["id"] for message in messages}) == 50
    assert {message["key"]: message["value"] for message in messages} == {f"k{number}": number for number in range(50)}
    feed.nack(messages)
    again = feed.next(50)
    assert {message["key"]: message["id"] for message in again} == {message["key"]: message["id"] for message in messages}
    # Replaces the whole node: one child is new, one is removed, one has another value.
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
    assert all(message["captures"] == {"shop": "s1", "order_id": message["key"].removeprefix("s1/")} for message in found)
    by_key = {key: [(message["path"], message["event"]) for message in found if message["key"] == key] for key in ("s1/o1", "s1/o2")}
    assert by_key == {"s1/o1": [("/shops/s1/orders/o1", event) for event in ("created", "updated", "deleted")],
                      "s1/o2": [("/shops/s1/orders/o2", event) for event in ("created", "deleted")]}


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
