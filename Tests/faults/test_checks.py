"""The checks detect errors in a log, in answers, streams and onDisconnect writes, and accept right ones."""

from dataclasses import replace

import pytest
from check import availability, log, registers, streams
from check.availability import Outage
from check.entries import Entry, Restored, assign, tree_of
from workload.history import OK, REFUSED, UNKNOWN, History, Operation, Order
from workload.listeners import Event, Listening
from workload.prober import Probe


def entry(seq, changes, at=None, batch=None):
    return Entry(seq, at if at is not None else seq * 1000, batch or f"b{seq}", "set", "/", changes)


def right():
    """A short valid history with its log."""
    history = History()
    entries = [
        entry(1, {"/reg/r0": "x1"}), entry(2, {"/count/plain": 1}),
        entry(3, {"/fan/a/f": "x2", "/fan/b/f": "x2", "/fan/c/f": "x2", "/marks/x2": True, "/count/marked": 1}),
        entry(4, {"/reg/r0": "x3"}), entry(5, {"/gone/o1": 1}), entry(6, {"/rec/i": {"n": 1, "t": "x4"}}),
        entry(7, {"/reg/r1": "x6"}),
    ]
    told = [
        Operation("c", "write", "r0", "x1", None, "a", 0, 1.0, 1.1, OK, None, 1),
        Operation("c", "increment", "plain", None, None, "a", 0, 2.0, 2.1, OK, None, 2),
        Operation("c", "update", "fan", "x2", None, "a", 0, 3.0, 3.1, OK, None, 3),
        Operation("c", "cas", "r0", "x3", "x1", "b", 0, 4.0, 4.1, OK, None, 4),
        Operation("c", "set", "rec", "x4", None, "b", 0, 6.0, 6.1, OK, None, 6),
        Operation("c", "cas", "r0", "x5", "x1", "b", 0, 6.2, 6.3, REFUSED, "x3", 6),
        Operation("c", "read", "r0", None, None, "a", 0, 6.4, 6.5, OK, "x3", 6),
        Operation("c", "write", "r1", "x6", None, "a", 0, 7.0, None, UNKNOWN),
    ]
    history.operations += told
    history.orders += [Order("o1", OK), Order("o2", REFUSED), Order("o3", UNKNOWN), Order("o4", OK, OK)]
    return history, entries


def all_wrong(history, entries, restored=None):
    return (log.shape(entries, 7) + log.acknowledged(history, entries, restored) + log.order(history, entries, restored)
            + log.counters(history, entries, restored) + log.comparisons(history, entries) + log.orders(history, entries, restored)
            + registers.judge(history, entries, restored)[0])


def test_nothing_is_wrong_with_what_is_right():
    assert all_wrong(*right()) == []


def changed(entries, seq, **more):
    return [replace(one, **more) if one.seq == seq else one for one in entries]


LOGS = {
    "a gap": lambda entries: [one for one in entries if one.seq != 7],
    "a time that goes back": lambda entries: changed(entries, 5, at=10),
    "a batch in two pieces": lambda entries: changed(changed(entries, 2, batch="b"), 5, batch="b"),
    "a write that is lost": lambda entries: changed(entries, 4, changes={"/other": 1}),
    "a write that is there twice": lambda entries: changed(entries, 7, changes={"/reg/r0": "x1"}),
    "a write at another seq": lambda entries: changed(changed(entries, 1, changes={"/reg/r1": "x6"}), 7, changes={"/reg/r0": "x1"}),
    "a refused write that is there": lambda entries: changed(entries, 7, changes={"/reg/r0": "x5"}),
    "an increment that adds two": lambda entries: changed(entries, 2, changes={"/count/plain": 2}),
    "an increment done twice": lambda entries: changed(entries, 7, changes={"/count/plain": 2}),
    "an update in part": lambda entries: changed(entries, 3, changes={"/fan/a/f": "x2", "/marks/x2": True, "/count/marked": 1}),
    "an update without its mark": lambda entries: changed(entries, 3, changes={"/fan/a/f": "x2", "/fan/b/f": "x2", "/fan/c/f": "x2",
                                                                            "/count/marked": 1}),
    "a comparison with something else": lambda entries: changed(entries, 1, changes={"/reg/r0": "other"}),
    "an order done twice": lambda entries: changed(entries, 7, changes={"/gone/o1": 2}),
    "an order never done": lambda entries: changed(entries, 5, changes={"/other": 1}),
    "a refused order that is done": lambda entries: changed(entries, 7, changes={"/gone/o2": 1}),
    "an order taken back that is done": lambda entries: changed(entries, 7, changes={"/gone/o4": 1}),
    "an order of nobody": lambda entries: changed(entries, 7, changes={"/gone/o9": 1}),
}


@pytest.mark.parametrize("name", LOGS)
def test_wrong_logs_are_found(name):
    history, entries = right()
    assert all_wrong(history, LOGS[name](entries))


def test_two_answers_with_one_seq():
    history, entries = right()
    history.operations.append(Operation("d", "increment", "plain", None, None, "a", 0, 2.0, 2.1, OK, None, 2))
    assert any("two writes" in text for text in log.acknowledged(history, entries, None))


def test_an_answer_that_nothing_was_written():
    history, entries = right()
    history.operations[-1].note = '{"error":"The database is unavailable. Try again later."}'
    assert any("said not to be written" in text for text in log.acknowledged(history, entries, None))


def test_an_order_of_time_that_the_log_does_not_have():
    history, entries = right()
    history.operations[0].invoked, history.operations[0].completed = 8.0, 8.1
    assert log.order(history, entries, None)


def test_entries_that_change():
    _, entries = right()
    known = {one.seq: one for one in entries[:5]}
    assert log.unchanged(known, entries) == log.unchanged(known, entries[3:]) == []
    assert log.unchanged(known, changed(entries, 2, changes={"/count/plain": 5}))
    assert log.unchanged(known, entries[:4]) and log.unchanged(known, [])


def test_what_a_restored_copy_may_have_lost_and_what_not():
    history, entries = right()
    restored = Restored(kept=3, killed=4.5, noticed=5.5)
    # Of the earlier acknowledged writes, that of seq 4 is lost with the copy; another write has its seq.
    lost = changed(entries, 4, changes={"/other": 1})
    assert log.acknowledged(history, lost, restored) == []
    assert log.acknowledged(history, changed(entries, 3, changes={"/other": 1}), restored)
    assert log.acknowledged(history, changed(entries, 6, changes={"/other": 1}), restored)


def event(seq, changes, kind="patch", gateway="a", at=0.0, connection=1):
    if kind == "fresh":
        return Event("put", seq, "/", changes, at, gateway, connection)
    (path, value), = changes.items() if len(changes) == 1 else [("/", {key.strip("/"): value for key, value in changes.items()})]
    return Event("put" if len(changes) == 1 else "patch", seq, path, value, at, gateway, connection)


def told(entries, begin=0):
    return [event(begin, tree_of(entries[:begin]), "fresh")] + [event(one.seq, one.changes) for one in entries[begin:]]


def test_a_stream_that_tells_all():
    _, entries = right()
    for begin in range(len(entries) + 1):
        assert streams.stream("s", told(entries, begin), entries, None, len(entries)) == []


STREAMS = {
    "an event is missing": lambda events: events[:3] + events[4:],
    "an event comes twice": lambda events: events[:3] + events[2:],
    "two events in the wrong order": lambda events: events[:2] + [events[3], events[2]] + events[4:],
    "another value": lambda events: events[:1] + [replace(events[1], data="phantom")] + events[2:],
    "an update in part": lambda events: events[:3] + [replace(events[3], data=dict(list(events[3].data.items())[:2]))] + events[4:],
    "a first value of another time": lambda events: [replace(events[0], data={"reg": {"r0": "x1"}})] + events[1:],
    "the end is missing": lambda events: events[:-1],
    "a value that goes back": lambda events: events + [replace(events[0], connection=2)],
    "entries of no log": lambda events: events + [event(8, {"/reg/r0": "phantom"})],
}


@pytest.mark.parametrize("name", STREAMS)
def test_wrong_streams_are_found(name):
    _, entries = right()
    assert streams.stream("s", STREAMS[name](told(entries)), entries, None, len(entries))


def test_a_stream_over_a_restored_copy_must_begin_anew():
    _, entries = right()
    restored = Restored(kept=3, killed=4.5, noticed=5.5)
    old = told(entries[:3]) + [event(4, {"/reg/r0": "lost"}, at=4.2)]
    late = [event(5, {"/reg/r1": "lost, too"}, at=4.9)]
    again = [event(4, tree_of(entries[:4]), "fresh", at=5.2)] + [event(one.seq, one.changes, at=6.0) for one in entries[4:]]
    assert streams.stream("s", old + late + again, entries, restored, 7) == []
    phantom = [event(one.seq, one.changes, at=6.0) for one in entries[5:]]
    assert streams.stream("s", old + late + phantom, entries, restored, 7)


def test_an_older_value_is_excused_only_if_announced_by_a_gateway_that_was_away():
    _, entries = right()
    events = told(entries)

    def judge(repeated, *away):
        return streams.stream("s", [*events, repeated, *events[4:]], entries, None, len(entries), away)

    older = replace(event(3, tree_of(entries[:3]), "fresh", gateway="b", at=20.0), may_repeat=True)
    away = streams.Away(15.0, 25.0, frozenset("b"))
    assert judge(older, away) == []
    assert judge(replace(older, may_repeat=False), away)
    assert judge(replace(older, at=26.0), away)
    assert judge(replace(older, gateway="a"), away)
    assert judge(older)


def test_realtime_listens():
    _, entries = right()
    good = Listening({"r0": "x1"}, [("r0", "x3"), ("r1", "x6")], 0.0, "a", 0)
    assert streams.listen("l", good, entries) == []
    for wrong in (Listening({"r0": "x1"}, [("r1", "x6")], 0.0, "a", 0), Listening({"r0": "z"}, [], 0.0, "a", 0),
                  Listening({"r0": "x1"}, [("r0", "x3"), ("r0", "x3")], 0.0, "a", 0)):
        assert streams.listen("l", wrong, entries)


def probes(*ends, good=True):
    return [Probe(end - 0.1, end, good) for end in ends]


def test_a_gateway_that_is_kept_from_writing_by_another_ones_fault():
    outage = Outage("gateway-freeze-long", 10.0, 30.0, frozenset("a"))
    steady = probes(*range(0, 90))
    blocked = probes(*range(0, 10), *range(31, 90))
    assert availability.judge([outage], {"a": blocked, "b": steady}, 90.0) == []
    assert availability.judge([outage], {"a": blocked, "b": blocked}, 90.0)
    # Failed attempts do not end an outage.
    assert availability.judge([outage], {"a": steady, "b": blocked + probes(*range(10, 31), good=False)}, 90.0)


def test_a_gateway_that_does_not_come_back():
    outage = Outage("gateway-freeze", 10.0, 12.0, frozenset("a"))
    assert availability.judge([outage], {"a": probes(*range(0, 10))}, 60.0)
    assert availability.judge([outage], {"a": probes(*range(0, 10), 20.0, 30.0)}, 40.0) == []
    # The time of another fault does not count.
    other = Outage("postgres-freeze", 11.0, 45.0, frozenset("ab"))
    assert availability.judge([outage, other], {"a": probes(*range(0, 10), 46, 50, 60)}, 60.0) == []


def test_trees():
    tree = assign(None, "/a/b/c", 1)
    assert tree == {"a": {"b": {"c": 1}}}
    assert assign(tree, "/a/b/d", {"e": None, "f": {"g": 2}}) == {"a": {"b": {"c": 1, "d": {"f": {"g": 2}}}}}
    assert assign(tree, "/a/b/d", None) == {"a": {"b": {"c": 1}}}
    assert assign(tree, "/a/b/c", None) is None
    assert assign({"a": 1}, "/a/b", 2) == {"a": {"b": 2}}
    assert assign({"a": 1}, "/a/b", None) == {"a": 1}


def test_registers_over_a_restored_copy():
    history = History()
    restored = Restored(kept=1, killed=4.5, noticed=5.5)
    entries = [entry(1, {"/reg/r0": "x1"}), entry(2, {"/reg/r0": "x9"})]
    history.operations += [
        Operation("c", "write", "r0", "x1", None, "a", 0, 1.0, 1.1, OK, None, 1),
        Operation("c", "write", "r0", "lost", None, "a", 0, 2.0, 2.1, OK, None, 2),
        Operation("d", "read", "r0", None, None, "a", 0, 4.0, 6.5, OK, "x9", 2),
        Operation("d", "read", "r0", None, None, "a", 1, 5.0, 5.1, OK, "lost", 2),
        Operation("c", "cas", "r0", "x9", "x1", "a", 1, 6.0, 6.1, OK, None, 2),
        Operation("d", "read", "r0", None, None, "b", 1, 7.0, 7.1, OK, "x9", 2)]
    assert registers.judge(history, entries, restored)[0] == []
    # After ten seconds no client may see it any more.
    history.operations.append(Operation("d", "read", "r0", None, None, "c", 1, 8.0, 8.1, OK, "lost", 2))
    assert registers.judge(history, entries, restored)[0]
