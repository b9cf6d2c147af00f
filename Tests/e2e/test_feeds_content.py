"""The changes that become messages, and the contents of a message: operations, events, filters and included values."""

import pytest
from harness.feeds import PATIENT, told


def test_operations(feed, tree):
    feed.make(operations=["push", "remove"], **PATIENT)
    tree.set("orders/a", 1)
    name = tree.post("orders", {"total": 1}).json()["name"]
    tree.patch("orders", {"b": 1})
    tree.delete("orders/a")
    found = feed.take(2)
    assert [(message["op"], message["key"], message["event"]) for message in found] == [
        ("push", name, "created"), ("remove", "a", "deleted")]


def test_the_operation_of_each_message(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", 1)
    tree.patch("orders", {"a": 2})
    tree.post("orders", 1)
    tree.delete("orders/a")
    found = sorted(feed.take(4), key=lambda message: message["seq"])
    assert [message["op"] for message in found] == ["set", "update", "push", "remove"]


@pytest.mark.parametrize("events", [["created"], ["updated"], ["deleted"], ["created", "deleted"]])
def test_events(feed, tree, events):
    feed.make(events=events, **PATIENT)
    tree.set("orders/a", 1)
    tree.set("orders/a", 2)
    tree.delete("orders/a")
    tree.patch("orders", {"a": 3, "b": 4})
    whole = [("a", "created"), ("a", "updated"), ("a", "deleted"), ("a", "created"), ("b", "created")]
    wanted = [pair for pair in whole if pair[1] in events]
    assert [(message["key"], message["event"]) for message in feed.take(len(wanted))] == wanted


def test_a_write_that_changes_nothing_here_is_no_message(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", {"x": 1})
    tree.set("orders/a", {"x": 1})
    tree.set("other/a", 1)
    tree.set("orders/a", {"x": 2})
    assert [message["value"] for message in feed.take(2)] == [{"x": 1}, {"x": 2}]


def test_a_write_beside_the_records(feed, tree):
    """Leaves above the pattern's depth are no records."""
    feed.make("/orders/{order_id}/lines/{line}", **PATIENT)
    tree.set("orders/a", "a leaf")
    tree.set("orders/b/lines", "a leaf")
    tree.set("orders/b/other/x", 1)
    tree.set("orders/b/lines/l1", 1)
    assert [message["key"] for message in feed.take(1)] == ["b/l1"]


def test_a_filter(feed, tree):
    feed.make(filter="newData.child('total').val() > 100", **PATIENT)
    tree.set("orders/small", {"total": 7})
    tree.set("orders/large", {"total": 700})
    tree.set("orders/small", {"total": 101})
    tree.set("orders/large", {"total": 1})
    # A record whose filter fails makes no message, and does not block others.
    tree.set("orders/text", {"total": "many"})
    tree.set("orders/none", {"note": 1})
    tree.delete("orders/large")
    tree.set("orders/last", {"total": 1000})
    assert told(feed.take(3)) == [("large", "created", {"total": 700}), ("small", "updated", {"total": 101}),
                                  ("last", "created", {"total": 1000})]


FILTERS = {
    # By expression: the keys that pass, of the writes of `write_them`.
    "data.exists()": ["o2"],
    "!data.exists()": ["o1", "o2"],
    "newData.child('status').val() !== data.child('status').val()": ["o1", "o2", "o2"],
    "$order_id === 'o1'": ["o1"],
    "root.child('limits/total').val() <= newData.child('total').val()": ["o2", "o2"],
    "newData.hasChildren(['status', 'total']) && newData.child('status').val().matches(/^pa/)": ["o2"],
    "now > 1577836800000": ["o1", "o2", "o2"],
    "false": [],
}


@pytest.mark.parametrize("expression", FILTERS)
def test_filters_of_the_rules_language(feed, tree, expression):
    tree.set("limits/total", 50)
    feed.make(filter=expression, **PATIENT)
    tree.set("orders/o1", {"status": "new", "total": 10})
    tree.set("orders/o2", {"status": "new", "total": 50})
    tree.set("orders/o2/status", "paid")
    # The filters exclude the sentinel, so another feed shows that all entries were considered.
    after = feed.named("after").make("/after/{x}", start="beginning", **PATIENT)
    tree.set("after/x", 1)
    after.take()
    wanted = FILTERS[expression]
    found = feed.take(len(wanted)) if wanted else []
    assert [message["key"] for message in found] == wanted
    assert feed.pull() == []


def test_include_old(feed, tree):
    feed.make(include=["value", "old"], **PATIENT)
    tree.set("orders/a", {"x": 1})
    tree.set("orders/a/y", 2)
    tree.delete("orders/a")
    found = feed.take(3)
    assert [(message["old"], message["value"]) for message in found] == [
        (None, {"x": 1}), ({"x": 1}, {"x": 1, "y": 2}), ({"x": 1, "y": 2}, None)]
    assert all("record" not in message for message in found)


def test_include_nothing(feed, tree):
    feed.make(include=[], **PATIENT)
    tree.set("orders/a", {"secret": "tango"})
    answer = feed.call("POST", "pull", {"wait": "10s"})
    assert b"tango" not in answer.body
    message, = answer.json()["messages"]
    assert (message["key"], message["event"]) == ("a", "created")
    assert message.get("value") is None and message.get("old") is None


def test_include_old_only(feed, tree):
    tree.set("orders/a", {"secret": "before"})
    feed.make(include=["old"], **PATIENT)
    tree.set("orders/a", {"secret": "after"})
    answer = feed.call("POST", "pull", {"wait": "10s"})
    assert b"after" not in answer.body
    assert answer.json()["messages"][0]["old"] == {"secret": "before"}


def test_include_the_record(feed, tree):
    feed.make("/orders/{order_id}/status", include=["value", "record"], **PATIENT)
    tree.set("orders/a", {"status": "new", "total": 5})
    tree.set("orders/a/status", "paid")
    tree.delete("orders/a/status")
    found = feed.take(3)
    assert [(message["value"], message["record"]) for message in found] == [
        ("new", {"status": "new", "total": 5}), ("paid", {"status": "paid", "total": 5}), (None, {"total": 5})]


def test_the_record_by_depth(feed, tree):
    feed.make("/shops/{shop}/orders/{order_id}/status", include=["record"], record_depth=2, **PATIENT)
    tree.set("shops/s1/name", "Ada's")
    tree.set("shops/s1/orders/o1/status", "new")
    assert feed.take()[0]["record"] == {"name": "Ada's", "orders": {"o1": {"status": "new"}}}


def test_the_record_is_as_of_the_entry(feed, tree):
    """A message has the record of its entry, not that of its delivery."""
    feed.make("/orders/{order_id}/status", include=["value", "record"], **PATIENT)
    tree.set("orders/a", {"status": "new", "total": 1})
    tree.set("orders/a/status", "paid")
    tree.set("orders/a/total", 2)
    found = feed.take(2)
    assert [message["record"]["total"] for message in found] == [1, 1]


def test_a_definition_that_changes_holds_for_what_comes(feed, tree):
    feed.make(events=["created"], **PATIENT)
    tree.set("orders/a", 1)
    feed.take()
    feed.apply(events=["updated"], **PATIENT)
    tree.set("orders/b", 1)
    tree.set("orders/b", 2)
    assert told(feed.take(1)) == [("b", "updated", 2)]


def test_server_values_and_arrays_are_what_was_stored(feed, tree):
    feed.make(**PATIENT)
    tree.set("orders/a", {"at": {".sv": "timestamp"}, "lines": ["x", "y"], "count": {".sv": {"increment": 2}}})
    message = feed.take()[0]
    assert message["value"] == tree.value("orders/a")
    assert message["value"]["lines"] == ["x", "y"] and message["value"]["count"] == 2


def test_two_feeds_of_one_path_do_not_share_progress(feed, tree):
    feed.make(**PATIENT)
    other = feed.named("mails").make(**PATIENT)
    tree.set("orders/a", 1)
    first = feed.one()
    assert other.take()[0]["id"] == first["id"]
    feed.nack([first])
    assert feed.take()[0]["attempt"] == 2
