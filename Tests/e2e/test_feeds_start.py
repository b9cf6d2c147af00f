"""The start of a feed, and seeking: beginning, now, a seq, a time, and a snapshot joined with later writes."""

import threading
import time

import pytest
from harness import cli
from harness.feeds import ADMIN, PATIENT, Feed, told
from harness.gateway import start_dev
from harness.waiting import wait_until


def write(tree, *values):
    """Sets orders/k to each value; returns the seqs."""
    return [tree.set("orders/k", value).seq for value in values]


def test_now(feed, tree):
    write(tree, 1, 2)
    feed.make(start="now", **PATIENT)
    write(tree, 3)
    assert told(feed.take()) == [("k", "updated", 3)]
    assert feed.has_nothing_else()


def test_beginning(feed, tree):
    write(tree, 1, 2)
    feed.make(start="beginning", **PATIENT)
    write(tree, 3)
    assert told(feed.take(3)) == [("k", "created", 1), ("k", "updated", 2), ("k", "updated", 3)]
    assert feed.has_nothing_else()


def test_behind_a_seq(feed, tree):
    seqs = write(tree, 1, 2, 3)
    made = feed.apply(status=201, start={"seq": seqs[0]}, include=["value", "old"], **PATIENT)
    assert made["created"] is True
    found = feed.take(2)
    assert [(message["seq"], message["value"], message["old"]) for message in found] == [(seqs[1], 2, 1), (seqs[2], 3, 2)]


def test_behind_the_head(feed, tree):
    """The gateway refuses a seq after the head or waits for it; it never skips entries."""
    seq = write(tree, 1)[0]
    answer = feed.call("PUT", body={"path": "/orders/{order_id}", "start": {"seq": seq + 1000}})
    assert answer.status in (201, 400), answer.body


def test_behind_a_time(feed, tree):
    write(tree, 1)
    between = wait_for_another_second()
    write(tree, 2)
    feed.make(start={"time": between}, **PATIENT)
    assert told(feed.take()) == [("k", "updated", 2)]
    assert feed.has_nothing_else()


def wait_for_another_second() -> str:
    """A time between all earlier and all later writes."""
    now = int(time.time()) + 1
    wait_until(lambda: time.time() > now + 0.01, "the next second", 5)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def test_a_snapshot_and_what_comes_after(feed, tree):
    tree.set("orders", {"a": {"total": 1}, "b": {"total": 2}})
    tree.set("other", 1)
    tree.delete("orders/b")
    head = tree.set("orders/c", {"total": 3}).seq
    feed.make(start="snapshot", **PATIENT)
    tree.set("orders/a/total", 4)
    found = feed.take(3)
    snapshot, change = [message for message in found if message["op"] == "snapshot"], found[[message["op"] for message in found].index("set")]
    assert found.index(change) > [message["key"] for message in found].index("a")
    assert {message["key"]: message["value"] for message in snapshot} == {"a": {"total": 1}, "c": {"total": 3}}
    assert {(message["op"], message["event"], message["seq"]) for message in snapshot} == {("snapshot", "created", head)}
    assert sorted(message["id"] for message in snapshot) == [f"{feed.ns}:{head}:s0", f"{feed.ns}:{head}:s1"]
    assert (change["op"], change["event"], change["value"], change["seq"]) == ("set", "updated", {"total": 4}, head + 1)
    assert feed.has_nothing_else()


def test_a_snapshot_of_nothing(feed, tree):
    feed.make(start="snapshot", **PATIENT)
    assert feed.has_nothing_else()


def test_a_snapshot_is_filtered(feed, tree):
    tree.set("orders", {"small": {"total": 1}, "large": {"total": 1000}})
    feed.make(start="snapshot", filter="newData.child('total').val() > 100", **PATIENT)
    assert [message["key"] for message in feed.take()] == ["large"]
    assert feed.has_nothing_else()


def test_snapshot_messages_are_settled_like_others(feed, tree):
    tree.set("orders", {"a": 1, "b": 2})
    feed.make(start="snapshot", max_attempts=2, **PATIENT)
    messages = feed.next(2)
    feed.nack(messages)
    again = feed.next(2)
    assert [(message["id"], message["attempt"]) for message in again] == [(message["id"], 2) for message in messages]
    feed.nack(again[:1])
    feed.ack(again[1:])
    letter = wait_until(feed.dead, "a dead letter")[0]
    assert letter["id"] == again[0]["id"]
    assert feed.retry_dead(all=True) == 1
    assert feed.take()[0]["id"] == again[0]["id"]


@pytest.mark.acceptance
def test_a_snapshot_joins_what_is_written_meanwhile(feed, tree):
    """The snapshot and the later changes fold to the tree, without a gap or a repeat, at any time of the snapshot."""
    tree.set("orders", {f"k{number:04}": {"n": 0} for number in range(2000)})
    stop, failures = threading.Event(), []

    def work(writer):
        number = 0
        try:
            while not stop.is_set():
                number += 1
                key = f"orders/k{(number * 7 + writer) % 2000:04}"
                # Some records are removed and written again, so that the snapshot has more and fewer than before.
                if number % 5 == 0:
                    tree.delete(key)
                else:
                    tree.set(key, {"n": number, "w": writer})
        except BaseException as failure:
            failures.append(failure)

    writers = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for writer in writers:
        writer.start()
    try:
        feeds = []
        for number in range(4):
            before = tree.set("orders/tick", number).seq
            feeds.append((before, feed.named(f"snapshot-{number}").make(start="snapshot", include=["value", "old"], **PATIENT)))
    finally:
        stop.set()
        for writer in writers:
            writer.join(30)
    assert failures == []
    last = tree.set("orders/end", True).seq
    final = tree.value("orders")
    for before, snapshot in feeds:
        folded(snapshot, before, last, final)


def folded(feed, before: int, last: int, final: dict):
    """Consumes all of the feed and compares the result with the tree."""
    records: dict = {}
    joined = None
    seen = set()
    while "end" not in records:
        messages = feed.pull(1000, "10s")
        assert messages, "the feed has ended early"
        for message in messages:
            assert message["id"] not in seen, message
            seen.add(message["id"])
            if message["op"] == "snapshot":
                assert joined in (None, message["seq"]), "a snapshot of two positions"
                joined = message["seq"]
                assert joined >= before and message["key"] not in records
            else:
                assert joined is not None and message["seq"] > joined, "a change that the snapshot has already"
                assert message["old"] == records.get(message["key"]), "a change that is missing, or is there twice"
            if message["value"] is None:
                records.pop(message["key"])
            else:
                records[message["key"]] = message["value"]
        feed.ack(messages)
    assert joined <= last and records == final


# MARK: seeking


def test_seek_to_a_seq(feed, tree):
    feed.make(**PATIENT)
    seqs = write(tree, 1, 2, 3)
    first = feed.take(3)
    assert feed.ask("POST", "seek", {"seq": seqs[0]})["seq"] == seqs[0]
    again = feed.take(2)
    assert again == first[1:], "messages after the seq are delivered again, with the same ids, as a first attempt"
    assert feed.has_nothing_else()


def test_seek_to_a_time(feed, tree):
    feed.make(**PATIENT)
    write(tree, 1)
    between = wait_for_another_second()
    write(tree, 2)
    feed.take(2)
    feed.ask("POST", "seek", {"time": between})
    assert told(feed.take()) == [("k", "updated", 2)]
    assert feed.has_nothing_else()


@pytest.mark.parametrize("place, wanted", [("beginning", [1, 2, 3]), ("now", []), ("snapshot", [3])])
def test_seek_to(feed, tree, place, wanted):
    feed.make(**PATIENT)
    write(tree, 1, 2, 3)
    feed.take(3)
    feed.ask("POST", "seek", {"to": place})
    assert [message["value"] for message in (feed.take(len(wanted)) if wanted else [])] == wanted
    assert feed.has_nothing_else()


def test_seeking_forward_leaves_out(feed, tree):
    feed.make(start="beginning", **PATIENT)
    seqs = write(tree, 1, 2, 3)
    feed.ask("POST", "seek", {"seq": seqs[1]})
    # Messages that were read before the move may still be delivered during it.
    found = []
    while not found or found[-1]["seq"] < seqs[2]:
        messages = feed.pull(1, "5s")
        assert messages, found
        feed.settle("ack", messages)
        found += messages
    assert feed.has_nothing_else(but=found[-1:])


def test_seeking_takes_back_what_is_held(feed, tree):
    """A consumer cannot acknowledge an earlier delivery: the message is delivered again."""
    feed.make(**PATIENT)
    seqs = write(tree, 1, 2)
    held = feed.next(2, "c1")
    feed.ask("POST", "seek", {"seq": seqs[0] - 1})
    assert feed.settle("ack", held, consumer="c1")[held[0]["id"]] in ("unknown", "expired")
    again = feed.next(2, "c2")
    assert [message["id"] for message in again] == [message["id"] for message in held]
    feed.ack(again, consumer="c2")
    assert feed.has_nothing_else()


def test_seeking_twice_at_once(feed, tree):
    feed.make(**PATIENT)
    write(tree, *range(20))
    feed.take(20)
    threads = [threading.Thread(target=lambda: feed.ask("POST", "seek", {"to": "beginning"})) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [message["value"] for message in feed.take(20)] == list(range(20))
    assert feed.has_nothing_else()


# MARK: restarts and pruning


def test_progress_survives_a_restart(scratch, logs):
    gateway = start_dev(scratch / "data", logs)
    try:
        feed = Feed(gateway.rest).make(max_attempts=2, **PATIENT)
        write(gateway.rest, 1, 2, 3, 4)
        messages = feed.next(4)
        feed.ack(messages[:2])
        feed.nack(messages[2:3], reason="before")
        feed.nack(feed.next(1), reason="last")
        letter = wait_until(feed.dead, "a dead letter")
        gateway.stop()
        gateway = start_dev(scratch / "data", logs)
        feed = feed.through(gateway.rest)
        assert feed.dead() == letter
        assert feed.definition()["max_attempts"] == 2
        assert [message["id"] for message in feed.take(1)] == [messages[3]["id"]]
        feed.retry_dead(all=True)
        assert [message["id"] for message in feed.take(1)] == [messages[2]["id"]]
        assert feed.has_nothing_else()
    finally:
        gateway.stop()


def test_a_start_in_what_was_pruned(serve, database_url):
    """The error names the first available entry; the feed does not skip entries silently."""
    gateway = serve()
    seqs = write(gateway.rest, 1, 2, 3)
    cli.succeeds("log", "prune", "--keep", "1 entry", "--yes", "--database-url", database_url)
    feed = Feed(gateway.rest, headers=ADMIN)
    answer = feed.call("PUT", body={"path": "/orders/{order_id}", "start": {"seq": 0}, **PATIENT})
    assert answer.status in (400, 410), (answer.status, answer.body)
    assert feed.call("GET").status == 404
    feed.make(start={"seq": seqs[1]}, include=["value", "old"], **PATIENT)
    message, = feed.take(1)
    assert (message["value"], message["old"]) == (3, 2)
    assert feed.call("POST", "seek", {"seq": 0}).status in (400, 410)
    assert feed.call("POST", "seek", {"to": "beginning"}).status in (400, 410)
