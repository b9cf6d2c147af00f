"""The checks of feeds detect errors in deliveries and acknowledgements, and accept right ones."""

import pytest
from check import feeds
from check.entries import Entry, Restored
from workload.feeds import FeedNotes, Given, Seek


def entry(seq, changes):
    return Entry(seq, seq * 1000, f"b{seq}", "set", "/", changes)


ENTRIES = [
    entry(1, {"/rec/a": {"n": 1, "t": "x"}}), entry(2, {"/reg/r0": "other"}), entry(3, {"/rec/a/t": "y", "/rec/b": {"n": 2, "t": "z"}}),
    entry(4, {"/rec/b": {"n": 2, "t": "z"}}), entry(5, {"/rec/a": None}), entry(6, {"/rec/c": 7})]
MESSAGES = [
    ("default:1:0", "a", "created", {"n": 1, "t": "x"}, None), ("default:3:0", "a", "updated", {"n": 1, "t": "y"}, {"n": 1, "t": "x"}),
    ("default:3:1", "b", "created", {"n": 2, "t": "z"}, None), ("default:5:0", "a", "deleted", None, {"n": 1, "t": "y"}),
    ("default:6:0", "c", "created", 7, None)]


def message(number, attempt=1, **more):
    id, key, event, value, old = MESSAGES[number]
    return {"id": id, "seq": int(id.split(":")[1]), "key": key, "captures": {"key": key}, "event": event, "value": value, "old": old,
            "attempt": attempt, **more}


def right() -> FeedNotes:
    """Each message is delivered alone, at ten times its number; the last becomes a dead letter at its second attempt."""
    notes = FeedNotes("records", "rec", max_attempts=2)
    for number in range(5):
        at = number * 10.0
        notes.given.append(Given("c", message(number), at, at + 1, "a"))
        if number < 4:
            notes.said[MESSAGES[number][0]], notes.done[MESSAGES[number][0]] = [at + 2], [at + 3]
    notes.given.append(Given("d", message(4, 2), 60.0, 61.0, "b"))
    notes.dead = [message(4)]
    return notes


def judge(notes, restored=None, entries=ENTRIES):
    return feeds.judge(notes, entries, restored)


def test_the_messages_of_a_log():
    assert [(one.seq, one.key, one.event, one.value, one.old) for one in feeds.wanted("rec", ENTRIES)] == [
        (int(id.split(":")[1]), key, event, value, old) for id, key, event, value, old in MESSAGES]


def test_a_collection_that_is_replaced():
    log = [entry(1, {"/rec": {"a": 1, "b": 2}}), entry(2, {"/rec/c": 3}), entry(3, {"/rec": {"b": 2, "c": 4}}), entry(4, {"/rec": None})]
    assert [(one.seq, one.key, one.event, one.value) for one in feeds.wanted("rec", log)] == [
        (1, "a", "created", 1), (1, "b", "created", 2), (2, "c", "created", 3), (3, "a", "deleted", None), (3, "c", "updated", 4),
        (4, "b", "deleted", None), (4, "c", "deleted", None)]


def test_nothing_is_wrong_with_what_is_right():
    assert judge(right()) == []


def test_what_may_be():
    notes = right()
    # Delivered again before the answer to the acknowledgement; one without an answer; one that arrived only at its second attempt.
    notes.given.append(Given("d", message(1, 2), 12.5, 70.0, "b"))
    del notes.done["default:1:0"]
    notes.given[2].message["attempt"] = 2
    assert judge(notes) == []


def again(notes, number, asked):
    notes.given.append(Given("d", message(number, 2), asked, asked + 1, "b"))


def other(notes, number, **more):
    notes.given[number].message = message(number, **more)


WRONG = {
    "a message is never given": lambda notes: notes.given.pop(2),
    "the last of a key is never given": lambda notes: notes.given.pop(3),
    "given again after it was done": lambda notes: again(notes, 1, 14.0),
    "out of order": lambda notes: (setattr(notes.given[1], "asked", 35.0), setattr(notes.given[1], "came", 36.0)),
    "another value": lambda notes: other(notes, 1, value="phantom"),
    "another former value": lambda notes: other(notes, 1, old=None),
    "another event": lambda notes: other(notes, 1, event="created"),
    "other captures": lambda notes: other(notes, 1, captures={"key": "b"}),
    "a message of no entry": lambda notes: other(notes, 1, seq=9),
    "an id of another entry": lambda notes: other(notes, 1, id="default:4:0"),
    "two ids of one message": lambda notes: notes.given.append(Given("d", message(1, 2, id="default:3:7"), 12.0, 13.0)),
    "one id of two messages": lambda notes: other(notes, 2, id="default:3:0"),
    "too many attempts": lambda notes: other(notes, 1, attempt=3),
    "an attempt before the first": lambda notes: other(notes, 1, attempt=0),
    "done, and nobody said so": lambda notes: (notes.said.pop("default:3:1"), notes.done.pop("default:3:1")),
    "done twice": lambda notes: notes.done["default:3:1"].append(50.0),
    "dead, and done": lambda notes: notes.dead.append(message(1)),
    "a dead letter of no entry": lambda notes: notes.dead.append(message(1, seq=9, id="default:9:0")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name):
    notes = right()
    WRONG[name](notes)
    assert judge(notes)


def test_the_order_of_a_namespace():
    notes = right()
    notes.strict = True
    assert judge(notes) == []
    # Of two keys: in order for each, but not over both.
    notes.given[2].asked, notes.given[2].came = 32.0, 33.0
    notes.said["default:3:1"], notes.done["default:3:1"] = [34.0], [35.0]
    assert judge(notes)
    notes.strict = False
    assert judge(notes) == []


RESTORED = Restored(kept=3, killed=45.0, noticed=55.0)


def restored() -> FeedNotes:
    """An older copy is restored: later work is repeated, and other entries replace the lost ones."""
    notes = right()
    again(notes, 1, 50.0)
    notes.given[3].message["value"] = "of an entry that is gone"
    for number in (3, 4):
        again(notes, number, 56.0)
    notes.said["default:5:0"].append(58.0)
    notes.done["default:5:0"].append(58.5)
    return notes


def test_what_a_restored_copy_may_take_back():
    assert judge(restored(), RESTORED) == []
    assert judge(restored())


RESTORED_WRONG = {
    "what is gone is given ten seconds later": lambda notes: notes.given.append(Given("d", message(4, value="gone"), 56.0, 57.0)),
    "given again after it was done": lambda notes: again(notes, 3, 59.0),
    "an entry of the other history is never given": lambda notes: notes.given.pop(-2),
    "done, and nobody said so of the other history's": lambda notes: notes.said["default:5:0"].pop(),
    "an entry that stayed is never given": lambda notes: notes.given.pop(2),
}


@pytest.mark.parametrize("name", RESTORED_WRONG)
def test_what_is_wrong_after_a_copy_came_back_is_found(name):
    notes = restored()
    RESTORED_WRONG[name](notes)
    assert judge(notes, RESTORED)


# The order of processing, by the consumers' own records, independent of a gateway.


def said(notes, number, *moments):
    notes.said[MESSAGES[number][0]] = list(moments)


def test_a_later_message_of_a_key_that_is_processed_first_is_found():
    notes = right()
    notes.done.clear()
    assert judge(notes) == []
    # Both were received in order; the first was lost before its consumer processed it, and was delivered again.
    said(notes, 0, 50.0)
    notes.given.append(Given("d", message(0, 2), 48.0, 49.0, "b"))
    assert judge(notes)


def test_a_message_that_is_processed_before_one_of_another_key():
    notes = right()
    notes.done.clear()
    said(notes, 1, 25.0)
    notes.given.append(Given("d", message(1, 2), 23.0, 24.0, "b"))
    assert judge(notes) == []
    # In the order of a namespace both are in one sequence.
    notes.strict = True
    assert judge(notes)


def retried() -> FeedNotes:
    """The first message becomes a dead letter, the second of its key is processed, and the first when it is retried."""
    notes = right()
    notes.done.clear()
    notes.given.append(Given("d", message(0, 1), 48.0, 49.0, "b"))
    said(notes, 0, 50.0)
    notes.retried = {(1, "a")}
    return notes


def test_what_was_retried_may_come_out_of_order_unless_later_messages_wait_for_it():
    notes = retried()
    assert judge(notes) == []
    notes.on_dead = "stop"
    assert judge(notes)


def test_a_retried_message_that_vanishes_is_found():
    notes = retried()
    del notes.said["default:1:0"]
    assert judge(notes)


def sought() -> FeedNotes:
    """The feed is moved back to entry 3 at 70 s, when the head is 5: messages after entry 3 are processed again."""
    notes = right()
    notes.seeks = [Seek(3, 70.0, 71.0, 5)]
    notes.given.append(Given("d", message(3), 70.5, 72.0, "b"))
    notes.said[MESSAGES[3][0]].append(73.0)
    notes.done[MESSAGES[3][0]].append(73.5)
    return notes


def test_a_feed_that_is_moved_back():
    assert judge(sought()) == []
    unmoved = sought()
    unmoved.seeks.clear()
    assert judge(unmoved)


SOUGHT_WRONG = {
    "not given again": lambda notes: (notes.given.pop(), notes.said["default:5:0"].pop(), notes.done["default:5:0"].pop()),
    "given again, and not processed": lambda notes: (notes.said["default:5:0"].pop(), notes.done["default:5:0"].pop()),
    "given once more after it was done": lambda notes: notes.given.append(Given("d", message(3, 2), 75.0, 76.0, "b")),
    "done once more": lambda notes: notes.done["default:5:0"].append(80.0),
    "what was not moved comes again": lambda notes: notes.given.append(Given("d", message(2, 2), 75.0, 76.0, "b")),
}


@pytest.mark.parametrize("name", SOUGHT_WRONG)
def test_what_is_wrong_after_a_feed_was_moved_is_found(name):
    notes = sought()
    SOUGHT_WRONG[name](notes)
    assert judge(notes)


def test_an_attempt_to_move_a_feed_that_was_not_answered_may_take_effect_later():
    notes = sought()
    notes.given.append(Given("d", message(3, 2), 75.0, 76.0, "b"))
    notes.seeks[0].is_unknown = True
    assert judge(notes) == []


def test_a_move_that_was_never_answered_may_not_have_taken_effect():
    notes = right()
    notes.seeks = [Seek(3, 70.0, float("inf"), 5, is_unknown=True)]
    assert judge(notes) == []


def test_the_ids_of_another_namespace():
    notes = right()
    notes.namespace = "shop"
    assert judge(notes)
