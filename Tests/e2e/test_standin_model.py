"""The tree and the hashes of the stand-in for the Realtime Database, against the worked values of the reference; and the judge of logs."""

import os
import random
import struct

import pytest
from oracle import hashes as oracle_hashes
from oracle import ranges as oracle_ranges
from oracle.export import normal
from oracle.generate import Trees
from upstream import hashing
from upstream.judge import judge, upstream_hashes
from upstream.tree import Invalid, build, dump, export, key_rank, parse
from upstream.writes import Writes

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)

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


# MARK: The judge of logs

def _journey(seed: int, count: int = 60):
    """(hashes of an upstream, entries of a perfect log without gaps)."""
    writes = Writes(seed, width=4, odd=False)
    writes.copy.keeps_writes = True
    for _ in writes.take(count):
        pass
    hashes = upstream_hashes(writes.copy.writes)
    return hashes, [(number, "upstream", digest) for number, digest in enumerate(hashes[1:], 1)]


def test_the_judge_accepts_logs_of_followers():
    hashes, perfect = _journey(3)
    # A first load is a gap, too.
    for start, skipped in ((0, 0), (5, 0), (0, 7), (9, 12)):
        rest = perfect[start + skipped:]
        log = ([(0, "resync", perfect[start - 1][2])] if start else [(0, "resync", perfect[0][2])]) + [
            (number, "resync" if skipped and not index else op, digest) for index, (number, op, digest) in enumerate(rest[0 if start or skipped else 1:])]
        assert judge(log, hashes)["resync"] in (1, 2)


def test_the_judge_notices_what_is_wrong():
    hashes, perfect = _journey(4)
    log = [(0, "resync", perfect[0][2]), *perfect[1:]]
    judge(log, hashes)
    wrong = {
        "a part of a message": log[:10] + [(10, "upstream", "a tree that never was")] + log[10:],
        "a lost message": log[:10] + log[11:],
        "a repetition": log[:10] + [log[4]] + log[10:],
        "an exchange": [*log[:10], log[11], log[10], *log[12:]],
        "an empty resync": [*log[:10], (10, "resync", log[9][2]), *log[10:]],
        "an end too early": log[:-1],
        "another operation": [*log[:5], (5, "set", log[5][2]), *log[6:]],
    }
    for what, entries in wrong.items():
        with pytest.raises(AssertionError):
            judge(entries, hashes)
            pytest.fail(f"the judge accepted {what}")
