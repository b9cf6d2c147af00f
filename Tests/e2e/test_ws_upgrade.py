"""A WebSocket replaces long polling at the request of a browser."""

import threading

import pytest
from harness.waiting import Late, wait_until
from harness.websocket import Closed
from harness.websocket_client import RealtimeClient, datum
from harness.websocket_polling import PollingClient

PING = {"t": "c", "d": {"t": "p", "d": {}}}
PONG = {"t": "c", "d": {"t": "o", "d": None}}
READY = {"t": "c", "d": {"t": "a", "d": {}}}
OFFER = {"t": "c", "d": {"t": "a", "d": None}}
LAST = {"t": "c", "d": {"t": "n", "d": {}}}
END = {"t": "c", "d": {"t": "n", "d": None}}
OK = {"s": "ok", "d": ""}


def offered(port: int, session: str) -> RealtimeClient:
    """A socket for a polling session, with its greeting in `hello`."""
    client = RealtimeClient(port, extra=f"&s={session}")
    client.socket.opened()
    client.hello = client.message()
    return client


def try_out(socket: RealtimeClient):
    for _ in range(2):
        socket.send(PING)
        assert socket.message() == PONG


def end_polling(polling: PollingClient):
    """Ends the polling, and reads its remaining messages."""
    [piece] = polling.pieces(LAST)
    polling.poll(piece)
    while polling.messages[-1:] != [END]:
        polling.poll()
    polling.messages.pop()
    # The SDK polls once more, and gets the order to stop.
    assert polling.poll() == f"pLPCommand('close',{polling.expected - 1})"


def upgraded(port: int) -> tuple[PollingClient, RealtimeClient]:
    polling = PollingClient(port)
    socket = offered(port, polling.id)
    assert socket.hello == OFFER
    try_out(socket)
    socket.send(READY)
    end_polling(polling)
    return polling, socket


def test_the_session_goes_on_on_the_socket(dev, at):
    polling = PollingClient(dev.port)
    assert polling.request(1, "q", {"p": at.base, "h": ""})["s"] == "ok"
    polling.request(2, "o", {"p": f"{at.base}/left", "d": True})
    socket = offered(dev.port, polling.id)
    assert socket.hello == OFFER
    try_out(socket)
    # Polling continues meanwhile.
    assert polling.request(3, "p", {"p": f"{at.base}/a", "d": 1}) == OK
    socket.send(READY)
    end_polling(polling)
    socket.number = 3
    at.set("b", value=2)
    assert socket.push() == datum(f"{at.base}/b", 2)
    assert socket.put(f"{at.base}/c", 3) == ""
    # The page removes its frame; that must not end the session.
    polling.get(f"disconn=t&id={polling.id}&pw={polling.password}")
    assert socket.ok("g", {"p": at.base, "q": {}}) == {"a": 1, "b": 2, "c": 3}
    assert at.value("left") is None
    socket.socket.close()
    wait_until(lambda: at.value("left") is True, "the session to end with its socket")


def test_polling_ends_with_the_upgrade(dev, at):
    """A browser has six connections for a host, over all its tabs; the SDK polls until the server stops it."""
    polling, socket = upgraded(dev.port)
    last = polling.expected - 1
    # A poll in flight ends nothing before the last response.
    assert polling.get(f"id={polling.id}&pw={polling.password}") == f"pLPCommand('close',{last})"
    polling.get(f"disconn=t&id={polling.id}&pw={polling.password}")
    assert polling.poll() == "pLPCommand('close')"
    assert socket.put(at.base, 1) == ""
    socket.socket.close()


@pytest.mark.parametrize("ready", ["polls", "says goodbye", "does nothing"])
def test_nothing_comes_on_the_socket_before_the_end_of_polling(dev, at, ready):
    """The SDK puts such an answer aside, reads all messages first, and applies it afterwards, over newer data."""
    polling = PollingClient(dev.port)
    polling.request(1, "q", {"p": at.base, "h": ""})
    socket = offered(dev.port, polling.id)
    try_out(socket)
    socket.send(READY)
    [piece] = polling.pieces(LAST)
    polling.poll(piece)
    while polling.messages[-1:] != [END]:
        polling.poll()
    socket.number = 10
    asked = socket.ask("g", {"p": at.base, "q": {}})
    at.set(value=1)
    with pytest.raises(Late):
        socket.message(0.2)
    if ready == "polls":
        polling.poll()
    elif ready == "says goodbye":
        polling.get(f"disconn=t&id={polling.id}&pw={polling.password}")
    assert socket.answer(asked)["s"] == "ok"
    assert socket.push() == datum(at.base, 1)
    socket.socket.close()


def test_what_comes_on_the_socket_belongs_behind_what_was_polled(dev, at):
    """The socket is faster: its requests wait for the end of polling."""
    polling = PollingClient(dev.port)
    socket = offered(dev.port, polling.id)
    try_out(socket)
    socket.send(READY)
    socket.number = 10
    late = socket.ask("p", {"p": at.base, "d": "socket"})
    socket.send(PING)
    assert socket.message() == PONG
    assert at.value() is None
    assert polling.request(1, "p", {"p": at.base, "d": "polled"}) == OK
    end_polling(polling)
    assert socket.answer(late) == OK
    assert at.value() == "socket"
    socket.socket.close()


def test_events_pass_over_in_order_and_once(dev, at):
    """A writer continues while listening clients change their transport."""
    polling = PollingClient(dev.port)
    polling.request(1, "q", {"p": at.base, "h": ""})
    isOver = threading.Event()

    def write():
        number = 0
        while not isOver.is_set():
            at.set("n", value=number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        socket = offered(dev.port, polling.id)
        try_out(socket)
        socket.send(READY)
        end_polling(polling)
        pushes = [socket.push() for _ in range(20)]
    finally:
        isOver.set()
        writer.join()
    numbers = [message["d"]["b"]["d"] for message in polling.messages if message["d"].get("a") == "d"] + [
        push["b"]["d"] for push in pushes]
    # The first event may be the whole value with the first number in it.
    numbers = [number["n"] if isinstance(number, dict) else number for number in numbers if number is not None]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    socket.socket.close()


def test_a_socket_that_fails_leaves_polling_as_it_was(dev, at):
    polling = PollingClient(dev.port)
    for send in ([], [PING], [READY], [{"t": "d", "d": {"r": 1, "a": "s", "b": {}}}], ["nonsense"]):
        # The gateway may still remember the session before.
        socket = wait_until(lambda: accepted(dev.port, polling.id), "a socket to be accepted")
        for message in send:
            socket.send(message)
        if send and send[0] not in (PING, READY):
            # Requests before the move, and invalid messages, end the socket.
            with pytest.raises(Closed):
                socket.message()
        socket.socket.plain.close()
    assert polling.request(1, "p", {"p": at.base, "d": 1}) == OK


def accepted(port: int, session: str) -> RealtimeClient | None:
    socket = offered(port, session)
    return socket if socket.hello == OFFER else None


@pytest.mark.parametrize("which", ["unknown", "a WebSocket's", "one that has a socket", "one that was upgraded"])
def test_an_upgrade_is_declined(dev, which):
    others = []
    if which == "unknown":
        session = "0" * 32
    elif which == "a WebSocket's":
        others = [RealtimeClient(dev.port).greet()]
        session = others[0].session
    elif which == "one that has a socket":
        session = PollingClient(dev.port).id
        others = [offered(dev.port, session)]
    else:
        polling, socket = upgraded(dev.port)
        session, others = polling.id, [socket]
    declined = offered(dev.port, session)
    assert declined.hello == {"t": "c", "d": {"t": "r", "d": f"127.0.0.1:{dev.port}"}}
    with pytest.raises(Closed):
        declined.message()
    for other in others:
        other.socket.close()


def test_a_slow_socket_is_conflated_as_any(serve):
    gateway = serve("--stream-buffer", "20kB")
    polling = PollingClient(gateway.port)
    polling.request(1, "q", {"p": "x", "h": ""})
    socket = RealtimeClient(gateway.port, extra=f"&s={polling.id}", receive_buffer=4096)
    socket.socket.opened()
    assert socket.message() == OFFER
    try_out(socket)
    socket.send(READY)
    end_polling(polling)
    count = conflated_at = 0
    # More than the gateway and the kernel buffer: the rest is not sent.
    while not conflated_at or count < conflated_at + 30:
        count += 1
        gateway.rest.set("x", value={"n": count, "text": "x" * 100_000})
        if not conflated_at and gateway.metric("pathmirror_conflations_total") > 0:
            conflated_at = count
    seen = []
    while not seen or seen[-1] != count:
        seen.append(socket.push()["b"]["d"]["n"])
    assert seen == sorted(set(seen)) and len(seen) < count


def test_who_was_only_held_up_is_brought_to_the_present(serve):
    """The changes exceed the limit for a slow reader while the socket is silent; the client then reads all at once."""
    gateway = serve("--stream-buffer", "20kB")
    polling = PollingClient(gateway.port)
    polling.request(1, "q", {"p": "x", "h": ""})
    socket = offered(gateway.port, polling.id)
    try_out(socket)
    socket.send(READY)
    [piece] = polling.pieces(LAST)
    polling.poll(piece)
    while polling.messages[-1:] != [END]:
        polling.poll()
    for number in range(10):
        gateway.rest.set("x", value={"n": number, "text": "x" * 10_000})
    wait_until(lambda: gateway.metric("pathmirror_conflations_total") > 0, "the client to be taken for slow")
    polling.poll()
    while socket.push()["b"]["d"]["n"] != 9:
        pass


def test_a_stopping_gateway_closes_the_socket(serve):
    gateway = serve()
    polling, socket = upgraded(gateway.port)
    socket.number = 5
    socket.ok("o", {"p": "left", "d": True})
    gateway.stop()
    with pytest.raises(Closed):
        socket.message()


def test_a_silent_socket_is_found_out(serve):
    """The client answers no pings: it is gone."""
    gateway = serve("--session-timeout", "1500ms")
    polling, socket = upgraded(gateway.port)
    socket.number = 5
    socket.ok("o", {"p": "left", "d": True})
    wait_until(lambda: gateway.rest.value("left") is True, "the order")
