"""The proxies lose the data that they were set to lose, and no other."""

import socket
import threading

import pytest
from harness.scratch import scratch_directory
from harness.waiting import wait_until
from rig.proxies import Proxies


class Echo:
    """A server that sends all data back as it arrives."""

    def __init__(self):
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.got = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.door.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client:
            try:
                while data := client.recv(65536):
                    self.got += data
                    client.sendall(data)
            except OSError:
                pass


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.door.shutdown(socket.SHUT_RDWR)
    server.door.close()


@pytest.fixture
def proxies(echo):
    with scratch_directory("proxies") as logs:
        proxies = Proxies(logs)
        proxies.port = proxies.open("x", echo.port)
        try:
            yield proxies
        finally:
            proxies.close()


@pytest.fixture
def client(proxies):
    with socket.create_connection(("127.0.0.1", proxies.port), 20) as client:
        yield client


def take(client, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := client.recv(count - len(data))):
        data += more
    return data


def hears_nothing(client) -> bool:
    client.settimeout(0.2)
    try:
        return client.recv(1) is None
    except TimeoutError:
        return True
    finally:
        client.settimeout(20)


def test_everything_passes(client):
    text = bytes(range(256)) * 4000
    threading.Thread(target=client.sendall, args=(text,), daemon=True).start()
    assert take(client, len(text)) == text


@pytest.mark.parametrize("ways", [("stall", "stall"), ("stall", "pass"), ("pass", "stall")])
def test_a_stall_keeps_what_comes_and_lets_it_go_later(proxies, client, echo, ways):
    client.sendall(b"one")
    assert take(client, 3) == b"one"
    proxies.set("x", *ways)
    client.sendall(b"two")
    assert hears_nothing(client)
    assert (echo.got == b"onetwo") == (ways[0] == "pass")
    proxies.set("x")
    assert take(client, 3) == b"two"


def test_the_first_bytes_of_a_message_and_then_a_reset(proxies, client, echo):
    proxies.arm("x", "up", "COPY", 7, "reset", 10)
    client.sendall(b"a longer message")
    assert take(client, 16) == b"a longer message"
    client.sendall(b"COPY")
    assert take(client, 4) == b"COPY"
    client.sendall(b"begin; COPY; end")
    with pytest.raises(ConnectionResetError):
        take(client, 100)
    # A reset discards data that the other side has not read yet; more than the first bytes never arrives.
    assert echo.got in (b"a longer messageCOPY", b"a longer messageCOPYbegin; ") and proxies.tripped("x") == 1


def test_an_answer_that_does_not_arrive(proxies, client, echo):
    proxies.arm("x", "down", "COMMIT\0", 0, "close")
    client.sendall(b"COMMIT\0")
    assert take(client, 1) == b""
    assert echo.got == b"COMMIT\0"


def test_silence_in_the_middle_of_a_message(proxies, client, echo):
    proxies.arm("x", "up", None, 2, "stall")
    client.sendall(b"four")
    wait_until(lambda: echo.got == b"fo", "the first half")
    assert hears_nothing(client) and echo.got == b"fo"
    # Other connections continue.
    with socket.create_connection(("127.0.0.1", proxies.port), 20) as other:
        other.sendall(b"x")
        assert take(other, 1) == b"x"
    proxies.set("x")
    wait_until(lambda: echo.got.replace(b"x", b"") == b"four", "the rest")


def test_ends_and_refusals(proxies, client):
    client.sendall(b"1")
    assert take(client, 1) == b"1"
    proxies.end("x", "close")
    assert take(client, 1) == b""
    proxies.refuse("x", True)
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", proxies.port), 20) as other:
        other.sendall(b"1")
        if not other.recv(1):
            raise ConnectionResetError
    proxies.refuse("x", False)
    with socket.create_connection(("127.0.0.1", proxies.port), 20) as other:
        other.sendall(b"1")
        assert take(other, 1) == b"1"
        proxies.end("x", "reset")
        with pytest.raises(ConnectionResetError):
            take(other, 1)


def startup(name: str) -> bytes:
    """A startup message of PostgreSQL's protocol."""
    body = b"\0\3\0\0user\0postgres\0application_name\0" + name.encode() + b"\0\0"
    return (len(body) + 4).to_bytes(4, "big") + body


def exchange(client, data: bytes):
    client.sendall(data)
    assert take(client, len(data)) == data


@pytest.mark.parametrize("lost", ["before", "after"])
def test_the_nth_call_of_a_named_connection_is_lost(proxies, client, echo, lost):
    # A request for encryption may come first.
    exchange(client, b"\0\0\0\x08\x04\xd2\x16\x2f")
    exchange(client, startup("pathmirror feed reader"))
    with socket.create_connection(("127.0.0.1", proxies.port), 20) as other:
        exchange(other, startup("pathmirror feed writer"))
        proxies.lose_call("x", "pathmirror feed reader", "select", 2, lost)
        exchange(client, b"select 1")
        exchange(client, b"others do not count")
        exchange(client, b"select 2")
        exchange(other, b"select 3")
        client.sendall(b"select 4")
        with pytest.raises(ConnectionResetError):
            take(client, 8)
        exchange(other, b"select 5")
    assert proxies.tripped("x") == 1
    assert (b"select 4" in echo.got) == (lost == "after")


def test_a_trap_for_calls_that_nothing_has_met_is_removed(proxies, client):
    exchange(client, startup("pathmirror feeds"))
    proxies.lose_call("x", "pathmirror feeds", None, 0, "before")
    proxies.keep_calls("x")
    exchange(client, b"passes")
    assert proxies.tripped("x") == 0
