"""Listens of clients that reconnect with data: hashes, compound hashes, range merges; and puts with a hash."""

import os
import random

import pytest
from harness.websocket_client import RealtimeClient, datum, listening, push
from oracle.export import assign, normal
from oracle.generate import Trees
from oracle.hashes import node_hash
from oracle.ranges import apply_range_merge, compound, leaves, path_rank, range_hash, range_text, ranges

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)


@pytest.fixture
def client(dev):
    with RealtimeClient(dev.port) as client:
        yield client


# The model first: the reference's worked values

WORKED = [
    ({"foo": "bar"}, [], '("foo":(string:"bar"))', "LmKmJmXugtGlEGoulMbz86myDNw="),
    ("hello", [], '(string:"hello")', "kQE7uvpgdWqH+IH1/0AuDvIfiWI="),
    ({"foo": {".value": "bar", ".priority": "baz"}}, [], '("foo":(priority:string:"baz":string:"bar"))', "Pg7xV/cwDhcX65Z5lEn4rKdDmX0="),
    ({"a": 1.5, "b": False}, [], '("a":(number:3ff8000000000000),"b":(boolean:false))', "neeDBpCsk3a9Dy32tlzJ97Qp/UQ="),
    ({'"': "\\"}, [], '("\\"":(string:"\\\\"))', "FOWYDUaSghT140XRPqQ31kxA8NE="),
    ({"1": "one", "2": "two", "10": "ten"}, [("2",)], '("1":(string:"one"),"2":(string:"two"))', "YkodEihR5l3UXCbbKSqqVp082GU="),
    ({"foo": {"!beforePriority": "before", ".priority": "prio", "afterPriority": "after"}, "qux": "qux"}, [("foo", ".priority")],
     '("foo":("!beforePriority":(string:"before"),".priority":(string:"prio")))', "TNHQ1ppp/lp/iP3WA1GOUetV77U="),
    ({"-Nabc": {"n": 1}, "zed": True, ".priority": 7}, [],
     '("-Nabc":("n":(number:3ff0000000000000)),".priority":(number:401c000000000000),"zed":(boolean:true))', "dPzRMQDA069lO4ExbRrshsBzIlE="),
]


@pytest.mark.parametrize("node, posts, text, digest", WORKED)
def test_the_models_range_hashes(node, posts, text, digest):
    first = ranges(node, posts)[0]
    assert (range_text(first), range_hash(first)) == (text, digest)


@pytest.mark.parametrize("node, digest", [
    (-0.0, "m/gA365Q5OBo06Bg8wdybAAiMSQ="), (2**53 + 1, "m4qsp/5BbIWTdjthNlnOX+WCTB0="), (2**63 - 1, "32bocnbu4EgM2BqL/q++g0AWEbw="),
    ('a"b\\c:d', "QjTL3AVIHxY1M5u39OD3NurWBZ8="), ({"-1": "neg", "2": "two", "10": "ten", "a": "x"}, "5uuUFOv/OSacB5uRWDO0NFbnV0Y="),
    ({"someKey": "value", ".priority": "high"}, "/KquMIGoCuKO/ipoLoQzqnU0BcI="),
    ({"a": {".value": 1, ".priority": 2}, "b": {".value": 2, ".priority": 1}, "c": 3}, "fD8tomCWiUTqGMwgZ4szaEG2I6U=")])
def test_the_models_node_hashes_are_the_servers(client, at, node, digest):
    assert node_hash(node) == digest
    client.put(at.base, node)
    assert client.listen(at.base, hash=digest) is None


# Hashes

def test_a_hash_that_matches_saves_the_data(client, at):
    trees = Trees(SEED)
    for round in range(40):
        tree = normal(trees.prioritised())
        path = f"{at.base}/{round}"
        client.put(path, tree)
        assert client.listen(path, hash=node_hash(tree)) is None, f"seed {SEED}, round {round}: {tree!r}"
        client.ok("n", {"p": path})
        assert client.listen(path, hash=node_hash({"other": tree})) == datum(path, tree)
        # Later changes arrive as usual.
        client.put(f"{path}/new", round)
        assert client.pushed() == [datum(f"{path}/new", round)]
        client.ok("n", {"p": path})
    assert client.listen(at.base + "/none", hash="") is None
    assert client.listen(at.base + "/none2", hash="badhash") == datum(at.base + "/none2", None)


def test_the_hash_of_a_window_is_that_of_what_it_selects(client, at):
    tree = {".priority": 5, **{f"k{number}": {".value": number, ".priority": 9 - number} for number in range(9)}}
    client.put(at.base, tree)
    query = {"i": ".key", "l": 3, "vf": "r"}
    selected = {key: tree[key] for key in ("k6", "k7", "k8")}
    assert client.listen(at.base, query, 1, hash=node_hash(selected)) is None
    client.put(f"{at.base}/k9", 1)
    assert client.pushed() == [push("m", at.base, {"k6": None, "k9": 1}, 1)]
    client.ok("n", listening(at.base, query, 1))
    assert client.listen(at.base, query, 2, hash=node_hash(selected)) == datum(
        at.base, {"k7": tree["k7"], "k8": tree["k8"], "k9": 1}, 2)


# Range merges

def test_the_references_range_merge(client, at):
    client.put(at.base, {"bar": {"deep": "value"}, "foo": {"other-deep": "changed"}, "zoo": 1})
    held = {"bar": {"deep": "value"}, "foo": {"other-deep": "value"}}
    answer = client.listen(f"/{at.base}", hash=node_hash(held), ch={
        "ps": ["bar/deep", "foo/other-deep"], "hs": ["Nq6PLLUyjPbRcyM3tpvqXJ5Dzm8=", "YRXpspSj3AnV90ZFjfGLH9lHAp8=", ""]})
    assert answer == push("rm", at.base, [
        {"s": "bar/deep", "e": "foo/other-deep", "m": {"foo": {"other-deep": "changed"}}}, {"s": "foo/other-deep", "m": {"zoo": 1}}])


def test_a_range_that_lost_its_leaves(client, at):
    held = {"a": 1, "b": 2, "c": 3}
    client.put(at.base, {"a": 1, "c": 3})
    answer = client.listen(at.base, hash=node_hash(held), ch=compound(held, [("a",), ("b",), ("c",)]))
    assert answer == push("rm", at.base, [{"s": "a", "e": "b", "m": None}])


def test_a_client_with_nothing_and_a_matching_client(client, at):
    client.put(at.base, {"a": 1})
    assert client.listen(at.base, ch={"hs": [""], "ps": []}) == push("rm", at.base, [{"m": {"a": 1}}])
    client.ok("n", {"p": at.base})
    held = {"a": 1}
    assert client.listen(at.base, hash=node_hash(held), ch=compound(held, [("a",)])) is None


def test_data_gone_while_the_client_was_away(client, at):
    held = {"a": 1}
    answer = client.listen(at.base, hash=node_hash(held), ch=compound(held, [("a",)]))
    assert answer == push("rm", at.base, [{"e": "a", "m": None}])


def test_leaves_at_the_top(client, at):
    client.put(at.base, "new")
    answer = client.listen(at.base, hash=node_hash("old"), ch=compound("old", [()]))
    assert answer == push("rm", at.base, [{"e": "", "m": "new"}]) or answer == push("rm", at.base, [{"e": "/", "m": "new"}])
    client.ok("n", {"p": at.base})
    answer = client.listen(at.base, hash=node_hash({"a": 1}), ch=compound({"a": 1}, [("a",)]))
    assert apply_range_merge({"a": 1}, answer["b"]["d"]) == "new"


def test_a_range_merge_of_a_window_has_its_tag(client, at):
    client.put(at.base, {"a": 1, "b": 2, "c": 3})
    query = {"i": ".key", "l": 2, "vf": "r"}
    held = {"b": 2, "c": 0}
    answer = client.listen(at.base, query, 8, hash=node_hash(held), ch=compound(held, [("b",), ("c",)]))
    assert answer == push("rm", at.base, [{"s": "b", "e": "c", "m": {"c": 3}}], 8)


@pytest.mark.parametrize("ch", [{"hs": ["", ""], "ps": []}, {"hs": "x", "ps": []}, {"hs": [1], "ps": []}, {"hs": [""], "ps": [5, 6]}, {"hs": [""]}, {}])
def test_compound_hashes_that_are_none_fail_alone(client, at, ch):
    answer = client.call("q", {"p": at.base, "h": "", "ch": ch})
    assert answer["s"] == "failure" and isinstance(answer["d"], str)


def split_path(text: str) -> tuple:
    return tuple(key for key in text.split("/") if key)


def test_priorities_that_sort_into_a_range(client, at):
    """SDKs replace the priority of the leaf at a range's start, and read a node without leaves as null."""
    leaf = {".value": 1, ".priority": 5}
    client.put(at.base, {"a": leaf, "b": 3})
    held = {"a": leaf, "b": 2}
    answer = client.listen(at.base, hash=node_hash(held), ch=compound(held, [("a",), ("b",)]))
    assert answer == push("rm", at.base, [{"s": "a", "e": "b", "m": {"a": leaf, "b": 3}}])
    client.ok("n", {"p": at.base})
    client.put(at.base, {"-Na": 1, "-Nb": 2, ".priority": 7})
    held = {"-Na": 1, "-Nb": 2}
    answer = client.listen(at.base, hash=node_hash(held), ch=compound(held, [("-Na",), ("-Nb",)]))
    assert answer == push("rm", at.base, [{"s": "-Nb", "m": {"-Nb": 2, ".priority": 7}}])


def test_a_priority_that_no_range_shows(client, at):
    """SDKs leave a priority that sorts after all keys of its node out of the hashes of ranges."""
    tree = {"-Na": 1, "-Nb": 2}
    client.put(at.base, tree)
    hidden = compound(tree, [("-Na",), ("-Nb",)])
    assert client.listen(at.base, hash=node_hash(tree | {".priority": 7}), ch=hidden) == datum(at.base, tree)
    client.ok("n", {"p": at.base})
    assert client.listen(at.base, hash=node_hash(tree), ch=hidden) is None


def test_random_trees_come_to_be_the_same(client, at):
    trees = Trees(SEED)
    for round in range(60):
        held = normal(trees.prioritised(4))
        tree = held
        for _ in range(trees.dice.randrange(4)):
            place = trees.dice.choice(leaves(tree) or [((), None)])[0]
            keys = list(place[:trees.dice.randrange(len(place) + 1)])
            if keys and keys[-1] == ".priority":
                keys.pop()
            tree = assign(tree, keys + ([trees.key()] if trees.dice.random() < 0.5 else []),
                          trees.dice.choice([None, trees.prioritised(2)]))
        path = f"{at.base}/{round}"
        client.put(path, tree)
        ends = sorted((leaf for leaf, _ in leaves(held)), key=path_rank)
        posts = sorted(trees.dice.sample(ends, trees.dice.randrange(len(ends))), key=path_rank)
        posts = posts + ends[-1:] if ends[-1] not in posts else posts
        where = f"seed {SEED}, round {round}, held {held!r}, server {tree!r}, posts {posts!r}"
        answer = client.listen(path, hash=node_hash(held), ch=compound(held, posts))
        client.ok("n", {"p": path})
        if answer is None:
            assert node_hash(held) == node_hash(tree), where
            continue
        assert answer["a"] == "rm" and answer["b"]["d"], where
        theirs, mine = ranges(held, posts), ranges(tree, posts)
        for one in answer["b"]["d"]:
            # A range of the answer may join several of the client's.
            first = posts.index(split_path(one["s"])) + 1 if "s" in one else 0
            last = posts.index(split_path(one["e"])) if "e" in one else len(posts)
            assert any(range_hash(theirs[index]) != range_hash(mine[index]) for index in range(first, last + 1)), where
        assert apply_range_merge(held, answer["b"]["d"]) == tree, where


# Transactions

def test_puts_with_a_hash(client, at):
    path = at.base
    assert client.put(path, 1, h="") == ""
    stale = {"s": "datastale", "d": "Transaction hash does not match"}
    assert client.call("p", {"p": path, "d": 2, "h": ""}) == stale
    assert client.call("p", {"p": path, "d": 2, "h": "badhash"}) == stale
    assert at.value() == 1
    client.put(path, {"a": 1, ".priority": 5}, h=node_hash(1))
    client.put(path, None, h=node_hash({"a": 1, ".priority": 5}))
    assert client.call("p", {"p": path, "d": 2, "h": node_hash({"a": 1})}) == stale
    client.put(f"{path}/deep/er", {".sv": {"increment": 2}}, h="")
    assert at.value("deep/er") == 2
    # A merge with a hash: that of the node at its path.
    assert client.call("m", {"p": path, "d": {"x": 1}, "h": "badhash"}) == stale
    client.ok("m", {"p": path, "d": {"x": 1}, "h": node_hash({"deep": {"er": 2}})})
    assert at.value() == {"deep": {"er": 2}, "x": 1}


@pytest.mark.parametrize("value", [63.99999999999999, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, 9007199254740993, -0.0])
def test_a_transaction_on_a_number_as_it_was_sent(client, at, value):
    """A transaction of a client that reads another double than the stored one would never succeed."""
    client.put(at.base, value)
    held = client.listen(at.base)["b"]["d"]
    assert client.put(at.base, held + 1, h=node_hash(held)) == ""


def test_the_newer_data_comes_before_datastale(client, dev, at):
    with RealtimeClient(dev.port) as other:
        client.listen(at.base)
        other.put(at.base, "newer")
        assert client.call("p", {"p": at.base, "d": "mine", "h": ""})["s"] == "datastale"
        assert list(client.pushes) == [datum(at.base, "newer")]
