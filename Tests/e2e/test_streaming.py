"""Streams: put, patch, keep-alive, forms, and the events of listeners above, at and below each write."""

import pytest
from harness.gateway import SECRET
from harness.raw import Responses, raw_connection
from harness.rest import ordered
from harness.sse import Listener, Refused
from oracle.generate import Trees
from oracle.query import select
from oracle.tree import normal


def test_a_stream_begins_with_what_is_there(at):
    at.set(value={"a": [1, 2]})
    with Listener(at) as listener:
        event = listener.next()
        assert event.change == ("put", "/", {"a": [1, 2]})
        assert event.id is not None and event.id >= 1
        assert listener.headers["Content-Type"].startswith("text/event-stream")
        assert listener.headers["Cache-Control"] == "no-cache"
    with Listener(at.at("nothing/here")) as empty:
        assert empty.next().change == ("put", "/", None)


def test_the_framing_is_exact(dev, at):
    at.set(value={"a": "line\nbreak"})
    with raw_connection(dev.port) as plain:
        plain.sendall(f"GET {at.url()} HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
        data = b""
        while b"\n\n" not in data.partition(b"\r\n\r\n")[2]:
            data += plain.recv(65536)
    lines = data.partition(b"\r\n\r\n")[2].split(b"\n\n")[0].split(b"\n")
    assert b"event: put" in lines
    assert b'data: {"path":"/","data":{"a":"line\\nbreak"}}' in lines
    assert len(lines) == 2 and lines[0] == b"event: put"


@pytest.mark.parametrize("asks", [
    {"params": {"eventIds": "true"}}, {"headers": {"Last-Event-ID": "0"}}, {"headers": {"Origin": "http://localhost:3000"}},
    {"headers": {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}}, {"headers": {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "none"}}])
def test_ids_are_sent_on_request(at, asks):
    """Clients that read line by line get no ids; a stream without ids has the same changes as one with them."""
    seq = at.set(value={"a": 1}).seq
    with Listener(at, ids=False) as plain, Listener(at, ids=False, headers=asks.get("headers"), **asks.get("params", {})) as asking:
        assert plain.next().id is None
        assert asking.next().id == seq
        seq = at.patch(value={"a": 2}).seq
        first, second = plain.next(), asking.next()
        assert first.change == second.change == ("patch", "/", {"a": 2})
        assert (first.id, second.id) == (None, seq)
    assert at.get(headers={"Accept": "text/event-stream"}, eventIds="1").status == 400


def test_writes_below_at_and_above(at):
    at.set(value={"a": {"b": {"c": 1}}})
    with Listener(at.at("a")) as listener:
        listener.next()
        script = [
            (lambda: at.set("a/b/c", 2), ("put", "/b/c", 2)),
            (lambda: at.set("a", {"b": {"c": 3}}), ("put", "/", {"b": {"c": 3}})),
            (lambda: at.set(value={"a": {"d": 4}, "z": 1}), ("put", "/", {"d": 4})),
            (lambda: at.patch("a", {"e": 5, "d": None}), ("patch", "/", {"e": 5, "d": None})),
            (lambda: at.patch("a/f", {"g": 6}), ("patch", "/f", {"g": 6})),
            (lambda: at.delete("a/f"), ("put", "/f", None)),
            (lambda: at.delete(), ("put", "/", None))]
        seqs = []
        for write, expected in script:
            seq = write().seq
            event = listener.next()
            assert event.change == expected
            assert event.id == seq
            seqs.append(seq)
        assert seqs == sorted(seqs)


def test_a_post_is_a_put_of_its_child(at):
    with Listener(at) as listener:
        listener.next()
        name = at.post("users", {"n": 1}).json()["name"]
        assert listener.next().change == ("put", f"/users/{name}", {"n": 1})


def test_a_multi_path_update_reaches_each_listener_once(at):
    at.set(value={"a": 1, "b": 1, "c": 1})
    with Listener(at) as root, Listener(at.at("a")) as one, Listener(at.at("c")) as other:
        for listener in (root, one, other):
            listener.next()
        seq = at.patch(value={"a/x": 2, "b": 3}).seq
        assert one.next().id == seq
        one.wait_for_value({"x": 2})
        assert root.next().id == seq
        root.wait_for_value({"a": {"x": 2}, "b": 3, "c": 1})
        # The next event of the uninvolved listener is that of the next write.
        assert at.set("c", 9) and other.next().change == ("put", "/", 9)
        assert root.next().change == ("put", "/c", 9)


def test_a_write_elsewhere_is_silence(at):
    at.set(value={"a": 1, "b": 1})
    with Listener(at.at("a")) as listener:
        listener.next()
        at.set("b", 2)
        at.set("ab", 2)
        at.set("a", 2)
        assert listener.next().change == ("put", "/", 2)


def test_export_form_tells_priorities(at):
    at.set(value={"a": {".value": 1, ".priority": 2}})
    with Listener(at, format="export") as exported, Listener(at) as plain:
        assert exported.next().data == {"a": {".value": 1, ".priority": 2}}
        assert plain.next().data == {"a": 1}
        at.set("b", {".value": 2, ".priority": 3})
        assert exported.next().change == ("put", "/b", {".value": 2, ".priority": 3})
        assert plain.next().change == ("put", "/b", 2)


def test_an_unchanged_write_is_no_harm(at):
    at.set(value={"a": 1})
    with Listener(at) as listener:
        listener.next()
        at.set("a", 1)
        at.set("a", 2)
        listener.wait_for_value({"a": 2})


@pytest.mark.parametrize("query", [
    {"orderBy": "$key", "limitToFirst": 2}, {"orderBy": "$key", "limitToLast": 2}, {"orderBy": "n", "limitToLast": 2}, {"orderBy": "n", "startAt": 3},
    {"orderBy": "n", "equalTo": 2}, {"orderBy": "$key", "startAt": "b", "endAt": "d"}, {"orderBy": "n", "startAfter": 1, "limitToFirst": 2},
    {"orderBy": "$value", "limitToFirst": 3}])
def test_a_window_follows_its_query(at, query):
    """Children enter and leave the window as others come and go; the stream sends null for a leaving one."""
    tree = {"a": {"n": 5}, "b": {"n": 1}, "c": {"n": 3}, "d": {"n": 2}}
    at.set(value=tree)
    with Listener(at, **ordered(**query)) as listener:
        assert normal(listener.next().data) == select(tree, **query)
        script = [("b/n", 9), ("aa", {"n": 0}), ("d", None), ("c", {"n": 2, "more": True}), ("a/n", 2), ("aa", None), ("z", 7), ("b", None), ("a", None)]
        for path, value in script:
            at.set(path, value)
            tree = normal(at.value(format="export"))
            # A window that must change emits a change; one that need not is compared at the next step.
            listener.wait_for_value(select(tree, **query))
        at.delete()
        listener.wait_for_value(None)


@pytest.mark.parametrize("seed", range(6))
def test_random_writes_fold_to_the_value(at, seed):
    trees = Trees(5000 + seed)
    dice = trees.dice
    at.set(value=trees.tree(3))
    query = {"orderBy": dice.choice(["$key", "a", "$value"]), dice.choice(["limitToFirst", "limitToLast"]): dice.randrange(1, 4)}
    with Listener(at) as whole, Listener(at.at("a")) as part, Listener(at, **ordered(**query)) as window, \
            Listener(at, format="export", **ordered(orderBy="$priority", limitToLast=2)) as ranked:
        for _ in range(40):
            path = dice.choice(["", "a", "a/b", "Z", "0", "1/x"])
            if dice.random() < 0.3:
                at.patch(path, {"a": trees.prioritised(1), "q/r": trees.tree(1)})
            elif dice.random() < 0.2:
                at.delete(path)
            else:
                at.set(path, trees.prioritised(2))
        whole.wait_for_value(at.value())
        part.wait_for_value(at.value("a"))
        exported = normal(at.value(format="export"))
        window.wait_for_value(normal(at.value(**ordered(**query))))
        ranked.wait_for_value(select(exported, orderBy="$priority", limitToLast=2))
        for listener in (whole, part, window, ranked):
            numbers = [event.id for event in listener.events]
            assert numbers == sorted(set(numbers)), f"seed {trees.seed}: ids repeat or go back"


def test_keep_alive(serve):
    gateway = serve(tune="stream-keep-alive=200ms")
    with Listener(gateway.unique()) as listener:
        listener.next()
        listener.wait_for_keep_alive(3)
        assert not listener.ended


def test_keep_alive_looks_like_the_original(serve):
    gateway = serve(tune="stream-keep-alive=200ms")
    with raw_connection(gateway.port) as plain:
        plain.sendall(b"GET /x.json HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        data = b""
        while b"keep-alive" not in data or not data.endswith(b"\n\n"):
            data += plain.recv(65536)
    assert b"event: keep-alive\ndata: null\n\n" in data


def test_a_stream_that_is_denied_is_a_plain_error(serve):
    gateway = serve(rules=None)
    with pytest.raises(Refused) as refusal:
        Listener(gateway.rest.at("x"))
    assert refusal.value.status == 401 and b"Permission denied" in refusal.value.body
    with Listener(gateway.rest.at("x", auth=SECRET)) as listener:
        assert listener.next().change == ("put", "/", None)


def test_a_stream_with_a_bad_query_is_a_plain_error(at):
    with pytest.raises(Refused) as refusal:
        Listener(at, limitToFirst="1")
    assert refusal.value.status == 400


def test_a_hundred_listeners_get_the_same(at):
    at.set(value=0)
    listeners = [Listener(at) for _ in range(100)]
    try:
        seqs = [at.set(value=number).seq for number in range(1, 20)]
        for listener in listeners:
            listener.wait_for_value(19)
            assert [event.id for event in listener.events][-19:] == seqs
    finally:
        for listener in listeners:
            listener.close()


def test_a_connection_takes_another_request_before_it_streams(dev, at):
    at.set(value=5)
    with raw_connection(dev.port) as plain:
        responses = Responses(plain)
        plain.sendall(f"GET {at.url()} HTTP/1.1\r\nHost: localhost\r\n\r\nGET {at.url()} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
        assert responses.next()[2].strip() == b"5"
        data = responses.line()
        assert b" 200 " in data
