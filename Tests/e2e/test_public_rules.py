"""Situations from public bug reports of Firebase clients: security rules.

Each test names its source. docs/reference/compatibility.md has the table."""

import json

import pytest
from harness.rest import Rest, ordered
from harness.websocket_client import RealtimeClient

OWNER = {"Authorization": "Bearer owner"}


class Ruled:
    """A namespace with rules."""

    def __init__(self, dev, ns):
        self.dev, self.ns = dev, ns
        self.guest = dev.rest.at("", ns=ns)
        self.admin = self.guest.with_headers(**OWNER)

    def upload(self, rules: dict):
        return self.admin.send("PUT", f"/.settings/rules.json?ns={self.ns}", json.dumps({"rules": rules}).encode())

    def use(self, rules: dict, data=None):
        response = self.upload(rules)
        assert response.status == 200, response.body
        self.admin.set("", data)

    def user(self, auth: dict | None) -> Rest:
        """A client of a user with this `auth`."""
        return self.admin.at("", auth_variable_override=json.dumps(auth))


@pytest.fixture
def ruled(dev, ns):
    return Ruled(dev, ns)


def allowed(response):
    assert response.status in (200, 204), (response.status, response.body)


def denied(response):
    assert (response.status, response.error) == (401, "Permission denied"), (response.status, response.body)


def test_a_path_that_no_child_can_have_is_nothing(ruled):
    """goldibex/targaryen#136: `child("banned" + auth.uid)` with an address as uid is evaluated, and finds nothing."""
    ruled.use({".read": "root.child('banned' + auth.uid).val() != true"}, {"a": 1})
    allowed(ruled.user({"uid": "rob@example.com"}).get("a"))


def test_rules_that_look_at_the_query(ruled):
    """goldibex/targaryen#142"""
    ruled.use({"messages": {".read": "query.orderByChild == 'owner' && query.equalTo == auth.uid", ".indexOn": "owner"}},
              {"messages": {"a": {"owner": "bob"}, "b": {"owner": "eve"}}})
    bob = ruled.user({"uid": "bob"})
    assert bob.value("messages", **ordered(orderBy="owner", equalTo="bob")) == {"a": {"owner": "bob"}}
    denied(bob.get("messages", **ordered(orderBy="owner", equalTo="eve")))
    denied(bob.get("messages"))
    ruled.use({".read": "query.orderByChild != null && query.orderByKey != null"}, {"a": {"n": 1}})
    denied(ruled.guest.get(""))


def test_a_query_and_a_plain_listen_at_one_path(ruled):
    """firebase/firebase-js-sdk#6280: the plain listen is denied, the query is not."""
    ruled.use({"orders": {".read": "(auth != null && query.orderByChild == 'status') && query.equalTo == 'biddable'", ".indexOn": ["status"]}},
              {"orders": {"a": {"status": "biddable"}, "b": {"status": "sold"}}})
    with RealtimeClient(ruled.dev.port, ruled.ns) as client:
        client.ok("gauth", {"cred": "owner", "authvar": {"uid": "u1"}})
        assert client.call("q", {"p": "/orders", "h": ""}) == {"s": "permission_denied", "d": "Permission denied"}
        query = {"sp": "biddable", "ep": "biddable", "i": "status"}
        assert client.listen("/orders", query, tag=5) == {"a": "d", "b": {"p": "orders", "d": {"a": {"status": "biddable"}}, "t": 5}}


def test_a_removal_is_not_validated(ruled):
    """goldibex/targaryen#36: `.validate` is for data that is there afterwards, also where an object of nulls is written."""
    ruled.use({"test": {".write": True, ".validate": "newData.hasChildren(['bool', 'number'])",
                        "bool": {".validate": "newData.isBoolean()"}, "number": {".validate": "newData.isNumber()"}}},
              {"test": {"bool": True, "number": 1}})
    denied(ruled.guest.delete("test/bool"))
    allowed(ruled.guest.put("test", {"bool": None, "number": None}))
    assert ruled.admin.value("test") is None
    ruled.admin.set("test", {"bool": True, "number": 1})
    allowed(ruled.guest.delete("test"))


def test_an_empty_object_is_a_removal(ruled):
    """goldibex/targaryen#139: the gateway does not evaluate `hasChildren([…])` for a new item that is empty."""
    ruled.use({"list": {".write": True, "$id": {".validate": "newData.hasChildren(['required1', 'required2'])"}}})
    denied(ruled.guest.put("list/a", {"required1": 1}))
    allowed(ruled.guest.put("list/a", {}))


def test_deep_updates_need_a_grant_at_their_own_paths(ruled):
    """goldibex/targaryen#120: the gateway judges each path of an update by itself, but not an object above them."""
    ruled.use({"A": {"B": {"C": {"D": {".write": True}}}, "X": {"Y": {"Z": {".write": True}}}}})
    allowed(ruled.guest.patch("A", {"B/C/D": 10}))
    allowed(ruled.guest.patch("A", {"B/C/D": 11, "X/Y/Z/": 20}))
    denied(ruled.guest.patch("A", {"B": {"C": {"D": 12}}}))
    assert ruled.admin.value("A") == {"B": {"C": {"D": 11}}, "X": {"Y": {"Z": 20}}}


def test_a_key_that_ends_with_a_slash_lacks_its_child(ruled):
    """goldibex/targaryen#134: `invites/` is the collection, whose children then fail their validation."""
    ruled.use({"orgs": {"$org": {"invites": {".write": True, "$key": {".validate": "newData.hasChildren(['uid']) && $key == newData.child('uid').val()"}}}}})
    denied(ruled.guest.patch("", {"orgs/o/invites/": {"uid": "k1"}}))
    allowed(ruled.guest.patch("", {"orgs/o/invites/k1": {"uid": "k1"}}))


def test_null_where_nothing_is_needs_a_grant(ruled):
    """FirebaseExtended/bolt#248: the gateway evaluates the write rule, although the value does not change."""
    ruled.use({"shared": {"$user": {".write": "data.exists() || newData.child('accepted').val() == false"}}, "other": {".write": True}},
              {"other": 1})
    denied(ruled.guest.patch("", {"shared/u2": None, "other": None}))
    assert ruled.admin.value("other") == 1


def test_a_comparison_with_null_ends_the_expression(ruled):
    """FirebaseExtended/bolt#223: `null >= 20` fails, even before `||`; after `||`, the first operand decides."""
    level = "root.child('level').val() >= 20"
    owner = "root.child('owner').val() == auth.uid"
    ruled.use({"first": {".write": f"{level} || {owner}"}, "last": {".write": f"{owner} || {level}"}}, {"owner": "ada"})
    ada = ruled.user({"uid": "ada"})
    denied(ada.put("first", 1))
    allowed(ada.put("last", 1))


@pytest.mark.parametrize("rule, text", [
    # FirebaseExtended/bolt#185
    ("root.child('users').child(auth.uid) != null", "Invalid != expression: left operand is not a number, boolean, string, or null."),
    # firebase/codelab-friendlychat-web#294
    ("newData.child('name').val() === firebase.auth.token.name", "Unknown variable 'firebase'."),
    # chat-sdk/chat-sdk-android#457
    ("data.parent().child($blocked_user_id).exists()", "Unknown variable '$blocked_user_id'."),
    # firebase/geofire-objc#110
    ("newData.g.val() == 1", "No such method/property 'g'."),
    # firebase/firebase-tools#2734
    ("newData.hasChildren(['timestamp', 'text']", "missing ) after argument list"),
])
def test_rules_that_firebase_refuses(ruled, rule, text):
    """FirebaseExtended/bolt#185, firebase/codelab-friendlychat-web#294, chat-sdk/chat-sdk-android#457, firebase/geofire-objc#110, firebase/firebase-tools#2734"""
    response = ruled.upload({"a": {"$user_id": {".write": rule}}})
    assert response.status == 400 and text in response.error, response.body


def test_variables_of_all_levels(ruled):
    """goldibex/targaryen#23"""
    ruled.use({"$one": {"$two": {"$three": {".read": "$one == 'first' && $two == 'second' && $three == 'third'"}}}},
              {"first": {"second": {"third": 1, "fourth": 2}}})
    allowed(ruled.guest.get("first/second/third"))
    denied(ruled.guest.get("first/second/fourth"))


def test_a_grant_above_is_final(ruled):
    """goldibex/targaryen#33: a rule below cannot revoke the grant of a rule above."""
    ruled.use({".read": "auth !== null", ".write": "auth !== null", "users": {"$user": {".write": "auth.uid === $user"}}})
    allowed(ruled.user({"uid": "u1"}).put("users/u2", 1))
    denied(ruled.user(None).put("users/u2", 2))


@pytest.mark.parametrize("rule", ["newData.child('at').val() == now", "newData.child('at').val() <= now && newData.child('at').val() >= now"])
def test_the_time_of_the_server_is_the_time_of_the_rules(ruled, rule):
    """urish/firebase-server#112 and goldibex/targaryen#29: a server time equals `now`."""
    ruled.use({"signup": {".write": True, ".validate": rule}})
    allowed(ruled.guest.put("signup", {"at": {".sv": "timestamp"}}))
    denied(ruled.guest.put("signup", {"at": 1}))


GEOFIRE = {
    ".read": True, ".indexOn": ["g"],
    "$key": {
        ".write": True,
        ".validate": "newData.hasChildren(['g', 'l']) && newData.getPriority().length <= 22 && newData.getPriority().length > 0",
        "g": {".validate": "newData.val() == newData.parent().getPriority()"},
        "l": {"0": {".validate": "newData.isNumber() && newData.val() >= -90 && newData.val() <= 90"},
              "1": {".validate": "newData.isNumber() && newData.val() >= -180 && newData.val() <= 180"},
              "$other": {".validate": False}},
        "$other": {".validate": False},
    }}


def test_the_rules_of_geofire(ruled):
    """googlearchive/geofire#7 and firebase/geofire-java#75"""
    ruled.use({"_geofire": GEOFIRE})
    guest = ruled.guest
    allowed(guest.put("_geofire/bus", {"g": "9q8yy", "l": [37.7, -122.4], ".priority": "9q8yy"}))
    denied(guest.put("_geofire/bus", {"g": "9q8yy", "l": [37.7, -122.4]}))
    denied(guest.put("_geofire/bus", {"g": "9q8yz", "l": [37.7, -122.4], ".priority": "9q8yy"}))
    denied(guest.put("_geofire/bus", {"g": "9q8yy", "l": [97.7, -122.4], ".priority": "9q8yy"}))
    denied(guest.put("_geofire/bus", {"g": "9q8yy", "l": [37.7, -122.4], "x": 1, ".priority": "9q8yy"}))
    found = guest.value("_geofire", format="export", **ordered(orderBy="g", startAt="9q8", endAt="9q8~"))
    assert found == {"bus": {"g": "9q8yy", "l": {"0": 37.7, "1": -122.4}, ".priority": "9q8yy"}}


def test_a_listen_below_a_denied_place(ruled):
    """firebase/firebase-ios-sdk#11835: a `get` of `/a/b` is answered although the root may not be read."""
    ruled.use({".read": False, "a": {"b": {".read": True}}}, {"a": {"b": 1, "c": 2}})
    with RealtimeClient(ruled.dev.port, ruled.ns) as client:
        assert client.ok("g", {"p": "a/b", "q": {}}) == 1
        assert client.call("g", {"p": "a", "q": {}})["s"] == "permission_denied"


def test_rules_by_an_administrators_rest_client(ruled):
    """firebase/firebase-admin-node#1190 and beste/firebase-php#133: `setRules` and `getRules`, with and without comments."""
    source = '{\n  // all may read\n  "rules": { ".read": true }\n}\n'
    response = ruled.admin.send("PUT", f"/.settings/rules.json?ns={ruled.ns}", source.encode())
    assert (response.status, response.json()) == (200, {"status": "ok"})
    assert ruled.admin.send("GET", f"/.settings/rules.json?ns={ruled.ns}").body.decode() == source
    assert ruled.admin.send("GET", f"/.settings/rules.json?ns={ruled.ns}&format=strict").json() == {"rules": {".read": True}}
    assert ruled.guest.send("GET", f"/.settings/rules.json?ns={ruled.ns}").status == 401


def test_a_token_without_claims_in_a_rule_that_compares_them(ruled):
    """firebase/firebase-admin-node#1232 and firebase/firebase-tools#2554: `auth.token.auth_time > …` where there is no login, no claim, or one."""
    rule = "$uid === auth.uid && (!root.child('revoked').child(auth.uid).exists() || auth.token.auth_time > root.child('revoked').child(auth.uid).val())"
    ruled.use({"users": {"$uid": {".read": rule}}}, {"users": {"ada": 1}, "revoked": {"ada": 100}})
    denied(ruled.user(None).get("users/ada"))
    denied(ruled.user({"uid": "ada"}).get("users/ada"))
    denied(ruled.user({"uid": "ada", "token": {"auth_time": 100}}).get("users/ada"))
    allowed(ruled.user({"uid": "ada", "token": {"auth_time": 101}}).get("users/ada"))
    allowed(ruled.user({"uid": "bob"}).get("users/bob"))
