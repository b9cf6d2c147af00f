"""The stand-in for the Realtime Database: its hashes are the reference's, and what clients see of it is what they see of `pathmirror dev`."""

import base64
import json
import os
import random
import struct
import time
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from harness.rest import Rest, ordered
from harness.waiting import wait_until
from harness.websocket import Closed
from harness.websocket_client import Holder, RealtimeClient, datum, listening, push
from oracle import hashes as oracle_hashes
from oracle import ranges as oracle_ranges
from oracle.export import assign, normal
from oracle.generate import Trees
from upstream import hashing
from upstream.account import GRANT, SCOPES
from upstream.misbehaviour import INVALID
from upstream.proxy import DOWN, UP, UpstreamProxy
from upstream.standin import Standin
from upstream.tree import Invalid, build, dump, export, key_rank, parse
from upstream.writes import NUMBERS, STRINGS, ByRest, BySocket, Direct, Mixed, Writes, apply_to, run

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)

# MARK: The reference's worked values

NODES = [
    (True, "boolean:true", "E5z61QM0lN/U2WsOnusszCTkR8M="), (False, "boolean:false", "aSSNoqcS4oQwJ2xxH20rvpp3zP0="),
    (0, "number:0000000000000000", "7ysMph9WPitGP7poMnMHMVPtUlI="), (-0.0, "number:8000000000000000", "m/gA365Q5OBo06Bg8wdybAAiMSQ="),
    (1, "number:3ff0000000000000", "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="), (-1, "number:bff0000000000000", "dMw8oUBNk57KCeIcgAKXVS2BfB0="),
    (1.5, "number:3ff8000000000000", "4MftviR9Z/2MQCMkjh2RNbvlLJc="), (0.1, "number:3fb999999999999a", "wtQjBi5TBE+ZcdekL6INiSeCSQI="),
    (500, "number:407f400000000000", "Ajg9bohDwTVmqR14o1bVJnneryM="), (2**53 + 1, "number:4340000000000000", "m4qsp/5BbIWTdjthNlnOX+WCTB0="),
    (2**63 - 1, "number:43e0000000000000", "32bocnbu4EgM2BqL/q++g0AWEbw="), ("", "string:", "Ki0Xy0V6morg0TO3Sxi/jwugYDQ="),
    ("Hello World", "string:Hello World", "B8HWXc7zXMjrsnJxPRj7wrNGqt4="), ('a"b\\c:d', 'string:a"b\\c:d', "QjTL3AVIHxY1M5u39OD3NurWBZ8="),
    ("café", "string:café", "OUWKdxYnelyYt/fL1X/jyd4ucWc="), ("😀", "string:😀", "MK8AFmo8GmKyFMO+8POk61hHbOQ="),
    ({"foo": "bar"}, ":foo:9q1XbR6M8eku+omj9cTQ2E5Jg1A=", "XnLeTeWQmzTHImTbSMDLg/qMrKY="),
    ({"a": 1, "b": 2}, ":a:YPVfR2bXt/lcDjiQZ8pOkAd3qkQ=:b:WtSt2Xo3L0JtPuArzQHofPrZOuU=", "AUZnXhNqrfbznYVxcCvNpzpjvTU="),
    ({"z": 1, "a": "2", "b": "true", "c": False}, None, "8qk5vmuZGXWJx+77SGwjYRM0yPA="),
    ({"2": "two", "10": "ten", "a": "x", "-1": "neg"}, None, "5uuUFOv/OSacB5uRWDO0NFbnV0Y="),
    ({".value": "primitive", ".priority": 200}, "priority:number:4069000000000000:string:primitive", "R9u8hs9fhRzuQ2M/3BQ0uhxz5ys="),
    ({".value": 42, ".priority": "high"}, "priority:string:high:number:4045000000000000", "d/2FMFWchvDsa06RLXZhzvM9aQc="),
    ({"someKey": "value", ".priority": 128.256}, "priority:number:4060083126e978d5::someKey:0bmxoeWnZdcFPhYfjUj0D60+l7I=", "WYR8kBGna+a7E5x75zvhPhzACOQ="),
    ({"someKey": "value", ".priority": "high"}, "priority:string:high::someKey:0bmxoeWnZdcFPhYfjUj0D60+l7I=", "/KquMIGoCuKO/ipoLoQzqnU0BcI="),
    ({"a": {".value": 1, ".priority": 2}, "b": {".value": 2, ".priority": 1}, "c": 3}, None, "fD8tomCWiUTqGMwgZ4szaEG2I6U="),
    ({"x": {"y": {"z": True}}}, ":x:PlZVdcydxtF5YU3wyt6dPdoZx3Q=", "IQO886LoZQFgunzsOy1l9f65+cA="),
]


@pytest.mark.parametrize("data, text, digest", NODES)
def test_the_references_node_hashes(data, text, digest):
    node = build(data)
    assert hashing.node_hash(node) == digest
    assert text in (None, hashing.node_text(node))


@pytest.mark.parametrize("data", [None, {}, [], {"a": None}, {"a": {"b": {}}}])
def test_what_is_empty_has_an_empty_hash(data):
    assert hashing.node_hash(build(data)) == "" and export(build(data)) is None


RANGES = [
    ({"foo": "bar"}, ["foo"], ["LmKmJmXugtGlEGoulMbz86myDNw="]), ("hello", ["/"], ["kQE7uvpgdWqH+IH1/0AuDvIfiWI="]),
    ({"foo": {".value": "bar", ".priority": "baz"}}, ["foo"], ["Pg7xV/cwDhcX65Z5lEn4rKdDmX0="]),
    ({"a": 1.5, "b": False}, ["b"], ["neeDBpCsk3a9Dy32tlzJ97Qp/UQ="]), ({'"': "\\"}, ['"'], ["FOWYDUaSghT140XRPqQ31kxA8NE="]),
    ({"1": "one", "2": "two", "10": "ten"}, ["2", "10"], ["YkodEihR5l3UXCbbKSqqVp082GU=", "pfduDpANk3ljVHkUt4HdLwrlDao="]),
    ({"foo": {"!beforePriority": "before", ".priority": "prio", "afterPriority": "after"}, "qux": "qux"}, ["foo/.priority", "qux"],
     ["TNHQ1ppp/lp/iP3WA1GOUetV77U=", "eRF6PqPUdLcnQ/J24B4ofNFSH64="]),
    ({"-Nabc": {"n": 1}, "zed": True, ".priority": 7}, ["zed"], ["dPzRMQDA069lO4ExbRrshsBzIlE="]),
]


@pytest.mark.parametrize("data, posts, digests", RANGES)
def test_the_references_range_hashes(data, posts, digests):
    node = build(data)
    assert hashing.differences(node, {"ps": posts, "hs": [*digests, ""]}) == []
    wrong = hashing.differences(node, {"ps": posts, "hs": ["wrong"] * len(posts) + [""]})
    assert [part["e"] for part in wrong] == posts
    if posts != ["/"]:
        assert oracle_ranges.apply_range_merge(None, wrong) == data


def test_the_references_range_merge():
    held = build({"bar": {"deep": "value"}, "foo": {"other-deep": "value"}})
    compound = {"ps": ["bar/deep", "foo/other-deep"], "hs": ["Nq6PLLUyjPbRcyM3tpvqXJ5Dzm8=", "YRXpspSj3AnV90ZFjfGLH9lHAp8=", ""]}
    assert hashing.differences(held, compound) == []
    now = build({"bar": {"deep": "value"}, "foo": {"other-deep": "changed"}, "zoo": 1})
    assert hashing.differences(now, compound) == [
        {"s": "bar/deep", "e": "foo/other-deep", "m": {"foo": {"other-deep": "changed"}}}, {"s": "foo/other-deep", "m": {"zoo": 1}}]


@pytest.mark.parametrize("body", [{"hs": [""]}, {"hs": [], "ps": []}, {"hs": ["", ""], "ps": [1]}, {"hs": ["", "", ""], "ps": ["b", "a"]}, 7])
def test_compound_hashes_that_are_none(body):
    with pytest.raises(Invalid):
        hashing.differences(build({"a": 1}), body)


def test_the_order_of_keys():
    keys = ["-5", "-1", "0", "2", "7", "07", "007", "10", "2147483647", " ", "!a", "-Nabc", "2147483648", "A", "Z", "_", "a", "é", "\U0001f600", "\uff5e"]
    assert sorted(random.Random(1).sample(keys, len(keys)), key=key_rank) == keys


def test_random_trees_have_the_models_hashes_and_ranges():
    trees = Trees(SEED)
    for round in range(300):
        data, other = normal(trees.prioritised()), normal(trees.prioritised())
        node, held = build(data), build(other)
        assert (export(node), hashing.node_hash(node)) == (data, oracle_hashes.node_hash(data)), f"seed {SEED}, round {round}"
        compound = hashing.compound_hash(held)
        assert hashing.differences(held, compound) == []
        merged = oracle_ranges.apply_range_merge(other, hashing.differences(node, compound))
        assert merged == data, f"seed {SEED}, round {round}: {other!r} to {data!r}"


def test_numbers_of_json():
    assert struct.pack(">d", parse("-0")) == struct.pack(">d", -0.0) and parse("9223372036854775807") == 2**63 - 1
    assert isinstance(parse("9223372036854775808"), float) and dump(parse("9223372036854775808")) == "9.223372036854776e+18"
    assert parse('"\\ud83d\\ude00\\ud83d"') == "😀\ufffd"
    for bad in ("NaN", "1e999", "{", "[" * 100_000):
        with pytest.raises(Invalid):
            parse(bad)


def test_sizes_are_those_of_a_tree_that_is_built_anew():
    writes = Writes(SEED)
    for operation in writes.take(1500):
        assert operation.path or operation.kind == "merge"
    again = build(export(writes.copy.root))
    assert again.size == writes.copy.root.size and hashing.node_hash(again) == hashing.node_hash(writes.copy.root), f"seed {SEED}"


def test_a_seed_gives_the_same_writes_again():
    assert list(Writes(3).take(500)) == list(Writes(3).take(500)) != list(Writes(4).take(500))


# MARK: The same of both servers

@dataclass
class Side:
    """A server that is compared."""

    name: str
    port: int
    ns: str

    def client(self) -> RealtimeClient:
        return RealtimeClient(self.port, ns=self.ns).greet()

    @property
    def rest(self) -> Rest:
        return Rest(self.port, params={"ns": self.ns})

    @property
    def owner(self) -> Rest:
        return self.rest.with_headers(Authorization="Bearer owner")

    def data(self):
        """The whole tree, as a listen gives it."""
        with self.client() as client:
            found = client.listen("/")
            return None if found is None else found["b"]["d"]


@pytest.fixture(scope="module")
def standin():
    with Standin() as standin:
        yield standin


@pytest.fixture
def sides(standin, dev, ns):
    standin.behave()
    return Side("stand-in", standin.port, ns), Side("pathmirror", dev.port, ns)


@pytest.fixture(params=["stand-in", "pathmirror"])
def side(request, standin, ns):
    """One of the two servers."""
    if request.param == "stand-in":
        standin.behave()
        return Side(request.param, standin.port, ns)
    return Side(request.param, request.getfixturevalue("dev").port, ns)


def exact(value):
    """A form in which values are equal only if they are the same, but for the type of numbers."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return ("number", struct.pack(">d", value), value if isinstance(value, int) and abs(value) > 2**53 else None)
    return (type(value).__name__, value)


def same(sides, scenario):
    """Runs a scenario on both servers and demands equal results; returns one."""
    results = [scenario(side) for side in sides]
    assert exact(results[0]) == exact(results[1]), f"stand-in: {results[0]!r}\npathmirror: {results[1]!r}"
    return results[0]


def test_random_writes_leave_equal_trees(sides):
    def scenario(side):
        writes = Writes(SEED, timestamps=False)
        with BySocket(side.port, side.ns) as socket, ByRest(side.port, side.ns) as rest:
            run(writes, Mixed(SEED, socket, rest), 800)
        found = side.data()
        assert exact(found) == exact(export(writes.copy.root)), f"seed {SEED}: {side.name} differs from the generator's copy"
        return found

    same(sides, scenario)


def test_listeners_follow_random_writes(side):
    """Clients that hold data by the rules of the SDKs end with what the server has, whatever they listen to."""
    watched = [("", None), ("orders", None), ("orders/k3", None), ("orders/k3/a", None), ("users", {"i": ".key", "sp": "k2", "sin": True}),
               ("users", {"i": ".key", "ep": "k2", "ein": False}), ("rooms", {"i": ".key", "l": 3, "vf": "l"}), ("", {"i": ".key", "sp": "p", "l": 2, "vf": "r"})]
    writes = Writes(SEED + 1, timestamps=False, width=12, long_strings=False)
    with side.client() as client, BySocket(side.port, side.ns, depth=1) as writer:
        run(writes, writer, 60)
        holders = []
        for number, (path, query) in enumerate(watched):
            holder = Holder(path, number if query else None)
            holder.take(client.listen(path, query, number if query else None))
            holders.append(holder)
        plain = [holder for holder in holders if holder.tag is None]
        for _ in range(12):
            run(writes, writer, 25)
            for message in client.pushed():
                tag = message["b"].get("t")
                for holder in holders:
                    # Pushes of default listens have no tag: whichever contains the place, or is below it, takes it over.
                    if holder.tag == tag and (tag is not None or _concerns(holder, message)):
                        holder.take(message)
            with side.client() as fresh:
                for number, (path, query) in enumerate(watched):
                    now = fresh.listen(path, query, number if query else None)
                    assert exact(holders[number].value) == exact(None if now is None else now["b"]["d"]), f"seed {SEED}, {side.name}, {path} {query}"
        assert len(plain) == 4


def _concerns(holder, message) -> bool:
    below = message["b"]["p"].strip("/")
    return not holder.path or below == holder.path or below.startswith(holder.path + "/")


def test_a_hash_saves_data_and_a_compound_hash_most_of_it(sides):
    def scenario(side):
        writes = Writes(SEED + 2, timestamps=False)
        with BySocket(side.port, side.ns) as writer:
            run(writes, writer, 400)
        with side.client() as client:
            held = client.listen("/")["b"]["d"]
        node = build(held)
        digest, compound = hashing.node_hash(node), hashing.compound_hash(node)
        with side.client() as client:
            assert client.listen("/", hash=digest, ch=compound) is None
            client.ok("n", {"p": "/"})
            assert client.listen("/", hash="other", ch=compound)["a"] in ("d", "rm")
        with BySocket(side.port, side.ns) as writer:
            run(writes, writer, 12)
        with side.client() as client:
            answer = client.listen("/", hash=digest, ch=compound)
        assert answer["a"] == "rm", answer["a"]
        merged = oracle_ranges.apply_range_merge(held, answer["b"]["d"])
        assert exact(merged) == exact(side.data()) == exact(export(writes.copy.root)), f"seed {SEED}, {side.name}"
        return [(part.get("s"), part.get("e")) for part in answer["b"]["d"]]

    same(sides, scenario)


def test_a_compound_hash_of_a_window(sides):
    tree = {f"k{number:03}": {"text": f"{number} " * 40, ".priority": 1000 - number} for number in range(300)} | {".priority": 5}
    window = {"i": ".key", "sp": "k100", "sin": True, "ep": "k2", "ein": False}

    def scenario(side):
        with side.client() as client:
            client.put("/list", tree)
            first = client.listen("list", window, 1)["b"]["d"]
            node = build(first)
            client.ok("n", listening("list", window, 1))
            digest, compound = hashing.view_hash(node, True), hashing.compound_hash(node)
            assert client.listen("list", window, 2, hash=digest, ch=compound) is None
            client.ok("n", listening("list", window, 2))
            client.put("/list/k150/text", "changed")
            client.put("/list/k0500", "entered nothing")
            client.put("/list/k1500", "entered")
            answer = client.listen("list", window, 3, hash=digest, ch=compound)
            assert answer["a"] == "rm" and answer["b"]["t"] == 3
            merged = oracle_ranges.apply_range_merge(first, answer["b"]["d"])
            assert merged == {**first, "k150": {"text": "changed", ".priority": 850}, "k1500": "entered"}
            return [list(first), [(part.get("s"), part.get("e")) for part in answer["b"]["d"]]]

    keys, parts = same(sides, scenario)
    assert (keys[0], keys[-1], len(keys)) == ("k100", "k199", 100) and 1 <= len(parts) <= 3


KEYS = ["-5", "0", "1", "2", "07", "10", "2147483648", " ", "!a", "-Na", "A", "a", "aa", "b", "é", "\U0001f600", "\uff5e", "~"]
BOUNDS = ["0", "2", "3", "-7", "07", "2147483648", "3000000000", "A", "aa", "ab", "\U0001f600", "\ue000", "~", " ", "", "[MIN_NAME]", "[MAX_NAME]", "a" + "\uffff" * 780]


def _key_queries():
    for bound in BOUNDS:
        for is_inclusive in (True, False):
            yield {"i": ".key", "sp": bound, "sin": is_inclusive}
            yield {"i": ".key", "ep": bound, "ein": is_inclusive}
    dice = random.Random(11)
    for _ in range(60):
        query = {"i": ".key"}
        if dice.random() < 0.7:
            query |= {"sp": dice.choice(BOUNDS), "sin": dice.random() < 0.5}
        if dice.random() < 0.7:
            query |= {"ep": dice.choice(BOUNDS), "ein": dice.random() < 0.5}
        if dice.random() < 0.6 or len(query) == 1:
            query |= {"l": dice.randrange(1, 6), "vf": dice.choice("lr")}
        yield query


def test_ranges_of_keys(sides):
    def scenario(side):
        found = []
        with side.client() as client:
            client.put("/keys", dict.fromkeys(KEYS, 1))
            for tag, query in enumerate(_key_queries()):
                answer = client.listen("keys", query, tag)
                found.append([query, sorted(answer["b"]["d"] or {}) if answer else []])
                client.ok("n", listening("keys", query, tag))
        return found

    for query, keys in same(sides, scenario):
        if query == {"i": ".key", "sp": "2", "sin": False}:
            assert "2" not in keys and {"07", "10", "2147483648", " "} <= set(keys) and "1" not in keys


def test_ranges_of_keys_by_rest(sides):
    def scenario(side):
        rest = side.rest
        rest.set("keys", dict.fromkeys(KEYS, 1))
        found = []
        for bound in BOUNDS[:-1]:
            if bound == "" or bound.startswith("["):
                continue
            for name in ("startAt", "startAfter", "endAt", "endBefore", "equalTo"):
                found.append([name, bound, sorted(rest.value("keys", **ordered(orderBy="$key", **{name: bound}), format="export") or {})])
        for name in ("limitToFirst", "limitToLast"):
            found.append(sorted(rest.value("keys", **ordered(orderBy="$key", **{name: 4}), format="export")))
        return found

    same(sides, scenario)


def test_a_shallow_walk(sides):
    def scenario(side):
        rest = side.rest
        rest.set("walk", {f"k{number:02}": {"a": number} for number in range(25)} | {"5": 1, "40": 2})
        found, after = [], None
        while True:
            page = rest.value("walk", shallow="true", limitToFirst=10, timeout="10s", **({} if after is None else {"startAfter": json.dumps(after)}))
            if not page:
                break
            assert set(page.values()) == {True}
            found.append(sorted(page, key=key_rank))
            after = found[-1][-1]
        return [found, rest.value("walk/5", shallow="true"), rest.value("none", shallow="true"), sorted(rest.value("walk", shallow="true"))]

    pages = same(sides, scenario)[0]
    assert [len(page) for page in pages] == [10, 10, 7] and pages[0][:2] == ["5", "40"]


@pytest.mark.parametrize("number", [*NUMBERS, 2**53 + 2, -(2**63) + 1, 1e15, 1e16, 12345678901234567890.0, 1e-7])
def test_numbers_come_back_equal(sides, number):
    def scenario(side):
        with side.client() as client:
            client.put("/socket", number)
            client.put("/priority", {".value": "x", ".priority": number})
            side.rest.set("rest", number)
            # A digit string beyond int64 must not be sent: clients take it for an integer.
            text = side.rest.get("socket").body.decode()
            assert not text.strip("-").isdigit() or -2**63 <= int(text) < 2**63, text
            found = client.listen("/")["b"]["d"]
            return [found, side.rest.value("socket"), side.rest.value("rest"), hashing.node_hash(build(found))]

    found = same(sides, scenario)
    assert exact(float(found[0]["socket"])) == exact(float(number)) and exact(float(found[2])) == exact(float(number))


@pytest.mark.parametrize("text", STRINGS)
def test_strings_come_back_equal(sides, text):
    def scenario(side):
        with side.client() as client:
            client.put("/socket", text)
        side.rest.set("rest", {"text": text, ".priority": text})
        return side.data()

    assert same(sides, scenario) == {"socket": text, "rest": {"text": text, ".priority": text}}


def test_increments(sides):
    cases = [(None, 5), (1, 1), (2**63 - 1, 1), (-2**63, -1), (1, 0.5), (0.5, 1), (2**53, 1), ("text", 3), (True, 3), ({"a": 1}, 4), (-0.0, -0.0), (1e308, 1e292)]

    def scenario(side):
        found = []
        with side.client() as client:
            for base, step in cases:
                client.put("/n", base)
                client.put("/n", {".sv": {"increment": step}})
                client.ok("m", {"p": "/", "d": {"n": {".sv": {"increment": step}}}})
                found.append(client.ok("g", {"p": "/n", "q": {}}))
            client.put("/p", {".value": 1, ".priority": 1})
            client.put("/p", {".value": {".sv": {"increment": 2}}, ".priority": {".sv": {"increment": 1.5}}})
            found.append(client.ok("g", {"p": "/p", "q": {}}))
        return found

    found = same(sides, scenario)
    assert found[-1] == {".value": 3, ".priority": 2.5} and found[0] == 10


PRIORITIES = [
    ("leaf keeps its priority under a child", [("/a", {".value": 1, ".priority": 5}), ("/a/b", 2)], {"a": {"b": 2, ".priority": 5}}),
    ("null below a leaf changes nothing", [("/a", {".value": 1, ".priority": 5}), ("/a/b", None)], {"a": {".value": 1, ".priority": 5}}),
    ("the last child takes the priority along", [("/a", {"b": 1, ".priority": 5}), ("/a/b", None), ("/a/b", 2)], {"a": {"b": 2}}),
    ("a put without a priority removes it", [("/a", {".value": 1, ".priority": 5}), ("/a", 2)], {"a": 2}),
    ("a priority of its own", [("/a", {"b": 1}), ("/a/.priority", "high"), ("/a/b/.priority", 0)], {"a": {"b": {".value": 1, ".priority": 0}, ".priority": "high"}}),
    ("a priority that is removed", [("/a", {".value": 1, ".priority": 5}), ("/a/.priority", None)], {"a": 1}),
    ("arrays are objects", [("/a", ["x", None, {"b": ["y"]}])], {"a": {"0": "x", "2": {"b": {"0": "y"}}}}),
    ("wrappers without a priority", [("/a", {".value": 1})], {"a": 1}),
    ("a priority of the root", [("/a", 1), ("/.priority", 7)], {"a": 1, ".priority": 7}),
]


@pytest.mark.parametrize("puts, expected", [row[1:] for row in PRIORITIES], ids=[row[0] for row in PRIORITIES])
def test_priorities(sides, puts, expected):
    def scenario(side):
        with side.client() as client:
            for path, data in puts:
                client.put(path, data)
        return side.data()

    assert same(sides, scenario) == expected


REFUSED = [
    ("p", {"p": "/none/.priority", "d": 1}), ("p", {"p": "/x", "d": {"a.b": 1}}), ("p", {"p": "/x/a#b", "d": 1}), ("p", {"p": "/x", "d": {"": 1}}),
    ("p", {"p": "/x", "d": {".value": 1, ".priority": True}}), ("p", {"p": "/x", "d": {".value": 1, ".priority": {"a": 1}}}),
    ("p", {"p": "/x", "d": {"k" * 769: 1}}), ("p", {"p": "/x", "d": {"é" * 385: 1}}), ("p", {"p": "/" + "/".join("d" * 33), "d": 1}),
    ("p", {"p": "/x", "d": {".sv": "nonsense"}}), ("p", {"p": "/x", "d": {".sv": {"increment": "1"}}}), ("p", {"p": "/x/.priority", "d": {"a": 1}}),
    ("m", {"p": "/", "d": {"a": 1, "a/b": 2}}), ("m", {"p": "/", "d": {"a/b/c": 1, "a/b": 2}}), ("m", {"p": "/", "d": {"a": {"b$": 1}}}), ("m", {"p": "/", "d": 5}),
    ("p", {"p": "/x", "d": {".value": {"a": 1}}}),
]


@pytest.mark.parametrize("action, body", REFUSED, ids=[f"{action} {str(body)[:60]}" for action, body in REFUSED])
def test_writes_that_are_refused_change_nothing(side, action, body):
    with side.client() as client:
        client.put("/kept", 1)
        answer = client.call(action, body)
        assert answer["s"] not in ("ok", "datastale") and isinstance(answer["d"], str), answer
    assert side.data() == {"kept": 1}


def test_puts_with_a_hash(sides):
    def scenario(side):
        found = []
        with side.client() as client:
            for hash in ("", hashing.node_hash(build({"a": 1})), "badhash", hashing.node_hash(build({"a": {".value": 1, ".priority": 2}}))):
                for before in (None, {"a": 1}, {"a": {".value": 1, ".priority": 2}}):
                    client.put("/t", before)
                    found.append(client.call("p", {"p": "/t", "d": "new", "h": hash})["s"])
                    found.append(client.ok("g", {"p": "/t", "q": {}}))
        return found

    assert same(sides, scenario).count("datastale") == 9


def test_a_write_that_listens_hear_of_above_and_below(sides):
    def scenario(side):
        found = []
        with side.client() as client:
            for path in ("/", "/a", "/a/b", "/a/b/c"):
                client.listen(path)
            for write in (("p", "/a/b/c", 1), ("m", "/", {"a/b/c": 2, "a/b/d": 3, "z": 4}), ("p", "/a", {"b": {"c": 2}}), ("m", "/a", {"b": {"c": 9}}), ("p", "/", None)):
                client.ok(write[0], {"p": write[1], "d": write[2]})
                found.append(sorted((message["a"], message["b"]["p"].strip("/"), json.dumps(message["b"]["d"], sort_keys=True)) for message in client.pushed()))
        return found

    same(sides, scenario)


def test_rest_reads_and_writes(sides):
    def scenario(side):
        rest = side.rest
        found = [rest.set("a", {"x": [1, None, 2], "y": {".value": "v", ".priority": 1}}).json(), rest.value("a"), rest.value("a", format="export"),
                 rest.patch("a", {"x/0": 9, "z": {"q": True}}).json(), rest.value("a"), rest.delete("a/x").json(), rest.value("a"), rest.value("none"),
                 rest.get("a/y/.priority").json(), rest.put("a/y/.priority", 8).status, rest.value("a/y", format="export"),
                 rest.put("a", body=b"{").status, rest.put("a", body=b"").status, rest.get("a", limitToFirst=2).status, rest.get("a", orderBy="x").status,
                 rest.patch("a", {"b": 1, "b/c": 2}).status, rest.put("a b/c?/ü", 1, print="silent").status, rest.value("a b")]
        return found

    same(sides, scenario)


def test_rules_and_settings(side):
    text = '{\n  // open\n  "rules": {".read": true, ".write": true, "a": {".indexOn": "x"}}\n}' if side.name == "pathmirror" else \
        '{"rules": {".read": true, ".write": true, "a": {".indexOn": "x"}}}'
    rest = side.owner
    assert rest.put(".settings/rules", body=text.encode()).status == 200
    assert rest.get(".settings/rules").body.decode().strip() == text
    assert rest.value(".settings/rules", format="strict") == {"rules": {".read": True, ".write": True, "a": {".indexOn": "x"}}}
    if side.name == "stand-in":
        assert rest.value(".settings/defaultWriteSizeLimit") == "unlimited"
        assert rest.put(".settings/defaultWriteSizeLimit", "large").status == 200 and rest.value(".settings/defaultWriteSizeLimit") == "large"


def test_long_messages_both_ways(side):
    text = "😀日x" * 20_000
    with side.client() as client:
        client.put("/long", text)
        assert client.listen("/long") == datum("long", text) and len(client.frames) >= 0
        assert client.ok("g", {"p": "/long", "q": {}}) == text and len(client.frames) > 3


# MARK: The stand-in alone

@pytest.fixture
def own(tmp_path):
    """A stand-in that demands credentials, and their file."""
    with Standin() as standin:
        yield standin, json.loads(standin.credentials(tmp_path / "account.json").read_text())


def assertion(account: dict, **changes) -> str:
    """A signed assertion as a client makes it of a service account's file."""
    now = int(time.time())
    claims = {"iss": account["client_email"], "aud": account["token_uri"], "iat": now, "exp": now + 3600, "scope": " ".join(SCOPES), **changes}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in
             ({"alg": "RS256", "typ": "JWT", "kid": account["private_key_id"]}, claims)]
    key = serialization.load_pem_private_key(account["private_key"].encode(), None)
    signature = key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
    return ".".join([*parts, base64.urlsafe_b64encode(signature).decode().rstrip("=")])


def token(standin, account: dict, **changes):
    form = urlencode({"grant_type": GRANT, "assertion": assertion(account, **changes)})
    return Rest(standin.port).send("POST", "/token", form.encode(), {"Content-Type": "application/x-www-form-urlencoded"})


def test_tokens_are_given_for_good_assertions_only(own):
    standin, account = own
    given = token(standin, account).json()
    assert given["token_type"] == "Bearer" and given["expires_in"] == 3600
    for wrong in ({"iss": "other@example.com"}, {"aud": "https://oauth2.googleapis.com/token"}, {"exp": int(time.time()) - 1}, {"scope": "openid"},
                  {"exp": int(time.time()) + 7200}):
        assert token(standin, account, **wrong).status == 400, wrong
    standin.account.mode = "down"
    assert token(standin, account).status == 503
    rest = Rest(standin.port, params={"ns": "shop"})
    assert rest.get("a").status == 401 and rest.with_headers(Authorization="Bearer wrong").get("a").status == 401
    assert rest.with_headers(Authorization=f"Bearer {given['access_token']}").value("a") is None
    assert rest.value("a", access_token=given["access_token"]) is None and rest.value("a", auth=given["access_token"]) is None
    assert {one["credential"] for one in standin.http if one["path"] == "/a.json"} == {None, "bearer", "access_token", "auth"}


def test_a_session_ends_with_its_token_unless_it_is_renewed(own):
    standin, _ = own
    with RealtimeClient(standin.port, ns="shop") as client:
        assert client.call("q", {"p": "/", "h": ""})["s"] == "permission_denied"
        assert client.call("gauth", {"cred": "wrong"})["s"] == "invalid_token"
        assert client.ok("gauth", {"cred": standin.account.issue(1)})["expires"] >= int(time.time())
        client.ok("q", {"p": "/", "h": ""})
        client.ok("gauth", {"cred": standin.account.issue(1.5)})
        time.sleep(1.1)
        standin.put("a", 1)
        assert client.push() == datum("a", 1)
        assert client.push(5)["a"] == "ac"
        with pytest.raises(Closed):
            client.push(5)
    assert client.number == 5 and len(standin.requests("q")) == 2 and standin.violations() == []


def test_redirects(standin, ns):
    standin.behave()
    standin.put("a", 1, ns)
    standin.set(redirects_sockets=True, redirects_rest=True)
    client = RealtimeClient(standin.port, ns=ns)
    client.socket.opened()
    assert client.message() == {"t": "c", "d": {"t": "r", "d": f"127.0.0.1:{standin.other_port}"}}
    with RealtimeClient(standin.other_port, ns=ns) as client:
        assert client.listen("/") == datum("", {"a": 1})
    answer = Rest(standin.port, params={"ns": ns}).get("a")
    assert (answer.status, answer.headers["Location"]) == (307, f"http://127.0.0.1:{standin.other_port}/a.json?ns={ns}")
    assert Rest(standin.other_port, params={"ns": ns}).value("a") == 1


def test_listens_that_are_too_big(standin, ns):
    standin.behave()
    standin.put("list", {f"k{number}": "x" * 100 for number in range(50)}, ns)
    standin.set(too_big_bytes=3000)
    with RealtimeClient(standin.port, ns=ns) as client:
        assert client.call("q", {"p": "/", "h": ""})["s"] == "too_big"
        half = {"i": ".key", "ep": "k25", "ein": False}
        assert len(client.listen("list", half, 1)["b"]["d"]) == 18
        standin.put("list", {f"k1{number}": "y" * 100 for number in range(40)}, ns)
        assert client.push()["a"] == "d"
        assert client.push() == {"a": "c", "b": {"p": "list", "q": [half]}}
    standin.set(too_big_closes=True)
    with RealtimeClient(standin.port, ns=ns) as client:
        client.ask("q", {"p": "/", "h": ""})
        assert client.message()["d"]["t"] == "e"
        assert client.socket.wait_for_close() == 1009


def test_initial_data_in_many_parts(standin, ns):
    standin.behave()
    writes = Writes(SEED + 3)
    for operation in writes.take(300):
        (standin.put if operation.kind == "put" else standin.merge)(operation.path, operation.data, ns)
    standin.set(split_bytes=500)
    with RealtimeClient(standin.port, ns=ns) as client:
        client.ok("q", {"p": "/", "h": ""})
        assert len(client.pushes) > 20
        tree = None
        for message in client.pushes:
            assert message["a"] == "d"
            tree = assign(tree, [key for key in message["b"]["p"].split("/") if key], message["b"]["d"])
        assert exact(tree) == exact(standin.export(ns=ns)), f"seed {SEED}"


def test_a_cut_after_so_many_bytes(standin, ns):
    standin.behave()
    standin.put("a", "x" * 5000, ns)
    with RealtimeClient(standin.port, ns=ns) as client:
        standin.set(cut_after=1000)
        client.ask("q", {"p": "/", "h": ""})
        with pytest.raises(Closed):
            client.message()
        assert len(client.socket._buffer) <= 1000


def test_a_frozen_server(standin, ns):
    standin.behave()
    with RealtimeClient(standin.port, ns=ns) as client:
        client.listen("/")
        standin.set(freeze="answers")
        standin.put("a", 1, ns)
        with pytest.raises(AssertionError):
            client.push(0.3)
        standin.set(freeze="")
        assert client.push() == datum("a", 1)
    standin.set(freeze="accept")
    client = RealtimeClient(standin.port, ns=ns)
    client.socket.plain.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.socket.plain.recv(1)
    standin.set(freeze="")
    client.greet()


def test_lies_about_hashes_and_lost_pushes(standin, ns):
    standin.behave()
    standin.put("a", 1, ns)
    standin.set(hash_lies="equal")
    with RealtimeClient(standin.port, ns=ns) as client:
        assert client.listen("/", hash="whatever") is None
        standin.set(lost_pushes=1)
        standin.put("a", 2, ns)
        standin.put("a", 3, ns)
        assert client.pushed() == [datum("a", 3)]
        standin.do("lie", path="a", data="false")
        assert client.pushed() == [datum("a", "false")] and standin.export(ns=ns) == {"a": 3}


def test_commands_reach_sessions(standin, ns):
    standin.behave()
    for command, message in (("error", {"t": "e", "d": "internal error"}), ("redirect", {"t": "r", "d": f"127.0.0.1:{standin.other_port}"}),
                             ("shutdown", {"t": "s", "d": "database moved"})):
        with RealtimeClient(standin.port, ns=ns) as client:
            standin.do(command)
            assert client.message() == {"t": "c", "d": message}
    with RealtimeClient(standin.port, ns=ns) as client:
        client.listen("/")
        standin.do("cancel")
        assert client.push() == {"a": "c", "b": {"p": ""}}
        standin.do("revoke_auth")
        assert client.push()["a"] == "ac"
        for kind in INVALID:
            standin.do("invalid", kind=kind)
            assert client.socket.receive()[1].decode() == INVALID[kind]
        for command in standin.misbehaviour.names:
            if command not in ("cut", "close", "invalid", "raw", "bytes", "lie", "endless", "announce_frame", "shutdown", "payload_error"):
                standin.do(command)
    with RealtimeClient(standin.port, ns=ns) as client:
        standin.do("cut")
        assert client.socket.wait_for_close() is None
    with RealtimeClient(standin.port, ns=ns) as client:
        standin.do("endless", kind="d")
        assert sum(client.message()["d"]["a"] == "d" for _ in range(500)) == 500


def test_the_control_port(standin, ns):
    standin.behave()
    control = Rest(standin.port)

    def post(**asked):
        return control.send("POST", "/control", json.dumps(asked).encode())

    with RealtimeClient(standin.port, ns=ns) as client:
        client.listen("/")
        assert post(put="a/b", data=7, ns=ns).status == 200 and client.push() == datum("a/b", 7)
        assert post(set={"too_big_bytes": 5}).status == 200 and standin.settings.too_big_bytes == 5
        assert post(set={"nonsense": 1}).status == 400 and post(do="nonsense").status == 400
        state = control.send("GET", "/control").json()
        assert state["namespaces"][ns]["hash"] == hashing.node_hash(build({"a": {"b": 7}})) and state["requests"]["q"] >= 1
        assert control.send("GET", f"/control/writes?ns={ns}").json()[0]["changes"] == {"a/b": 7}
        post(do="cut", behave=True)
        assert client.socket.wait_for_close() is None
    assert control.send("GET", "/control/requests").json()[-1]["action"] == "q"


# MARK: The proxy and the writers

def test_the_proxy_cuts_at_exactly_this_byte(standin, ns):
    standin.behave()
    standin.put("a", "x" * 50_000, ns)
    with UpstreamProxy(standin.port) as proxy:
        proxy.plan([(DOWN, 3000), (UP, 100)])
        client = RealtimeClient(proxy.port, ns=ns).greet()
        client.ask("q", {"p": "/", "h": ""})
        with pytest.raises(Closed):
            client.message()
        assert proxy.counted()[1] == 3000
        with pytest.raises((Closed, ConnectionError)):
            RealtimeClient(proxy.port, ns=ns).greet()
        assert proxy.counted()[0] == 100 and proxy.cuts == 2 and proxy.planned == 0
        with RealtimeClient(proxy.port, ns=ns) as client:
            assert client.listen("/") == datum("", {"a": "x" * 50_000})
            assert client.hello["d"]["d"]["h"] == f"127.0.0.1:{proxy.port}"
            proxy.freeze(DOWN)
            standin.put("b", 1, ns)
            with pytest.raises(AssertionError):
                client.push(0.2)
            proxy.thaw()
            assert client.push() == datum("b", 1)
            proxy.cut()
            assert client.socket.wait_for_close() is None
        wait_until(lambda: proxy.alive == 0, "links to end")


def test_random_writes_by_all_ways_and_the_log_of_them(standin, ns):
    standin.behave()
    writes = Writes(SEED + 4, timestamps=False)
    with BySocket(standin.port, ns) as socket, ByRest(standin.port, ns) as rest:
        done = run(writes, Mixed(SEED, socket, rest, Direct(standin, ns)), 600)
    log = standin.writes(ns)
    assert [(one.kind, one.path) for one in log] == [(one.kind, one.path.strip("/")) for one in done]
    assert len({one.by.split()[0] for one in log}) == 3
    tree = None
    for one in log:
        for path, data in one.changes.items():
            tree = assign(tree, [key for key in path.split("/") if key], data)
    assert exact(tree) == exact(standin.export(ns=ns)) == exact(export(writes.copy.root)), f"seed {SEED}"
    assert len(standin.violations()) >= 1


def test_a_rate_is_kept(standin, ns):
    begin = time.monotonic()
    run(Writes(1), Direct(standin, ns), 60, rate=200)
    assert 0.28 < time.monotonic() - begin < 3


def test_the_program(tmp_path):
    from harness.binary import REPOSITORY
    from harness.process import Process

    import sys

    program = Process([sys.executable, "-m", "upstream.standin", "--service-account", tmp_path / "account.json"], "standin", tmp_path,
                      {"PYTHONPATH": str(REPOSITORY / "Tests" / "e2e")})
    try:
        port = int(program.wait_for_output(r"^standin: ready on http://127\.0\.0\.1:(\d+)/\?ns=shop").group(1))
        account = json.loads((tmp_path / "account.json").read_text())
        assert account["token_uri"] == f"http://127.0.0.1:{port}/token"
        assert Rest(port).send("GET", "/control").json()["settings"]["requires_auth"] is True
        assert Rest(port).get("a", ns="shop").status == 401
    finally:
        program.kill()
