"""The race of a follower is void if a write of the upstream is missing in its log, if there was a gap, or if the trees differ; and the relay
holds back every byte, and loses none."""

import socket
import threading
import time

import pytest
from harness.process import Failed
from harness.relay import Relay
from harness.wrong import Wrong
from suites.follow import LEAVES, Pair, lags, part, rate


@pytest.fixture
def line():
    """(relay, the follower's end, the upstream's end)."""
    with socket.create_server(("127.0.0.1", 0)) as server, Relay(server.getsockname()[1]) as relay:
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            upstream, _ = server.accept()
            with upstream:
                client.settimeout(5)
                upstream.settimeout(5)
                yield relay, client, upstream


def received(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = end.recv(1 << 16)
        assert piece, f"only {len(data)} bytes"
        data += piece
    return data


def test_a_relay_passes_on_in_both_directions(line):
    _, client, upstream = line
    client.sendall(b"up")
    upstream.sendall(b"down")
    assert (received(upstream, 2), received(client, 4)) == (b"up", b"down")


def test_what_is_held_comes_later_whole_and_in_order(line):
    relay, client, upstream = line
    relay.hold()
    data = bytes(range(256)) * 20_000
    sender = threading.Thread(target=upstream.sendall, args=(data,))
    sender.start()
    # The upstream does not wait for its reader.
    sender.join(5)
    assert not sender.is_alive()
    client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.sendall(b"up")
    assert received(upstream, 2) == b"up"
    client.settimeout(5)
    relay.release()
    assert received(client, len(data)) == data
    upstream.sendall(b"later")
    assert received(client, 5) == b"later"


def test_an_end_comes_after_what_is_held(line):
    relay, client, upstream = line
    relay.hold()
    upstream.sendall(b"last")
    upstream.shutdown(socket.SHUT_WR)
    time.sleep(0.05)
    relay.release()
    assert received(client, 4) == b"last" and client.recv(1) == b""


def test_lags_are_those_of_paths_that_both_have():
    assert lags({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 5.0, "c": 4.0, "d": 1.0}) == [1.0, 4.0]
    values = [float(number) for number in range(200)]
    assert (part(values, 0.5), part(values, 0.99), part([7.0], 0.99)) == (100.0, 198.0, 7.0)


@pytest.fixture
def pair():
    with Pair(LEAVES) as pair:
        yield pair


def test_a_race_in_which_all_is_well_counts(pair):
    for holds in (True, False):
        followed, written = rate(pair, 1, holds, holds)
        assert followed > 0 and written > 0
    pair.check()


def test_a_gap_makes_it_void(pair):
    pair.relay.cut()
    for number in range(3):
        pair.upstream.request("PUT", "/bench/first.json", f'"{number}"')
    # The follower connects again after a second.
    end = time.monotonic() + 30
    while pair.follower.request("GET", "/bench/first.json") != b'"2"':
        assert time.monotonic() < end
        time.sleep(0.05)
    with pytest.raises(Wrong, match="2 resync entries"):
        pair.check()


def test_a_tree_that_differs_makes_it_void(pair):
    pair.follower.sql("update pathmirror.node set value = '\"other\"' where path = '/bench/first'")
    with pytest.raises(Failed, match="bench/first"):
        pair.check()


def test_a_follower_that_does_not_come_makes_it_void(pair):
    pair.relay.hold()
    head = pair.heads()[1]
    pair.upstream.request("PUT", "/bench/first.json", '"new"')
    with pytest.raises(Wrong, match=f"is at {head} instead of {head + 1}: following"):
        pair.wait_for(head + 1, 1)
    pair.relay.release()
    pair.wait_for(head + 1, 20)
