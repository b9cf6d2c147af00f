"""Compares the stand-in for the Realtime Database with `pathmirror dev`, as clients see both."""

import json
import os
import random
from dataclasses import dataclass

import pytest
from harness.rest import Rest, ordered
from harness.websocket_client import Holder, RealtimeClient, datum, listening
from oracle import ranges as oracle_ranges
from upstream import hashing
from upstream.equality import exact
from upstream.standin import Standin
from upstream.tree import build, export, key_rank
from upstream.writes import NUMBERS, STRINGS, ByRest, BySocket, Mixed, Writes, run

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)


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
                    # Pushes of default listens have no tag: whichever contains the path, or is below it, takes it over.
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
    ("an update that empties and fills a node", [("/a", {"x": 1, ".priority": 5}), ("m", {"a/x": None, "a/y": 2})], {"a": {"y": 2, ".priority": 5}}),
    ("an update that fills and empties a node", [("/a", {"y": 1, ".priority": 5}), ("m", {"a/x": 2, "a/y": None})], {"a": {"x": 2, ".priority": 5}}),
    ("an update that makes a node with its priority", [("m", {"a/.priority": None, "b": 1}), ("m", {"b": 2, "c/d": 1})], {"b": 2, "c": {"d": 1}}),
    ("a priority of the root", [("/a", 1), ("/.priority", 7)], {"a": 1, ".priority": 7}),
]


@pytest.mark.parametrize("puts, expected", [row[1:] for row in PRIORITIES], ids=[row[0] for row in PRIORITIES])
def test_priorities(sides, puts, expected):
    def scenario(side):
        with side.client() as client:
            for path, data in puts:
                if path == "m":
                    client.call("m", {"p": "/", "d": data})
                else:
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
