"""Priorities, export and plain forms, array coercion, and the order of keys."""

import json

import pytest
from harness.rest import ordered
from oracle.generate import Trees
from oracle.order import key_rank
from oracle.tree import normal, plain, without_priorities


def test_a_leaf_with_a_priority(at):
    at.set(value={".value": "v", ".priority": 5})
    assert at.value() == "v"
    assert at.value(format="export") == {".value": "v", ".priority": 5}
    assert at.value(".priority") == 5


def test_an_inner_node_with_a_priority(at):
    at.set(value={"a": 1, ".priority": "p"})
    assert at.value() == {"a": 1}
    assert at.value(format="export") == {"a": 1, ".priority": "p"}


def test_priorities_at_every_level(at):
    tree = {".priority": 1, "a": {".priority": "x", "b": {".value": True, ".priority": -2.5}, "c": 3}}
    at.set(value=tree)
    assert at.value(format="export") == tree
    assert at.value() == {"a": {"b": True, "c": 3}}


def test_a_priority_alone_can_be_set_and_removed(at):
    at.set(value={"a": 1})
    assert at.put("a/.priority", 7).status == 200
    assert at.value(format="export") == {"a": {".value": 1, ".priority": 7}}
    assert at.patch(value={"a/.priority": 9}).status == 200
    assert at.value("a/.priority") == 9
    assert at.delete("a/.priority").status == 200
    assert at.value(format="export") == {"a": 1}


def test_a_priority_makes_no_node(at):
    response = at.put("missing/.priority", 1)
    assert response.status == 400 and response.error
    assert at.value() is None


def test_writing_a_child_below_a_leaf_keeps_the_leafs_priority(at):
    at.set("a", {".value": 1, ".priority": 5})
    at.set("a/b", 2)
    assert at.value("a", format="export") == {"b": 2, ".priority": 5}


def test_writing_a_node_replaces_its_priority(at):
    at.set("a", {".value": 1, ".priority": 5})
    at.set("a", 2)
    assert at.value("a", format="export") == 2


def test_a_priority_goes_with_its_last_child(at):
    at.set("a", {"b": 1, ".priority": 5})
    at.delete("a/b")
    assert at.value("a", format="export") is None
    at.set("a/b", 1)
    assert at.value("a", format="export") == {"b": 1}


def test_a_node_of_nothing_but_a_priority_is_nothing(at):
    assert at.put(value={".priority": 5}).status in (200, 400)
    assert at.value(format="export") is None
    at.set("a", {".value": None, ".priority": 1})
    assert at.value(format="export") is None


def test_a_null_priority_is_none(at):
    at.set(value={".value": 1, ".priority": None})
    assert at.value(format="export") == 1


@pytest.mark.parametrize("priority", [True, {"a": 1}, [1]])
def test_what_cannot_be_a_priority(at, priority):
    assert at.put(value={".value": 1, ".priority": priority}).status == 400
    assert at.value() is None


@pytest.mark.parametrize("value", [{".value": {"a": 1}}, {".value": [1]}, {".value": 1, "a": 2}, {".other": 1}, {"a": {".x": 1}}])
def test_what_cannot_be_a_node(at, value):
    assert at.put(value=value).status == 400
    assert at.value() is None


def test_a_bare_dot_value_is_the_value(at):
    at.set(value={".value": 5})
    assert at.value(format="export") == 5


@pytest.mark.parametrize("seed", range(15))
def test_export_then_put_is_the_identity(at, seed):
    tree = Trees(4000 + seed).prioritised(4, 5)
    at.set("one", tree)
    exported = at.value("one", format="export")
    assert exported == tree, f"seed {seed}"
    at.set("two", exported)
    assert at.value("two", format="export") == tree
    assert at.value("one") == plain(without_priorities(tree))


@pytest.mark.parametrize("node, read", [
    ({"0": "a", "1": "b", "2": "c"}, ["a", "b", "c"]),
    ({"1": "x"}, [None, "x"]),
    ({"2": "x"}, {"2": "x"}),
    ({"0": "a", "1": "b", "2": "c", "5": "f"}, ["a", "b", "c", None, None, "f"]),
    ({"0": "a", "1": "b", "2": "c", "8": "i"}, {"0": "a", "1": "b", "2": "c", "8": "i"}),
    ({"01": "x", "2": "y"}, {"01": "x", "2": "y"}), ({"-1": "x", "0": "y"}, {"-1": "x", "0": "y"}), ({"0": "a", "k": "b"}, {"0": "a", "k": "b"}),
    ({"0": {"0": 1, "1": 2}, "1": {"2": 3}}, [[1, 2], {"2": 3}]), ({"a": {"0": "x"}}, {"a": ["x"]}),
    ({"00": "x"}, {"00": "x"}), ({"99999999999999999999": 1}, {"99999999999999999999": 1})])
def test_the_array_table(at, node, read):
    at.set(value=node)
    assert at.value() == read
    assert at.value(format="export") == node
    assert at.value(shallow="true") == {key: True for key in node}


def test_arrays_are_maps_with_index_keys(at):
    at.set(value=["a", None, "c", ["d"]])
    assert at.value("2") == "c" and at.value("3/0") == "d" and at.value("1") is None
    assert at.value(format="export") == {"0": "a", "2": "c", "3": {"0": "d"}}
    at.patch(value={"1": "b"})
    assert at.value() == ["a", "b", "c", ["d"]]


KEYS = ["-2147483648", "-5", "-1", "0", "00", "1", "2", "7", "07", "007", "10", "2147483647", "-2147483649", "-Nabc", "2147483648", "99999999999",
        "A", "Z", "_", "a", "aa", "b", "é", "日本", "\ud800\udc00".encode("utf-16", "surrogatepass").decode("utf-16"), "\U0001f600", "\ue000", "\uff5e"]


def test_exports_are_written_in_key_order(at):
    """The protocol does not promise an order of an object's text, but exports have one, so that their diffs are small."""
    at.set(value={key: 1 for key in reversed(KEYS)})
    pairs = json.loads(at.get(format="export").body, object_pairs_hook=list)
    assert [key for key, _ in pairs] == sorted(KEYS, key=key_rank)


def test_the_key_order_cut_everywhere(at):
    """limitToFirst(n) for each n shows the order, independent of the order of the object's text."""
    at.set(value={key: 1 for key in KEYS})
    expected = sorted(KEYS, key=key_rank)
    for count in range(1, len(KEYS) + 1):
        found = at.value(format="export", **ordered(orderBy="$key", limitToFirst=count))
        assert set(found) == set(expected[:count])
        if count > 1:
            assert set(at.value(format="export", **ordered(orderBy="$key", startAfter=expected[count - 2], limitToFirst=1))) == {expected[count - 1]}


def test_integer_keys_tie_by_length(at):
    at.set(value={"7": 1, "07": 1, "007": 1, "6": 1, "8": 1})
    assert set(at.value(format="export", **ordered(orderBy="$key", startAfter="7", limitToFirst=1))) == {"07"}
    assert set(at.value(format="export", **ordered(orderBy="$key", startAfter="07", limitToFirst=1))) == {"007"}
    assert normal(at.value(format="export", **ordered(orderBy="$key", endBefore="7"))) == {"6": 1}
