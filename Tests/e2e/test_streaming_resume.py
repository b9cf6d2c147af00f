"""Resumption with Last-Event-ID: on the same gateway, after a restart, on another gateway, and without the former entries. Slow readers."""

import json
import threading
import time

import pytest
from harness import sql
from harness.process import resident_bytes
from harness.raw import raw_connection
from harness.rest import ordered
from harness.sse import Listener, Refused
from harness.waiting import wait_until
from oracle.query import select
from oracle.tree import assign


def test_resume_continues_after_the_id(at):
    at.set(value={"a": 1})
    with Listener(at) as first:
        first.next()
        at.set("b", 2)
        seen = first.next().id
    missed = [at.set("c", 3).seq, at.patch(value={"d": 4, "a": None}).seq, at.delete("b").seq]
    with Listener(at, last_event_id=seen) as second:
        events = [second.next() for _ in missed]
        assert [event.id for event in events] == missed
        assert events[0].change == ("put", "/c", 3)
        assert events[1].change == ("patch", "/", {"d": 4, "a": None})
        assert events[2].change == ("put", "/b", None)
        live = at.set("e", 5).seq
        assert second.next().id == live


def test_resume_with_nothing_missed_is_silent_until_the_next_write(at):
    at.set(value={"a": 1})
    with Listener(at) as first:
        seen = first.next().id
    with Listener(at, last_event_id=seen) as listener:
        live = at.set("a", 2).seq
        event = listener.next()
        assert event.change == ("put", "/a", 2) and event.id == live


def test_resume_of_a_query_has_the_right_window_in_the_end(at):
    query = {"orderBy": "$key", "limitToLast": 2}
    at.set(value={"a": 1, "b": 2, "c": 3})
    with Listener(at, **ordered(**query)) as first:
        seen = first.next().id
    at.delete("c")
    at.set("d", 4)
    with Listener(at, last_event_id=seen, value=first.value, **ordered(**query)) as second:
        second.wait_for_value(select({"a": 1, "b": 2, "d": 4}, **query))


def test_an_id_from_the_future_begins_anew(at):
    at.set(value={"a": 1})
    with Listener(at, last_event_id=10**15) as listener:
        assert listener.next().change == ("put", "/", {"a": 1})


@pytest.mark.parametrize("text", ["abc", "0", "1", "-1", "1.5", "1e3", "0x10", "1 2", "1-", "1-AAAAAAAAAAAAAAAA", "99999999999999999999999999"])
def test_an_id_that_was_never_given_begins_anew(at, text):
    at.set(value={"a": "deleted since"})
    at.set(value={"a": 1})
    with Listener(at, headers={"Last-Event-ID": text}) as listener:
        assert listener.next().change == ("put", "/", {"a": 1})


def test_an_id_of_another_place_or_another_seq_begins_anew(at):
    at.set(value={"a": {"x": 1}, "b": 1})
    with Listener(at.at("a")) as first:
        seen = first.next().id
    at.set("b", "deleted since")
    at.set("b", 2)
    with Listener(at.at("b"), last_event_id=seen) as listener:
        assert listener.next().change == ("put", "/", 2)
    forged = f"{int(seen) - 1}-{seen.text.partition('-')[2]}"
    with Listener(at.at("a"), headers={"Last-Event-ID": forged}) as listener:
        assert listener.next().change == ("put", "/", {"x": 1})


def test_an_administrator_may_name_any_seq(at):
    first = at.set(value={"a": 1}).seq
    seq = at.set("a", 2).seq
    with Listener(at.with_headers(Authorization="Bearer owner"), last_event_id=first) as listener:
        event = listener.next()
        assert event.change == ("put", "/a", 2) and event.id == seq


def test_an_empty_id_is_no_id(at):
    at.set(value={"a": 1})
    with Listener(at, headers={"Last-Event-ID": ""}) as listener:
        assert listener.next().change == ("put", "/", {"a": 1})


def test_resume_across_a_restart(serve, database_url):
    gateway = serve()
    rest = gateway.unique()
    rest.set(value={"a": 1})
    listener = Listener(rest)
    seen = listener.next().id
    missed = [rest.set("b", 2).seq]
    missed = [rest.set("c", 3).seq, rest.set("d", 4).seq]
    listener.wait_for_id(missed[1])
    last = listener.events[-2].id
    gateway.stop()
    listener.wait_for_end()
    again = serve()
    with Listener(again.rest.at(rest.base), last_event_id=last) as resumed:
        assert (resumed.next().change, resumed.last_id) == (("put", "/d", 4), missed[1])
    with Listener(again.rest.at(rest.base), last_event_id=seen) as resumed:
        assert [resumed.next().change[1] for _ in range(3)] == ["/b", "/c", "/d"]


def test_what_is_no_longer_retained_begins_anew(serve, database_url):
    gateway = serve()
    rest = gateway.unique()
    rest.set(value={"a": 1})
    with Listener(rest) as listener:
        for number in range(10):
            last = rest.set("n", number).seq
        listener.wait_for_id(last)
        ids = [event.id for event in listener.events]
    gateway.stop()
    sql.forget_up_to(database_url, last - 2)
    again = serve()
    there = again.rest.at(rest.base)
    with Listener(there, last_event_id=ids[0]) as listener:
        event = listener.next()
        assert event.change == ("put", "/", {"a": 1, "n": 9}) and event.id >= last
        listener.wait_for_value(there.value())
    with Listener(there, last_event_id=ids[-3]) as listener:
        assert [listener.next().data for _ in range(2)] == [8, 9]
    with Listener(there, last_event_id=ids[-4]) as listener:
        assert listener.next().path == "/"


def test_a_slow_reader_is_conflated(dev, at):
    """A stalled reader delays no other client, uses limited memory, and ends with the right value."""
    text = "x" * 20_000
    at.set(value={"n": 0, "text": text})
    pid = dev.process.pid
    with raw_connection(dev.port, patience=60, receive_buffer=8192) as plain, Listener(at) as fast:
        plain.sendall(f"GET {at.url(eventIds='true')} HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
        fast.next()
        for number in range(50):
            at.set(value={"n": number, "text": text})
        before = resident_bytes(pid)
        begin = time.monotonic()
        # 50 MB of events for a reader that reads none of them.
        for number in range(2500):
            at.put(value={"n": number, "text": text}, print="silent")
        took = time.monotonic() - begin
        fast.wait_for_value({"n": 2499, "text": text}, 30)
        grown = resident_bytes(pid) - before
        final = at.put("n", "final").seq
        data = bytearray()

        def drained():
            data.extend(plain.recv(1 << 20))
            return f"id: {final}-".encode() in data[-100_000:] and data.endswith(b"\n\n")

        wait_until(drained, "the slow reader to get the last event", 30, 0)
    assert grown < 60_000_000, f"{grown / 1e6:.0f} MB more for one slow reader"
    assert len(data) < 25_000_000, "the slow reader got everything: nothing was conflated"
    assert took < 60
    listener_value = fold(bytes(data))
    assert listener_value == {"n": "final", "text": text}


def fold(data: bytes):
    """The value that results from a raw stream."""
    value, last = None, 0
    for frame in data.partition(b"\r\n\r\n")[2].decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line)
        if fields.get("event") in ("put", "patch"):
            seq = int(fields["id"].partition("-")[0])
            assert seq > last or last == 0
            last = seq
            change = json.loads(fields["data"])
            parts = {"": change["data"]} if fields["event"] == "put" else change["data"]
            for key, part in parts.items():
                value = assign(value, f"{change['path']}/{key}", part)
    return value


def test_a_listener_that_opens_amid_writes_misses_nothing(serve):
    """The first value waits for a busy worker, and the later changes exceed the buffer."""
    rest = serve("--stream-buffer", "256B", tune="workers=1").unique()
    rest.set(value={"large": {f"k{number}": "text" for number in range(30_000)}, "small": {f"{number:x}k": 1 for number in range(2_010)}})
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            rest.patch("small", {f"n{(number + step) % 5000}": number for step in range(20)})
            number += 20

    def keep_busy():
        while not stop.is_set():
            rest.get("large")

    threads = [threading.Thread(target=work) for work in (write, keep_busy, keep_busy)]
    for thread in threads:
        thread.start()
    listeners = []
    try:
        for _ in range(12):
            listeners.append(Listener(rest.at("small")))
        for listener in listeners:
            listener.next()
        stop.set()
        for thread in threads:
            thread.join()
        seq = rest.set("small/end", True).seq
        expected = rest.value("small")
        for listener in listeners:
            listener.wait_for_id(seq)
            assert listener.value == expected
    finally:
        stop.set()
        for listener in listeners:
            listener.close()


def test_a_listener_that_comes_and_goes_misses_nothing(at):
    """Writers never pause while a reader repeatedly drops its connection and resumes."""
    at.set(value={"start": True})
    seqs, stop = [], threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            seqs.append(at.set(f"n{number % 10}", number).seq)
            number += 1

    with Listener(at) as first:
        seen = [first.next().id]
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(25):
            with Listener(at, last_event_id=seen[-1]) as listener:
                for _ in range(5):
                    seen.append(listener.next().id)
    finally:
        stop.set()
        writer.join()
    expected = [seq for seq in seqs if seen[0] < seq <= seen[-1]]
    assert seen[1:] == expected
