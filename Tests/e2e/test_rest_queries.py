"""Queries against a plain model: every ordering, bound, limit, tie and mixture of types."""

import pytest
from harness.rest import ordered
from oracle.generate import Trees
from oracle.query import select
from oracle.tree import normal, plain, without_priorities

PEOPLE = {
    "ann": {"age": 30, "name": {"first": "Ann"}, "tall": True}, "bob": {"age": 25, "name": {"first": "Bob"}},
    "cid": {"age": 30, "name": {"first": "Cid"}, "tall": False}, "dan": {"age": "30", "name": "Dan"},
    "eve": {"age": {"years": 3}, "name": {"first": "Eve"}}, "fay": {"name": {"first": 7}}, "10": {"age": 30}, "9": {"age": -1.5}}
MIXED = {"n1": 1, "n2": 2.5, "s1": "a", "s2": "B", "t": True, "f": False, "o": {"x": 1}, "s3": "\U0001f600", "s4": "\uff5e", "n3": -3,
         "n4": 1.0, "2": 1, "10": 1, "-1": 1}
RANKED = {"a": {".value": 1, ".priority": 3}, "b": {".value": 2, ".priority": "x"}, "c": 3, "d": {".priority": 3, "k": 4},
          "e": {".value": 5, ".priority": -1.5}, "f": {".value": 6, ".priority": "10"}, "7": {".value": 7, ".priority": 3}}


def check(at, tree, **query):
    """Compares the server's selection with the model's; `tree` is in export form."""
    bounds = {name: list(value) if isinstance(value, tuple) else value for name, value in query.items()}
    params = ordered(**{name: value for name, value in bounds.items() if not isinstance(value, list)})
    for name, value in bounds.items():
        if isinstance(value, list):
            params[name] = ",".join(ordered(x=part)["x"] for part in value)
    response = at.get(**params)
    expected = select(tree, **query)
    assert response.status == 200, (query, response.body)
    assert normal(response.json()) == (without_priorities(expected) if expected else None), query
    exported = at.get(format="export", **params).json()
    assert normal(exported) == expected, query


@pytest.mark.parametrize("order", ["age", "name/first", "tall", "missing/child", "$key"])
def test_without_bounds_everything_is_selected(at, order):
    at.set(value=PEOPLE)
    check(at, PEOPLE, orderBy=order)


@pytest.mark.parametrize("bounds", [
    {"startAt": 30}, {"startAfter": 30}, {"endAt": 30}, {"endBefore": 30}, {"equalTo": 30}, {"equalTo": None}, {"startAt": 25, "endAt": 30},
    {"startAfter": 25, "endBefore": "30"}, {"startAt": "30"}, {"startAfter": "30"}, {"endAt": False}, {"equalTo": "30"}, {"startAt": 31, "endAt": 29},
    {"startAt": (30, "ann")}, {"startAfter": (30, "ann")}, {"endAt": (30, "ann")}, {"endBefore": (30, "cid")}, {"equalTo": (30, "cid")},
    {"startAt": (30, "bb"), "endBefore": (30, "zz")}])
@pytest.mark.parametrize("limit", [{}, {"limitToFirst": 1}, {"limitToLast": 2}])
def test_bounds_on_a_child(at, bounds, limit):
    at.set(value=PEOPLE)
    check(at, PEOPLE, orderBy="age", **bounds, **limit)


@pytest.mark.parametrize("bounds", [
    {"equalTo": "Bob"}, {"startAt": "B", "endAt": "C\uf8ff"}, {"startAt": 0}, {"equalTo": None}, {"endBefore": "Bob"}])
def test_bounds_on_a_deep_child(at, bounds):
    at.set(value=PEOPLE)
    check(at, PEOPLE, orderBy="name/first", **bounds)


@pytest.mark.parametrize("bounds", [{"equalTo": True}, {"equalTo": False}, {"startAt": True}, {"endBefore": True}])
def test_bounds_that_are_booleans(at, bounds):
    at.set(value=PEOPLE)
    check(at, PEOPLE, orderBy="tall", **bounds)


@pytest.mark.parametrize("bounds", [
    {}, {"startAt": 1}, {"startAfter": 1}, {"endAt": 1}, {"endBefore": 1}, {"equalTo": 1}, {"equalTo": "a"}, {"startAt": "B", "endAt": "a"}, {"startAt": "\U0001f600"},
    {"startAfter": "\U0001f600"}, {"endBefore": "\uff5e"}, {"startAt": False, "endAt": True}, {"startAt": (1, "10")}, {"endAt": (1, "10")}])
@pytest.mark.parametrize("limit", [{}, {"limitToFirst": 3}, {"limitToLast": 3}])
def test_bounds_on_the_value(at, bounds, limit):
    at.set(value=MIXED)
    check(at, MIXED, orderBy="$value", **bounds, **limit)


@pytest.mark.parametrize("bounds", [
    {}, {"startAt": 3}, {"startAfter": 3}, {"endAt": 3}, {"endBefore": 3}, {"equalTo": 3}, {"equalTo": "x"}, {"startAt": "10"}, {"equalTo": None},
    {"startAfter": (3, "7")}, {"endAt": (3, "a")}])
@pytest.mark.parametrize("limit", [{}, {"limitToFirst": 2}, {"limitToLast": 2}])
def test_bounds_on_the_priority(at, bounds, limit):
    at.set(value=RANKED)
    check(at, RANKED, orderBy="$priority", **bounds, **limit)


KEYS = {key: key for key in ["a", "b", "B", "_", "1", "2", "10", "-1", "07", "7", "2147483647", "2147483648", "-Nx", "\U0001f600", "\uff5e"]}


@pytest.mark.parametrize("bounds", [
    {}, {"startAt": "10"}, {"startAfter": "10"}, {"endAt": "2"}, {"endBefore": "2"}, {"equalTo": "07"}, {"equalTo": "none"}, {"startAt": "A", "endAt": "a"},
    {"startAt": "\U0001f600"}, {"startAfter": "\U0001f600"}, {"endAt": "2147483648"}, {"startAfter": "2147483647", "endBefore": "B"}, {"startAt": "3", "endAt": "9"}])
@pytest.mark.parametrize("limit", [{}, {"limitToFirst": 3}, {"limitToLast": 3}, {"limitToFirst": 1000}])
def test_bounds_on_the_key(at, bounds, limit):
    at.set(value=KEYS)
    check(at, KEYS, orderBy="$key", **bounds, **limit)


def test_a_result_is_an_object(at):
    """A result is an object even if its keys are those of an array; below it arrays are arrays."""
    at.set(value=["a", ["b"], "c", "d"])
    assert at.value(**ordered(orderBy="$key", limitToFirst=2)) == {"0": "a", "1": ["b"]}
    assert at.value(**ordered(orderBy="$key")) == {"0": "a", "1": ["b"], "2": "c", "3": "d"}
    assert at.value() == ["a", ["b"], "c", "d"]


@pytest.mark.parametrize("query", [
    {"orderBy": "age", "equalTo": 1000}, {"orderBy": "$key", "startAt": "zzz"}, {"orderBy": "$value", "endAt": 0}, {"orderBy": "$priority", "equalTo": "x"},
    {"orderBy": "name/first", "startAt": "X", "limitToLast": 2}, {"shallow": True, "startAt": "zzz"}, {"shallow": True, "orderBy": "age", "equalTo": 1000}])
def test_nothing_selected_is_an_empty_object(at, query):
    at.set(value=PEOPLE)
    params = ordered(**query)
    assert at.value(**params) == {}
    assert at.value(format="export", **params) == {}
    assert at.get(callback="f", **params).body == b"/**/f({});"
    # A query at a path without data selects nothing.
    assert at.value("nowhere", **params) is None


@pytest.mark.parametrize("leaf", ["leaf", 5, False, {".value": 1, ".priority": 2}])
def test_a_leaf_has_no_children_to_select(at, leaf):
    at.set(value=leaf)
    assert at.value(**ordered(orderBy="$key", limitToFirst=1)) == {}


@pytest.mark.parametrize("bounds", [
    {"startAfter": (30, "[MAX_NAME]")}, {"endBefore": (30, "[MIN_NAME]")}, {"startAt": (30, "[MIN_NAME]")}, {"endAt": (30, "[MAX_NAME]")},
    {"startAt": (30, "[MAX_NAME]")}, {"endAt": (30, "[MIN_NAME]")}, {"startAfter": (25, "[MIN_NAME]"), "endBefore": (30, "[MAX_NAME]")},
    {"startAfter": (None, "[MAX_NAME]")}])
def test_bounds_before_and_after_all_keys(at, bounds):
    """Bounds in the form of the JavaScript SDK's REST client: `startAfter(30)` is `startAfter=30,"[MAX_NAME]"`."""
    at.set(value=PEOPLE)
    plain = {("startAfter", "[MAX_NAME]"): "startAfter", ("startAfter", "[MIN_NAME]"): "startAt", ("startAt", "[MIN_NAME]"): "startAt",
             ("startAt", "[MAX_NAME]"): "startAfter", ("endBefore", "[MIN_NAME]"): "endBefore", ("endBefore", "[MAX_NAME]"): "endAt",
             ("endAt", "[MAX_NAME]"): "endAt", ("endAt", "[MIN_NAME]"): "endBefore"}
    same = {plain[name, key]: value for name, (value, key) in bounds.items()}
    params = ordered(orderBy="age") | {name: ",".join(ordered(x=part)["x"] for part in value) for name, value in bounds.items()}
    assert normal(at.value(**params)) == normal(at.value(**ordered(orderBy="age", **same)))


@pytest.mark.parametrize("key", ["a/b", "a.b", "", "#", "$a", "[0]", "[MAX_NAME", "a\u0001", "a\u007f", "k" * 769])
@pytest.mark.parametrize("bound", ["startAt", "startAfter", "endAt", "endBefore", "equalTo"])
def test_keys_of_bounds_must_be_valid(at, bound, key):
    at.set(value=PEOPLE)
    response = at.get(orderBy='"age"', **{bound: f"30,{ordered(x=key)['x']}"})
    assert (response.status, response.error) == (400, "Constraint key field must be a valid key name")


def test_a_bound_by_key_that_is_no_json(at):
    """A key that ends with a backslash, put into quotes without an escape."""
    at.set(value=PEOPLE)
    response = at.get(orderBy='"$key"', startAt='"-NBatwr2n20T2uW3aKl\\"')
    assert (response.status, response.error) == (400, "Constraint key field must be a valid key name")
    assert at.get(orderBy='"$key"', startAt='"-NBatwr2n20T2uW3aKl\\\\"').status == 200


def test_a_bound_with_a_plus(at):
    """In a query string a raw plus is a space; escaped in the URL or in the JSON it is a plus."""
    at.set(value={"a": {"phone": "+91"}, "b": {"phone": " 91"}})
    target = at.url(orderBy='"phone"')
    assert at.send("GET", target + "&equalTo=%22%2B91%22").json() == {"a": {"phone": "+91"}}
    assert at.send("GET", target + "&equalTo=%22%5Cu002B91%22").json() == {"a": {"phone": "+91"}}
    assert at.send("GET", target + "&equalTo=%22+91%22").json() == {"b": {"phone": " 91"}}


@pytest.mark.parametrize("params, text", [
    ({"orderBy": "age"}, "orderBy must be a valid JSON encoded path"),
    ({"orderBy": '""'}, None), ({"orderBy": '"$unknown"'}, None), ({"orderBy": "5"}, "orderBy must be a valid JSON encoded path"),
    ({"orderBy": '"a[b"'}, "orderBy must be a valid JSON encoded path"),
    ({"startAt": "1"}, "orderBy must be defined when other query parameters are defined"),
    ({"limitToFirst": "1"}, "orderBy must be defined when other query parameters are defined"),
    ({"equalTo": '"x"'}, "orderBy must be defined when other query parameters are defined"),
    ({"orderBy": '"age"', "startAt": "{}"}, "Constraint index field must be a JSON primitive"),
    ({"orderBy": '"age"', "endAt": "[1]"}, "Constraint index field must be a JSON primitive"),
    ({"orderBy": '"age"', "equalTo": "x"}, "Constraint index field must be a JSON primitive"),
    ({"orderBy": '"age"', "limitToFirst": "x"}, "limitToFirst must be an integer"),
    ({"orderBy": '"age"', "limitToLast": "1.5"}, "limitToLast must be an integer"),
    ({"orderBy": '"age"', "limitToFirst": "0"}, "limitToFirst must be positive"),
    ({"orderBy": '"age"', "limitToLast": "-3"}, "limitToLast must be positive"),
    ({"orderBy": '"age"', "limitToFirst": "99999999999999999999"}, None),
    ({"orderBy": '"age"', "limitToFirst": "1", "limitToLast": "1"}, "Only one of limitToFirst and limitToLast may be specified"),
    ({"orderBy": '"age"', "equalTo": "1", "startAt": "1"},
     "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"),
    ({"orderBy": '"age"', "equalTo": "1", "endBefore": "1"},
     "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"),
    ({"orderBy": '"$key"', "startAt": "5"}, "Provided key index type is invalid, must be string"),
    ({"orderBy": '"$key"', "equalTo": "true"}, "Provided key index type is invalid, must be string"),
    ({"orderBy": '"age"', "startAt": "1", "startAfter": "1"}, None), ({"orderBy": '"age"', "endAt": "1", "endBefore": "1"}, None)])
def test_bad_queries_say_what_is_wrong(at, params, text):
    at.set(value=PEOPLE)
    response = at.get(**params)
    assert response.status == 400, response.body
    assert response.error == text if text else response.error


def test_a_parameter_given_twice_is_refused(at):
    response = at.send("GET", at.url(orderBy='"a"') + '&orderBy=%22b%22')
    assert response.status == 400 and response.error


@pytest.mark.parametrize("seed", range(40))
def test_random_queries_select_what_the_model_selects(at, seed):
    trees = Trees(2000 + seed)
    dice = trees.dice
    tree = {}
    for _ in range(30):
        child = trees.prioritised(2, 3) if dice.random() < 0.5 else {"v": trees.leaf(), "w": {"x": trees.leaf()}}
        tree[trees.key()] = child
    at.set(value=tree)
    for _ in range(12):
        order = dice.choice(["v", "w/x", "$key", "$value", "$priority"])
        bounds = {}
        low, high = dice.choice([None, "startAt", "startAfter"]), dice.choice([None, "endAt", "endBefore"])
        for name in ([low, high] if dice.random() < 0.8 else ["equalTo"]):
            if name:
                if order == "$key":
                    bounds[name] = trees.key()
                else:
                    value = dice.choice(["", "p", 0, 1, 2.5]) if order == "$priority" else trees.leaf()
                    bounds[name] = value if dice.random() < 0.7 else (value, trees.key())
        limit = dice.choice([{}, {"limitToFirst": dice.randrange(1, 9)}, {"limitToLast": dice.randrange(1, 9)}])
        check(at, tree, orderBy=order, **bounds, **limit)


def test_queries_print_plain_values(at):
    at.set(value={"x": {"list": ["a", "b"], "n": 1}, "y": {"list": ["c"], "n": 2}})
    assert at.value(**ordered(orderBy="n", startAt=1)) == plain({"x": {"list": {"0": "a", "1": "b"}, "n": 1}, "y": {"list": {"0": "c"}, "n": 2}})
