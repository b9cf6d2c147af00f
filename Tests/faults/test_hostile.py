"""The hostile server counts a message as processed only if it was, and each of its ways does as it says."""

import json
import random
import socket

import pytest
from harness.endpoint import OTHER_SECRET, SECRET
from harness.waiting import wait_until
from workload import hostile
from workload.feeds import FeedNotes
from workload.hostile import HostileServer, Request, is_signed

ID = "default:1:0"


def message(seq: int, key: str) -> dict:
    return {"id": f"default:{seq}:0", "seq": seq, "key": key}


def request(messages: list[dict], batch: bool = True) -> bytes:
    body = json.dumps({"messages": messages} if batch else messages[0]).encode()
    return (b"POST /default/hook HTTP/1.1\r\nHost: x\r\nWebhook-Id: i\r\nWebhook-Timestamp: 1\r\nWebhook-Signature: v1,x\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


class Idle(random.Random):
    """Dice that leave idle connections alone, and take the first of all other choices."""

    def random(self):
        return 0.99

    def uniform(self, low, high):
        return low


@pytest.fixture
def server():
    server = HostileServer(1, timeout=0.2)
    server.add(FeedNotes("hook", "rec"), 20, [SECRET])
    try:
        yield server
    finally:
        server.close()


def talk(server, monkeypatch, way: str, data: bytes, dice=Idle) -> tuple[bytes, hostile.Hook]:
    """The bytes of the answer to a request in this way, until the connection ends or is quiet."""
    monkeypatch.setattr(hostile, "WAYS", (way,))
    monkeypatch.setattr(hostile, "WEIGHTS", (1,))
    server.dice = dice
    hook = server.hooks["/default/hook"]
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(data)
        client.settimeout(0.6)
        found = b""
        try:
            while data := client.recv(65536):
                found += data
        except (TimeoutError, ConnectionResetError):
            pass
    return found, hook


MESSAGES = [message(1, "a"), message(2, "b"), message(3, "a")]
FAILING = ["names_nonsense", "refuses", "is_gone", "redirects", "resets", "answers_in_part", "never_answers", "speaks_otherwise"]


@pytest.mark.parametrize("way", ["succeeds", "succeeds_slowly", "succeeds_after_others", "succeeds_twice"])
def test_what_is_answered_with_success_is_processed(server, monkeypatch, way):
    found, hook = talk(server, monkeypatch, way, request(MESSAGES))
    assert b"HTTP/1.1 20" in found
    assert set(hook.notes.said) == {one["id"] for one in MESSAGES} and len(hook.notes.given) == 3


@pytest.mark.parametrize("way", FAILING)
def test_what_fails_is_received_and_not_processed(server, monkeypatch, way):
    _, hook = talk(server, monkeypatch, way, request(MESSAGES))
    assert hook.notes.said == {} and len(hook.notes.given) == 3


def test_all_ways_are_tried():
    assert set(hostile.WAYS) == {*FAILING, "succeeds", "succeeds_slowly", "succeeds_after_others", "succeeds_twice", "names_failed"}


def test_half_a_request_is_not_received(server, monkeypatch):
    found, hook = talk(server, monkeypatch, "succeeds", request(MESSAGES)[:-3])
    assert found == b"" and hook.notes.given == [] and hook.notes.said == {}


def test_those_after_a_failed_one_of_its_key_are_not_processed(server, monkeypatch):
    class First(Idle):
        def randrange(self, *_):
            return 0

    found, hook = talk(server, monkeypatch, "names_failed", request(MESSAGES), First)
    assert b'{"failed": ["default:1:0"]}' in found
    assert set(hook.notes.said) == {"default:2:0"}
    hook.notes.strict = True
    hook.notes.said.clear()
    talk(server, monkeypatch, "names_failed", request(MESSAGES), First)
    assert hook.notes.said == {}


def test_a_request_after_unsolicited_bytes_is_not_processed(server, monkeypatch):
    """Except one request that the bytes may have crossed."""
    monkeypatch.setattr(hostile, "WAYS", ("succeeds_twice",))
    monkeypatch.setattr(hostile, "WEIGHTS", (1,))
    server.dice = Idle
    monkeypatch.setattr(hostile, "CROSSING", 60)
    hook = server.hooks["/default/hook"]
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(request([message(1, "a")]))
        wait_until(lambda: client.recv(65536, socket.MSG_PEEK).count(b"200 OK") == 2, "two answers")
        client.sendall(request([message(2, "a")]))
        wait_until(lambda: "default:2:0" in hook.notes.said, "a request that crossed the bytes to be processed")
        wait_until(lambda: client.recv(65536, socket.MSG_PEEK).count(b"200 OK") == 3, "its answer")
        monkeypatch.setattr(hostile, "CROSSING", 0)
        client.sendall(request([message(3, "a")]))
        wait_until(lambda: server.trapped == 1, "the request to be trapped")
    assert set(hook.notes.said) == {"default:1:0", "default:2:0"} and len(hook.notes.given) == 3


def test_answers_to_nothing_are_dated_before_they_are_sent(server):
    """A client may continue as soon as it has the bytes, and send requests that another thread dates."""

    class Line:
        def sendall(self, data: bytes):
            dates.append(conversation.unsolicited)

    class First(Idle):
        def random(self):
            return 0.0

    dates: list[float | None] = []
    hook = server.hooks["/default/hook"]
    conversation = hostile.Conversation(server, Line(), First())
    conversation._succeeds_twice(hook, [message(1, "a")])
    assert None not in dates and len(dates) == 1
    crossed = Request("/default/hook", {}, json.dumps({"messages": [message(2, "a")]}).encode(), dates[0])
    conversation._answer_late(crossed, hook, True)
    assert dates[1] > dates[0] and hook.notes.said["default:2:0"] == [dates[0]]
    # Whether a request has crossed them depends on the latest time at which they were sent.
    assert conversation.sent >= dates[1]


def test_idle_connections_are_told_408_and_closed(server, monkeypatch):
    class Impatient(Idle):
        def random(self):
            return 0.3

        def choice(self, ways):
            return ways[0]

    found, hook = talk(server, monkeypatch, "succeeds", b"", Impatient)
    assert found.startswith(b"HTTP/1.1 408") and hook.notes.given == []


def test_a_calm_server_succeeds(server, monkeypatch):
    server.calm = True
    found, hook = talk(server, monkeypatch, "refuses", request([MESSAGES[0]], batch=False))
    assert found.startswith(b"HTTP/1.1 200") and set(hook.notes.said) == {ID}


def test_signatures():
    # `openssl dgst -sha256 -mac HMAC` over "m.1.{}" gives the same.
    import base64
    import hashlib
    import hmac

    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    made = base64.b64encode(hmac.new(key, b"m.1.{}", hashlib.sha256).digest()).decode()
    one = Request("/", {"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": f"v1,abc v1,{made}"}, b"{}", 0.0)
    assert is_signed(one, [OTHER_SECRET, SECRET]) and not is_signed(one, [OTHER_SECRET])
    one.body = b"{ }"
    assert not is_signed(one, [SECRET])
