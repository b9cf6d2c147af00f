"""Order of the messages of a key and of a whole feed, and the messages that return when one of them fails."""

from harness.feeds import PATIENT, told


def test_a_key_is_delivered_in_order(feed, tree):
    feed.make(**PATIENT)
    for number in range(10):
        tree.set("orders/a", number)
        tree.set("orders/b", number)
    found = feed.take(20)
    assert [message["value"] for message in found if message["key"] == "a"] == list(range(10))
    assert [message["value"] for message in found if message["key"] == "b"] == list(range(10))


def test_no_two_hold_messages_of_one_key(feed, tree):
    feed.make(**PATIENT)
    for number in range(4):
        tree.set("orders/a", number)
    first = feed.next(3, "c1")
    assert [message["value"] for message in first] == [0, 1, 2], "one consumer may hold several of a key, in order"
    # c2 may have other keys, but not this one, whose earlier message waits.
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
    # The messages after it did not fail: their delivery was no attempt.
    assert [message["attempt"] for message in again] == [2, 1, 1]
    feed.ack(again)
    assert feed.has_nothing_else()


def test_acknowledging_out_of_order(feed, tree):
    """A consumer may acknowledge a later message before an earlier one, which is then redelivered alone."""
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


def test_strict_order_of_a_namespace(feed, tree):
    feed.make(order="namespace", **PATIENT)
    for number in range(3):
        tree.set("orders/a", number)
        tree.set("orders/b", number)
    first = feed.next(2, "c1")
    assert [(message["key"], message["value"]) for message in first] == [("a", 0), ("b", 0)]
    assert feed.pull(consumer="c2") == [], "no other consumer is served while c1 holds messages"
    feed.nack(first[:1])
    again = feed.take(6, "c2")
    assert [(message["key"], message["value"]) for message in again] == [(key, number) for number in range(3) for key in "ab"]
