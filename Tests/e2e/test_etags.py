"""ETags: the node hash of the reference, compare-and-set, 412, null_etag, 304."""

import threading

import pytest
from oracle.generate import Trees
from oracle.hashes import etag

ASK = {"X-Firebase-ETag": "true"}

# The worked examples of the protocol reference: value in export form, base64 SHA-1.
WORKED = [
    (b"true", "E5z61QM0lN/U2WsOnusszCTkR8M="), (b"false", "aSSNoqcS4oQwJ2xxH20rvpp3zP0="), (b"0", "7ysMph9WPitGP7poMnMHMVPtUlI="),
    (b"1", "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="), (b"-1", "dMw8oUBNk57KCeIcgAKXVS2BfB0="), (b"1.5", "4MftviR9Z/2MQCMkjh2RNbvlLJc="),
    (b"0.1", "wtQjBi5TBE+ZcdekL6INiSeCSQI="), (b"500", "Ajg9bohDwTVmqR14o1bVJnneryM="), (b"9007199254740993", "m4qsp/5BbIWTdjthNlnOX+WCTB0="),
    (b"9223372036854775807", "32bocnbu4EgM2BqL/q++g0AWEbw="), (b'""', "Ki0Xy0V6morg0TO3Sxi/jwugYDQ="),
    (b'"Hello World"', "B8HWXc7zXMjrsnJxPRj7wrNGqt4="), (b'"a\\"b\\\\c:d"', "QjTL3AVIHxY1M5u39OD3NurWBZ8="), ('"café"'.encode(), "OUWKdxYnelyYt/fL1X/jyd4ucWc="),
    ('"\U0001f600"'.encode(), "MK8AFmo8GmKyFMO+8POk61hHbOQ="), (b'{"foo":"bar"}', "XnLeTeWQmzTHImTbSMDLg/qMrKY="),
    (b'{"a":1,"b":2}', "AUZnXhNqrfbznYVxcCvNpzpjvTU="), (b'{"z":1,"a":"2","b":"true","c":false}', "8qk5vmuZGXWJx+77SGwjYRM0yPA="),
    (b'{"2":"two","10":"ten","a":"x","-1":"neg"}', "5uuUFOv/OSacB5uRWDO0NFbnV0Y="),
    (b'{".value":"primitive",".priority":200}', "R9u8hs9fhRzuQ2M/3BQ0uhxz5ys="), (b'{".value":42,".priority":"high"}', "d/2FMFWchvDsa06RLXZhzvM9aQc="),
    (b'{"someKey":"value",".priority":128.256}', "WYR8kBGna+a7E5x75zvhPhzACOQ="), (b'{"someKey":"value",".priority":"high"}', "/KquMIGoCuKO/ipoLoQzqnU0BcI="),
    (b'{"a":{".value":1,".priority":2},"b":{".value":2,".priority":1},"c":3}', "fD8tomCWiUTqGMwgZ4szaEG2I6U="),
    (b'{"x":{"y":{"z":true}}}', "IQO886LoZQFgunzsOy1l9f65+cA="), (b"null", "null_etag"), (b"{}", "null_etag")]


@pytest.mark.parametrize("body, tag", WORKED)
def test_the_tag_is_the_hash_of_the_reference(at, body, tag):
    written = at.put(body=body, headers=ASK)
    assert (written.status, written.etag) == (200, tag)
    assert at.get(headers=ASK).etag == tag


@pytest.mark.parametrize("seed", range(10))
def test_tags_of_random_trees(at, seed):
    tree = Trees(3000 + seed).prioritised(4, 6)
    at.set(value=tree)
    exported = at.value(format="export")
    assert at.get(headers=ASK).etag == etag(tree) == etag(exported), f"seed {seed}"


def test_the_tag_follows_changes_below(at):
    at.set(value={"a": {"b": 1}, "c": 2})
    first = at.get(headers=ASK).etag
    at.set("a/b", 2)
    assert at.get(headers=ASK).etag == etag({"a": {"b": 2}, "c": 2}) != first
    at.set("a/b", 1)
    assert at.get(headers=ASK).etag == first


def test_which_value_each_method_tags(at):
    assert at.put(value="v1", headers=ASK).etag == "hdGQJEizTB/UAh58ETiFzAnNCIs="
    assert at.post("list", "v1", headers=ASK).etag == "hdGQJEizTB/UAh58ETiFzAnNCIs="
    assert at.delete(headers=ASK).etag == "null_etag"
    assert at.get(headers=ASK).etag == "null_etag"


def test_the_exchange_of_the_reference(at):
    at.set(value="v1")
    tag = at.get(headers=ASK).etag
    assert tag == "hdGQJEizTB/UAh58ETiFzAnNCIs="
    second = at.put(value="v2", headers={"if-match": tag})
    assert (second.status, second.etag, second.json()) == (200, "XS9UG724sh+K2LabSCIPNPQRCYM=", "v2")
    third = at.put(value="v3", headers={"if-match": tag})
    assert (third.status, third.etag, third.json()) == (412, "XS9UG724sh+K2LabSCIPNPQRCYM=", "v2")
    assert at.value() == "v2"


def test_create_only(at):
    assert at.put(value=1, headers={"if-match": "null_etag"}).status == 200
    again = at.put(value=2, headers={"if-match": "null_etag"})
    assert (again.status, again.json(), again.etag) == (412, 1, etag(1))
    assert at.value() == 1


def test_delete_only_what_was_seen(at):
    at.set(value={"a": 1})
    refused = at.delete(headers={"if-match": etag({"a": 2})})
    assert (refused.status, refused.json(), refused.etag) == (412, {"a": 1}, etag({"a": 1}))
    done = at.delete(headers={"if-match": etag({"a": 1})})
    assert (done.status, done.json(), done.etag) == (200, None, "null_etag")
    assert at.value() is None


def test_a_failed_precondition_on_null_answers_null(at):
    refused = at.put(value=1, headers={"if-match": etag(5)})
    assert (refused.status, refused.json(), refused.etag) == (412, None, "null_etag")
    assert at.value() is None


def test_a_failed_precondition_leaves_no_entry(at):
    at.set(value=1)
    seq = at.get().seq
    at.put(value=2, headers={"if-match": "nonsense"})
    # Other tests may write meanwhile, but not at this path.
    assert at.value() == 1
    assert at.set(value=1).seq > seq


def test_the_precondition_looks_at_the_path_itself_only(at):
    at.set(value={"a": 1, "b": 1})
    tag = at.get("a", headers=ASK).etag
    at.set("b", 2)
    assert at.put("a", 2, headers={"if-match": tag}).status == 200


@pytest.mark.parametrize("method", ["get", "post", "patch"])
def test_if_match_goes_with_put_and_delete_only(at, method):
    at.set(value={"a": 1})
    arguments = {} if method == "get" else {"value": {"a": 2}}
    response = getattr(at, method)(headers={"if-match": etag({"a": 1})}, **arguments)
    assert response.status == 400 and response.error
    assert at.value() == {"a": 1}


def test_unchanged_is_304(at):
    at.set(value={"a": [1, 2]})
    tag = at.get(headers=ASK).etag
    same = at.get(headers={"if-none-match": tag})
    assert (same.status, same.body) == (304, b"")
    at.set("a/0", 9)
    changed = at.get(headers={"if-none-match": tag})
    assert (changed.status, changed.json()) == (200, {"a": [9, 2]})
    assert changed.etag == etag({"a": {"0": 9, "1": 2}})


def test_absent_is_unchanged_by_null_etag(at):
    assert at.get(headers={"if-none-match": "null_etag"}).status == 304


def test_the_tag_ignores_form_but_covers_priorities(at):
    at.set(value={".value": 1, ".priority": 2})
    assert at.get(headers=ASK).etag == at.get(headers=ASK, format="export").etag == at.get(headers=ASK, print="pretty").etag
    at.set(".priority", 3)
    assert at.get(headers=ASK).etag == etag({".value": 1, ".priority": 3})


def test_of_many_who_compare_and_set_one_wins(at):
    at.set(value="start")
    tag = etag("start")
    outcomes = []
    gate = threading.Barrier(12)

    def attempt(number):
        gate.wait()
        outcomes.append((at.put(value=f"w{number}", headers={"if-match": tag}).status, f"w{number}"))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [value for status, value in outcomes if status == 200]
    assert sorted(status for status, _ in outcomes) == [200] + [412] * 11
    assert at.value() == winners[0]
