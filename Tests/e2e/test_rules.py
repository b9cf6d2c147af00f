"""Security rules in a running gateway: revoked access, administrators that act as users, and required indexes."""

import json

import pytest
from harness.gateway import SECRET
from harness.rest import ordered
from harness.sse import Listener, Refused

ADMIN = {"Authorization": f"Bearer {SECRET}"}
OPEN = {".read": True, ".write": True}


def put_rules(gateway, rules: dict):
    """Replaces the rules of the running gateway."""
    response = gateway.rest.send("PUT", "/.settings/rules.json", json.dumps({"rules": rules}).encode(), ADMIN)
    assert response.status == 200, response.body


def is_cancelled(listener: Listener):
    """Checks that the next event is `cancel`, that it is the last one, and that the stream ends."""
    event = listener.next()
    assert (event.kind, event.text) == ("cancel", "null"), event
    assert event.id is None
    listener.wait_for_end()
    assert listener.events[-1] is event


def is_refused(location, **params):
    with pytest.raises(Refused) as refusal:
        Listener(location, **params)
    assert refusal.value.status == 401
    assert json.loads(refusal.value.body) == {"error": "Permission denied"}


def test_new_rules_shut_a_reader_out_and_nobody_else(serve):
    gateway = serve()
    rest = gateway.unique()
    rest.set(value={"public": {"a": 1}, "private": {"a": 1}})
    query = ordered(orderBy="$key", limitToFirst=1)
    with Listener(rest.at("private")) as shut_out, Listener(rest.at("private"), **query) as asking, \
            Listener(rest.at("public")) as reader, Listener(rest.at("private"), headers=ADMIN) as administrator:
        for listener in (shut_out, asking, reader, administrator):
            listener.next()
        put_rules(gateway, {".write": True, rest.base: {"public": {".read": True}}})
        is_cancelled(shut_out)
        is_cancelled(asking)
        is_refused(rest.at("private"))
        is_refused(rest.at("private"), last_event_id=shut_out.last_id)
        seq = rest.patch(value={"public/a": 2, "private/a": 2}).seq
        for listener in (reader, administrator):
            event = listener.next()
            assert (event.id, event.change) == (seq, ("patch", "/", {"a": 2}))
        assert shut_out.value == asking.value == {"a": 1}
        put_rules(gateway, OPEN)
        # The reader restarts with the current value: it may not get the writes of the time without access.
        with Listener(rest.at("private"), last_event_id=shut_out.last_id) as again:
            assert again.next().change == ("put", "/", {"a": 2})


def test_new_rules_shut_readers_of_another_gateway_out(serve):
    here, there = serve(name="serve-a"), serve(name="serve-b")
    rest = here.unique()
    rest.set(value=1)
    with Listener(there.rest.at(rest.base)) as listener:
        listener.next()
        put_rules(here, {".read": False})
        is_cancelled(listener)


def test_rules_that_do_not_parse_change_nothing(serve):
    gateway = serve()
    rest = gateway.unique()
    rest.set(value=1)
    with Listener(rest) as listener:
        listener.next()
        response = gateway.rest.send("PUT", "/.settings/rules.json", b'{"rules": {".read": "auth ="}}', ADMIN)
        assert response.status == 400 and response.error
        seq = rest.set(value=2).seq
        event = listener.next()
        assert (event.kind, event.id) == ("put", seq)


@pytest.mark.parametrize("text, place", [
    ("invalid json %{!@[", "1:1"), ("rules_version='2';\nservice firebase.storage {\n}\n", "1:1"), ("", "1:1"),
    ("// bolt\n\npath / {\n  read() { true }\n}\n", "3:1"), ('{"rules": {".read": auth != null}}', "1:21"),
])
def test_a_document_that_is_not_json(serve, text, place):
    gateway = serve()
    response = gateway.rest.send("PUT", "/.settings/rules.json", text.encode(), ADMIN)
    assert (response.status, response.error) == (400, f"{place}: Parse error.\n")


def test_only_an_administrator_may_replace_the_rules(serve):
    gateway = serve()
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer owner"}):
        assert gateway.rest.send("PUT", "/.settings/rules.json", b'{"rules": {}}', headers).status == 401
    assert gateway.unique().put(value=1).status == 200


@pytest.mark.parametrize("rule, door", [
    # The decisive data is at another path: the reader gets no more events after its change.
    ("root.child($test + '/door').val() === 'open'", "door"),
    # The decisive data is within the listen: the reader does not get the change itself.
    ("data.child('door').val() === 'open'", "room/door")])
def test_data_shuts_a_reader_out(serve, rule, door):
    gateway = serve(rules={"rules": {"$test": {".write": True, "room": {".read": rule}}}})
    rest = gateway.unique()
    rest.patch(value={door: "open", "room/talk": "hello"})
    with Listener(rest.at("room")) as listener:
        first = listener.next()
        assert first.data["talk"] == "hello"
        rest.set(door, "shut")
        rest.set("room/talk", "secret")
        is_cancelled(listener)
        assert listener.value == first.data
    is_refused(rest.at("room"))
    rest.set(door, "open")
    with Listener(rest.at("room"), last_event_id=first.id) as again:
        again.wait_for_value({**first.data, "talk": "secret"} if door != "door" else {"talk": "secret"})


def test_data_elsewhere_shuts_readers_out_without_a_word_to_them(serve):
    """No path below the listen is written: the gateway still detects soon that the readers lost their access. Other readers, which the rule
    still allows, continue."""
    gateway = serve(rules={"rules": {"$test": {".write": True, "room": {
        ".read": "root.child($test + '/door').val() === 'open' || root.child($test + '/guests/' + auth.uid).val() === true"}}}})
    rest = gateway.unique()
    rest.patch(value={"door": "open", "guests/ann": True, "room": {"talk": "hello", "other": 1}})
    room = rest.at("room")

    def acting(uid):
        return {"auth": SECRET, "auth_variable_override": json.dumps({"uid": uid})}

    with Listener(room) as nobody, Listener(room, **ordered(orderBy="$key", limitToFirst=1)) as asking, \
            Listener(room, **acting("ann")) as guest, Listener(room, **acting("bob")) as stranger, \
            Listener(room, headers=ADMIN) as administrator:
        for listener in (nobody, asking, guest, stranger, administrator):
            listener.next()
        rest.set("door", "shut")
        for listener in (nobody, asking, stranger):
            is_cancelled(listener)
        seq = rest.set("room/talk", "for guests").seq
        for listener in (guest, administrator):
            assert listener.next().id == seq
        rest.set("guests/ann", None)
        is_cancelled(guest)
        seq = rest.set("room/talk", "for nobody").seq
        assert administrator.next().id == seq
        assert guest.value["talk"] == "for guests" and nobody.value["talk"] == "hello"


def test_a_stream_is_judged_by_its_query_from_first_to_last(serve):
    """The gateway judges a stream by its query during its whole life, if the rule names the order. A plain read over REST is a query by
    key."""
    gateway = serve(rules={"rules": {"$test": {".write": True, "plain": {".read": "query.orderByKey"}, "ranked": {
        ".read": "query.orderByPriority && query.limitToFirst <= 10"}}}})
    rest = gateway.unique()
    for place, query in (("plain", {}), ("ranked", ordered(orderBy="$priority", limitToFirst=5))):
        rest.set(place, {"a": 1})
        with Listener(rest.at(place), **query) as listener:
            listener.next()
            for number in range(2, 4):
                seq = rest.set(f"{place}/a", number).seq
                event = listener.next()
                assert (event.kind, event.id) == ("put", seq), event


USERS = {"rules": {"$test": {"$user": {".read": "auth.uid === $user", ".write": "auth.uid === $user"},
                             "anyone": {".read": "auth === null"}}}}


def test_an_administrator_may_act_as_a_user(serve):
    rest = serve(rules=USERS).unique()
    ann = {"auth": SECRET, "auth_variable_override": json.dumps({"uid": "ann"})}
    assert rest.put("ann", 1, **ann).status == 200
    assert rest.get("ann", **ann).json() == 1
    for response in (rest.get("bob", **ann), rest.put("bob", 1, **ann), rest.get("anyone", **ann), rest.get("ann")):
        assert (response.status, response.error) == (401, "Permission denied")
    assert rest.get("bob", auth=SECRET).json() is None
    assert rest.get("ann", headers=ADMIN, auth_variable_override='{"uid":"ann"}').json() == 1
    with Listener(rest.at("ann"), **ann) as listener:
        assert listener.next().data == 1
    is_refused(rest.at("bob"), **ann)


def test_an_administrator_may_act_as_nobody(serve):
    rest = serve(rules=USERS).unique()
    nobody = {"auth": SECRET, "auth_variable_override": "null"}
    assert rest.get("anyone", **nobody).status == 200
    assert rest.get("ann", **nobody).status == 401


@pytest.mark.parametrize("text", ["", "1", '"ann"', "[1]", "true", "{", '{"uid":}'])
def test_an_override_that_is_none(serve_once, text):
    response = serve_once.rest.get("x", auth=SECRET, auth_variable_override=text)
    assert response.status == 400 and "auth_variable_override" in response.error


def test_an_override_is_for_administrators(serve_once):
    assert serve_once.rest.get("x").status == 200
    assert serve_once.rest.get("x", auth_variable_override='{"uid":"ann"}').status == 401
    assert serve_once.rest.get("x", auth="wrong", auth_variable_override='{"uid":"ann"}').status == 401


@pytest.mark.parametrize("credential", ["wrong", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "owner", SECRET + "x", SECRET[:-1]])
def test_wrong_credentials_are_refused_even_where_everybody_may_read(serve_once, credential):
    for response in (serve_once.rest.get("x", auth=credential), serve_once.rest.get("x", access_token=credential),
                     serve_once.rest.get("x", headers={"Authorization": f"Bearer {credential}"}),
                     serve_once.rest.put("x", 1, auth=credential)):
        assert response.status == 401
        assert response.body == b'{\n  "error" : "Could not parse auth token."\n}\n'


@pytest.fixture(scope="module")
def serve_once(postgres, logs):
    """A gateway on a database of its own, with open rules, shared by tests that write nothing."""
    from harness.gateway import start_serve
    from harness.scratch import scratch_directory
    with scratch_directory("rules") as path:
        gateway = start_serve(postgres.create_database(), path, logs)
        yield gateway
        gateway.sweep()


def test_an_order_without_its_index_is_refused(serve):
    rules = {".read": True, ".write": True, "$test": {"indexed": {".indexOn": ["age", "name/first"]}, "values": {".indexOn": ".value"}}}
    rest = serve(rules={"rules": rules}).unique()
    people = {"a": {"age": 3, "name": {"first": "Ann"}}, "b": {"age": 1, "name": {"first": "Bob"}}}
    rest.set(value={"indexed": people, "plain": people, "values": {"a": 2, "b": 1}})

    def message(index, place):
        return f'Index not defined, add ".indexOn": "{index}", for path "/{rest.base}/{place}", to the rules'

    for place, order, index in (("plain", "age", "age"), ("plain", "name/first", "name/first"), ("plain", "$value", ".value"),
                                ("indexed", "size", "size"), ("indexed", "$value", ".value"), ("values", "age", "age")):
        response = rest.get(place, **ordered(orderBy=order, limitToFirst=1))
        assert (response.status, response.error) == (400, message(index, place))
        with pytest.raises(Refused) as refusal:
            Listener(rest.at(place), **ordered(orderBy=order))
        assert refusal.value.status == 400
    assert rest.value("indexed", **ordered(orderBy="age", limitToFirst=1)) == {"b": people["b"]}
    assert rest.value("indexed", **ordered(orderBy="name/first", limitToFirst=1)) == {"a": people["a"]}
    assert rest.value("values", **ordered(orderBy="$value", limitToFirst=1)) == {"b": 1}
    # These orders need no index.
    for order in ("$key", "$priority"):
        assert list(rest.value("plain", **ordered(orderBy=order, limitToFirst=1))) == ["a"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
@pytest.mark.parametrize("body, headers", [
    (b"{ this is no JSON", {}), (b"x" * 200_000, {}), (b"no gzip", {"Content-Encoding": "gzip"}), (b"{}", {"Content-Encoding": "br"})])
def test_what_is_refused_is_not_read(serve, method, body, headers):
    """A client that may not write gets this error, and not the error of its body, which the gateway has not read."""
    rest = serve(rules={"rules": {".write": "auth != null"}}).rest
    answer = rest.send(method, "/a.json", body, headers)
    assert (answer.status, answer.error) == (401, "Permission denied")
    let_in = rest.send(method, "/a.json", body, {**headers, **ADMIN})
    assert let_in.status in (400, 415)


REFUSED = {
    "GET": ("GET", "/mine/a.json", None, {}), "HEAD": ("HEAD", "/mine/a.json", None, {}), "query": ("GET", '/mine.json?orderBy="$key"&limitToFirst=1', None, {}),
    "PUT": ("PUT", "/mine/a.json", b"1", {}), "POST": ("POST", "/mine.json", b"1", {}), "PATCH": ("PATCH", "/elsewhere.json", b'{"a":1}', {}),
    "DELETE": ("DELETE", "/mine/a.json", None, {}), "conditional": ("PUT", "/mine/a.json", b"1", {"if-match": "null_etag"}),
    "no JSON": ("PUT", "/mine/a.json", b"{", {}), "stream": ("GET", "/mine/a.json", None, {"Accept": "text/event-stream"}),
    "for a seq": ("GET", "/mine/a.json", None, {"X-Pathmirror-Min-Seq": "1"}), "for a late seq": ("PUT", "/mine/a.json", b"1", {"X-Pathmirror-Min-Seq": "1000"}),
    "for no seq": ("GET", "/mine/a.json", None, {"X-Pathmirror-Min-Seq": "x"}), "if-match on PATCH": ("PATCH", "/elsewhere.json", b"{}", {"if-match": "x"}),
    "query on PUT": ("PUT", '/mine/a.json?orderBy="$key"', b"1", {}),
}


def test_no_tree_is_loaded_for_whom_the_rules_refuse_whatever_is_stored(serve):
    """The answers equal those of a gateway that has loaded the tree."""
    first = serve()
    first.rest.set("mine/a", 1)
    put_rules(first, {"open": {".read": True}, "mine": {"$id": {".read": "auth != null", ".write": "auth != null && data.exists()"}}})
    late = serve(name="late")
    for name, (method, target, body, headers) in REFUSED.items():
        expected, answer = (gateway.rest.send(method, target, body, headers) for gateway in (first, late))
        assert answer.status in (400, 401), name
        assert (answer.status, answer.body) == (expected.status, expected.body), name
    assert late.metric("pathmirror_namespace_loads_total") == 0
    assert late.metric('pathmirror_writes_refused_total{reason="rules"}') > 0
    # A request that the rules may allow needs the data.
    assert late.rest.get("open").status == 200 and late.rest.value("mine/a", auth=SECRET) == 1
    assert late.metric("pathmirror_namespace_loads_total") == 1
    # New rules apply to the next request, also in a gateway that has not loaded the namespace.
    third = serve(name="third")
    assert third.rest.get("mine/a").status == 401
    put_rules(first, {".read": True})
    assert third.rest.value("mine/a") == 1
