"""Definitions of feeds: their members, defaults, refused values and error texts."""

import json

import pytest
from harness.feeds import PATIENT
from harness.process import resident_bytes
from harness.waiting import wait_until

MINIMAL = {"path": "/orders/{order_id}"}
DEFAULTS = {
    "path": "/orders/{order_id}", "events": ["created", "updated", "deleted"], "order": "key", "max_attempts": 10,
    "backoff": {"first": "1s", "max": "1m"}, "ack_deadline": "30s", "on_dead": "continue", "retention": "7d",
    "when_retention_ends": "alarm", "start": "now",
}
OPERATIONS = {"set", "update", "remove", "push", "transaction", "import", "onDisconnect", "upstream", "resync"}


def test_what_is_left_out_is_filled_in(feed):
    made = feed.ask("PUT", body=MINIMAL, status=201)
    assert (made["name"], made["created"]) == ("orders", True)
    definition = feed.definition()
    assert {name: definition[name] for name in DEFAULTS} == DEFAULTS
    assert set(definition["operations"]) == OPERATIONS
    assert definition["include"] in ("value", ["value"])


def test_the_same_definition_changes_nothing(feed):
    feed.make(max_attempts=3)
    again = feed.apply(max_attempts=3)
    assert (again["created"], again["changed"]) == (False, False)
    # The same definition with a default written out does not change it, either.
    assert feed.apply(max_attempts=3, order="key", ack_deadline="30s")["changed"] is False
    other = feed.apply(max_attempts=4)
    assert (other["created"], other["changed"]) == (False, True)
    assert feed.definition()["max_attempts"] == 4


def test_what_a_feed_says_of_itself_makes_the_same_feed(feed):
    """A user can save the answer of GET in a file and apply it."""
    feed.make("/users/{uid}/orders/{order_id}", filter="newData.child('total').val() > 100", include=["value", "old"],
              events=["created"], operations=["set", "push"], order="namespace", max_attempts=2, on_dead="stop",
              backoff={"first": "10ms", "max": "20ms"}, ack_deadline="5s", retention="2h", when_retention_ends="drop")
    definition = feed.definition()
    assert feed.ask("PUT", body=definition)["changed"] is False
    assert feed.definition() == definition


def test_applying_again_does_not_begin_anew(feed, tree):
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    taken = feed.take()
    feed.apply(start="beginning", **{**PATIENT, "max_attempts": 3})
    assert feed.has_nothing_else()
    assert taken[0]["key"] == "a"


def test_list_and_remove(feed):
    feed.make()
    feed.named("mails").make("/mails/{id}")
    listed = feed.rest.send("GET", f"/.feeds?ns={feed.ns}", None, feed.headers).json()["feeds"]
    assert {entry["name"]: entry["definition"]["path"] for entry in listed} == {
        "orders": "/orders/{order_id}", "mails": "/mails/{id}"}
    feed.remove()
    for method, what, body in (("GET", "", None), ("DELETE", "", None), ("GET", "status", None), ("GET", "dead", None),
                               ("POST", "pull", {}), ("POST", "ack", {"ids": []}), ("POST", "seek", {"seq": 0})):
        answer = wait_until(lambda: (answer := feed.call(method, what, body)).status == 404 and answer, f"{method} {what} to find nothing")
        assert list(answer.json()) == ["error"]
    assert feed.named("mails").definition()["path"] == "/mails/{id}"


def test_a_feed_that_is_made_again_has_forgotten(feed, tree):
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    feed.take()
    feed.remove()
    feed.make(start="beginning", **PATIENT)
    assert feed.one()["key"] == "a"


def test_namespaces_have_feeds_of_their_own(feed, tree, dev):
    feed.make(start="beginning", **PATIENT)
    other = f"{feed.ns}-x"
    assert feed.rest.send("GET", f"/.feeds/orders?ns={other}", None, feed.headers).status == 404
    dev.rest.set("orders/elsewhere", 1, ns=other)
    tree.set("orders/here", 1)
    message = feed.take()[0]
    assert message["key"] == "here" and message["id"].startswith(f"{feed.ns}:")


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 63])
def test_names(feed, name):
    assert feed.named(name).apply(status=201)["name"] == name
    assert feed.named(name).definition()["path"] == "/orders/{order_id}"


@pytest.mark.parametrize("name", ["x" * 64, "a.b", "a%20b", "%C3%A4", "a%2Fb", "a:b", "%00"])
def test_names_that_are_none(feed, name):
    answer = feed.named(name).call("PUT", body=MINIMAL)
    assert answer.status in (400, 404), (answer.status, answer.body)
    assert list(answer.json()) == ["error"]


BAD = {
    "no path": ({}, "path"),
    "a path that is none": ({"path": 7}, "path"),
    "no slash": ({"path": "orders/{id}"}, "path"),
    "an open brace": ({"path": "/orders/{id"}, "path"),
    "an empty capture": ({"path": "/orders/{}"}, "path"),
    "a capture that begins with a digit": ({"path": "/orders/{1d}"}, "path"),
    "a capture twice": ({"path": "/{id}/{id}"}, "path"),
    "an empty part": ({"path": "/orders//{id}"}, "path"),
    "a key that none can be": ({"path": "/or$ders/{id}"}, "path"),
    "an unknown member": ({**MINIMAL, "max_attempt": 3}, "max_attempt"),
    "an unknown operation": ({**MINIMAL, "operations": ["put"]}, "operations"),
    "an unknown event": ({**MINIMAL, "events": ["changed"]}, "events"),
    "an unknown part to include": ({**MINIMAL, "include": ["new"]}, "include"),
    "an unknown order": ({**MINIMAL, "order": "none"}, "order"),
    "an unknown policy": ({**MINIMAL, "on_dead": "explode"}, "on_dead"),
    "another unknown policy": ({**MINIMAL, "when_retention_ends": "stop"}, "when_retention_ends"),
    "no attempts": ({**MINIMAL, "max_attempts": 0}, "max_attempts"),
    "attempts in words": ({**MINIMAL, "max_attempts": "ten"}, "max_attempts"),
    "a deadline without a unit": ({**MINIMAL, "ack_deadline": 30}, "ack_deadline"),
    "a deadline by another name": ({**MINIMAL, "ack_deadline_ms": 30}, "ack_deadline_ms"),
    "a backoff that is a number": ({**MINIMAL, "backoff": 1000}, "backoff"),
    "a retention without a unit": ({**MINIMAL, "retention": "7"}, "retention"),
    "a filter that does not parse": ({**MINIMAL, "filter": "newData.val( > 1"}, "filter"),
    "a filter with an unknown variable": ({**MINIMAL, "filter": "auht.uid === 'a'"}, "filter"),
    "a filter that is no text": ({**MINIMAL, "filter": True}, "filter"),
    "an unknown start": ({**MINIMAL, "start": "yesterday"}, "start"),
    "a start of two kinds": ({**MINIMAL, "start": {"seq": 1, "time": "2026-01-01T00:00:00Z"}}, "start"),
    "a start at no time": ({**MINIMAL, "start": {"time": "soon"}}, "time"),
    "two ways to push": ({**MINIMAL, "webhook": {"url": "https://a.example/"}, "nats": {"url": "nats://a.example", "stream": "s"}}, ""),
    "no object": ([MINIMAL], ""),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named(feed, case):
    body, word = BAD[case]
    answer = feed.call("PUT", body=body)
    assert answer.status == 400, (answer.status, answer.body)
    assert word in answer.error, answer.error
    assert feed.call("GET").status == 404, "a feed was made of a bad definition"


@pytest.mark.parametrize("body", [b"", b"{", b'{"path":"/a/{b}",}', b"\xff\xfe", b'{"path":"/a/{b}"} x', b"null",
                                  b'{"path":"/a/{b}","path":"/c/{d}"}', b"[" * 100_000])
def test_a_body_that_is_no_definition(feed, body):
    answer = feed.call("PUT", body=body)
    assert (answer.status, list(answer.json())) == (400, ["error"]), answer.body[:200]


def test_a_bad_change_leaves_the_feed_as_it_was(feed, tree):
    feed.make(**PATIENT)
    before = feed.definition()
    assert feed.call("PUT", body={**MINIMAL, "order": "none"}).status == 400
    assert feed.definition() == before
    tree.set("orders/a", 1)
    assert feed.take()[0]["key"] == "a"


def test_a_definition_is_bounded(feed, dev):
    before = resident_bytes(dev.process.pid)
    answer = feed.call("PUT", body={**MINIMAL, "filter": "newData.val() == '" + "x" * 10_000_000 + "'"})
    assert answer.status in (400, 413), answer.status
    assert resident_bytes(dev.process.pid) - before < 400_000_000
    assert feed.call("GET").status == 404


@pytest.mark.parametrize("method, what, body", [
    ("POST", "pull", {"max": 1001}), ("POST", "pull", {"max": "many"}), ("POST", "pull", {"max": 1.5}),
    ("POST", "pull", {"wait": "-1s"}), ("POST", "pull", {"wait": 20_000}), ("POST", "pull", {"wait_ms": 20_000}), ("POST", "pull", {"wait": "60001ms"}), ("POST", "pull", {"consumer": 7}),
    ("POST", "pull", {"maximum": 7}), ("POST", "pull", []), ("POST", "pull", b"{"),
    ("POST", "ack", {}), ("POST", "ack", {"ids": "a"}), ("POST", "ack", {"ids": [1]}), ("POST", "ack", {"ids": [], "delay": "5ms"}),
    ("POST", "ack", {"id": ["a"]}), ("POST", "ack", {"ids": ["a"] * 1001}), ("POST", "pull", {"consumer": "c" * 1000}),
    ("POST", "nack", {"ids": [], "delay": "-1s"}), ("POST", "nack", {"ids": [], "reason": 4}),
    ("POST", "extend", {"ids": []}), ("POST", "extend", {"ids": [], "delay": "long"}),
    ("POST", "seek", {}), ("POST", "seek", {"seq": -1}), ("POST", "seek", {"seq": "1"}), ("POST", "seek", {"to": "end"}),
    ("POST", "seek", {"time": "soon"}), ("POST", "seek", {"time": "infinity"}), ("POST", "seek", {"time": "-infinity"}),
    ("POST", "seek", {"time": "head"}), ("POST", "seek", {"to": "head"}), ("POST", "seek", {"time": "2026-13-01T00:00:00Z"}), ("POST", "seek", {"seq": 1, "to": "now"}),
    ("POST", "dead/retry", {}), ("POST", "dead/retry", {"all": True, "key": "a"}), ("POST", "dead/drop", {"keys": ["a"]}),
])
def test_bad_requests(feed, method, what, body):
    feed.make()
    answer = feed.call(method, what, body)
    assert (answer.status, list(answer.json())) == (400, ["error"]), (answer.status, answer.body[:300])
    if what == "seek":
        # Errors do not suggest refused values.
        assert "head" not in answer.error.replace('"head" is', ""), answer.error


def test_a_definition_for_another_database(feed):
    answer = feed.call("PUT", body={"path": "/orders/{order_id}", "namespace": "elsewhere"})
    assert answer.status == 400 and "elsewhere" in answer.error and feed.ns in answer.error
    assert feed.call("GET").status == 404
    feed.make(namespace=feed.ns)


@pytest.mark.parametrize("method, what", [
    ("POST", ""), ("PATCH", ""), ("GET", "pull"), ("PUT", "pull"), ("GET", "ack"), ("DELETE", "dead"), ("POST", "status")])
def test_methods_that_are_not_for_it(feed, method, what):
    feed.make()
    answer = feed.call(method, what, {})
    assert (answer.status, list(answer.json())) == (405, ["error"]), (answer.status, answer.body[:300])


def test_what_is_not_there(feed):
    feed.make()
    for what in ("nothing", "pull/more", "dead/all", "stream/x"):
        answer = feed.call("POST", what, {})
        assert answer.status in (404, 405) and list(answer.json()) == ["error"], (what, answer.status)


def test_a_body_that_is_too_large(feed):
    feed.make()
    answer = feed.call("POST", "ack", json.dumps({"ids": ["x" * 100] * 100_000}).encode())
    assert answer.status in (400, 413), answer.status
    assert feed.pull() == []


def test_a_feed_that_is_pushed_is_not_pulled(feed):
    feed.make(webhook={"url": "https://hooks.invalid/orders", "secrets": ["whsec_" + "c2VjcmV0" * 4]})
    answer = feed.call("POST", "pull", {})
    assert (answer.status, list(answer.json())) == (409, ["error"]), answer.body
