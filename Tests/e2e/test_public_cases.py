"""Situations from public bug reports of Firebase clients: event streams, REST and the realtime protocol.

Each test names its source. docs/reference/compatibility.md has the table."""

import http.client
import json
import socket
import time

import pytest
from harness.gateway import OPEN_RULES
from harness.raw import Responses, raw_connection
from harness.rest import Rest, ordered
from harness.sse import Listener
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient, datum
from harness.websocket_polling import PollingClient
from oracle.hashes import node_hash

OWNER = {"Authorization": "Bearer owner"}


@pytest.fixture
def admin(dev, ns) -> Rest:
    """The root of a namespace of this test's own, as an administrator."""
    return dev.rest.at("", ns=ns).with_headers(**OWNER)


@pytest.fixture
def guest(dev, ns) -> Rest:
    """The root of the same namespace, without a login."""
    return dev.rest.at("", ns=ns)


@pytest.fixture
def client(dev, ns):
    with RealtimeClient(dev.port, ns) as client:
        yield client


def put_rules(admin: Rest, rules: dict):
    response = admin.send("PUT", f"/.settings/rules.json?ns={admin.params['ns']}", json.dumps({"rules": rules}).encode())
    assert response.status == 200, response.body


def refused(response, status: int, text: str):
    """The response is an error whose text begins with `text`."""
    assert response.status == status and response.error.startswith(text), (response.status, response.body)


# Event streams

def test_a_stream_of_nothing_begins_with_null(at):
    """step-up-labs/firebase-database-dotnet#16: a subscriber of a path without data gets null."""
    with Listener(at) as listener:
        assert listener.next().change == ("put", "/", None)


def test_a_removed_collection_is_one_put_of_null(at):
    """step-up-labs/firebase-database-dotnet#187: the removal of the collection itself arrives at `/`."""
    at.set(value={"a": {"n": 1}, "b": {"n": 2}})
    with Listener(at) as listener:
        listener.next()
        at.delete()
        assert listener.next().change == ("put", "/", None)


def test_every_removed_child_is_an_event(at):
    """step-up-labs/firebase-database-dotnet#321: no removal is missed."""
    at.set(value={f"k{n}": n for n in range(20)})
    with Listener(at) as listener:
        listener.next()
        for n in range(20):
            at.delete(f"k{n}")
        assert [listener.next().change for _ in range(20)] == [("put", f"/k{n}", None) for n in range(20)]


def test_an_update_with_a_new_key_is_a_patch(at, dev):
    """mobizt/Firebase-ESP32#14: an app's update with a new key, and a single value, reach a device's stream."""
    at.set(value={"old": 1})
    with Listener(at) as listener, RealtimeClient(dev.port) as app:
        listener.next()
        app.ok("m", {"p": at.base, "d": {"new": True}})
        assert listener.next().change == ("patch", "/", {"new": True})
        app.put(f"{at.base}/old", 2)
        assert listener.next().change == ("put", "/old", 2)


def test_the_path_of_a_patch_is_the_place_that_was_updated(at):
    """FirebaseExtended/firebase-arduino#321: an update below the stream's path has its own path, and the changed keys."""
    at.set(value={"artist": {"singer": {"name": "a", "age": 1}}})
    with Listener(at) as listener:
        listener.next()
        at.patch("artist/singer", {"name": "b"})
        assert listener.next().change == ("patch", "/artist/singer", {"name": "b"})
    with Listener(at.at("artist/singer/name")) as listener:
        listener.next()
        at.patch("artist/singer", {"name": "c"})
        assert listener.next().change == ("put", "/", "c")


def test_deep_writes_have_deep_paths(at):
    """GodotNuts/GodotFirebase#43: a client stores the data at the path of the event."""
    with Listener(at) as listener:
        listener.next()
        at.set("a/b/c", 1)
        assert listener.next().change == ("put", "/a/b/c", 1)
        at.patch("a", {"b/d": 2, "e": 3})
        assert listener.next().change == ("patch", "/a", {"b/d": 2, "e": 3})
        listener.wait_for_value({"a": {"b": {"c": 1, "d": 2}, "e": 3}})


def test_a_stream_of_one_value(at):
    """thisbejim/Pyrebase#45 and GodotNuts/GodotFirebase#194: changes of the streamed value itself have the path `/`."""
    at.set(value="off")
    with Listener(at) as listener:
        assert listener.next().change == ("put", "/", "off")
        at.set(value="on")
        assert listener.next().change == ("put", "/", "on")


def test_an_update_with_keys_that_end_with_a_slash(at):
    """thisbejim/Pyrebase#43: the gateway writes such an update, and a stream at one of its paths gets an event."""
    with Listener(at.at("garden")) as listener:
        listener.next()
        assert at.patch(value={"garden/light/": {"value": 1}, "garden/water/": {"value": 2}}).status == 200
        listener.wait_for_value({"light": {"value": 1}, "water": {"value": 2}})


def test_a_filtered_stream_is_silent_about_what_lies_outside(at):
    """step-up-labs/firebase-database-dotnet#124: with `startAt` a client gets events of new children only."""
    at.set(value={"k1": 1, "k2": 2})
    with Listener(at, **ordered(orderBy="$key", startAt="k3")) as listener:
        listener.next()
        at.set("k1", 10)
        at.set("k3", 3)
        assert listener.next().data in ({"k3": 3}, 3)
        assert listener.value == {"k3": 3}


def test_five_writes_at_once_are_five_events(at, dev):
    """mobizt/Firebase-ESP8266#177: a stream gets all of several concurrent changes, in order."""
    at.set(value={f"f{n}": 0 for n in range(5)})
    with Listener(at) as listener, RealtimeClient(dev.port) as app:
        listener.next()
        numbers = [app.ask("p", {"p": f"{at.base}/f{n}", "d": n + 1}) for n in range(5)]
        for number in numbers:
            assert app.answer(number)["s"] == "ok"
        assert [listener.next().change for _ in range(5)] == [("put", f"/f{n}", n + 1) for n in range(5)]


def test_every_event_has_a_name(at):
    """firebase/firebase-tools#4790: streams have `put` and `patch`, never an event without a name."""
    with Listener(at) as listener:
        listener.next()
        at.set("a", 1)
        at.patch(value={"b": 2})
        assert [listener.next().kind, listener.next().kind] == ["put", "patch"]


def test_a_stream_of_an_array(at):
    """step-up-labs/firebase-database-dotnet#63: arrays arrive as arrays, and a change of an element by its index."""
    at.set(value=["a", "b"])
    with Listener(at) as listener:
        assert listener.next().change == ("put", "/", ["a", "b"])
        at.set("2", "c")
        assert listener.next().change == ("put", "/2", "c")


# REST: writes

def test_one_request_updates_two_places(at):
    """bugthesystem/FireSharp#134: keys of an update may be paths."""
    at.set(value={"ada": {"born": 1815}, "grace": {"born": 1906}})
    assert at.patch(value={"ada/nickname": "Countess", "grace/nickname": "Amazing"}).status == 200
    assert at.value() == {"ada": {"born": 1815, "nickname": "Countess"}, "grace": {"born": 1906, "nickname": "Amazing"}}


@pytest.mark.parametrize("body", [b'"a string"', b"213", b"true", b"FileLocation"])
def test_an_update_takes_an_object(at, body):
    """step-up-labs/firebase-database-dotnet#277 and #39: other bodies are refused, and nothing is written."""
    at.set(value=1)
    refused(at.patch(body=body), 400, "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?")
    assert at.value() == 1


def test_a_text_without_quotes_is_no_json(at):
    """step-up-labs/firebase-database-dotnet#229"""
    refused(at.put(body=b"dddd"), 400, "Invalid data; couldn't parse JSON object, array, or value.")


def test_an_update_with_null_removes_several_places(at):
    """firebase/firebase-admin-python#160: multi-path deletes."""
    at.set(value={"a": {"x": 1, "y": 2}, "b": 3, "c": 4})
    assert at.patch(value={"a/x": None, "b": None}).status == 200
    assert at.value() == {"a": {"y": 2}, "c": 4}


def test_a_silent_write_has_no_body(at):
    """bugthesystem/FireSharp#119: `print=silent` saves the response."""
    for response in (at.put(value={"a": 1}, print="silent"), at.patch(value={"b": 1}, print="silent"), at.delete("a", print="silent")):
        assert (response.status, response.body) == (204, b"")
    assert at.value() == {"b": 1}


def test_null_is_the_answer_to_a_removal(at):
    """PhantomAppDevelopment/firebase-as3#18"""
    at.set(value={"a": 1})
    response = at.delete("a")
    assert (response.status, response.body.strip()) == (200, b"null") and at.value() is None


def test_false_zero_and_the_empty_string_are_values(at):
    """abeisgoat/python-firebasin#23"""
    value = {"no": False, "zero": 0, "empty": ""}
    assert at.put(value=value).json() == value and at.value() == value
    at.set("zero", None)
    assert at.value() == {"no": False, "empty": ""}


def test_increments_by_rest(at):
    """oscardelben/firebase-ruby#103 and appsup-dart/firebase_dart#58: `set` with a server value at the counter."""
    assert at.put("orders", {".sv": {"increment": 1}}).json() == 1
    assert at.put("orders", {".sv": {"increment": 2.5}}).json() == 3.5
    assert at.patch(value={"orders": {".sv": {"increment": -0.5}}}).json() == {"orders": 3}


def test_disable_triggers_is_accepted_on_writes(at):
    """firebase/firebase-tools#5179: its commands send `disableTriggers`."""
    assert at.put(value={"a": 1}, disableTriggers="true").status == 200
    assert at.patch(value={"b": 1}, disableTriggers="false").status == 200
    assert at.post(value=1, disableTriggers="true").status == 200
    assert at.delete(disableTriggers="true").status == 200


def test_the_requests_of_a_large_removal(at):
    """firebase/firebase-tools#1114 and #3272: `database:remove` tries the whole, lists a part, and removes many paths at once."""
    at.set(value={f"k{n:03}": {"x": n} for n in range(60)})
    listed = at.value(shallow="true", limitToFirst=50, timeout="60s")
    assert sorted(listed) == [f"k{n:03}" for n in range(50)] and set(listed.values()) == {True}
    gone = at.patch(value=dict.fromkeys(listed), print="silent", writeSizeLimit="tiny", disableTriggers="false")
    assert gone.status == 204 and len(at.value()) == 10
    assert at.patch(body=b"null", print="silent", writeSizeLimit="tiny", disableTriggers="false").status == 204
    assert at.value() is None


def test_a_stale_tag_answers_with_the_current_one(at):
    """firebase/firebase-admin-python#54: the client takes value and tag of the 412 for its next attempt."""
    at.set(value=1)
    stale = at.get(headers={"X-Firebase-ETag": "true"}).etag
    at.set(value=2)
    response = at.put(value=3, headers={"if-match": stale})
    assert (response.status, response.json()) == (412, 2)
    assert at.put(value=3, headers={"if-match": response.etag}).status == 200


def test_updates_have_no_condition(at):
    """firebase/firebase-admin-python#77: a conditional update is no part of the interface, and says so."""
    at.set(value={"a": 1})
    refused(at.patch(value={"a": 2}, headers={"if-match": "null_etag"}), 400, "if-match is")
    assert at.value() == {"a": 1}


def test_settings_besides_the_rules_are_not_there(admin):
    """firebase/firebase-tools#1132, #3228 and #3661: `database:settings` has nothing to set, and gets an error."""
    for name, body in (("defaultWriteSizeLimit", b'"unlimited"'), ("strictTriggerValidation", b"false")):
        for method, data in (("GET", None), ("PUT", body)):
            refused(admin.send(method, f"/.settings/{name}.json?ns={admin.params['ns']}", data), 404, "There is nothing at this path")


def test_an_unknown_credential_is_no_administrator(guest):
    """firebase/firebase-tools#2586: Firebase's emulator accepts any text after `Bearer` as an administrator's token."""
    for headers in ({"Authorization": "Bearer abc"}, {"Authorization": "Bearer "}):
        response = guest.get("a", headers=headers)
        assert response.status == (401 if "abc" in headers["Authorization"] else 200), response.body


# REST: keys and paths

@pytest.mark.parametrize("path", ["servers/server1.json.json", "a.b/c.json", "foo%2Ebar.json", "a/%23.json", "a/x%5By.json", "a/$b.json"])
def test_forbidden_characters_in_a_path(dev, path):
    """bugthesystem/FireSharp#153 and ozgur/python-firebase#58"""
    for method, body in (("GET", None), ("PUT", b"1")):
        refused(dev.rest.send(method, f"/{path}", body), 400, "Invalid path: Invalid token in path")


def test_a_forbidden_key_is_named_by_its_place(at):
    """max-barry/google-drive-cms#9: line and column of the key."""
    body = b'{"title":"' + b"x" * 45 + b'","a.b":1}'
    assert body.index(b'"a.b"') + 1 == 58
    refused(at.post(body=body), 400, "Invalid data; couldn't parse key beginning at 1:58. Key value can't be empty or contain $ # [ ] / or .")


def test_a_raw_space_in_a_target_is_answered(dev):
    """mobizt/FirebaseClient#139: devices that sent raw spaces waited for an answer until they gave up."""
    with raw_connection(dev.port, patience=5) as plain:
        plain.sendall(b"GET /test/test 1.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert Responses(plain).next()[0] == 400


# REST: reads

@pytest.mark.parametrize("value, form", [
    ({"1": "foo", "2": "bar"}, [None, "foo", "bar"]),
    ({"1": "One"}, [None, "One"]),
    ({"2": {"x": 1}}, {"2": {"x": 1}}),
    ({"123456789012345": 1, "123456789012346": 2}, {"123456789012345": 1, "123456789012346": 2}),
])
def test_numbers_as_keys(at, value, form):
    """soumak77/firebase-mock#68, firebase/quickstart-unity#468 and #878, firebase/flutterfire#11829, invertase/react-native-firebase#171"""
    at.set(value=value)
    assert at.value() == form
    assert at.value(format="export") == value


def test_a_page_by_key_begins_with_the_small_numbers(at):
    """firebase/firebase-admin-python#677: keys that are numbers sort by value."""
    at.set(value={key: {"v": True} for key in ("123", "100001", "100002", "100003", "100004", "100005")})
    assert list(at.value(format="export", **ordered(orderBy="$key", limitToFirst=4))) == ["123", "100001", "100002", "100003"]
    assert list(at.value(format="export", **ordered(orderBy="$key", startAt="123", limitToFirst=2))) == ["123", "100001"]


def test_queries_that_say_what_they_lack(admin):
    """beste/firebase-php#50, ktamas77/firebase-php#58, step-up-labs/firebase-database-dotnet#105: the error names the missing part."""
    put_rules(admin, {".read": True})
    admin.set("Devices Data", {"a": {"Date": 1}})
    refused(admin.get("Devices Data", limitToFirst=10), 400, "orderBy must be defined when other query parameters are defined")
    refused(admin.get("Devices Data", orderBy="Date", equalTo=220), 400, "orderBy must be a valid JSON encoded path")
    refused(admin.get("Devices Data", orderBy='"Date"'), 400, 'Index not defined, add ".indexOn": "Date", for path "/Devices Data", to the rules')


def test_an_index_below_a_variable(admin, guest):
    """beste/firebase-php#487: `.indexOn` below `$date` is for every date."""
    put_rules(admin, {".read": True, "tasks": {"$date": {".indexOn": ["driver_id"]}}})
    admin.set("tasks/19-10-2020", {"t1": {"driver_id": 7}, "t2": {"driver_id": 8}})
    assert guest.value("tasks/19-10-2020", **ordered(orderBy="driver_id", equalTo=7)) == {"t1": {"driver_id": 7}}


def test_children_without_the_property_are_equal_to_null(at):
    """EddyVerbruggen/nativescript-plugin-firebase#319 and FirebaseExtended/emberfire#507: `equalTo=null` finds them, and `false` is no null."""
    at.set(value={"a1": {"category": "news"}, "a2": {"category": False}, "a3": {"title": "x"}})
    assert at.value(**ordered(orderBy="category", equalTo=None)) == {"a3": {"title": "x"}}
    assert at.value(**ordered(orderBy="category", startAt=None, endAt=False)) == {"a2": {"category": False}, "a3": {"title": "x"}}


def test_records_that_are_false(client):
    """fullstackreact/react-native-firestack#293: `equalTo(false)` finds booleans, and not the string."""
    client.put("request", {"r1": {"finished": False}, "r2": {"finished": "false"}, "r3": {"finished": True}, "r4": {"x": 1}})
    assert client.ok("g", {"p": "request", "q": {"sp": False, "ep": False, "i": "finished"}}) == {"r1": {"finished": False}}
    assert client.ok("g", {"p": "request", "q": {"sp": None, "ep": None, "i": "finished"}}) == {"r4": {"x": 1}}


def test_a_denied_read_may_be_seen_by_a_page(admin, guest):
    """step-up-labs/firebase-authentication-dotnet#48: the head of a 401 has the type of JSON and is not kept by caches."""
    put_rules(admin, {".read": False})
    response = guest.get("groups")
    assert (response.status, response.error) == (401, "Permission denied")
    assert response.headers["Content-Type"] == "application/json; charset=utf-8" and response.headers["Cache-Control"] == "no-cache"


def test_milliseconds_and_whole_doubles(at):
    """firebase/firebase-ios-sdk#326, invertase/react-native-firebase#489 and H3LP3RS/HELP#117: `3.0` is the integer 3."""
    assert at.put(body=b'{"ms":1506428988000,"whole":3.0,"part":2.5}').status == 200
    assert at.get().body == b'{"ms":1506428988000,"part":2.5,"whole":3}'


def test_a_long_answer_is_whole(at):
    """firebase/firebase-tools#706: `database:get` of more than 1 MB."""
    value = {f"k{n:05}": "x" * 100 for n in range(20000)}
    at.set(value=value)
    assert at.value() == value
    assert json.loads(at.get(print="pretty").body) == value


# Namespaces

def test_the_parameter_names_the_namespace_not_the_host(dev, ns):
    """firebase/firebase-android-sdk#1509: at `10.0.2.2:9000?ns=chat` the namespace is not `10`."""
    dev.rest.at("", ns=ns).set("a", 1)
    assert json.loads(dev.rest.send("GET", f"/a.json?ns={ns}", None, {"Host": "10.0.2.2:9000"}).body) == 1
    assert json.loads(dev.rest.send("GET", "/a.json?ns=10", None, {"Host": "10.0.2.2:9000"}).body) is None


def test_namespaces_have_nothing_in_common(dev, ns):
    """firebase/firebase-tools#3050 and #2552: runs of tests share a server, each with a namespace; without one it is the default."""
    one, two = dev.rest.at("", ns=f"{ns}-1"), dev.rest.at("", ns=f"{ns}-2")
    one.set("a", 1)
    assert two.value("a") is None
    name = f"t{ns}"
    dev.rest.set(name, "Data!")
    assert dev.rest.at("", ns="default").value(name) == "Data!"


# Realtime protocol

@pytest.mark.parametrize("value", [63.99999999999999, 9007199254740991, 0.1 + 0.2, -0.0, 1e300, 5e-324])
def test_a_transaction_on_an_awkward_number(client, dev, ns, value):
    """firebase/firebase-admin-node#779 and #688: the hash of the read value must equal the hash of the stored one."""
    client.put("n", {"value": value, "text": "Hello, world!"})
    read = RealtimeClient(dev.port, ns)
    with read:
        seen = read.listen("n")["b"]["d"]
        assert seen["value"] == value
        assert read.call("p", {"p": "n", "d": seen, "h": node_hash(seen)}) == {"s": "ok", "d": ""}
        assert read.call("p", {"p": "n/value", "d": 1, "h": node_hash(seen["value"])}) == {"s": "ok", "d": ""}


def test_a_get_with_a_limit_is_limited(client):
    """firebase/flutterfire#7396: `get` of the last message is one message."""
    client.put("messages", {f"m{n}": {"createdAt": n} for n in range(5)})
    assert client.ok("g", {"p": "messages", "q": {"l": 1, "vf": "r", "i": "createdAt"}}) == {"m4": {"createdAt": 4}}
    assert client.ok("g", {"p": "messages", "q": {"l": 1, "vf": "l"}}) == {"m0": {"createdAt": 0}}


def test_a_get_that_is_denied(admin, client):
    """firebase/firebase-js-sdk#4667: the error of a denied `get` has the text `Permission denied`."""
    put_rules(admin, {"users": {"$uid": {".read": "$uid === auth.uid"}}})
    assert client.call("g", {"p": "users/foo", "q": {}}) == {"s": "permission_denied", "d": "Permission denied"}


def test_a_get_without_an_index(admin, client):
    """firebase/firebase-js-sdk#8488 and #7843: a `get` of a selection without an index fails, and names the missing index; a `get` with an
    order alone succeeds."""
    put_rules(admin, {".read": True})
    admin.set("things", {"a": {"n": {"views": 1}}, "b": {"n": {"views": 2}}})
    assert client.ok("g", {"p": "things", "q": {"i": "n/views"}}) == admin.value("things")
    for selection in ({"l": 1, "vf": "r"}, {"sp": 2, "sin": True}, {"ep": 1, "ein": True}):
        answer = client.call("g", {"p": "things", "q": {"i": "n/views"} | selection})
        assert answer["s"] != "ok"
        assert answer["d"].startswith('Index not defined, add ".indexOn": "n/views", for path "/things", to the rules')


def test_the_greeting_names_the_host_that_the_client_used(dev):
    """firebase/firebase-js-sdk#5312: a phone on the network can't use the address that the server is bound to."""
    host = {"Host": "localhost:43242"}
    with RealtimeClient(dev.port, headers=host) as client:
        assert client.hello["d"]["d"]["h"] == "localhost:43242"


def test_a_forbidden_key_fails_and_the_connection_stays(client):
    """urish/firebase-server#126: the server must outlive the update."""
    client.put("domains", {"a": 1})
    for bad in ({"byOperator/john.doe@example.com": 1}, {"x": {"john.doe@example.com": 1}}, {"$identityHash": 1}):
        assert client.call("m", {"p": "domains", "d": bad})["s"] not in ("ok", "permission_denied")
    assert client.ok("g", {"p": "domains", "q": {}}) == {"a": 1}


def test_a_key_that_ends_with_a_slash(client):
    """goldibex/targaryen#120: an update's key `X/Y/Z/` is the path `X/Y/Z`."""
    client.ok("m", {"p": "A", "d": {"B/C/D": 10, "X/Y/Z/": 20, "/U//V": 30}})
    assert client.ok("g", {"p": "A", "q": {}}) == {"B": {"C": {"D": 10}}, "X": {"Y": {"Z": 20}}, "U": {"V": 30}}


def test_a_server_time_is_pushed_once(client):
    """firebase/firebase-js-sdk#2461: after its own estimate the client gets the server's time, and nothing else."""
    client.listen("chats")
    client.ok("m", {"p": "/", "d": {"chats/u1/c1": {".sv": "timestamp"}}})
    pushes = client.pushed()
    assert len(pushes) == 1 and abs(json.dumps(pushes).count(str(int(time.time()))[:6])) == 1


def test_a_listen_after_an_update_of_500_paths(client):
    """firebase/firebase-ios-sdk#2907: other requests waited about 15 s for such an update."""
    started = time.monotonic()
    update = client.ask("m", {"p": "class", "d": {f"s{n}/attendance": n for n in range(500)}})
    listen = client.ask("q", {"p": "other", "h": ""})
    assert client.answer(listen)["s"] == "ok" and client.answer(update)["s"] == "ok"
    assert time.monotonic() - started < 5


def test_two_of_70000_children(client, guest):
    """firebase/firebase-js-sdk#4661: a small page of a huge collection is not `too_big`."""
    guest.set("collection", {f"k{n:05}": 1 for n in range(70_000)})
    first = client.listen("collection", {"l": 2, "vf": "l", "i": ".key"}, tag=1)
    assert first == datum("collection", {"k00000": 1, "k00001": 1}, 1)
    next_page = client.listen("collection", {"sp": "k00001", "sin": True, "l": 2, "vf": "l", "i": ".key"}, tag=2)
    assert next_page == datum("collection", {"k00001": 1, "k00002": 1}, 2)


def test_the_last_child_in_the_default_order_is_the_one_with_the_highest_priority(client):
    """firebase/geofire-js#176: geofire's records have priorities, so a new record need not be the last one."""
    client.put("geofire/m", {"g": "w21z", ".priority": "w21z"})
    client.listen("geofire", {"l": 1, "vf": "r"}, tag=1)
    client.put("geofire/z", {"g": "a000", ".priority": "a000"})
    assert client.pushed() == []
    client.put("geofire/a", {"g": "z000", ".priority": "z000"})
    assert client.pushed() == [{"a": "m", "b": {"p": "geofire", "d": {"a": {"g": "z000", ".priority": "z000"}, "m": None}, "t": 1}}]


def test_the_last_request_for_one_path_is_executed(dev, ns, guest):
    """firebase/firebase-android-sdk#3248 and invertase/react-native-firebase#6285: several onDisconnect requests at one path."""
    with RealtimeClient(dev.port, ns) as client:
        client.put("user", {"name": "ada", "isOnline": True})
        for value in (1, 2, 3):
            client.ok("o", {"p": "user/seen", "d": value})
        client.ok("om", {"p": "user", "d": {"isOnline": False}})
    wait_until(lambda: guest.value("user") == {"name": "ada", "isOnline": False, "seen": 3}, "the requests to be executed")


def test_a_client_that_comes_back_with_its_hash_is_sent_nothing(client, dev, ns):
    """firebase/firebase-android-sdk#7549: after a reconnect without changes, the client gets the answer to its listen alone, and then later
    events."""
    client.put("presence", {"u": {"name": "Nick", "isOnline": True}})
    with RealtimeClient(dev.port, ns, ls=client.session) as back:
        assert back.listen("presence", hash=node_hash({"u": {"name": "Nick", "isOnline": True}})) is None
        back.put("presence/u/isOnline", False)
        assert back.pushed() == [datum("presence/u/isOnline", False)]


def test_150_clients_of_one_machine(dev, ns):
    """firebase/quickstart-nodejs#58: tests that make an app each; after about 100 the emulator accepted no more."""
    clients = [RealtimeClient(dev.port, ns).greet() for _ in range(150)]
    try:
        for number, client in enumerate(clients):
            client.put(f"c{number}", number)
    finally:
        for client in clients:
            client.socket.plain.close()


def test_the_last_child_of_a_listen_goes(client):
    """FrangSierra/RxFirebase#39: a client gets the removal of the last child, and of the parent."""
    client.put("posts/group", {"key_1": True, "key_2": True})
    client.listen("posts/group")
    client.put("posts/group/key_2", None)
    client.put("posts/group/key_1", None)
    assert client.pushed() == [datum("posts/group/key_2", None), datum("posts/group/key_1", None)]
    client.put("posts/group", {"key_3": True})
    client.put("posts", None)
    assert client.pushed() == [datum("posts/group", {"key_3": True}), datum("posts/group", None)]


def test_a_large_transaction_is_seen_by_others(client, guest):
    """firebase/firebase-admin-java#304: other clients see a committed transaction."""
    value = {f"k{n:04}": {"text": "x" * 200} for n in range(2000)}
    client.listen("tree")
    assert client.call("p", {"p": "tree", "d": value, "h": ""})["s"] == "ok"
    assert guest.value("tree") == value


def test_a_polling_session_names_the_host_too(dev):
    """firebase/firebase-js-sdk#5312: the fault appeared when the browser went over to long polling."""
    assert PollingClient(dev.port).hello["d"]["d"]["h"] == f"127.0.0.1:{dev.port}"


def test_open_rules_are_those_of_a_new_emulator(admin, guest):
    """firebase/firebase-tools#2483: uploaded rules hold at once, for writes below a path, too."""
    assert guest.post("path", "value").status == 200
    put_rules(admin, {".read": True, ".write": False, "path": {".validate": False}})
    refused(guest.post("path", "value"), 401, "Permission denied")
    admin.send("PUT", f"/.settings/rules.json?ns={admin.params['ns']}", json.dumps(OPEN_RULES).encode())
    assert guest.post("path", "value").status == 200


def test_http_1_0_clients_are_answered(dev, at):
    """FirebaseExtended/firebase-arduino#20: a device that reads until the connection ends."""
    at.set(value="firebase demo")
    with raw_connection(dev.port) as plain:
        plain.sendall(f"GET /{at.base}.json HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = http.client.HTTPResponse(plain)
        answer.begin()
        assert (answer.status, answer.read()) == (200, b'"firebase demo"')


# Cases in which Firebase differs

def test_queries_on_writes_are_refused_with_the_text_of_firebase(at):
    """RomainVialard/FirebaseApp#13: an update of the selected records."""
    for send in (at.patch, at.put, at.post):
        refused(send(value={"a": 1}, **ordered(orderBy="$key", limitToFirst=1)), 400,
                "Querying related parameters not supported on this request type")
    refused(at.delete(**ordered(orderBy="$key", limitToFirst=1)), 400, "Querying related parameters not supported on this request type")


def has_version_6() -> bool:
    """Whether this machine has the address ::1."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_version_6(), reason="this machine has no ::1")
def test_localhost_has_two_addresses(dev):
    """firebase/firebase-admin-node#2084, firebase/firebase-js-sdk#6958 and firebase/firebase-tools#5367: from Node 17 to 19 `localhost` is ::1 first."""
    for address in ("127.0.0.1", "::1"):
        connection = http.client.HTTPConnection(address, dev.port, timeout=5)
        connection.request("GET", "/.json?shallow=true", headers={"Host": f"localhost:{dev.port}"} | OWNER)
        assert connection.getresponse().status == 200, address
        connection.close()
    with RealtimeClient(dev.port, address="::1", headers={"Host": f"localhost:{dev.port}"}) as client:
        assert client.call("gauth", {"cred": "owner"})["s"] == "ok"
