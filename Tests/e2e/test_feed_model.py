"""The model of a feed detects each broken promise, which these tests break on purpose."""

import pytest
from feed_model import FeedModel

ENTRIES = [(1, {"/orders/a": 1}), (2, {"/orders/a": 2}), (3, {"/orders": {"a": 2, "b": 1}})]


def message(seq: int, key: str, event: str, value, attempt: int = 1, id: str | None = None) -> dict:
    return {"id": id or f"default:{seq}:0", "seq": seq, "key": key, "event": event, "value": value, "attempt": attempt}


GOOD = [message(1, "a", "created", 1), message(2, "a", "updated", 2), message(3, "b", "created", 1)]


def consumed(*steps, **options) -> FeedModel:
    """(consumer, message, whether it is acknowledged), one after another."""
    model = FeedModel(**options)
    for consumer, what, acknowledges in steps:
        model.delivered(consumer, [what], model.now())
        if acknowledges:
            model.settles(consumer, [what["id"]])
            model.acknowledged({what["id"]: "done"})
    return model


def test_all_is_well():
    assert consumed(*(("c", each, True) for each in GOOD)).judge(ENTRIES).startswith("3 messages, 3 deliveries")


BROKEN = {
    "never delivered": [("c", each, True) for each in GOOD[:2]],
    "neither acknowledged": [("c", each, each is not GOOD[2]) for each in GOOD],
    "of nothing that was written": [("c", message(9, "a", "updated", 2), True)],
    "one id, two messages": [("c", GOOD[0], True), ("c", {**GOOD[1], "id": GOOD[0]["id"]}, True)],
    "one message, two ids": [("c", GOOD[0], False), ("c", {**GOOD[0], "id": "default:1:1"}, True)],
    "before an earlier one": [("c", GOOD[1], True)],
    "was asked for when": [("c", GOOD[1], True), ("c", GOOD[0], True), ("c", GOOD[2], True)],
    "after it was acknowledged": [("c", GOOD[0], True), ("c", {**GOOD[0], "attempt": 2}, False)],
    "while c held": [("c", GOOD[0], False), ("d", GOOD[1], True), ("c", GOOD[2], True)],
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_promise(words):
    with pytest.raises(AssertionError, match=words):
        consumed(*BROKEN[words]).judge(ENTRIES)


def test_strict_order_is_of_all_keys():
    steps = [("c", GOOD[2], True), ("c", GOOD[0], True), ("c", GOOD[1], True)]
    consumed(*steps).judge(ENTRIES)
    with pytest.raises(AssertionError, match="was asked for when"):
        consumed(*steps, strict=True).judge(ENTRIES)


def test_too_many_attempts():
    with pytest.raises(AssertionError):
        consumed(*(("c", {**each, "attempt": 4}, True) for each in GOOD), max_attempts=3).judge(ENTRIES)


@pytest.mark.parametrize("other", [{"value": 7}, {"event": "updated"}])
def test_a_message_that_says_something_else(other):
    with pytest.raises(AssertionError):
        consumed(("c", {**GOOD[0], **other}, True)).judge(ENTRIES)
