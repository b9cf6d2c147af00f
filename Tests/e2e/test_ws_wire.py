"""The realtime WebSocket below its requests: greeting, keep-alive, segments, paths, numbers of requests."""

import json
import socket
import time

import pytest
from harness.websocket import PING, PONG, Closed, Rejected, WebSocket
from harness.websocket_client import RealtimeClient, compact, datum

EMOJI = "\U0001f600"


@pytest.fixture
def client(dev):
    with RealtimeClient(dev.port) as client:
        yield client


def test_the_hello_comes_first_and_names_the_host_as_the_client_did(dev):
    for host in ("db.example.com:8443", f"localhost:{dev.port}", "[::1]:9000"):
        before = int(time.time() * 1000)
        with RealtimeClient(dev.port, ns="default", headers={"Host": host}) as client:
            body = client.hello["d"]["d"]
            assert client.frames == [compact(client.hello)]
            assert list(client.hello) == ["t", "d"] and list(body) == ["ts", "v", "h", "s"]
            assert body["v"] == "5" and body["h"] == host
            assert isinstance(body["ts"], int) and before - 1000 <= body["ts"] <= int(time.time() * 1000) + 1000
            assert len(body["s"]) == 32


def test_session_ids_are_never_the_same(dev):
    sessions = set()
    for _ in range(20):
        with RealtimeClient(dev.port) as client:
            sessions.add(client.session)
    assert len(sessions) == 20


@pytest.mark.parametrize("target", [
    "/.ws?v=5&p=1:1:web:1&ns=default", "/.ws?v=5&ls=notasession&ac=junk&p=x&ns=default", "/.ws?ns=default&v=5&r=f", "/.ws?v=5",
    "/.ws?ns=default&v=5&ls=%zz", "/.ws?v=5&ns=default&ls=" + "x" * 3000])
def test_urls_as_sdks_write_them(dev, target):
    headers = {"Authorization": "Bearer nonsense", "X-Firebase-AppCheck": "junk", "X-Firebase-GMPID": "", "Origin": "https://app.example",
               "User-Agent": "Firebase/5/12.18.0/linux/Node", "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
    with WebSocket(dev.port, target, headers).opened() as socket:
        assert b'"t":"h"' in socket.receive()[1]


def test_the_first_label_of_the_host_names_the_namespace(dev, ns):
    with RealtimeClient(dev.port, headers={"Host": f"{ns}.example.com"}) as first, RealtimeClient(dev.port, ns=ns) as second:
        first.put("/a", 1)
        assert second.ok("g", {"p": "/a", "q": {}}) == 1


@pytest.mark.parametrize("target, headers", [
    ("/.ws?v=4&ns=default", {}), ("/.ws?ns=default", {}), ("/.ws?v=5&ns=default", {"Sec-WebSocket-Key": None}),
    ("/.ws?v=5&ns=default", {"Sec-WebSocket-Version": "8"}), ("/.ws?v=5&ns=default", {"Upgrade": "h2c"}),
    ("/.ws?v=5&ns=default", {"Upgrade": None, "Connection": "keep-alive"}), ("/.ws?v=5&ns=default", {"Sec-WebSocket-Key": "short"}),
    ("/.ws?v=5&ns=a/b", {}), ("/.ws?v=5&ns=" + "n" * 2000, {})])
def test_bad_handshakes_get_an_http_error(dev, target, headers):
    with pytest.raises(Rejected) as rejection:
        WebSocket(dev.port, target, headers).opened()
    assert 400 <= rejection.value.status < 500 and json.loads(rejection.value.body)["error"]


def test_an_unknown_namespace_of_serve_is_an_error(serve):
    gateway = serve()
    with pytest.raises(Rejected) as rejection:
        WebSocket(gateway.port, "/.ws?v=5&ns=unknown").opened()
    assert rejection.value.status == 404


def test_ping_is_answered_with_the_pong_byte_for_byte(client):
    client.send('{"t":"c","d":{"t":"p","d":{}}}')
    assert client.message() == {"t": "c", "d": {"t": "o", "d": None}}
    assert client.frames == ['{"t":"c","d":{"t":"o","d":null}}']


def test_keep_alives_are_not_answered(client):
    for _ in range(3):
        client.socket.send(b"0")
    client.send('{"t":"c","d":{"t":"p","d":{}}}')
    assert client.message()["d"]["t"] == "o"
    # An upgrade's control messages, late ones, and unknown ones change nothing.
    for kind in ("a", "n", "zz"):
        client.send({"t": "c", "d": {"t": kind, "d": {}}})
    assert client.ok("s", {"c": {}}) == ""


def test_websocket_pings_are_answered(client):
    client.socket.send(b"abc", PING)
    opcode, payload = client.socket.receive()
    assert (opcode, payload) == (PONG, b"abc")


def test_a_whole_conversation_in_one_packet_and_byte_by_byte(dev, at):
    from harness.websocket import frame
    requests = [{"t": "d", "d": {"r": n, "a": "p", "b": {"p": f"/{at.base}/k{n}", "d": n}}} for n in range(1, 21)]
    data = b"".join(frame(compact(request).encode()) for request in requests)
    with RealtimeClient(dev.port) as client:
        client.socket.write(data)
        assert [client.answer(n)["s"] for n in range(1, 21)] == ["ok"] * 20
        for byte in data[:400]:
            client.socket.write(bytes([byte]))
        client.socket.write(data[400:])
        assert [client.answer(n)["s"] for n in range(1, 21)] == ["ok"] * 20
    assert len(at.value()) == 20


def test_websocket_fragments_are_put_together(client, at):
    text = compact({"t": "d", "d": {"r": 1, "a": "p", "b": {"p": at.base, "d": EMOJI * 10}}}).encode()
    client.socket.send(text[:50], fin=False)
    client.socket.send(b"", PING)
    client.socket.send(text[50:97], 0, fin=False)
    client.socket.send(text[97:], 0)
    client.number = 1
    assert client.socket.receive()[0] == PONG
    assert client.answer(1) == {"s": "ok", "d": ""}
    assert at.value() == EMOJI * 10


@pytest.mark.parametrize("length", [0, 16300, 16384, 16385, 20000, 16384 * 3, 100_000])
def test_long_messages_go_in_segments_both_ways(client, at, length):
    text = "x" * length + "é"
    client.put(at.base, text)
    assert client.listen(at.base) == datum(at.base, text)
    number = client.ask("g", {"p": at.base, "q": {}})
    assert client.answer(number) == {"s": "ok", "d": text}
    whole = compact({"t": "d", "d": {"r": number, "b": {"s": "ok", "d": text}}})
    if len(whole) <= 16384:
        assert client.frames == [whole]
    else:
        assert client.frames[0] == str(len(client.frames) - 1) and "".join(client.frames[1:]) == whole


def test_servers_cut_between_characters(client, at):
    for shift in ("", "a", "é"):
        text = shift + EMOJI * 30_000
        at.set(value=text)
        assert client.ok("g", {"p": at.base, "q": {}}) == text


def test_characters_cut_by_clients_are_lost_but_nothing_else(client, at):
    # The pieces are cut inside a pair at one of the two alignments: both halves arrive as U+FFFD.
    results = set()
    for shift in ("", "a"):
        text = shift + EMOJI * 10_000
        client.put(at.base, text)
        stored = at.value()
        results.add(stored == text)
        assert stored == text or stored.count("\ufffd") == 2 and stored.replace("\ufffd\ufffd", EMOJI) == text
    assert results == {True, False}


def test_every_message_may_be_announced_as_one_segment(client, at):
    for number in range(1, 4):
        client.socket.send(b"1")
        client.socket.send(compact({"t": "d", "d": {"r": number, "a": "p", "b": {"p": at.base, "d": number}}}).encode())
        assert client.answer(number)["s"] == "ok"
    assert at.value() == 3


def test_tiny_and_empty_segments(client, at):
    text = compact({"t": "d", "d": {"r": 1, "a": "p", "b": {"p": at.base, "d": "abc"}}})
    client.socket.send(str(len(text) + 2).encode())
    client.socket.send(b"")
    for character in text:
        client.socket.send(character.encode())
    client.socket.send(b"")
    assert client.answer(1)["s"] == "ok" and at.value() == "abc"


def test_a_large_write_within_the_limit(client, at):
    text = "y" * (10 << 20)
    client.put(at.base, text)
    assert at.get().headers["Content-Length"] == str(len(text) + 2)
    assert client.ok("g", {"p": at.base, "q": {}}) == text


def test_numbers_of_requests_are_given_back(client):
    for number in (0, 1, 2147483647, 7):
        client.send({"t": "d", "d": {"r": number, "a": "s", "b": {"c": {"sdk.js.12-0-0": 1}}}})
        assert client.message() == {"t": "d", "d": {"r": number, "b": {"s": "ok", "d": ""}}}


def test_paths_with_and_without_slashes(client, at):
    for written in (at.base, f"/{at.base}", f"/{at.base}/", f"//{at.base}//"):
        client.put(written + "/%41 b/é", written)
        assert client.ok("g", {"p": f"{at.base}/%41 b/é", "q": {}}) == written
        assert client.listen(written + "/%41 b/") == datum(f"{at.base}/%41 b", {"é": written})
        client.ok("n", {"p": written + "/%41 b/"})


def test_a_clean_close_is_answered_with_a_close(dev):
    with RealtimeClient(dev.port) as client:
        client.socket.send(b"\x03\xe8bye", 8)
        assert client.socket.wait_for_close() == 1000
        # Afterwards the server closes the connection.
        assert client.socket.plain.recv(1) == b""


def test_draining_closes_without_advice_never_to_return(serve):
    gateway = serve()
    with RealtimeClient(gateway.port) as client:
        number = client.ask("p", {"p": "/x", "d": 1})
        gateway.process.send(15)
        codes = None
        try:
            while True:
                message = client.message()
                assert message["t"] == "d", message
                assert message["d"]["r"] == number and message["d"]["b"]["s"] == "ok"
                number = None
        except Closed as closed:
            codes = closed.code
        # 1001: going away. A control message `s` would keep SDKs away for ever.
        assert codes == 1001
        assert gateway.process.wait() == 0


def test_two_labels_and_addresses_name_no_namespace(dev, at):
    at.set(value=1)
    for host in ("example.com", "127.0.0.1", f"[::1]:{dev.port}", "localhost"):
        with RealtimeClient(dev.port, headers={"Host": host}) as client:
            assert client.ok("g", {"p": at.base, "q": {}}) == 1


def test_half_open_clients_still_get_their_answers(dev, at):
    with RealtimeClient(dev.port) as client:
        number = client.ask("p", {"p": at.base, "d": 5})
        client.socket.plain.shutdown(socket.SHUT_WR)
        try:
            assert client.answer(number)["s"] == "ok"
        except Closed:
            pass
    from harness.waiting import wait_until
    wait_until(lambda: at.value() == 5, "the write to be there")
