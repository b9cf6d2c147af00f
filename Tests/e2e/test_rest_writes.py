"""Writes: PUT, POST, PATCH, DELETE; their answers, their results, and their atomicity."""

import re
import threading

import pytest
from harness.sse import Listener
from oracle.generate import Trees
from oracle.tree import assign, lookup, normal

_PUSH_ALPHABET = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


def test_put_echoes_and_replaces(at):
    response = at.put(value={"a": 1, "b": [1, 2]})
    assert (response.status, response.json()) == (200, {"a": 1, "b": [1, 2]})
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    at.set(value={"c": 3})
    assert at.value() == {"c": 3}


@pytest.mark.parametrize("bodies, stored", [
    ([b'{"b":2,"a":1}', b' { "a" : 1.0 , "b":2, "c": null } ', b'{"a":9,"b":{"x":1},"a":1,"b":2}'], b'{"a":1,"b":2}'),
    ([b'["x","y"]', b'{"0":"x","1":"y"}', b'{"1":"y","0":"x","2":[]}'], b'["x","y"]'), ([b"100", b"1e2", b"100.0", b"1E+2"], b"100"),
    ([b'"\\u00e9\\/"', '"é/"'.encode()], '"é/"'.encode()), ([b"null", b"{}", b"[]", b'{"a":{}}', b"[null]"], b"null"),
    ([b'{".value":1,".priority":2}', b'{".priority":2.0,".value":1}'], b'{".value":1,".priority":2}'), ([b'{".value":"v"}', b'"v"'], b'"v"'),
    ([b'{"a":[1],".priority":"p"}', b'{".priority":"p","a":{"0":1}}'], b'{"a":{"0":1},".priority":"p"}')])
def test_a_write_is_answered_the_stored_value_in_one_form(at, bodies, stored):
    """The answer has one form for all spellings of the body, for every method that returns a value."""
    for body in bodies:
        assert at.put(body=body).body.strip() == stored
        tag = at.get(headers={"X-Firebase-ETag": "true"}).etag
        assert at.put(body=body, headers={"if-match": tag}).body.strip() == stored
        # The removed paths of an update come last.
        assert at.patch(body=b'{"k":' + body + b',"deep/er":true}').body.strip() == (
            b'{"deep/er":true,"k":null}' if stored == b"null" else b'{"k":' + stored + b',"deep/er":true}')
        assert b"".join(at.put(body=body, print="pretty").body.split()) == b"".join(stored.split())


def test_an_update_of_nothing_and_by_null(at):
    at.set(value={"a": 1})
    assert at.patch(body=b"{}").body.strip() == b"{}"
    assert at.patch(body=b'{"a":[],"/b":1.0}').body.strip() == b'{"b":1,"a":null}'
    assert at.patch(body=b"null").body.strip() == b"null"
    assert at.patch(body=b"null", print="pretty").body.strip() == b"null"


def test_put_null_deletes_and_prunes(at):
    at.set("a/b/c", 1)
    assert at.put("a/b/c", None).json() is None
    assert at.value() is None
    at.set(value={"x": 1, "y": {"z": 2}})
    at.set("y/z", None)
    assert at.value() == {"x": 1}


@pytest.mark.parametrize("empty", [{}, [], {"a": {}}, [None], {"a": {"b": []}}])
def test_empty_is_null(at, empty):
    at.set(value=1)
    assert at.put(value=empty).status == 200
    assert at.value() is None


def test_a_child_below_a_leaf_replaces_the_leaf(at):
    at.set("a", "leaf")
    at.set("a/b", 1)
    assert at.value("a") == {"b": 1}


def test_null_below_a_leaf_changes_nothing(at):
    at.set("a", "leaf")
    assert at.put("a/b", None).status == 200
    assert at.value("a") == "leaf"


def test_post_makes_push_ids_in_order(at):
    names = []
    for number in range(50):
        response = at.post(value={"number": number})
        assert response.status == 200 and list(response.json()) == ["name"]
        names.append(response.json()["name"])
    assert names == sorted(names) and len(set(names)) == 50
    assert all(re.fullmatch(f"[{_PUSH_ALPHABET}]{{20}}", name) for name in names)
    assert [at.value(name)["number"] for name in names] == list(range(50))


def test_a_push_id_tells_the_time(at):
    now = at.set("time", {".sv": "timestamp"}) and at.value("time")
    name = at.post("list", 1).json()["name"]
    made = 0
    for character in name[:8]:
        made = made * 64 + _PUSH_ALPHABET.index(character)
    assert abs(made - now) < 60_000


def test_post_under_a_leaf_replaces_it(at):
    at.set(value=5)
    name = at.post(value="x").json()["name"]
    assert at.value() == {name: "x"}


def test_patch_replaces_children_and_keeps_the_rest(at):
    at.set(value={"a": {"x": 1}, "b": 2, "c": 3})
    response = at.patch(value={"a": {"y": 2}, "b": None, "d": 4})
    assert (response.status, normal(response.json())) == (200, {"a": {"y": 2}, "d": 4})
    assert at.value() == {"a": {"y": 2}, "c": 3, "d": 4}


def test_patch_reaches_many_paths_at_once(at):
    at.set(value={"users": {"u": {"name": "old", "age": 5}}, "feed": {"1": "x"}})
    response = at.patch(value={"users/u/name": "new", "feed/2": "y", "feed/1": None, "/index/u": True})
    assert response.status == 200
    assert normal(at.value()) == {"users": {"u": {"name": "new", "age": 5}}, "feed": {"2": "y"}, "index": {"u": True}}


def test_patch_is_one_entry_and_one_event(at):
    at.set(value={"a": 1, "b": 1})
    before = at.get().seq
    with Listener(at) as listener:
        listener.next()
        at.patch(value={"a": 2, "b/c": 3, "d/e/f": 4})
        event = listener.next()
    assert event.kind == "patch" and event.path == "/"
    assert event.id > before
    listener.wait_for_value({"a": 2, "b": {"c": 3}, "d": {"e": {"f": 4}}})


@pytest.mark.parametrize("update", [{"a": 1, "a/b": 2}, {"a/b": 1, "a/b/c/d": 2}, {"/a": 1, "a/b": None}, {"a": 1, "/a": 2}])
def test_patch_with_a_path_above_another_is_refused(at, update):
    at.set(value={"a": "old"})
    response = at.patch(value=update)
    assert response.status == 400 and response.error
    assert at.value() == {"a": "old"}


def test_patch_null_deletes(at):
    at.set(value={"a": 1})
    assert at.patch(body=b"null").status == 200
    assert at.value() is None


def test_patch_of_nothing_changes_nothing(at):
    at.set(value={"a": 1})
    response = at.patch(value={})
    assert response.status == 200
    assert at.value() == {"a": 1}


def test_patch_under_a_leaf_makes_children(at):
    at.set("a", "leaf")
    at.patch("a", {"x": 1})
    assert at.value("a") == {"x": 1}


def test_delete_answers_null(at):
    at.set(value={"a": 1, "b": 2})
    response = at.delete("a")
    assert (response.status, response.json()) == (200, None)
    assert at.value() == {"b": 2}
    assert at.delete("never-there").status == 200


@pytest.mark.parametrize("place", ["header", "parameter"])
def test_post_may_stand_for_another_method(at, place):
    def overridden(method, value):
        if place == "header":
            return at.post(value=value, headers={"X-HTTP-Method-Override": method})
        return at.post(value=value, **{"x-http-method-override": method})

    assert overridden("PUT", {"a": 1, "b": 2}).json() == {"a": 1, "b": 2}
    assert overridden("PATCH", {"b": 3}).status == 200
    assert at.value() == {"a": 1, "b": 3}
    assert overridden("DELETE", None).status == 200
    assert at.value() is None


def test_a_key_given_twice_counts_once_and_last(at):
    at.put(body=b'{"a":1,"a":2,"b":{"x":1},"b":{"y":2}}')
    assert at.value() == {"a": 2, "b": {"y": 2}}


@pytest.mark.parametrize("size", ["tiny", "small", "medium", "large", "unlimited"])
def test_write_size_limits_are_accepted(at, size):
    assert at.put(value={"a": 1}, writeSizeLimit=size).status == 200
    assert at.value() == {"a": 1}


def test_an_unknown_write_size_limit_is_refused(at):
    assert at.put(value=1, writeSizeLimit="enormous").status == 400
    assert at.value() is None


def test_disable_triggers_is_accepted(at):
    assert at.put(value=1, disableTriggers="true").status == 200


def test_content_type_does_not_matter(at):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "nonsense"):
        assert at.put(value={"k": kind}, headers={"Content-Type": kind}).status == 200
        assert at.value("k") == kind


def test_seqs_grow_with_every_write(at):
    seqs = [at.set(value=number).seq for number in range(10)]
    assert seqs == sorted(set(seqs))


def test_each_of_many_writers_gets_its_own_entry(at):
    """64 threads in parallel: the gateway batches their writes, yet each acknowledged write has its own seq."""
    seqs = []

    def write(worker):
        for number in range(10):
            seqs.append(at.set(f"w{worker}/n{number}", number).seq)

    workers = [threading.Thread(target=write, args=(worker,)) for worker in range(64)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(seqs) == len(set(seqs)) == 640
    assert at.value() == {f"w{worker}": {f"n{number}": number for number in range(10)} for worker in range(64)}


@pytest.mark.parametrize("seed", range(8))
def test_random_writes_follow_the_model(at, seed):
    trees = Trees(1000 + seed)
    model = None
    paths = ["", "a", "a/b", "a/b/c", "d", "d/0", "d/1", "e/2/f"]
    for step in range(40):
        path = trees.dice.choice(paths)
        action = trees.dice.randrange(4)
        if action == 0:
            at.delete(path)
            model = assign(model, path, None)
        elif action == 1:
            update = {key: trees.tree(2) if trees.dice.random() < 0.8 else None for key in ("a", "d/1", "x/y")}
            at.patch(path, update)
            for key, value in update.items():
                model = assign(model, f"{path}/{key}", value)
        else:
            value = trees.tree(2)
            at.set(path, value)
            model = assign(model, path, value)
        assert normal(at.value()) == model, f"seed {trees.seed}, step {step}"
    assert normal(at.value("a/b")) == lookup(model, "a/b")
