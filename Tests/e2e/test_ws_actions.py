"""Every request, status and push of the realtime protocol, as exact messages in their exact order."""

import time

import pytest
from harness.sse import Listener
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient, datum, merge

NOW = {".sv": "timestamp"}


def plus(number):
    return {".sv": {"increment": number}}


@pytest.fixture
def client(dev):
    with RealtimeClient(dev.port) as client:
        yield client


@pytest.fixture
def other(dev):
    with RealtimeClient(dev.port) as client:
        yield client


def conversation(client, requests, messages):
    """Sends one request after another, and expects exactly these messages in this order, each request's up to its answer."""
    found = []
    for action, body in requests:
        number = client.ask(action, body)
        while not found or found[-1].get("r") != number:
            found.append(client.message()["d"])
    assert found == messages
    assert client.pushed() == []


def ok(number, data=""):
    return {"r": number, "b": {"s": "ok", "d": data}}


# Listens

def test_data_before_the_answer_and_an_object_as_the_answer(client, at):
    at.set(value={"a": 1})
    conversation(client, [("q", {"p": f"/{at.base}", "h": ""}), ("q", {"p": f"{at.base}/none", "h": ""})],
                 [datum(at.base, {"a": 1}), ok(1, {}), ok(2, {})])


def test_a_listen_without_h(client, at):
    at.set(value=3)
    conversation(client, [("q", {"p": at.base})], [datum(at.base, 3), ok(1, {})])


def test_old_names_of_listen_and_unlisten(client, at):
    at.set(value=3)
    conversation(client, [("l", {"p": at.base}), ("u", {"p": at.base}), ("p", {"p": at.base, "d": 4})],
                 [datum(at.base, 3), ok(1, {}), ok(2), ok(3)])


def test_unlisten_ends_the_pushes_and_may_come_twice(client, at):
    conversation(client, [("q", {"p": at.base}), ("n", {"p": at.base}), ("n", {"p": at.base}), ("p", {"p": at.base, "d": 4})],
                 [ok(1, {}), ok(2), ok(3), ok(4)])


def test_the_same_listen_twice_is_one(client, at):
    at.set(value=1)
    conversation(client, [("q", {"p": at.base, "h": ""})] * 2 + [("p", {"p": at.base, "d": 2})],
                 [datum(at.base, 1), ok(1, {}), datum(at.base, 1), ok(2, {}), datum(at.base, 2), ok(3)])


def test_an_order_without_bounds_is_a_default_listen(client, at):
    at.set(value={"a": {"n": 2}, "b": {"n": 1}})
    assert client.listen(at.base, {"i": "n"}) == datum(at.base, {"a": {"n": 2}, "b": {"n": 1}})
    client.put(at.base + "/a/n", 5)
    assert client.pushed() == [datum(f"{at.base}/a/n", 5)]
    client.ok("n", {"p": at.base})
    client.put(at.base + "/a/n", 6)
    assert client.pushed() == []


def test_the_priority_of_a_default_listens_own_node_is_sent(client, at):
    client.put(at.base, {".priority": 7, "a": {".value": 1, ".priority": "x"}})
    assert client.listen(at.base) == datum(at.base, {".priority": 7, "a": {".value": 1, ".priority": "x"}})
    client.put(f"{at.base}/.priority", None)
    assert client.pushed() == [datum(f"{at.base}/.priority", None)]


# Writes and their pushes

def test_own_echo_before_the_answer_one_push_a_write(client, at):
    base = at.base
    client.listen(base)
    first = client.number
    conversation(client, [
        ("p", {"p": base, "d": {"a": 1, "b": {"c": 2}}}),
        ("p", {"p": f"/{base}/b/c", "d": 3}),
        ("m", {"p": base, "d": {"a": None, "b/c": 4, "x/y/z": True}}),
        ("p", {"p": base, "d": None}),
    ], [
        datum(base, {"a": 1, "b": {"c": 2}}), ok(first + 1),
        datum(f"{base}/b/c", 3), ok(first + 2),
        merge(base, {"a": None, "b/c": 4, "x/y/z": True}), ok(first + 3),
        datum(base, None), ok(first + 4),
    ])


def test_writes_above_a_listen(client, at):
    base = at.base
    client.listen(f"{base}/in/side")
    first = client.number
    conversation(client, [
        ("p", {"p": base, "d": {"in": {"side": {"a": 1}}, "out": 1}}),
        ("p", {"p": base, "d": {"in": {"side": {"a": 1}}, "out": 2}}),
        ("m", {"p": base, "d": {"out": 3, "in/side/a": 2, "in/side/b": 3}}),
        ("m", {"p": base, "d": {"out": 4, "in/side/a": 5}}),
        ("m", {"p": base, "d": {"out": 5, "in": {"side": 5}}}),
        ("p", {"p": base, "d": "leaf"}),
    ], [
        datum(f"{base}/in/side", {"a": 1}), ok(first + 1),
        ok(first + 2),
        merge(f"{base}/in/side", {"a": 2, "b": 3}), ok(first + 3),
        merge(f"{base}/in/side", {"a": 5}), ok(first + 4),
        datum(f"{base}/in/side", 5), ok(first + 5),
        datum(f"{base}/in/side", None), ok(first + 6),
    ])


def test_a_write_of_what_is_there_is_answered(client, at):
    client.put(at.base, {"a": 1})
    client.listen(at.base)
    client.put(at.base, {"a": 1})
    # The gateway forwards a put at or below a listen unchanged, or not at all.
    assert client.pushed() in ([], [datum(at.base, {"a": 1})])
    client.put(f"{at.base}/none", None)
    assert client.pushed() in ([], [datum(f"{at.base}/none", None)])


def test_others_get_the_same_pushes(client, other, at):
    base = at.base
    client.listen(base)
    other.listen(base)
    client.put(base, {"a": 1})
    client.ok("m", {"p": base, "d": {"a": 2, "b": 3}})
    for one in (client, other):
        assert [one.push(), one.push()] == [datum(base, {"a": 1}), merge(base, {"a": 2, "b": 3})]


def test_a_listen_at_the_root_of_a_namespace(dev, ns):
    with RealtimeClient(dev.port, ns=ns) as client:
        assert client.listen("/") is None
        client.put("/", {"a": 1})
        client.put("a/b", 2)
        client.ok("m", {"p": "/", "d": {"a/c": 3, "d": 4}})
        assert client.pushed() == [datum("", {"a": 1}), datum("a/b", 2), merge("", {"a/c": 3, "d": 4})]
        assert client.ok("g", {"p": "", "q": {}}) == {"a": {"b": 2, "c": 3}, "d": 4}


def test_server_values_are_one_instant_and_resolved_in_the_echo(client, at):
    client.put(at.base, {"n": 5})
    client.listen(at.base)
    before = int(time.time() * 1000)
    client.ok("m", {"p": at.base, "d": {"t1": NOW, "t2": {"deep": NOW}, "n": plus(2), "new": plus(-1.5), "p": {".value": 1, ".priority": NOW}}})
    (echo,) = client.pushed()
    data = echo["b"]["d"]
    instant = data["t1"]
    assert isinstance(instant, int) and before - 1000 <= instant <= int(time.time() * 1000) + 1000
    assert echo == merge(at.base, {"t1": instant, "t2": {"deep": instant}, "n": 7, "new": -1.5,
                                   "p": {".value": 1, ".priority": instant}})
    client.put(f"{at.base}/n", plus(0.5))
    assert client.pushed() == [datum(f"{at.base}/n", 7.5)]
    client.put(f"{at.base}/p/.priority", plus(1))
    assert client.pushed() == [datum(f"{at.base}/p/.priority", instant + 1)]


@pytest.mark.parametrize("value", [{".sv": "nonsense"}, {".sv": {"increment": "1"}}, {".sv": {}}, {".sv": 5}, {"a": {".sv": None}}])
def test_unknown_server_values_fail(client, at, value):
    answer = client.call("p", {"p": at.base, "d": value})
    assert answer["s"] == "failure" and isinstance(answer["d"], str)
    assert at.value() is None


def test_priorities(client, at):
    base = at.base
    assert client.call("p", {"p": f"{base}/.priority", "d": 1})["s"] == "failure"
    assert client.call("p", {"p": f"{base}/.priority", "d": None})["s"] in ("ok", "failure")
    client.put(base, "leaf")
    client.put(f"/{base}/.priority", 1)
    assert client.ok("g", {"p": base, "q": {}}) == {".value": "leaf", ".priority": 1}
    client.put(f"{base}/child", True)
    assert client.ok("g", {"p": base, "q": {}}) == {".priority": 1, "child": True}
    client.ok("m", {"p": base, "d": {".priority": "s", "child/.priority": 2.5}})
    assert client.ok("g", {"p": base, "q": {}}) == {".priority": "s", "child": {".value": True, ".priority": 2.5}}
    for wrong in (True, {"a": 1}, [1]):
        assert client.call("p", {"p": f"{base}/.priority", "d": wrong})["s"] == "failure"
    client.put(f"{base}/.priority", None)
    assert client.ok("g", {"p": base, "q": {}}) == {"child": {".value": True, ".priority": 2.5}}


def test_numbers_keep_their_kind(client, at):
    numbers = {"max": 2**63 - 1, "min": -2**63, "odd": 2**53 + 1, "big": 1.7976931348623157e308, "round": 1e29, "half": 0.5}
    client.put(at.base, numbers)
    client.socket.send(b'{"t":"d","d":{"r":77,"a":"g","b":{"p":"%s","q":{}}}}' % at.base.encode())
    answer = client.answer(77)["d"]
    assert answer == numbers and all(type(answer[key]) is type(value) for key, value in numbers.items())
    # Java reads every string of digits as a long, so other numbers have a fraction or an exponent.
    assert "e" in client.frames[0].lower().partition('"round":')[2].partition("}")[0].partition(",")[0]


def test_arrays_and_empty_things(client, at):
    client.put(at.base, {"list": ["a", None, "c"], "empty": {}, "none": [], "deep": {"x": {"y": None}}})
    assert client.ok("g", {"p": at.base, "q": {}}) == {"list": {"0": "a", "2": "c"}}


# Reads

def test_get(client, at):
    client.put(at.base, {"a": {".value": 1, ".priority": 2}, "b": 2, "c": 3})
    assert client.ok("g", {"p": at.base, "q": {}}) == {"a": {".value": 1, ".priority": 2}, "b": 2, "c": 3}
    assert client.ok("g", {"p": f"{at.base}/b"}) == 2
    assert client.ok("g", {"p": f"{at.base}/none", "q": {}}) is None
    assert client.ok("g", {"p": at.base, "q": {"sp": "b", "sin": True, "ep": "b", "ein": True, "i": ".key"}}) == {"b": 2}
    assert client.ok("g", {"p": at.base, "q": {"l": 2, "vf": "r", "i": ".key"}}) == {"b": 2, "c": 3}
    assert client.ok("g", {"p": f"{at.base}/b", "q": {"l": 2, "vf": "r", "i": ".key"}}) is None


def test_gets_are_answered_after_the_writes_before_them(client, at):
    for number in range(30):
        client.ask("p", {"p": at.base, "d": number})
        asked = client.ask("g", {"p": at.base, "q": {}})
        assert client.answer(asked) == {"s": "ok", "d": number}


def test_listens_behind_writes_see_them(client, at):
    put = client.ask("p", {"p": at.base, "d": {"n": 1}})
    listen = client.ask("q", {"p": at.base, "h": ""})
    assert client.answer(put)["s"] == client.answer(listen)["s"] == "ok"
    from harness.websocket_client import Holder
    holder = Holder(at.base)
    for push in client.pushed():
        holder.take(push)
    assert holder.value == {"n": 1}


# Other requests

def test_small_actions(client):
    token = {"s": "ok", "d": ""}
    assert client.call("s", {"c": {"sdk.node.12-18-0": 1}}) == token
    assert client.call("appcheck", {"token": "junk"}) == token
    assert client.call("unappeck") == token and client.call("unappcheck") == token
    assert client.call("unauth") == {"s": "ok", "d": "unauthenticated"}
    assert client.call("echo", {"d": {"a": [1, "x", None]}}) == {"s": "ok", "d": {"a": [1, "x", None]}}


def test_gauth_of_the_emulators_owner(client):
    assert client.call("gauth", {"cred": "owner"}) == {"s": "ok", "d": {"auth": None, "expires": None}}
    answer = client.call("gauth", {"cred": "owner", "authvar": {"uid": "test", "custom": "secret"}})
    assert answer == {"s": "ok", "d": {"auth": {"uid": "test", "custom": "secret"}, "expires": None}}
    assert client.call("gauth", {"cred": "owner", "noauth": True})["d"]["auth"] is None


def test_unsigned_tokens_of_the_emulator(client):
    import base64
    import json

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": "u1", "user_id": "u1", "iat": 0, "exp": 3600, "firebase": {"sign_in_provider": "custom", "identities": {}}}
    token = f"{part({'alg': 'none', 'type': 'JWT'})}.{part(claims)}."
    answer = client.call("auth", {"cred": token})
    assert answer["s"] == "ok" and answer["d"]["auth"]["uid"] == "u1" and answer["d"]["auth"]["token"]["sub"] == "u1"


@pytest.mark.parametrize("action", ["auth", "gauth"])
@pytest.mark.parametrize("credential", ["", "junk", "a.b.c", "x" * 100_000, "eyJhbGciOiJub25lIn0.e30.sig"])
def test_bad_credentials(client, action, credential):
    answer = client.call(action, {"cred": credential})
    assert answer["s"] in ("invalid_token", "expired_token") and isinstance(answer["d"], str)
    assert client.call("s", {})["s"] == "ok"


# Order

def test_rest_streams_and_realtime_see_one_order(dev, at):
    base = at.base
    with RealtimeClient(dev.port) as first, RealtimeClient(dev.port) as second, Listener(at) as stream:
        first.listen(base)
        second.listen(base)
        asked = []
        for number in range(60):
            match number % 3:
                case 0: asked.append((first, first.ask("p", {"p": f"{base}/x", "d": number})))
                case 1: asked.append((second, second.ask("m", {"p": base, "d": {"x": number, f"k{number}": 1}})))
                case 2: at.put("x", number)
        for client, number in asked:
            assert client.answer(number)["s"] == "ok"
        at.set("end", True)

        def values(client):
            found = []
            while True:
                data = client.push()["b"]
                if data["p"].endswith("/end"):
                    return found
                found.append(data["d"]["x"] if isinstance(data["d"], dict) else data["d"])

        seen = values(first)
        assert sorted(seen) == list(range(60)) and values(second) == seen
        wait_until(lambda: any(event.path == "/end" for event in stream.events), "the stream's end")
        events = [event.data["x"] if isinstance(event.data, dict) else event.data
                  for event in stream.events if event.data is not None and event.path != "/end"]
        assert events == seen
        assert at.value("x") == seen[-1]


def test_pipelined_writes_are_answered_in_order_each_behind_its_echo(client, at):
    client.listen(at.base)
    first = client.number + 1
    for number in range(300):
        client.ask("p", {"p": f"{at.base}/k{number % 7}", "d": number})
    echoed, answered = [], []
    while len(answered) < 300:
        data = client.message()["d"]
        if "r" in data:
            answered.append(data)
            assert len(answered) <= len(echoed), "an answer before its echo"
        else:
            echoed.append(data)
    assert echoed == [datum(f"{at.base}/k{number % 7}", number) for number in range(300)]
    assert answered == [ok(first + number) for number in range(300)]


def test_requests_are_applied_in_the_order_of_their_arrival(serve):
    """The gateway judges and answers a read after the writes before it, although the client did not wait for their answers."""
    gateway = serve(rules={"rules": {
        "members": {".write": True},
        "inner": {"$id": {".read": "root.child('members').child($id).exists()", 
                          ".write": "root.child('members').child($id).exists()"}}}})
    with RealtimeClient(gateway.port) as client:
        for number in range(20):
            who = f"m{number}"
            asked = [client.ask("p", {"p": f"members/{who}", "d": True}),
                     client.ask("q", {"p": f"inner/{who}", "h": ""}),
                     client.ask("g", {"p": f"inner/{who}", "q": {}}),
                     client.ask("o", {"p": f"inner/{who}", "d": "gone"}),
                     client.ask("p", {"p": f"inner/{who}", "d": number}),
                     client.ask("g", {"p": f"inner/{who}", "q": {}}),
                     client.ask("oc", {"p": f"inner/{who}", "d": None}),
                     client.ask("p", {"p": f"members/{who}", "d": None}),
                     client.ask("g", {"p": f"inner/{who}", "q": {}})]
            answers = [client.answer(one) for one in asked]
            assert [one["s"] for one in answers] == ["ok"] * 8 + ["permission_denied"]
            assert answers[2]["d"] is None and answers[5]["d"] == number
