"""Bad bodies, keys, paths and parameters: the right status and text, and nothing written."""

import json
import re

import pytest
from harness.gateway import SECRET

PARSE = "Invalid data; couldn't parse JSON object, array, or value."
KEY = r"Invalid data; couldn't parse key beginning at \d+:\d+\. Key value can't be empty or contain \$ # \[ \] / or \."


def refused(at, body: bytes, path: str = "", method: str = "put"):
    """The write is refused with 400 and changes nothing; returns the error's text."""
    at.set("witness", "untouched")
    response = getattr(at, method)(path, body=body)
    assert response.status == 400, (body[:100], response.status, response.body[:300])
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert at.value() == {"witness": "untouched"}
    return response.error


@pytest.mark.parametrize("body, line, column", [
    (b"{", 1, 2), (b"tru", 1, None), (b'{"a":1,}', 1, 8), (b"[1,2", 1, 5), (b'{"a" 1}', 1, 6), (b"'a'", 1, 1), (b"{a:1}", 1, 2), (b"1 2", 1, 3),
    (b'{\n "a": 1,\n "b": }', 3, 7), (b'{"a":1}}', 1, 8), (b"NaN", 1, 1), (b"Infinity", 1, 1), (b"01", 1, 2), (b"1.", 1, None), (b".5", 1, 1), (b"+1", 1, 1), (b"-", 1, None),
    (b'"a\nb"', 1, None), (b'"\\x"', 1, None), (b'"\\u12G4"', 1, None), (b'"open', 1, None), (b"[1,,2]", 1, 4), (b"nul", 1, None), (b"/* x */ 1", 1, 1),
    (b'{"a":1 "b":2}', 1, 8), (b"[\r\n1,\r\n,2]", 3, 1)])
def test_invalid_json_tells_line_and_column(at, body, line, column):
    text = refused(at, body)
    assert text.startswith(PARSE), text
    place = re.search(r"[Ll]ine (\d+), column (\d+): \S", text[len(PARSE):])
    assert place, text
    assert int(place[1]) == line, text
    if column is not None:
        assert abs(int(place[2]) - column) <= 1, text


@pytest.mark.parametrize("body", [
    b'"\xff"', b'"\xc3"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf5\x80\x80\x80"', b'{"\xff":1}', b'"\xe2\x82"', b'"\xf0\x82\x82\xac"'])
def test_invalid_utf8(at, body):
    assert refused(at, body)


@pytest.mark.parametrize("body", [b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\ud800"', b'"\\ud800x"', b'{"\\ud800":1}', b'"\\udc00\\ud800"'])
def test_a_lone_surrogate(at, body):
    assert refused(at, body)


def test_a_pair_of_surrogates_is_one_character(at):
    assert at.put(body=b'"\\ud83d\\ude00"').status == 200
    assert at.value() == "\U0001f600"


@pytest.mark.parametrize("body", [b"1e999", b"-1e999", b'{"a":1e400}', b"1" + b"0" * 400])
def test_numbers_out_of_range(at, body):
    assert refused(at, body)


@pytest.mark.parametrize("key", ["a.b", "a#b", "a$b", "a[b", "a]b", "a/b", "", ".", "..", "a\0b", "a\x1fb", "a\x7fb", "\n"])
def test_forbidden_keys_in_a_body(at, key):
    for value in ({key: 1}, {"ok": {"deep": {key: 1}}}, [{key: 1}]):
        text = refused(at, json.dumps(value).encode())
        if key in ("a#b", "a$b", "a[b", "a]b", "a/b", "", "a.b"):
            assert re.match(KEY, text), text


@pytest.mark.parametrize("key", ["a.b", "a%23b", "a%24b", "a$b", "a%5Bb", "a[b", "a%5D", "a%00b", "a%1Fb", "a%7F", "%FF", "%C3%28", "%ED%A0%80"])
def test_forbidden_keys_in_a_path(at, key):
    for method, body in (("GET", None), ("PUT", b"1"), ("DELETE", None), ("PATCH", b'{"a":1}'), ("POST", b"1")):
        response = at.send(method, f"/{at.base}/{key}.json", body)
        assert response.status == 400, (method, key, response.status)
    assert response.error.startswith("Invalid path")
    assert at.value() is None


@pytest.mark.parametrize("key", ["a.b", "a/../c", "a#", "a/$b/c", "", "/", "a[0]", "a\0"])
def test_forbidden_paths_in_a_patch(at, key):
    assert refused(at, json.dumps({key: 1}).encode(), method="patch")


@pytest.mark.parametrize("body", [b"1", b'"text"', b"true", b"[1,2]"])
def test_a_patch_must_be_an_object(at, body):
    text = refused(at, body, method="patch")
    assert text.startswith("Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?")


@pytest.mark.parametrize("method", ["put", "post", "patch"])
def test_no_data(at, method):
    assert refused(at, b"", method=method) == "Error: No data supplied."


def test_white_space_is_no_data(at):
    assert refused(at, b" \n ")


def test_errors_are_printed_as_the_original_prints_them(at):
    response = at.put(body=b"")
    assert response.body == b'{\n  "error" : "Error: No data supplied."\n}\n'


@pytest.mark.parametrize("character", ["k", "é", "€", "\U0001f600"])
def test_a_key_has_at_most_768_bytes(at, character):
    fits = character * (768 // len(character.encode()))
    assert at.put(value={fits: 1}).status == 200
    assert at.value() == {fits: 1}
    assert at.value(fits) == 1
    at.delete()
    refused(at, json.dumps({fits + "x": 1}, ensure_ascii=False).encode())
    assert at.put(fits + "x", 1).status == 400
    assert at.get(fits + "x").status == 400


def deep(levels: int):
    value = 1
    for _ in range(levels):
        value = {"d": value}
    return value


def test_a_tree_is_at_most_32_deep(at):
    # The test's own key is the first level.
    assert at.put(value=deep(31)).status == 200
    assert at.value("/".join(["d"] * 31)) == 1
    at.delete()
    refused(at, json.dumps(deep(32)).encode())
    refused(at, json.dumps(deep(31)).encode(), path="x")
    assert at.put("/".join(["d"] * 32), 1).status == 400
    assert at.patch(value={"/".join(["d"] * 32): 1}).status == 400


def test_depth_is_not_counted_in_the_stack(at):
    for body in (b"[" * 1_000_000, b'{"a":' * 200_000, b"[" * 100_000 + b"]" * 100_000):
        assert refused(at, body)


def test_a_string_has_at_most_10_mb(at):
    limit = 10 * 1024 * 1024
    assert at.put(value="x" * limit).status == 200
    assert len(at.value()) == limit
    at.delete()
    refused(at, b'"' + b"x" * (limit + 1) + b'"')


@pytest.mark.parametrize("name", ["Bad.Name", "a/b", "a b", "ns$", "x" * 300, "é", "a\0b", "../x"])
def test_bad_namespace_names(dev, name):
    response = dev.rest.get("x", ns=name)
    assert response.status in (400, 404) and response.error


def test_unknown_namespaces_are_not_found(serve):
    gateway = serve()
    assert gateway.rest.get("x").status == 200
    for method in ("get", "delete"):
        response = getattr(gateway.rest, method)("x", ns="nobody-made-this")
        assert response.status == 404 and response.error
    assert gateway.rest.put("x", 1, ns="nobody-made-this").status == 404


def test_serve_without_rules_denies_all_but_the_administrator(serve):
    gateway = serve(rules=None)
    rest = gateway.rest
    for response in (rest.get("x"), rest.put("x", 1), rest.post("x", 1), rest.patch("x", {"a": 1}), rest.delete("x"),
                     rest.get("x", headers={"Accept": "text/event-stream"})):
        assert response.status == 401
        assert response.body == b'{\n  "error" : "Permission denied"\n}\n'
    for wrong in (rest.get("x", auth="wrong"), rest.get("x", headers={"Authorization": "Bearer owner"})):
        assert (wrong.status, wrong.error) == (401, "Could not parse auth token.")
    assert rest.put("x", 1, auth=SECRET).status == 200
    assert rest.get("x", headers={"Authorization": f"Bearer {SECRET}"}).json() == 1


def test_without_json_there_is_a_hint(at):
    at.set(value=1)
    response = at.send("GET", f"/{at.base}")
    assert 300 <= response.status < 500
    assert b"append .json to your request URI to use the REST API." in response.body


@pytest.mark.parametrize("params", [{"shallow": "maybe"}, {"print": "ugly"}, {"format": "xml"}])
def test_unknown_values_of_parameters(at, params):
    at.set(value={"a": 1})
    response = at.get(**params)
    assert response.status in (200, 400)
    if response.status == 200:
        assert response.json() == {"a": 1}


def test_a_malformed_escape_in_a_path(at):
    for target in (f"/{at.base}/%zz.json", f"/{at.base}/%.json", f"/{at.base}/a%2.json"):
        assert at.send("GET", target).status == 400


def test_a_bad_min_seq(at):
    for value in ("abc", "-1", "1.5", "99999999999999999999999"):
        assert at.get(headers={"X-Pathmirror-Min-Seq": value}).status == 400
