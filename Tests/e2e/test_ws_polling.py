"""Long polling, the fallback of browsers: /.lp from its start to its end."""

import base64
import http.client
import threading
import time

import pytest
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient, compact, datum
from harness.websocket_polling import PollingClient


def request(number, action, body):
    return {"t": "d", "d": {"r": number, "a": action, "b": body}}


def test_the_start(dev):
    before = int(time.time() * 1000)
    client = PollingClient(dev.port, callback="42")
    body = client.hello["d"]["d"]
    assert client.hello["t"] == "c" and client.hello["d"]["t"] == "h"
    assert body["v"] == "5" and body["h"] == f"127.0.0.1:{dev.port}" and body["s"] == client.id and body["ts"] >= before - 1000
    assert "javascript" in client.type
    assert 'parent.window["pLPCommand42"]' in client.script and 'parent.window["pRTLPCB42"]' in client.script


def test_a_request_and_its_answer(dev, at):
    client = PollingClient(dev.port)
    assert client.request(1, "s", {"c": {"sdk.js.9-6-1": 1}}) == {"s": "ok", "d": ""}
    assert client.request(2, "p", {"p": at.base, "d": {"text": "</script>\u2028 é \U0001f600"}}) == {"s": "ok", "d": ""}
    assert client.request(3, "g", {"p": at.base, "q": {}})["d"] == {"text": "</script>\u2028 é \U0001f600"}
    assert at.value("text") == "</script>\u2028 é \U0001f600"


def test_the_references_piece(dev):
    client = PollingClient(dev.port)
    piece = "&seg0=0&ts0=1&d0=eyJ0IjoiZCIsImQiOnsiciI6MSwiYSI6InMiLCJiIjp7ImMiOnsic2RrLmpzLjktNi0xIjoxfX19fQ.."
    assert client.poll(piece).strip().rstrip(";") == 'pRTLPCB(1,[{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}])'


def test_several_pieces_in_one_request_and_a_message_over_several(dev, at):
    client = PollingClient(dev.port)

    def encoded(message):
        return base64.urlsafe_b64encode(compact(message).encode()).decode().replace("=", ".")

    two = [encoded(request(number, "p", {"p": f"{at.base}/{number}", "d": number})) for number in (1, 2)]
    client.poll(f"&seg0=0&ts0=1&d0={two[0]}&seg1=1&ts1=1&d1={two[1]}")
    wait_until(lambda: at.value() == [None, 1, 2], "both writes")
    client.segment = 2
    text = "x" * 5000
    pieces = client.pieces(request(3, "p", {"p": at.base, "d": text}))
    assert len(pieces) == 4
    # Requests may overtake one another on their connections, and arrive twice.
    threads = [threading.Thread(target=client.get, args=(f"id={client.id}&pw={client.password}{piece}",))
               for piece in (pieces[2], pieces[0], pieces[0], pieces[3], pieces[1])]
    for thread in threads:
        thread.start()
    wait_until(lambda: at.value() == text, "the write in pieces")
    client.get(f"disconn=t&id={client.id}&pw={client.password}")
    for thread in threads:
        thread.join()


def test_polls_are_held_and_the_older_is_let_go(dev, at):
    client = PollingClient(dev.port)
    assert client.request(1, "q", {"p": at.base, "h": ""})["s"] == "ok"
    results = []
    first = threading.Thread(target=lambda: results.append(("first", client.get(f"id={client.id}&pw={client.password}"))))
    first.start()
    first.join(0.3)
    assert first.is_alive()
    second = threading.Thread(target=lambda: results.append(("second", client.get(f"id={client.id}&pw={client.password}"))))
    second.start()
    first.join(10)
    assert results and results[0][1].strip().rstrip(";") == f"pRTLPCB({client.expected},[])"
    at.set(value="news")
    second.join(10)
    assert [name for name, _ in results] == ["first", "second"]
    client.take(results[0][1])
    client.messages.clear()
    client.take(results[1][1])
    assert client.messages == [{"t": "d", "d": datum(at.base, "news")}]


def test_pushes_wait_for_the_next_poll(dev, at):
    client = PollingClient(dev.port)
    client.request(1, "q", {"p": at.base, "h": ""})
    client.messages.clear()
    for number in range(5):
        at.set(value=number)
    got = []
    while len(got) < 5:
        client.poll()
        got, client.messages = got + client.messages, []
    assert got == [{"t": "d", "d": datum(at.base, number)} for number in range(5)]


def test_nothing_comes_with_the_answer_to_a_get(dev, at):
    """The SDK reads all messages of a response first, and applies such an answer afterwards, over newer data."""
    client = PollingClient(dev.port)
    client.request(1, "q", {"p": at.base, "h": ""})
    client.messages.clear()
    # The first answer takes the poll that brings them all; the others wait together.
    bodies = [("s", {}), ("g", {"p": at.base, "q": {}}), ("s", {}), ("g", {"p": at.base, "q": {}}), ("s", {})]
    pieces = [client.pieces(request(number, action, body))[0] for number, (action, body) in enumerate(bodies, 2)]
    text = "".join(piece.replace("seg0", f"seg{index}").replace("ts0", f"ts{index}").replace("d0=", f"d{index}=")
                   for index, piece in enumerate(pieces))
    responses = []
    while sum(responses, []) != [2, 3, 4, 5, 6]:
        client.messages.clear()
        client.poll(text)
        text = ""
        responses.append([message["d"]["r"] for message in client.messages])
    assert responses == [[2], [3], [4, 5], [6]]


@pytest.mark.parametrize("how", ["disconn", "socket"])
def test_the_end_carries_out_orders(dev, at, how):
    client = PollingClient(dev.port)
    client.request(1, "p", {"p": at.base, "d": "here"})
    client.request(2, "o", {"p": at.base, "d": "gone"})
    if how == "disconn":
        client.get(f"disconn=t&id={client.id}&pw={client.password}")
        assert "pLPCommand('close'" in client.poll()
    else:
        with RealtimeClient(dev.port, ls=client.id) as next_one:
            assert next_one.ok("g", {"p": at.base, "q": {}}) == "gone"
    wait_until(lambda: at.value() == "gone", "the order")


def test_a_silent_poller_is_gone(serve):
    gateway = serve("--session-timeout", "1500ms")
    client = PollingClient(gateway.port)
    client.request(1, "o", {"p": "x", "d": "gone"})
    wait_until(lambda: gateway.rest.value("x") == "gone", "the order")


def test_a_poller_is_asked_for_a_sign_of_life(serve):
    """The timers of a hidden page hardly run: it polls only when the previous polls are answered."""
    gateway = serve("--session-timeout", "1500ms")
    client = PollingClient(gateway.port)
    client.request(1, "o", {"p": "x", "d": "gone"})
    started = time.monotonic()
    while time.monotonic() - started < 4:
        client.poll()
    assert not client.closed
    assert client.request(2, "s", {}) == {"s": "ok", "d": ""} and gateway.rest.value("x") is None


def test_the_frame_that_says_goodbye(dev):
    client = PollingClient(dev.port)
    page = client.get(f"dframe=t&id={client.id}&pw={client.password}")
    assert "text/html" in client.type and f"disconn=t&id={client.id}&pw={client.password}" in page
    # Chromium does not wait for an answer then; the other form is for other browsers.
    assert "onpagehide" in page and "keepalive:true" in page and "XMLHttpRequest" in page


def test_nobody_else_may_speak_for_a_session(dev, at):
    client = PollingClient(dev.port)
    client.request(1, "o", {"p": at.base, "d": "gone"})
    for query in (f"id={client.id}&pw=wrong", f"id={client.id}", f"disconn=t&id={client.id}&pw=", "id=unknown&pw=x", "id=&pw="):
        assert "pLPCommand('close'" in client.get(query)
    assert client.request(2, "s", {}) == {"s": "ok", "d": ""} and at.value() is None


@pytest.mark.parametrize("piece", [
    "&seg0=0&ts0=1&d0=!!!!", "&seg0=0&ts0=0&d0=AAAA", "&seg0=x&ts0=1&d0=AAAA", "&seg0=0&ts0=1", "&seg0=-1&ts0=1&d0=AAAA",
    "&seg0=0&ts0=99999999999999999999&d0=AAAA", "&seg0=999999999999&ts0=1&d0=AAAA", "&seg0=0&ts0=1&d0=bm9uc2Vuc2U.",
    "&seg0=9223372036854775807&ts0=1&d0=AAAA", "&seg0=0&ts0=999999&d0=AAAA"])
def test_bad_pieces_end_that_session_or_nothing(dev, piece):
    client = PollingClient(dev.port)
    held = threading.Thread(target=client.poll, args=(piece,))
    held.start()
    held.join(0.2)
    # An incomplete request waits; the end of the session releases it.
    client2 = PollingClient(dev.port)
    assert client2.request(1, "s", {})["s"] == "ok"
    client.get(f"disconn=t&id={client.id}&pw={client.password}")
    held.join(30)
    assert not held.is_alive()


@pytest.mark.parametrize("query, status", [
    ("start=t&v=5", 400), ("start=t&cb=1&v=4", 400), ("start=t&cb=1);alert(1&v=5", 400), ("start=t&cb=&v=5", 400), ("dframe=t&id=x'y&pw=1", 400),
    ("dframe=t", 400)])
def test_bad_starts(dev, query, status):
    connection = http.client.HTTPConnection("127.0.0.1", dev.port, timeout=10)
    connection.request("GET", f"/.lp?{query}&ns=default")
    assert connection.getresponse().status == status
    connection.close()


def test_a_poll_that_ends_before_its_answer_loses_nothing(serve):
    """The answer goes to the next poll; clients know the order by the numbers of responses."""
    gateway = serve()
    client = PollingClient(gateway.port)
    client.request(1, "q", {"p": "x", "h": ""})
    client.messages.clear()
    for number in range(3):
        held = client.hold()
        # The answer goes to the other poll.
        wait_until(lambda: gateway.metric("pathmirror_connections") == 2, "the poll to be there")
        held.close()
        wait_until(lambda: gateway.metric("pathmirror_connections") == 1, "the poll to be gone")
        gateway.rest.set("x", value=number)
        while len(client.messages) <= number:
            client.poll()
    assert [message["d"]["b"]["d"] for message in client.messages] == [0, 1, 2]


def test_ids_of_sessions_begin_with_the_gateways_label(serve):
    """A proxy sends each poll by this label to the gateway of the session."""
    gateway = serve("--session-label", "a7")
    client = PollingClient(gateway.port)
    assert client.id.startswith("a7") and len(client.id) == 34
    assert client.request(1, "s", {"c": {}})["s"] == "ok"
    with RealtimeClient(gateway.port) as socket:
        assert socket.session.startswith("a7")
