"""Messages that no consumer could process: attempts, the history of errors, retries, drops, and the later messages of their key."""

import pytest
from harness.feeds import PATIENT
from harness.waiting import wait_until

TWO_ATTEMPTS = {**PATIENT, "max_attempts": 2}


def fail(feed, key: str, attempts: int = 2, reason: str = "no") -> dict:
    """Nacks the next message, which must be of this key, until it is dead."""
    for attempt in range(1, attempts + 1):
        message = feed.one()
        assert (message["key"], message["attempt"]) == (key, attempt)
        feed.nack([message], reason=f"{reason} {attempt}")
    return message


def test_after_the_last_attempt_a_message_is_dead(feed, tree):
    feed.make(max_attempts=3, **PATIENT)
    tree.set("orders/a", {"total": 1})
    message = fail(feed, "a", 3, "the printer is on fire")
    letter, = feed.dead()
    assert {name: letter[name] for name in message if name != "attempt"} == {
        name: message[name] for name in message if name != "attempt"}
    assert letter["attempts"] == 3
    assert [(error["attempt"], error["reason"]) for error in letter["errors"]] == [
        (number, f"the printer is on fire {number}") for number in (1, 2, 3)]
    times = [error["time"] for error in letter["errors"]] + [letter["dead_at"]]
    assert times == sorted(times) and all(time.endswith("Z") for time in times)
    assert feed.status()["dead_letters"] == 1
    assert feed.settle("ack", [message]) == {message["id"]: "unknown"}
    assert feed.has_nothing_else()


def test_a_deadline_counts_as_an_attempt(feed, tree):
    feed.make(max_attempts=2, ack_deadline="200ms", backoff={"first": "1ms", "max": "5ms"})
    tree.set("orders/a", 1)
    assert [feed.one()["attempt"], feed.one()["attempt"]] == [1, 2]
    letter = wait_until(feed.dead, "a dead letter")[0]
    assert letter["attempts"] == 2 and len(letter["errors"]) == 2
    assert all(error["reason"] for error in letter["errors"])


def test_its_key_goes_on(feed, tree):
    feed.make(**TWO_ATTEMPTS)
    for number in range(3):
        tree.set("orders/a", number)
    fail(feed, "a")
    assert [message["value"] for message in feed.take(2)] == [1, 2]
    assert [letter["value"] for letter in feed.dead()] == [0]


def test_its_key_stops(feed, tree):
    feed.make(on_dead="stop", **TWO_ATTEMPTS)
    for number in range(3):
        tree.set("orders/a", number)
        tree.set("orders/b", number)
    messages = feed.next(6)
    feed.ack([message for message in messages if message["key"] == "b"])
    feed.nack([message for message in messages if message["key"] == "a"][:1])
    fail_rest = feed.one()
    assert (fail_rest["key"], fail_rest["attempt"]) == ("a", 2)
    feed.nack([fail_rest])
    wait_until(feed.dead, "a dead letter")
    tree.set("orders/a", 3)
    tree.set("orders/b", 3)
    assert [(message["key"], message["value"]) for message in feed.take(1)] == [("b", 3)]
    assert feed.has_nothing_else(), "later messages of the key are parked after the dead one"
    # A retry lets the key continue, in order.
    assert feed.retry_dead(key="a") >= 1
    assert [message["value"] for message in feed.take(4)] == [0, 1, 2, 3]
    assert feed.has_nothing_else() and feed.dead() == []


def test_dropping_lets_a_stopped_key_go_on(feed, tree):
    feed.make(on_dead="stop", **TWO_ATTEMPTS)
    tree.set("orders/a", 0)
    fail(feed, "a")
    tree.set("orders/a", 1)
    assert feed.has_nothing_else()
    letter = feed.dead()[0]
    assert feed.drop_dead(ids=[letter["id"]]) == 1
    assert [message["value"] for message in feed.take(1)] == [1]
    assert feed.has_nothing_else() and feed.dead() == []


@pytest.fixture
def letters(feed, tree):
    """Five dead letters, of the keys a to e."""
    feed.make(max_attempts=1, **PATIENT)
    for key in "abcde":
        tree.set(f"orders/{key}", key)
    feed.nack(feed.next(5))
    return wait_until(lambda: len(found := feed.dead()) == 5 and found, "five dead letters")


def test_retry_by_id(feed, letters):
    assert feed.retry_dead(ids=[letters[1]["id"], letters[3]["id"], "no:1:0"]) == 2
    again = feed.next(2)
    assert sorted((message["key"], message["attempt"]) for message in again) == [("b", 1), ("d", 1)]
    assert {message["id"] for message in again} == {letters[1]["id"], letters[3]["id"]}
    feed.ack(again)
    assert [letter["key"] for letter in feed.dead()] == ["a", "c", "e"]


def test_retry_by_key(feed, letters):
    assert feed.retry_dead(key="nobody") == 0
    assert feed.retry_dead(key="c") == 1
    assert feed.take()[0]["key"] == "c"
    assert feed.has_nothing_else()


def test_retry_all(feed, letters):
    assert feed.retry_dead(all=True) == 5
    assert sorted(message["key"] for message in feed.take(5)) == list("abcde")
    assert feed.dead() == [] and feed.status()["dead_letters"] == 0


def test_a_letter_that_fails_again_is_dead_again(feed, letters):
    feed.retry_dead(key="a")
    fail(feed, "a", 1, "still")
    found = wait_until(lambda: len(found := feed.dead()) == 5 and found, "five dead letters")
    letter = next(letter for letter in found if letter["key"] == "a")
    assert letter["errors"][-1]["reason"].startswith("still")
    assert feed.has_nothing_else()


@pytest.mark.parametrize("which, left", [({"key": "b"}, "acde"), ({"all": True}, ""), ({"key": "x"}, "abcde")])
def test_drop(feed, letters, which, left):
    assert feed.drop_dead(**which) == 5 - len(left)
    assert [letter["key"] for letter in feed.dead()] == list(left)
    assert feed.has_nothing_else()
    assert feed.retry_dead(all=True) == len(left)


def test_the_list_has_pages(feed, letters):
    first = feed.dead(limit=2)
    second = feed.dead(limit=2, after=first[-1]["id"])
    third = feed.dead(limit=2, after=second[-1]["id"])
    assert [letter["id"] for letter in first + second + third] == [letter["id"] for letter in letters]
    assert feed.dead(after=third[-1]["id"]) == []


def test_a_letter_keeps_what_the_message_said(feed, tree):
    """A dead letter keeps its contents when the record changes, or is removed."""
    feed.make(max_attempts=1, **PATIENT)
    tree.set("orders/a", {"total": 1})
    fail(feed, "a", 1)
    tree.delete("orders/a")
    feed.take()
    assert feed.dead()[0]["value"] == {"total": 1}
    feed.retry_dead(all=True)
    assert feed.take()[0]["value"] == {"total": 1}


def test_reasons(feed, tree):
    feed.make(max_attempts=1, **PATIENT)
    tree.set("orders/a", 1)
    message = feed.one()
    answer = feed.call("POST", "nack", {"ids": [message["id"]], "reason": "x" * 1_000_000})
    assert answer.status == 400 and feed.dead() == []
    reason = "ä\n' \"; drop table pathmirror.log; -- \u2028\U0001f600"
    feed.nack([message], reason=reason)
    assert wait_until(feed.dead, "a dead letter")[0]["errors"][0]["reason"] == reason
