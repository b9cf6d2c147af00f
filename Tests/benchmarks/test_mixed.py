"""The mixed race is void if an event is missing, doubled or out of turn, or if an answer is not `ok`. These tests use servers that do each.
"""

import base64
import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
import time

import pytest
from harness.wrong import Wrong
from suites.mixed import SUBSCRIBERS, WRITERS, offered

RATE, SECONDS = 2_000, 0.5


class Server:
    """The part of a gateway that clients/mixed.c uses. `events` returns the texts to send for an event's number, text and path."""

    def __init__(self, events=lambda number, text, path: [text], status: str = "ok"):
        self._events, self._status = events, status
        self._streams: dict[str, socket.socket] = {}
        self._lock, self._number = threading.Lock(), 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for thread in self._threads[1:]:
            thread.join(30)
        self._threads[0].join(30)
        for each in (*self._sockets, self._listener):
            each.close()

    def _accept(self):
        for _ in range(SUBSCRIBERS + WRITERS):
            client, _ = self._listener.accept()
            self._sockets.append(client)
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            if b"text/event-stream" in head:
                path = re.match(rb"GET (\S+)\.json ", head).group(1).decode()
                self._streams[path] = client
                client.sendall(b'HTTP/1.1 200 OK\r\n\r\nevent: put\ndata: {"path":"/","data":null}\n\n')
                continue
            key = re.search(rb"Sec-WebSocket-Key: (\S+)", head).group(1)
            accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n" + frame('{"t":"c"}'))
            self._threads.append(threading.Thread(target=self._serve, args=(client,)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket):
        # Clients of the benchmarks end with a reset.
        with contextlib.suppress(ConnectionResetError):
            self._answer(client, client.makefile("rb"))

    def _answer(self, client: socket.socket, stream):
        while head := stream.read(2):
            size = head[1] & 127
            if size == 126:
                size = struct.unpack(">H", stream.read(2))[0]
            stream.read(4)
            body = json.loads(stream.read(size))["d"]
            with self._lock:
                number, self._number = self._number, self._number + 1
                text = json.dumps({"path": "/", "data": body["b"]["d"]})
                for each in self._events(number, text, body["b"]["p"]):
                    self._streams[body["b"]["p"]].sendall(f"event: put\ndata: {each}\n\n".encode())
            client.sendall(frame(json.dumps({"t": "d", "d": {"r": body["r"], "b": {"s": self._status, "d": ""}}}, separators=(",", ":"))))


def frame(text: str) -> bytes:
    return bytes([0x81, len(text)]) + text.encode()


def offer(**options) -> dict:
    with Server(**options) as server:
        return offered(server.port, RATE, SECONDS, "race", patience=1)


def test_a_race_in_which_all_is_well_counts():
    result = offer()
    assert result["writes"] == result["ok"] == result["events"] == RATE * SECONDS
    assert result["outOfOrder"] == 0
    assert 0 < result["event50"] <= result["event99"] <= result["eventmax"]


def test_a_missing_event_makes_it_void():
    with pytest.raises(Wrong, match="999 events"):
        offer(events=lambda number, text, path: [] if number == 700 else [text])


def test_a_repeated_event_makes_it_void():
    with pytest.raises(Wrong, match="1 of them out of order"):
        offer(events=lambda number, text, path: [text] * (2 if number == 700 else 1))


def test_a_reordered_event_makes_it_void():
    """No event is missing or doubled: two events are exchanged."""
    held: list[str] = []

    def events(number: int, text: str, path: str) -> list[str]:
        if path.endswith("/s7") and not held:
            held.append(text)
            return []
        if path.endswith("/s7") and len(held) == 1:
            held.append(text)
            return [text, held[0]]
        return [text]

    with pytest.raises(Wrong, match="1000 events came, [1-9] of them out of order"):
        offer(events=events)


def test_a_refusal_makes_it_void():
    with pytest.raises(Wrong, match="0 were answered with ok"):
        offer(status="permission_denied")


def test_a_server_that_stands_still_is_charged_for_it():
    """Avoids coordinated omission: operations that were due during a stall count with their waiting time."""
    def events(number: int, text: str, path: str) -> list[str]:
        if number == 200:
            time.sleep(0.3)
        return [text]

    result = offer(events=events)
    # 0.3 of 0.5 seconds' writes waited 0.15 seconds on average.
    assert result["event50"] > 50_000
    assert result["eventmax"] > 250_000
