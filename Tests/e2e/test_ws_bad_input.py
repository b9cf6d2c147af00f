"""Broken or malicious realtime clients: the gateway answers with the protocol's error, or ends that connection alone."""

import os
import random
import struct
import threading

import pytest
from harness.process import resident_bytes
from harness.waiting import wait_until
from harness.websocket import BINARY, CLOSE, PING, PONG, TEXT, Closed, WebSocket, frame
from harness.websocket_client import RealtimeClient, compact

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)


@pytest.fixture
def bystander(dev):
    """Another client, which must not be affected."""
    with RealtimeClient(dev.port) as client:
        yield client
        assert client.ok("echo", {"d": 1}) == 1


@pytest.fixture
def client(dev, bystander):
    with RealtimeClient(dev.port) as client:
        yield client


def is_closed(client, *codes):
    assert client.socket.wait_for_close(10) in (codes or (1001, 1002, 1003, 1007, 1008, 1009, None))


# Invalid messages

@pytest.mark.parametrize("text", [
    b"", b"nonsense", b"[]", b"null", b"{}", b'{"t":"d"}', b'{"t":"d","d":5}', b'{"t":5,"d":{}}', b'{"t":"x","d":{}}', b'{"t":"d","d":{}}',
    b'{"t":"d","d":{"r":"1","a":"s","b":{}}}', b'{"t":"d","d":{"r":1.5,"a":"s","b":{}}}', b'{"t":"d","d":{"r":1,"b":{}}}',
    b'{"t":"d","d":{"r":1,"a":7,"b":{}}}', b'{"t":"c","d":{}}', b'{"t":"c","d":{"t":7}}', b'{"t":"d","d":{"r":1,"a":"s","b":{}}', b'{"t":"d"} trailing',
    b'"text"', b"\xef\xbb\xbf{}", b'{"t":"d","d":{"r":99999999999999999999999,"a":"s","b":{}}}', b"[" * 16000, b'{"a":' * 3000, b"-1", b"-99999"])
def test_text_that_is_no_message_ends_the_connection(client, text):
    client.socket.send(text)
    if text == b"":
        return
    is_closed(client)


@pytest.mark.parametrize("data", [
    frame(b"{}", mask=None), frame(b"x", BINARY), frame(b"x", 3), frame(b"x", 11), frame(b"x" * 200, PING), frame(b"x", PING, fin=False),
    frame(b"x", 0), frame(b"x", TEXT, fin=False) + frame(b"x", TEXT), bytes([0xC1, 0x80, 0, 0, 0, 0]), frame(b"\xff\xfe"),
    frame(b"\xed\xa0\x80"), bytes([0x81, 0xFF]) + struct.pack(">Q", 1 << 40) + b"mask" + b"x", bytes([0x81, 0xFF]) + struct.pack(">Q", 1 << 63),
    bytes([0x81, 0xFF]) + struct.pack(">Q", (1 << 64) - 1), frame(b"\x03", CLOSE), frame(struct.pack(">H", 5) + b"x", CLOSE), b"GET / HTTP/1.1\r\n\r\n"],
    ids=["unmasked", "binary", "reserved", "reserved-control", "long-ping", "cut-ping", "continues-nothing", "text-in-text", "extension-bits", "no-utf8",
         "surrogate", "a-terabyte", "sign-bit", "all-bits", "half-a-code", "bad-code", "http"])
def test_frames_against_the_rules_end_the_connection(client, data):
    client.socket.write(data)
    is_closed(client)


def too_long(bound: int) -> dict[str, list[bytes]]:
    """A message of more than `bound` bytes in each way to send one; the last piece crosses the bound."""
    piece = frame(b"x" * 16384)
    count = bound // 16384 + 1
    return {
        "frame": [bytes([0x81, 0xFF]) + struct.pack(">Q", bound + 1) + b"\0\0\0\0" + b"x" * 1000],
        "segments": [frame(b"999999")] + [piece] * count,
        "fragments": [frame(b"x" * 16384, TEXT, fin=False)] + [frame(b"x" * 16384, 0, fin=False)] * (count - 1)}


@pytest.mark.parametrize("way", ["frame", "segments", "fragments"])
def test_a_message_over_the_limit_ends_the_connection_with_1009(serve, way):
    """The log names the option and the client."""
    bound = 1 << 20
    gateway = serve("--max-user-body", f"{bound}B")
    with RealtimeClient(gateway.port) as client, RealtimeClient(gateway.port) as bystander:
        for data in too_long(bound)[way]:
            client.socket.write(data)
        is_closed(client, 1009)
        assert bystander.ok("echo", {"d": 1}) == 1
    def lines():
        return [line for line in gateway.process.err.read_text().splitlines() if "--max-user-body" in line]
    wait_until(lines, "the log line")
    assert len(lines()) == 1 and "127.0.0.1" in lines()[0] and str(bound) in lines()[0], lines()


def test_pings_and_closes_without_end_cost_nothing(dev, bystander):
    with RealtimeClient(dev.port) as client:
        ping = frame(b"0123456789" * 12, PING) * 500
        before = resident_bytes(dev.process.pid)

        def flood():
            try:
                for _ in range(200):
                    client.socket.write(ping)
            except OSError:
                pass

        # The client reads nothing: the answers pile up, but not in the server.
        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        thread.join(8)
        assert resident_bytes(dev.process.pid) - before < 64 << 20
        client.socket.reset()
        thread.join()


# Requests with wrong fields

WRONG = [None, 5, -1.5, "", "x", [], [1], {}, {"a": 1}, True, "/a.b", "/a$", "/a[0]", "/#", "a/\u0001/b", "é" * 400, "x/" * 40, {".sv": 1}, "9" * 400]


@pytest.mark.parametrize("action", ["s", "q", "n", "g", "p", "m", "o", "om", "oc", "auth", "gauth", "unauth", "appcheck", "unappeck", "l", "u",
                                    "echo", "unknown", "", "Q", "\u0000", "x" * 10000])
def test_wrong_types_in_any_field(client, at, action):
    """For all values of a field, every request gets an answer, or an error whose text is a string."""
    good = {"p": at.base, "d": {"a": 1}, "h": "", "q": {"i": ".key", "l": 1}, "t": 1, "cred": "x", "token": "x"}
    asked = []
    for field in good:
        for wrong in WRONG:
            asked.append((client.ask(action, {**good, field: wrong}), field, wrong))
        body = dict(good)
        del body[field]
        asked.append((client.ask(action, body), field, "left out"))
    for number, field, wrong in asked:
        answer = client.answer(number)
        assert isinstance(answer["s"], str) and "d" in answer, (field, wrong, answer)
        assert answer["s"] == "ok" or isinstance(answer["d"], str), (field, wrong, answer)
    for body in (5, "x", None, [1]):
        client.number += 1
        client.send({"t": "d", "d": {"r": client.number, "a": action, "b": body}})
        assert isinstance(client.answer(client.number)["s"], str)
    if action in ("unknown", "", "Q", "\u0000", "x" * 10000):
        assert client.call(action, good)["s"] == "failure"


@pytest.mark.parametrize("value", [
    {"": 1}, {"a.b": 1}, {"a$": 1}, {"a/b": 1}, {".x": 1}, {"[": 1}, {"\u007f": 1}, {"é" * 400: 1}, {".value": {"a": 1}}, {".value": 1, "a": 1},
    {".priority": True, "a": 1}, {".value": 1, ".priority": {"x": 1}}])
def test_values_with_bad_keys_fail_alone(client, at, value):
    for action in ("p", "o"):
        answer = client.call(action, {"p": at.base, "d": value})
        # Some servers take `.value` beside children for metadata; the test only demands an answer.
        assert answer["s"] in ("failure", "ok") and isinstance(answer["d"], str)
    if list(value)[0] not in (".value", ".priority"):
        assert at.value() is None


def test_depth_is_limited(client, at):
    deep = 1
    for _ in range(40):
        deep = {"a": deep}
    for action, body in (("p", {"p": at.base, "d": deep}), ("p", {"p": at.base + "/a" * 40, "d": 1}), ("m", {"p": at.base, "d": {"a/" * 40 + "a": 1}}),
                         ("o", {"p": at.base, "d": deep})):
        assert client.call(action, body)["s"] == "failure"
    very = "[" * 8000 + "]" * 8000
    client.send('{"t":"d","d":{"r":900,"a":"p","b":{"p":"x","d":' + very + "}}}")
    assert client.answer(900)["s"] == "failure"


@pytest.mark.parametrize("update", [{"a": 1, "a/b": 2}, {"a/b": 1, "a": None}, {"a/b/c": 1, "a/b": 2}, {"": 1, "a": 2}, [1, 2], "x", 5, None])
def test_updates_that_are_none(client, at, update):
    answer = client.call("m", {"p": at.base, "d": update})
    assert answer["s"] in ("failure", "ok") and isinstance(answer["d"], str)
    if isinstance(update, dict) and "" not in update:
        assert answer["s"] == "failure" and at.value() is None


@pytest.mark.parametrize("path", [".info/connected", "/.info", ".settings", "a/.priority/b", "a/.value"])
def test_places_that_are_not_data(client, path):
    for action, more in (("q", {"h": ""}), ("p", {"d": 1}), ("o", {"d": 1}), ("g", {})):
        assert client.call(action, {"p": path, **more})["s"] == "failure"


# Floods

def test_a_flood_of_listens(dev, bystander, at):
    before = resident_bytes(dev.process.pid)
    with RealtimeClient(dev.port) as client:
        answers = []
        for start in range(0, 10_500, 500):
            asked = [client.ask("q", {"p": f"{at.base}/{number}", "h": ""}) for number in range(start, start + 500)]
            answers += [client.answer(number)["s"] for number in asked]
        assert answers == ["ok"] * 10_000 + ["too_big"] * 500
        assert bystander.ok("echo", {"d": 2}) == 2
        assert client.ok("n", {"p": f"{at.base}/0"}) == ""
        assert client.listen(f"{at.base}/again") is None
    wait_until(lambda: bystander.ok("echo", {"d": 3}) == 3, "the other client")
    assert resident_bytes(dev.process.pid) - before < 100 << 20


def test_a_client_that_asks_much_and_reads_nothing(serve):
    """Memory is limited: the server stops reading from a client that does not read."""
    gateway = serve(tune="write-stall=1s")
    gateway.rest.set("big", {f"k{number}": "x" * 1000 for number in range(1000)})
    with RealtimeClient(gateway.port) as other:
        other.ok("g", {"p": "big", "q": {}})
        before = resident_bytes(gateway.process.pid)
        greedy = RealtimeClient(gateway.port, receive_buffer=4096).greet()
        request = b"".join(frame(compact({"t": "d", "d": {"r": number, "a": "g", "b": {"p": "big", "q": {}}}}).encode()) for number in range(1, 2001))

        def flood():
            try:
                greedy.socket.write(request)
            except OSError:
                pass

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        most = 0

        def is_over():
            nonlocal most
            most = max(most, resident_bytes(gateway.process.pid) - before)
            assert other.ok("echo", {"d": 1}) == 1
            # Two gigabytes were requested.
            assert most < 300 << 20, f"{most >> 20} MiB"
            return not thread.is_alive()

        try:
            wait_until(is_over, "all to be sent, or the connection to be ended", 15, 0.05)
        finally:
            greedy.socket.reset()
        print(f"\na greedy client that reads nothing: {most >> 20} MiB at most")


def test_noise(dev, bystander):
    """Messages from a grammar of good and bad parts, and mutilated ones: the server survives, and other clients are not affected."""
    dice = random.Random(SEED)
    good = [compact({"t": "d", "d": {"r": 5, "a": action, "b": {"p": "/noise/x", "d": {"a": 1}, "q": {"i": "a", "sp": 1, "l": 2}, "t": 3, "h": "",
                                                                 "ch": {"hs": ["", ""], "ps": ["a"]}}}})
            for action in ("q", "n", "g", "p", "m", "o", "om", "oc", "s", "echo", "auth")] + ["0", "1", "3", '{"t":"c","d":{"t":"p","d":{}}}']
    for round in range(60):
        with RealtimeClient(dev.port) as client:
            try:
                for _ in range(40):
                    text = bytearray(dice.choice(good).encode())
                    for _ in range(dice.choice([0, 0, 1, 3])):
                        place = dice.randrange(len(text))
                        match dice.randrange(3):
                            case 0: text[place] = dice.randrange(32, 127)
                            case 1: del text[place:place + dice.randrange(1, 9)]
                            case 2: text[place:place] = dice.choice([b"{", b"}", b'"', b"[", b"\\u00", b"1e999", b"null", b",", "é".encode()])
                        if not text:
                            break
                    data = frame(bytes(text), dice.choice([TEXT] * 30 + [BINARY, PING, PONG]))
                    if dice.random() < 0.02:
                        data = data[:dice.randrange(len(data))]
                    client.socket.write(data)
                if dice.random() < 0.5:
                    client.socket.reset()
            except (OSError, Closed):
                pass
    assert bystander.ok("echo", {"d": 2}) == 2, f"seed {SEED}"


def test_half_a_handshake_is_not_waited_for_for_ever(serve):
    gateway = serve(tune="header-timeout=1s")
    import socket
    with socket.create_connection(("127.0.0.1", gateway.port)) as plain:
        plain.sendall(b"GET /.ws?v=5 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n")
        plain.settimeout(15)
        while plain.recv(1000):
            pass
    assert gateway.process.running


def test_a_hundred_thousand_requests_waiting_end_the_connection_not_the_server(serve):
    gateway = serve()
    with RealtimeClient(gateway.port) as client, RealtimeClient(gateway.port) as other:
        data = b"".join(frame(compact({"t": "d", "d": {"r": number, "a": "p", "b": {"p": "x", "d": number}}}).encode()) for number in range(1, 30_001))
        writer = threading.Thread(target=lambda: _quietly(client.socket.write, data))
        writer.start()
        answers = 0
        try:
            while answers < 30_000:
                message = client.message()
                answers += 1
                assert message["d"]["b"]["s"] in ("ok", "unavailable"), message
        except (Closed, OSError):
            pass
        writer.join()
        assert other.ok("echo", {"d": 1}) == 1


def _quietly(body, *arguments):
    try:
        body(*arguments)
    except OSError:
        pass


def test_websocket_at_other_paths_and_rest_at_this_one(dev):
    from harness.websocket import Rejected
    with pytest.raises(Rejected) as rejection:
        WebSocket(dev.port, "/x/.ws?v=5").opened()
    assert rejection.value.status in (400, 404)
    assert dev.rest.send("PUT", "/.ws?v=5", b"{}").status in (400, 405)
    assert dev.rest.send("POST", "/.lp?start=t&cb=1&v=5", b"{}").status in (400, 405)
