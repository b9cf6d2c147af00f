"""Connections that flood, send slowly, stop half way or send garbage: the gateway ends them, and other clients are not affected."""

from contextlib import ExitStack

import pytest
from harness.process import resident_bytes
from harness.raw import Responses, answer_or_close, closed_by_server, raw_connection
from harness.sse import Listener
from harness.waiting import wait_until

# Times short enough for a test; every option has an environment variable.
IMPATIENT = "header-timeout=1500ms,body-timeout=1500ms"


@pytest.fixture
def neighbour(dev):
    """A listener and a client that the test's other connections must not affect."""
    own = dev.unique()
    own.set(value={"n": 0})
    with Listener(own) as listener:
        listener.next()
        yield
        own.set("n", 1)
        listener.wait_for_value({"n": 1})
        assert own.value() == {"n": 1}


def test_a_flood_of_headers(dev, at, neighbour):
    with raw_connection(dev.port) as plain:
        plain.sendall(f"GET {at.url()} HTTP/1.1\r\nHost: localhost\r\n".encode())
        before = resident_bytes(dev.process.pid)
        try:
            for number in range(400_000):
                plain.sendall(f"X-Flood-{number}: {'y' * 90}\r\n".encode())
        except ConnectionError:
            pass
        assert answer_or_close(plain) in (431, 400, None)
    # The gateway may continue to read so that the client can read the answer, but it stores none of the 40 MB.
    assert resident_bytes(dev.process.pid) - before < 20_000_000


def test_a_header_without_end(dev, at, neighbour):
    with raw_connection(dev.port) as plain:
        plain.sendall(f"GET {at.url()} HTTP/1.1\r\nHost: localhost\r\nX: ".encode())
        try:
            for _ in range(400):
                plain.sendall(b"y" * 65_536)
        except ConnectionError:
            pass
        assert answer_or_close(plain) in (431, 400, None)


def test_a_request_line_without_end(dev, neighbour):
    with raw_connection(dev.port) as plain:
        try:
            plain.sendall(b"GET /")
            for _ in range(400):
                plain.sendall(b"a" * 65_536)
        except ConnectionError:
            pass
        assert answer_or_close(plain) in (414, 431, 400, None)


@pytest.mark.parametrize("text", [
    b"NONSENSE\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"GET /.json HTTP/9.9\r\n\r\n", b"GET /.json HTTP/1.1\r\nBad Header: x\r\n\r\n",
    b"PUT /x.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: abc\r\n\r\n", b"PUT /x.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"PUT /x.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n123",
    b"PUT /x.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"PUT /x.json HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n1\r\n0\r\n\r\n",
    b"PUT /x.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", b"\0" * 5000])
def test_nonsense_is_refused(dev, neighbour, text):
    with raw_connection(dev.port) as plain:
        plain.sendall(text)
        # Half-closed, so that a text which is the beginning of a request ends too.
        plain.shutdown(1)
        status = answer_or_close(plain)
    assert status is None or 400 <= status <= 505


@pytest.mark.parametrize("body", [
    b"3;a\nb\r\n123\r\n0\r\n\r\n", b"3;a\0b\r\n123\r\n0\r\n\r\n", b"3;a\rb\r\n123\r\n0\r\n\r\n", b"3\rX123\r\n0\r\n\r\n",
    b"3\r\n123XY0\r\n\r\n", b"3\r\n123\r\n0;\n\r\n\r\n", b"3\r\n123\r\n0\r\n\rX", b"3;" + b"x" * 5000 + b"\r\n123\r\n0\r\n\r\n"])
def test_lines_around_chunks_that_proxies_read_otherwise(dev, at, neighbour, body):
    """Each body ends with bytes that a proxy with another reading of the line takes for a part of the body, or for a request."""
    hidden = f"PUT {at.url('hidden')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1".encode()
    with raw_connection(dev.port) as plain:
        plain.sendall(f"PUT {at.url('sent')} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + body + hidden)
        assert answer_or_close(plain) == 400
    assert at.value() is None


def test_a_body_larger_than_allowed_is_refused_before_it_is_sent(dev, at, neighbour):
    with raw_connection(dev.port) as plain:
        plain.sendall(f"PUT {at.url('big')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2**40}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert answer_or_close(plain) in (400, 413, 417)
    assert at.value("big") is None


def test_a_truncated_body_writes_nothing(dev, at, neighbour):
    for extra in ("Content-Length: 100", "Transfer-Encoding: chunked"):
        with raw_connection(dev.port) as plain:
            body = '{"a":1}' if "Length" in extra else '7\r\n{"a":1}\r\n'
            plain.sendall(f"PUT {at.url('cut')} HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n\r\n{body}".encode())
            plain.shutdown(1)
            assert answer_or_close(plain) in (None, 400, 408)
    assert at.value("cut") is None


def test_a_client_that_leaves_before_the_answer(dev, at, neighbour):
    for number in range(50):
        with raw_connection(dev.port) as plain:
            plain.sendall(f"PUT {at.url(f'gone/{number}')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1".encode())
    # A complete request whose client is gone may count; half a request never does.
    assert set((at.value("gone", format="export") or {"0": 1}).values()) == {1}


def test_listeners_that_leave(dev, at, neighbour):
    for _ in range(50):
        with raw_connection(dev.port) as plain:
            plain.sendall(f"GET {at.url()} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())


def test_slow_headers_and_slow_bodies_are_cut_off(serve):
    gateway = serve(tune=IMPATIENT)
    rest = gateway.unique()
    rest.set(value="kept")
    target = rest.url()
    beginnings = [b"G", f"GET {target} HTTP/1.1\r\nHost: localhost\r\nX-Slow".encode(),
                  f"PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n\"slow".encode(),
                  f"PUT {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\"slo".encode()]
    with ExitStack() as stack:
        dawdlers = [stack.enter_context(raw_connection(gateway.port, patience=45)) for _ in beginnings]
        for plain, beginning in zip(dawdlers, beginnings):
            plain.sendall(beginning)
        for plain, beginning in zip(dawdlers, beginnings):
            assert closed_by_server(plain), beginning
    assert rest.value() == "kept"


def test_a_trickle_is_slow_too(serve):
    """An occasional byte does not keep a request open for ever."""
    gateway = serve(tune=IMPATIENT)
    with raw_connection(gateway.port) as plain:
        plain.sendall(b"GET /x.json HTTP/1.1\r\nHost: localhost\r\nX-Trickle: ")
        plain.settimeout(0.1)

        def trickle():
            try:
                plain.sendall(b"y")
                return plain.recv(1000) is not None
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        wait_until(trickle, "the server to lose patience", 45)


def test_many_slow_connections_leave_room_for_others(dev, at, neighbour):
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(raw_connection(dev.port)).sendall(b"GET /x.json HTTP/1.1\r\nHost:")
        at.set("beside", 1)
        assert at.value("beside") == 1


def test_a_connection_goes_on_after_a_refused_request(dev, at, neighbour):
    with raw_connection(dev.port) as plain:
        responses = Responses(plain)
        for body, status in ((b"{", 400), (b"1", 200), (b'{"a.b":1}', 400), (b"2", 200)):
            plain.sendall(f"PUT {at.url('same')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            assert responses.next()[0] == status
    assert at.value("same") == 2
