"""Listeners count an event only where each of them gets every one, once and in order."""

import contextlib
import socket
import threading

import pytest
from harness.broadcast import Broadcast
from harness.connections import Connections
from harness.process import Failed

COUNT = 3


@pytest.mark.parametrize("kind", ["raw_stream", "raw_listen"])
@pytest.mark.parametrize("skipped", [1, -1], ids=["missing", "repeated"])
def test_an_event_that_is_missing_or_repeated_ends_the_count(kind, skipped):
    with Broadcast(COUNT, 1) as broadcast, Connections(broadcast.port, **{kind: COUNT}) as listeners:
        broadcast.accepted()
        for number in (1, 2):
            broadcast.put()
            assert listeners.reached(10)[0] == number
        broadcast.count += skipped
        # The first listener to see it ends all of them, possibly before the broadcast has sent to the others.
        with contextlib.suppress(Failed):
            broadcast.put()
        with pytest.raises(Failed):
            listeners.reached(10)


def test_events_may_come_in_any_pieces():
    """One byte each, from a server that has one listener."""
    sent = b"".join(b'event: put\ndata: {"path":"/","data":"message %d"}\n\n' % number for number in (9, 10, 11))
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            with server.accept()[0] as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for byte in sent:
                    connection.sendall(bytes([byte]))
                done.wait(30)

        done = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with Connections(server.getsockname()[1], raw_stream=1) as listeners:
                last = 0
                while last < 3:
                    last = listeners.reached(10)[0]
        finally:
            done.set()
            thread.join(30)
    assert last == 3
