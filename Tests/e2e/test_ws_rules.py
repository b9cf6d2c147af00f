"""Security rules for realtime clients: denials, cancels, and the identity of a client."""

import base64
import hashlib
import hmac
import json
import time

import pytest
from harness.gateway import SECRET
from harness.websocket_client import RealtimeClient, datum, merge

ADMIN = {"Authorization": f"Bearer {SECRET}"}
DENIED = {"s": "permission_denied", "d": "Permission denied"}


def put_rules(gateway, rules: dict):
    response = gateway.rest.send("PUT", "/.settings/rules.json", json.dumps({"rules": rules}).encode(), ADMIN)
    assert response.status == 200, response.body


def cancelled(path, query=None):
    return {"a": "c", "b": {"p": path} | ({"q": [query]} if query else {})}


def test_denials(serve):
    gateway = serve(rules={"rules": {"open": {".read": True, ".write": True, ".validate": "newData.isNumber()"}}})
    with RealtimeClient(gateway.port) as client:
        assert client.call("q", {"p": "/shut", "h": ""}) == DENIED
        assert client.call("q", {"p": "/", "h": ""}) == DENIED
        assert client.call("g", {"p": "shut", "q": {}}) == DENIED
        assert client.call("p", {"p": "shut", "d": 1}) == DENIED
        assert client.call("p", {"p": "open", "d": "text"}) == DENIED
        assert client.call("m", {"p": "/", "d": {"open": 1, "shut": 1}}) == DENIED
        assert client.call("p", {"p": "shut", "d": 1, "h": "stale"}) in (DENIED, {"s": "datastale", "d": "Transaction hash does not match"})
        # The gateway pushed nothing, and no cancel follows a denied listen.
        assert client.pushed() == []
        client.put("open", 1)
        assert client.listen("open") == datum("open", 1)


def test_a_change_of_rules_cancels_what_they_shut(serve):
    gateway = serve(rules={"rules": {".read": True, ".write": True}})
    query = {"l": 1, "vf": "l", "i": ".key"}
    with RealtimeClient(gateway.port) as client, RealtimeClient(gateway.port) as admin:
        admin.ok("gauth", {"cred": SECRET})
        client.put("/", {"a": {"x": 1}, "b": {"x": 1}})
        client.listen("a")
        client.listen("a", query, 5)
        client.listen("b")
        admin.listen("a")
        put_rules(gateway, {".write": True, "b": {".read": True}})
        found = [client.push(), client.push()]
        assert sorted(found, key=repr) == sorted([cancelled("a"), cancelled("a", query)], key=repr)
        admin.put("a/x", 2)
        admin.put("b/x", 2)
        assert client.push() == datum("b/x", 2)
        assert client.pushed() == []
        assert admin.pushed() == [datum("a/x", 2)]
        # With access again, the client listens again.
        put_rules(gateway, {".read": True, ".write": True})
        assert client.listen("a") == datum("a", {"x": 2})


@pytest.mark.parametrize("where", ["inside", "elsewhere"])
def test_a_change_of_data_cancels_what_rules_shut_by_it(serve, where):
    rule = "data.child('open').val() === true" if where == "inside" else "root.child('switches/room').val() === true"
    switch = "room/open" if where == "inside" else "switches/room"
    gateway = serve(rules={"rules": {".write": True, "room": {".read": rule}}})
    with RealtimeClient(gateway.port) as client, RealtimeClient(gateway.port) as other:
        other.put(switch, True)
        other.put("room/text", "hello")
        client.listen("room")
        other.put(switch, False)
        # The client may get the last change or not; then comes the cancel, without any write in between.
        assert client.push_until(lambda push: push["a"] == "c", 10) == cancelled("room")
        other.put("room/text", "secret")
        assert client.pushed() == []


def test_a_change_of_login_cancels_and_lets_in(serve):
    gateway = serve(rules={"rules": {"mine": {"$uid": {".read": "auth.uid === $uid", ".write": "auth.uid === $uid"}}, "any": {".read": True}}})
    with RealtimeClient(gateway.port) as client:
        assert client.call("q", {"p": "mine/ada", "h": ""}) == DENIED
        # SDKs do not wait for the answer to a login.
        asked = [client.ask("gauth", {"cred": SECRET, "authvar": {"uid": "ada"}}), client.ask("p", {"p": "mine/ada", "d": 1}),
                 client.ask("q", {"p": "mine/ada", "h": ""}), client.ask("q", {"p": "any", "h": ""})]
        assert [client.answer(number)["s"] for number in asked] == ["ok"] * 4
        client.pushes.clear()
        assert client.call("p", {"p": "mine/bob", "d": 1}) == DENIED
        client.ok("gauth", {"cred": SECRET, "authvar": {"uid": "bob"}})
        assert client.pushed() == [cancelled("mine/ada")]
        assert client.call("p", {"p": "mine/ada", "d": 2}) == DENIED
        client.put("mine/bob", 2)
        assert client.ok("unauth") == "unauthenticated"
        assert client.call("g", {"p": "mine/bob", "q": {}}) == DENIED
        client.ok("gauth", {"cred": SECRET})
        assert client.ok("g", {"p": "mine", "q": {}}) == {"ada": 1, "bob": 2}
        client.ok("gauth", {"cred": SECRET, "noauth": True})
        assert client.call("g", {"p": "mine/bob", "q": {}}) == DENIED


def test_serve_takes_no_emulator_credentials(serve):
    gateway = serve()
    with RealtimeClient(gateway.port) as client:
        for credential in ("owner", "eyJhbGciOiJub25lIiwidHlwZSI6IkpXVCJ9.eyJzdWIiOiJ1MSIsImlhdCI6MCwiZXhwIjozNjAwfQ."):
            for action in ("auth", "gauth"):
                answer = client.call(action, {"cred": credential})
                assert answer["s"] == "invalid_token" and isinstance(answer["d"], str)


def custom_token(secret: str, claims: dict) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    text = part(b'{"alg":"HS256","typ":"JWT"}') + "." + part(json.dumps(claims).encode())
    return text + "." + part(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest())


def test_a_login_that_expires(serve, scratch):
    secret = "database-secret-0123456789abcdef01234567"
    (scratch / "db-secret").write_text(secret + "\n")
    (scratch / "db-secret").chmod(0o600)
    gateway = serve("--database-secret-file", f"default={scratch / 'db-secret'}", "--clock-skew", "0s",
                    rules={"rules": {"a": {".read": "auth.uid === 'ada'", ".write": "auth.uid === 'ada'"}}})
    with RealtimeClient(gateway.port) as client:
        now = int(time.time())
        answer = client.call("auth", {"cred": custom_token(secret, {"v": 0, "iat": now, "exp": now + 3, "d": {"uid": "ada", "more": 1}})})
        assert answer["s"] == "ok" and answer["d"]["auth"] == {"uid": "ada", "more": 1} and answer["d"]["expires"] == now + 3
        client.put("a", 1)
        client.listen("a")
        client.pushes.clear()
        assert client.push() == {"a": "ac", "b": {"s": "expired_token", "d": "Auth token is expired."}}
        assert client.push() == cancelled("a")
        assert client.call("p", {"p": "a", "d": 2}) == DENIED
        old = custom_token(secret, {"v": 0, "iat": now - 100, "exp": now - 50, "d": {"uid": "ada"}})
        assert client.call("auth", {"cred": old})["s"] == "expired_token"
        # A fresh login on the same connection ends no other listen.
        client.ok("auth", {"cred": custom_token(secret, {"v": 0, "iat": now, "d": {"uid": "ada"}})})
        client.put("a", 3)


def test_queries_that_rules_ask_for(serve):
    gateway = serve(rules={"rules": {".write": True, "list": {".read": "query.limitToLast <= 10 && query.orderByKey"}}})
    with RealtimeClient(gateway.port) as client:
        client.put("list", {"a": 1, "b": 2})
        assert client.call("q", {"p": "list", "h": ""}) == DENIED
        assert client.call("q", {"p": "list", "q": {"i": ".key", "l": 11, "vf": "r"}, "t": 1, "h": ""}) == DENIED
        assert client.listen("list", {"i": ".key", "l": 1, "vf": "r"}, 1) == datum("list", {"b": 2}, 1)
        client.put("list/c", 3)
        assert client.pushed() == [merge("list", {"b": None, "c": 3}, 1)]
