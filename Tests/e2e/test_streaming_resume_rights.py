"""A resumed stream reveals no data that the reader could not have received: data from the time without access, and removed data."""

import json

import pytest
from harness.gateway import SECRET
from harness.issuer import legacy
from harness.rest import ordered
from harness.sse import Listener

ADMIN = {"Authorization": f"Bearer {SECRET}"}
OPEN = {".read": True, ".write": True}
HIDDEN = "tango-4711"
BY_KEY = ordered(orderBy="$key", limitToLast=5)


def put_rules(gateway, rules: dict) -> int:
    response = gateway.rest.send("PUT", "/.settings/rules.json", json.dumps({"rules": rules}).encode(), ADMIN)
    assert response.status == 200, response.body
    return response.seq


def begins_anew(at, last_event_id, value, **params):
    """Checks that the stream sends one fresh `put`, then new writes, and no hidden data."""
    with Listener(at, last_event_id=last_event_id, **params) as listener:
        first = listener.next()
        assert first.change == ("put", "/", value), listener.events
        live = at.set("live", True, auth=SECRET).seq
        second = listener.next()
        assert (second.id, second.change) == (live, ("put", "/live", True)), listener.events
        assert not any(HIDDEN in event.text for event in listener.events), listener.events
        assert len(listener.events) == 2
    at.delete("live", auth=SECRET)


@pytest.fixture
def at(serve):
    return serve(rules={"rules": OPEN}).rest.at("room")


@pytest.mark.parametrize("params", [{}, BY_KEY, {"format": "export"}], ids=["whole", "query", "export"])
def test_nothing_from_the_time_of_other_rules(serve, params):
    gateway = serve()
    at = gateway.rest.at("room")
    put_rules(gateway, OPEN)
    at.set(value={"a": 1}, auth=SECRET)
    with Listener(at, **params) as first:
        first.next()
        at.set("b", 2, auth=SECRET)
        seen = first.next().id
        put_rules(gateway, {"other": OPEN})
        first.wait_for_end()
    at.set("a", HIDDEN, auth=SECRET)
    at.delete("a", auth=SECRET)
    at.set("c", 3, auth=SECRET)
    last = put_rules(gateway, OPEN)
    for number in (seen, int(seen), seen - 1, seen + 1, last - 1, last, 0):
        begins_anew(at, number, {"b": 2, "c": 3}, **params)


def test_rules_that_were_the_same_in_the_end(serve):
    """Two uploads in between: the text is the same at the end, but the stream does not send the entries between."""
    gateway = serve()
    at = gateway.rest.at("room")
    put_rules(gateway, {"room": {".read": True}})
    with Listener(at) as listener:
        seen = listener.next().id
    at.set(value={"a": HIDDEN}, auth=SECRET)
    at.set(value={"a": 1}, auth=SECRET)
    put_rules(gateway, {})
    put_rules(gateway, {"room": {".read": True}})
    begins_anew(at, seen, {"a": 1})


@pytest.mark.parametrize("rule", [
    "data.child('open').val() === true", "root.child('switch').val() === true", "root.child('room').child('open').exists()",
    "data.parent().child('switch').val() === true"])
def test_rules_that_look_at_data(serve, rule):
    gateway = serve(rules={"rules": {"room": {".read": rule}}})
    at = gateway.rest.at("room")
    opened = {"room/open": True, "switch": True}
    closed = {"room/open": None, "switch": None}
    gateway.rest.patch(value={**opened, "room/a": 1}, auth=SECRET)
    with Listener(at) as listener:
        seen = listener.next().id
        gateway.rest.patch(value=closed, auth=SECRET)
        listener.wait_for_end()
    at.set("a", HIDDEN, auth=SECRET)
    at.set("a", 2, auth=SECRET)
    gateway.rest.patch(value=opened, auth=SECRET)
    for number in (seen, int(seen), seen + 1, 1, 0):
        begins_anew(at, number, {"a": 2, "open": True})


def test_rules_that_look_at_the_time(serve):
    gateway = serve(rules={"rules": {"room": {".read": "now % 2 >= 0"}}})
    at = gateway.rest.at("room")
    with Listener(at) as listener:
        seen = listener.next().id
    at.set("a", HIDDEN, auth=SECRET)
    at.set("a", 1, auth=SECRET)
    begins_anew(at, seen, {"a": 1})


@pytest.mark.parametrize("credential", [None, legacy("ada", SECRET, d={"uid": "ada"})], ids=["anonymous", "user"])
def test_ids_that_were_never_given(at, credential):
    """Forged ids, or those of other paths and namespaces, could lead to data that was removed before the reader came."""
    params = {"auth": credential} if credential else {}
    elsewhere = at.at("deeper")
    seq = at.set("a", HIDDEN, auth=SECRET).seq
    at.delete("a", auth=SECRET)
    at.set("b", 2, auth=SECRET)
    with Listener(at, **params) as listener, Listener(elsewhere, **params) as other:
        own, foreign = listener.next().id, other.next().id
    for number in (0, 1, seq - 1, seq, int(own) - 1):
        begins_anew(at, number, {"b": 2}, **params)
    begins_anew(at, foreign, {"b": 2}, **params)
    # Another number before the rest of a valid id.
    text = getattr(own, "text", str(own))
    begins_anew(at, text.replace(str(int(own)), str(seq - 1), 1), {"b": 2}, **params)
    begins_anew(at, text.replace(str(int(own)), "0", 1), {"b": 2}, **params)


@pytest.mark.parametrize("rules,credential", [
    ({"room": {".read": "auth.uid === 'ada'"}}, {"auth": legacy("ada", SECRET)}),
    ({"room": {".read": True}}, {}),
    ({".read": "auth.token.admin === true", "room": {"$any": {".read": False}, ".read": "query.limitToFirst == null"}}, {}),
    ({}, {"auth": SECRET}),
], ids=["user", "everybody", "query", "administrator"])
def test_who_could_read_all_the_time_goes_on(serve, rules, credential):
    """Neither data nor time decides in these rules: the stream sends the missed entries one by one."""
    gateway = serve()
    put_rules(gateway, rules)
    at = gateway.rest.at("room")
    at.set(value={"a": 1}, auth=SECRET)
    with Listener(at, **credential) as first:
        seen = first.next().id
    missed = [at.set("b", 2, auth=SECRET).seq, at.patch(value={"c": 3, "a": None}, auth=SECRET).seq]
    with Listener(at, last_event_id=seen, **credential) as second:
        assert [(event.id, event.change) for event in (second.next(), second.next())] == [
            (missed[0], ("put", "/b", 2)), (missed[1], ("patch", "/", {"c": 3, "a": None}))]
        live = at.set("d", 4, auth=SECRET).seq
        assert second.next().id == live
    with Listener(at, last_event_id=second.last_id, **credential) as third:
        assert at.set("e", 5, auth=SECRET).seq == third.next().id
        assert len(third.events) == 1


def test_a_user_who_acts_and_an_administrator_are_not_the_same(serve):
    """The gateway judges the client that resumes, not the one that received the id."""
    gateway = serve(rules={"rules": {"room": {".read": "data.child('open').val() === true"}}})
    at = gateway.rest.at("room")
    at.set(value={"open": True}, auth=SECRET)
    with Listener(at, auth=SECRET) as listener:
        seen = listener.next().id
    at.set("a", HIDDEN, auth=SECRET)
    at.set("a", 1, auth=SECRET)
    begins_anew(at, seen, {"open": True, "a": 1}, auth=SECRET, auth_variable_override="null")
    begins_anew(at, seen, {"open": True, "a": 1})
