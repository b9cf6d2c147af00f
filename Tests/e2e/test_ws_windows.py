"""Listens with queries: the first value of a window, and the events when children enter it, move within it and leave."""

import os
import random

import pytest
from harness.websocket_client import Holder, RealtimeClient, datum, merge
from oracle.export import assign, at as value_at, child, split
from oracle.order import key_rank, value_rank

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)


@pytest.fixture
def client(dev):
    with RealtimeClient(dev.port) as client:
        yield client


def window(node, query: dict):
    """The selection of a query object by the words of the reference, slowly."""
    children, _ = split(node)
    if not isinstance(children, dict):
        return None
    index = query.get("i", ".priority")

    def name_rank(key):
        return {"[MIN_NAME]": (-1,), "[MIN_KEY]": (-1,), "[MAX_NAME]": (9,), "[MAX_KEY]": (9,)}.get(key) or key_rank(key)

    def rank(key):
        if index == ".key":
            return (name_rank(key),)
        if index == ".priority":
            own = split(children[key])[1]
        else:
            own = split(children[key] if index == ".value" else value_at(children[key], index))[0]
        return (value_rank(own), name_rank(key))

    def bound(value, key, default):
        return (name_rank(value),) if index == ".key" else (value_rank(value), default if key is None else name_rank(key))

    keys = sorted(children, key=rank)
    if "sp" in query:
        low = bound(query["sp"], query.get("sn"), (-1,) if query.get("sin", True) else (9,))
        keys = [key for key in keys if rank(key) > low or rank(key) == low and query.get("sin", True)]
    if "ep" in query:
        high = bound(query["ep"], query.get("en"), (9,) if query.get("ein", True) else (-1,))
        keys = [key for key in keys if rank(key) < high or rank(key) == high and query.get("ein", True)]
    if "l" in query:
        keys = keys[:query["l"]] if query.get("vf", "l") == "l" else keys[-query["l"]:]
    return {key: children[key] for key in keys} or None


# One window, step by step

def test_limits_with_refill(client, at):
    base = at.base
    client.put(base, {"a": 1, "b": 2, "c": 3, "d": 4})
    query = {"l": 2, "vf": "r", "i": ".key"}
    assert client.listen(base, query, 7) == datum(base, {"c": 3, "d": 4}, 7)

    def after(action, path, value):
        client.ok(action, {"p": path, "d": value})
        return client.pushed()

    assert after("p", f"{base}/e", {"x": 1}) == [merge(base, {"c": None, "e": {"x": 1}}, 7)]
    assert after("p", f"{base}/e", None) == [merge(base, {"c": 3, "e": None}, 7)]
    assert after("p", f"{base}/a", 9) == []
    assert after("p", f"{base}/d", 9) == [merge(base, {"d": 9}, 7)]
    # Two leave and two enter in one merge; one stays and changes.
    assert after("m", base, {"c": None, "d": None}) == [merge(base, {"a": 9, "b": 2, "c": None, "d": None}, 7)]
    (gone,) = after("p", base, None)
    assert gone == datum(base, None, 7)
    (back,) = after("p", f"{base}/z", 1)
    assert back in (datum(base, {"z": 1}, 7), merge(base, {"z": 1}, 7))
    client.ok("n", {"p": base, "q": query, "t": 7})
    assert after("p", f"{base}/zz", 1) == []


def test_children_that_move_by_a_change_deep_inside(client, at):
    base = at.base
    client.put(base, {name: {"rank": {"n": number}, "more": name} for number, name in enumerate("abcd")})
    query = {"i": "rank/n", "sp": 1, "sin": True, "ep": 2, "ein": True}
    assert client.listen(f"/{base}", query, 1)["b"]["d"].keys() == {"b", "c"}
    # The child enters whole.
    client.put(f"{base}/a/rank/n", 1.5)
    assert client.pushed() == [merge(base, {"a": {"rank": {"n": 1.5}, "more": "a"}}, 1)]
    # The child moves within the window: both forms are right, whole or deep.
    client.put(f"{base}/a/rank/n", 2)
    (moved,) = client.pushed()
    assert moved in (merge(base, {"a": {"rank": {"n": 2}, "more": "a"}}, 1), merge(base, {"a/rank/n": 2}, 1),
                     datum(f"{base}/a/rank/n", 2, 1))
    client.put(f"{base}/a/rank", "string")
    assert client.pushed() == [merge(base, {"a": None}, 1)]
    client.put(f"{base}/d/more", "unseen")
    assert client.pushed() == []


def test_a_leaf_at_a_querys_path_is_nothing(client, at):
    base, query = at.base, {"i": ".key", "l": 3, "vf": "l"}
    client.put(base, "leaf")
    assert client.listen(base, query, 4) is None
    client.put(f"{base}/a", 1)
    (entered,) = client.pushed()
    assert entered in (datum(base, {"a": 1}, 4), merge(base, {"a": 1}, 4))
    client.put(base, 5)
    (left,) = client.pushed()
    assert left in (datum(base, None, 4), merge(base, {"a": None}, 4))


def test_the_own_priority_is_not_part_of_a_window(client, at):
    base, query = at.base, {"i": ".key", "l": 3, "vf": "l"}
    client.put(base, {".priority": 3, "a": 1})
    assert client.listen(base, query, 4) == datum(base, {"a": 1}, 4)
    client.put(f"{base}/.priority", 9)
    assert client.pushed() == []


def test_several_windows_and_the_whole_at_one_path(client, at):
    base = at.base
    client.put(base, {"a": 1, "b": 2, "c": 3})
    first, last = {"i": ".key", "l": 1, "vf": "l"}, {"i": ".key", "l": 1, "vf": "r"}
    assert client.listen(base, first, 1) == datum(base, {"a": 1}, 1)
    assert client.listen(base, last, 2) == datum(base, {"c": 3}, 2)
    assert client.listen(base) == datum(base, {"a": 1, "b": 2, "c": 3})
    client.ok("m", {"p": base, "d": {"a": None, "d": 4}})
    found = client.pushed()
    assert len(found) == 3
    for push in (merge(base, {"a": None, "b": 2}, 1), merge(base, {"c": None, "d": 4}, 2), merge(base, {"a": None, "d": 4})):
        assert push in found
    client.ok("n", {"p": base, "q": first, "t": 1})
    client.put(f"{base}/z", 1)
    assert len(client.pushed()) == 2
    client.ok("n", {"p": base})
    client.put(f"{base}/zz", 1)
    assert client.pushed() == [merge(base, {"z": None, "zz": 1}, 2)]


def test_one_window_for_many_clients_each_with_its_tag(dev, at):
    at.set(value={"a": 1, "b": 2})
    query = {"i": ".value", "l": 1, "vf": "r"}
    with RealtimeClient(dev.port) as one, RealtimeClient(dev.port) as two, RealtimeClient(dev.port) as writer:
        assert one.listen(at.base, query, 5) == datum(at.base, {"b": 2}, 5)
        assert two.listen(at.base, query, 99) == datum(at.base, {"b": 2}, 99)
        writer.put(f"{at.base}/c", 3)
        assert one.push() == merge(at.base, {"b": None, "c": 3}, 5)
        assert two.push() == merge(at.base, {"b": None, "c": 3}, 99)
        # The same query again under another tag: pushes have the new tag.
        assert one.listen(at.base, query, 6) == datum(at.base, {"c": 3}, 6)
        writer.put(f"{at.base}/c", None)
        assert one.push() == merge(at.base, {"b": 2, "c": None}, 6)
        assert one.pushed() == []


# Bounds

TREE = {"-3": 1, "1": 5, "2": 5, "10": "x", "a": 5, "a ": True, "b": {"v": 1}, "k": {".value": 5, ".priority": 1}, "z": "y", "é": False,
        "\U0001f600": 2, "\uff5e": 2.5}


@pytest.mark.parametrize("query", [
    {"i": ".value", "sp": 5, "sin": True}, {"i": ".value", "sp": 5, "sn": "2"}, {"i": ".value", "sp": 5, "sn": "2", "sin": False},
    {"i": ".value", "sp": 5, "sin": False, "sn": "[MAX_NAME]"}, {"i": ".value", "sp": 5, "sn": "[MAX_NAME]"}, {"i": ".value", "sp": 5, "sn": "[MAX_KEY]"},
    {"i": ".value", "ep": 5, "ein": False, "en": "[MIN_NAME]"}, {"i": ".value", "ep": 5, "en": "[MIN_NAME]"}, {"i": ".value", "ep": 5, "en": "[MIN_KEY]"},
    {"i": ".value", "ep": 5, "en": "a"}, {"i": ".value", "ep": 5, "en": "a", "ein": False}, {"i": ".value", "sp": 5, "ep": 5},
    {"i": ".value", "sp": 5, "sn": "a", "ep": 5, "en": "a"}, {"i": ".value", "sp": None, "ep": True}, {"i": ".value", "sp": False, "ep": False},
    {"i": ".value", "sp": 5.0, "ep": 5}, {"i": ".value", "sp": "x", "l": 1, "vf": "r"}, {"i": ".value", "ep": "x", "l": 3, "vf": "r"},
    {"i": ".key", "sp": "2"}, {"i": ".key", "sp": "2", "sin": False}, {"i": ".key", "ep": "10"}, {"i": ".key", "ep": "10", "ein": False},
    {"i": ".key", "sp": "a "}, {"i": ".key", "sp": "a", "ep": "a"}, {"i": ".key", "sp": "2147483648"}, {"i": ".key", "sp": "[MIN_NAME]", "ep": "[MAX_NAME]"},
    {"i": ".key", "ep": "`" + "\uffff" * 785}, {"i": ".key", "sp": "\U0001f600"}, {"i": ".key", "sp": "\uff5e"}, {"i": ".key", "sp": " "},
    {"i": ".key", "sp": "a\u0001#$[]./"}, {"sp": 1}, {"sp": None, "ep": None}, {"l": 2, "vf": "r"}, {"l": 2, "vf": "l"}, {"l": 2},
    {"i": "v", "sp": 1}, {"i": "v", "l": 1, "vf": "r"}, {"i": "v", "sp": None, "ep": None, "l": 4, "vf": "l"}, {"i": "deep/er", "l": 1},
    {"i": ".priority", "sp": 1, "ep": 1}, {"sp": 0, "l": 100, "vf": "r"}])
def test_bounds_and_limits(client, at, query):
    client.put(at.base, TREE)
    expected = window(TREE, query)
    found = client.listen(at.base, query, 1)
    assert (found["b"]["d"] if found else None) == expected
    assert client.ok("g", {"p": at.base, "q": query}) == expected


def test_undeclared_indexes(serve):
    gateway = serve(rules={"rules": {".read": True, ".write": True, "list": {".indexOn": ["good", ".value"]}}})
    with RealtimeClient(gateway.port) as client:
        client.put("list", {"a": {"good": 1, "bad": 2}, "b": {"good": 2, "bad": 1}})
        query = {"i": "good", "sp": 2}
        assert client.call("q", {"p": "list", "q": query, "t": 1, "h": ""}) == {"s": "ok", "d": {}}
        assert client.pushes.popleft() == datum("list", {"b": {"good": 2, "bad": 1}}, 1)
        query = {"i": "bad", "sp": 2}
        assert client.call("q", {"p": "/list", "q": query, "t": 2, "h": ""}) == {"s": "ok", "d": {"w": ["no_index"]}}
        assert client.pushes.popleft() == datum("list", {"a": {"good": 1, "bad": 2}}, 2)
        assert client.call("g", {"p": "list", "q": query}) == {
            "s": "failure", "d": 'Index not defined, add ".indexOn": "bad", for path "/list", to the rules'}
        for builtin in ({"l": 1}, {"i": ".key", "l": 1}, {"i": ".value", "l": 1}):
            assert client.call("g", {"p": "list", "q": builtin})["s"] == "ok"
        assert client.call("q", {"p": "other", "q": {"i": ".value", "l": 1}, "t": 3})["d"] == {"w": ["no_index"]}


@pytest.mark.parametrize("query", [
    5, "x", [], {"i": 5}, {"i": ""}, {"i": "a.b"}, {"i": ".nonsense"}, {"l": 0}, {"l": -1}, {"l": 1.5}, {"l": "3"}, {"l": 1, "vf": "x"}, {"sp": {}},
    {"sp": [1]}, {"i": ".key", "sp": 5}, {"sp": 1, "sn": 5}, {"l": 1 << 40}])
def test_queries_that_are_none_fail_alone(client, at, query):
    for action in ("q", "g", "n"):
        answer = client.call(action, {"p": at.base, "q": query, "t": 1})
        assert answer["s"] == "failure" and isinstance(answer["d"], str), (action, answer)
    assert client.pushed() == []


# Windows against the model, at random

def random_query(dice) -> dict:
    query = {}
    if index := dice.choice([None, ".key", ".value", "v", "v/w"]):
        query["i"] = index
    values = ["a", "1", "3", "k2", "\uff5e"] if index == ".key" else [None, True, 1, 2.5, "a", "b", 3]
    if dice.random() < 0.4:
        query["sp"] = dice.choice(values)
        if index != ".key" and dice.random() < 0.4:
            query["sn"] = dice.choice(["a", "1", "[MAX_NAME]", "k2"])
        if dice.random() < 0.4:
            query["sin"] = dice.random() < 0.5
    if dice.random() < 0.4:
        query["ep"] = dice.choice(values)
        if index != ".key" and dice.random() < 0.4:
            query["en"] = dice.choice(["a", "1", "[MIN_NAME]", "k2"])
        if dice.random() < 0.4:
            query["ein"] = dice.random() < 0.5
    if dice.random() < 0.6 or not ("sp" in query or "ep" in query):
        query |= {"l": dice.randrange(1, 4), "vf": dice.choice("lr")}
    return query


def spelled_out(query: dict) -> dict:
    """The query with its defaults filled in."""
    defaults = {"i": ".priority"} | {f"{bound[0]}in": True for bound in ("sp", "ep") if bound in query}
    return defaults | query


def random_value(dice, depth=2):
    kind = dice.randrange(7)
    if kind == 0:
        return None
    if kind <= 3 or depth == 0:
        value = dice.choice([True, False, 1, 2, 2.5, "a", "b", 3])
        return {".value": value, ".priority": dice.choice([1, 2, "p"])} if dice.random() < 0.3 else value
    value = {dice.choice(["v", "w", "x"]): random_value(dice, depth - 1) for _ in range(dice.randrange(1, 3))}
    return value | ({".priority": dice.choice([1, 2, "p"])} if dice.random() < 0.2 else {})


@pytest.mark.parametrize("round", range(6))
def test_windows_follow_the_model(dev, at, round):
    dice = random.Random(SEED + round)
    base, tree = at.base, None
    with RealtimeClient(dev.port) as client, RealtimeClient(dev.port) as writer:
        listens = {}
        for tag in range(1, 13):
            query = random_query(dice)
            # Two equivalent queries are one listen, whose later tag counts.
            if all(spelled_out(query) != spelled_out(other) for other, _ in listens.values()):
                listens[tag] = (query, Holder(base, tag))
                listens[tag][1].take(client.listen(base, query, tag))
        whole = Holder(base)
        whole.take(client.listen(base))
        keys = ["a", "b", "1", "3", "k2", "z", "\uff5e"]
        for step in range(60):
            key = dice.choice(keys)
            match dice.randrange(6):
                case 0: changes = {key: random_value(dice) for key in dice.sample(keys, 3)}
                case 1: changes = {f"{key}/v": random_value(dice, 1)}
                case 2: changes = {f"{key}/v/w": random_value(dice, 0)}
                case 3 if child(tree, key) is not None: changes = {f"{key}/.priority": dice.choice([None, 1, 2, "p"])}
                case 4 if dice.random() < 0.2: changes = {"": random_value(dice)}
                case _: changes = {key: random_value(dice)}
            for place, value in changes.items():
                tree = assign(tree, [part for part in place.split("/") if part], value)
            by = dice.choice([client, writer])
            if len(changes) == 1:
                ((place, value),) = changes.items()
                by.put(f"{base}/{place}", value)
            else:
                by.ok("m", {"p": base, "d": changes})
            # A mark outside of every window shows that all earlier changes have arrived.
            by.put(f"{base}-mark", step)
            while client.ok("g", {"p": f"{base}-mark", "q": {}}) != step:
                pass
            for push in client.pushed():
                tag = push["b"].get("t")
                (whole if tag is None else listens[tag][1]).take(push)
            where = f"seed {SEED}, round {round}, step {step}, changes {changes}"
            assert whole.value == tree, where
            for query, holder in listens.values():
                assert holder.value == window(tree, query), f"{where}, query {query}"
