"""Reads: plain, shallow, export, pretty; absent data; paths in all their spellings."""

import json

import pytest
from harness.sse import Listener
from oracle.generate import Trees
from oracle.tree import normal, plain

TREE = {"a": 1, "b": {"c": True, "d": {"e": "x"}}, "f": [10, 20]}


def test_absent_is_null(at):
    response = at.get()
    assert (response.status, response.json()) == (200, None)
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache"


def test_every_depth_reads_its_subtree(at):
    at.set(value=TREE)
    assert at.value() == TREE
    assert at.value("b") == {"c": True, "d": {"e": "x"}}
    assert at.value("b/d/e") == "x"
    assert at.value("f/1") == 20
    assert at.value("b/nothing/below") is None
    assert at.value("a/below-a-leaf") is None


def test_a_trailing_slash_before_json_is_the_same_place(at):
    at.set("a/b", 7)
    target = at.url("a/b")
    assert at.send("GET", target.replace("/b.json", "/b/.json")).json() == 7


def test_the_root_holds_every_child(at):
    at.set(value="here")
    root = at.send("GET", "/.json?shallow=true").json()
    assert root[at.base] is True


def test_shallow_tells_the_keys_only(at):
    at.set(value=TREE)
    assert at.value(shallow="true") == {"a": True, "b": True, "f": True}
    assert at.value("a", shallow="true") == 1
    assert at.value("f", shallow="true") == {"0": True, "1": True}
    assert at.value("nothing", shallow="true") is None


def test_shallow_goes_with_limits(at):
    at.set(value={"b": 1, "10": 2, "2": 3, "a": 4})
    assert at.value(shallow="true", limitToFirst=2) == {"2": True, "10": True}
    assert at.value(shallow="true", limitToFirst=2, startAfter='"10"') == {"a": True, "b": True}


def test_pretty_indents_by_two(at):
    at.set(value={"a": 1, "b": {"c": "x"}})
    body = at.get(print="pretty").body.decode()
    assert body.rstrip("\n") == '{\n  "a" : 1,\n  "b" : {\n    "c" : "x"\n  }\n}'


def test_silent_says_nothing(at):
    at.set(value=1)
    for response in (at.get(print="silent"), at.put(value=2, print="silent"), at.post("list", 3, print="silent"),
                     at.patch(value={"x": 1}, print="silent"), at.delete(print="silent")):
        assert (response.status, response.body) == (204, b"")
    assert at.value() is None


def test_keys_are_percent_decoded(at):
    for key in ("with space", "é", "日本", "\U0001f600", "a+b", "a&b=c?d", "%41", "quote\"'", "a;b:c,d@e!", "~-_*()"):
        at.set(key, key)
        assert at.value(key) == key
    assert at.send("GET", f"/{at.base}/a%2Bb.json").json() == "a+b"
    assert at.send("GET", f"/{at.base}/with%20space.json").json() == "with space"


def test_a_raw_plus_in_a_path_is_a_space(at):
    assert at.send("PUT", f"/{at.base}/+91.json", b"1").status == 200
    assert at.value() == {" 91": 1}
    assert at.send("PUT", f"/{at.base}/%2B91.json", b"2").status == 200
    assert at.value() == {" 91": 1, "+91": 2}
    assert at.send("GET", f"/{at.base}/%2091.json").json() == 1
    with Listener(at) as listener:
        listener.next()
        at.send("PUT", f"/{at.base}/a+b/c%2Bd.json", b"3")
        assert listener.next().change == ("put", "/a b/c+d", 3)


@pytest.mark.parametrize("target", [
    "/.nothing", "/.nothing.json", "/.info/connected.json", "/.inspect/databases.json", "/.settings/other.json", "/.settings/rules", "/.a/b.json", "/..json",
    "/.feedsx/a.json", "/.priority", "/.value.json", "/.sv.json", "/.health", "/.metrics.json"])
def test_an_unknown_path_that_begins_with_a_dot_is_404(at, target):
    for method, body in (("GET", None), ("PUT", b"1"), ("POST", b"1"), ("PATCH", b"{}"), ("DELETE", None)):
        response = at.send(method, target, body)
        assert (response.status, response.error) == (404, "There is nothing at this path"), (method, response.body)
    assert at.send("GET", f"/{at.base}/.info.json").status == 400


def test_strings_of_every_kind_round_trip(at):
    texts = ["", "é", "\U0001f600", "\u2028\u2029", "\0", "a\0b", "\x01\x1f\x7f", 'q"b\\s/', "\t\r\n\b\f", "\uffff", "x" * 100_000]
    at.set(value=dict(enumerate(texts)))
    assert at.value() == texts
    assert at.get("4").body.strip() == b'"\\u0000"'


@pytest.mark.parametrize("body, expected", [
    (b"9223372036854775807", 9223372036854775807), (b"-9223372036854775808", -9223372036854775808),
    (b"9007199254740993", 9007199254740993), (b"1.7976931348623157e308", 1.7976931348623157e308), (b"5e-324", 5e-324),
    (b"0.1", 0.1), (b"1e2", 100), (b"1.0", 1), (b"-0", 0), (b"123456789.125", 123456789.125), (b"1E+2", 100)])
def test_numbers_keep_their_value(at, body, expected):
    assert at.put(body=body).status == 200
    assert at.value() == expected


def test_doubles_beyond_int64_never_print_as_digits(at):
    at.put(body=b'{"a":9223372036854775808,"b":1.1e29,"c":-9223372036854775809}')
    text = at.get().body.decode()
    assert at.value() == {"a": 2.0**63, "b": 1.1e29, "c": -(2.0**63)}
    for number in text.strip("{} \n").split(","):
        assert any(mark in number.split(":")[1] for mark in ".eE"), text


def test_infinitesimal_numbers_become_zero(at):
    at.put(body=b"1e-999")
    assert at.value() == 0


def test_download_names_a_file(at):
    at.set(value={"a": 1})
    response = at.get(download="my-data.json")
    assert response.status == 200
    disposition = response.headers["Content-Disposition"]
    assert disposition.startswith("attachment") and "my-data.json" in disposition


def test_a_download_name_cannot_add_headers(at):
    response = at.get(download='x"\r\nX-Evil: yes')
    assert response.headers["X-Evil"] is None
    assert response.status in (200, 400)


def test_callback_makes_jsonp(at):
    at.set(value={"a": "</script>"})
    response = at.get(callback="gotData")
    text = response.body.decode().strip()
    assert response.status == 200 and "javascript" in response.headers["Content-Type"]
    before, _, after = text.partition("gotData(")
    assert before.strip() in ("", "/**/") and after.rstrip(";").endswith(")")
    assert json.loads(after.rstrip(";")[:-1]) == {"a": "</script>"}


@pytest.mark.parametrize("name", ["a b", "alert(1)//", "a;b", "<x>", "1abc"])
def test_a_callback_that_is_no_name_is_refused(at, name):
    assert at.get(callback=name).status == 400


@pytest.mark.parametrize("timeout, status", [
    ("3ms", 200), ("10s", 200), ("15min", 200), ("16min", 400), ("901s", 400), ("10", 400), ("abc", 400), ("-1s", 400), ("", 400)])
def test_timeout_is_a_number_and_a_unit(at, timeout, status):
    at.set(value=1)
    response = at.get(timeout=timeout)
    # A very short time limit may really pass.
    assert response.status == status or (timeout == "3ms" and response.status == 400)


def test_seq_is_the_state_that_was_read(at):
    written = at.set(value=1).seq
    assert at.get().seq >= written
    assert at.get(headers={"X-Pathmirror-Min-Seq": str(written)}).json() == 1


@pytest.mark.parametrize("seed", range(25))
def test_random_trees_come_back(at, seed):
    trees = Trees(seed)
    tree = trees.tree(4, 6)
    at.set(value=tree)
    assert normal(at.value()) == normal(tree), f"seed {seed}"
    assert at.value() == plain(tree), f"seed {seed}"
