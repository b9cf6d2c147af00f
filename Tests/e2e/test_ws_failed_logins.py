"""After a failed login the session has no user, as in Firebase, and keeps no rights of the former user."""

import time

import pytest
from disclosure.sessions import ByPolling
from disclosure.worlds import SECRET_PATH
from harness.gateway import SECRET, start_serve
from harness.issuer import hs256, legacy
from harness.scratch import scratch_directory
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient, datum

RULES = {"rules": {
    "mine": {".read": "auth.uid === 'ada'", ".write": "auth.uid === 'ada'"},
    "hall": {".read": True, ".write": True},
}}
DENIED = {"s": "permission_denied", "d": "Permission denied"}
ADA = legacy("ada", SECRET)
BAD = {
    "nonsense": ("auth", "nonsense", "invalid_token"),
    "another secret's": ("auth", legacy("ada", "another secret of forty characters 12345"), "invalid_token"),
    "expired": ("auth", hs256({"v": 0, "iat": int(time.time()) - 7200, "exp": int(time.time()) - 3600, "d": {"uid": "ada"}}, SECRET),
                "expired_token"),
    "a wrong secret": ("gauth", "not-the-administrators-secret-0123456789", "invalid_token"),
    "owner": ("gauth", "owner", "invalid_token"),
    "empty": ("auth", "", "invalid_token"),
}


def cancelled(path: str) -> dict:
    return {"a": "c", "b": {"p": path}}


@pytest.fixture(scope="module")
def shared(postgres, logs):
    with scratch_directory("logins") as path:
        gateway = start_serve(postgres.create_database(), path, logs, rules=RULES)
        try:
            yield gateway
        finally:
            gateway.sweep()


@pytest.fixture
def gateway(shared):
    shared.rest.set(value={"mine": {"a": 1}, "hall": {"a": 1}}, auth=SECRET)
    return shared


def log_in(client, credential: str = ADA):
    client.ok("gauth" if credential == SECRET else "auth", {"cred": credential})


@pytest.mark.parametrize("before", [ADA, SECRET], ids=["user", "administrator"])
@pytest.mark.parametrize("kind", BAD)
def test_nothing_is_left_of_the_earlier_login(gateway, kind, before):
    action, credential, status = BAD[kind]
    with RealtimeClient(gateway.port) as client:
        log_in(client, before)
        assert client.listen("mine") == datum("mine", {"a": 1})
        assert client.listen("hall") == datum("hall", {"a": 1})
        answer = client.call(action, {"cred": credential})
        assert answer["s"] == status and isinstance(answer["d"], str)
        # Listens that needed the login have ended, and no others.
        assert client.pushed() == [cancelled("mine")]
        for request in (("g", {"p": "mine", "q": {}}), ("q", {"p": "mine", "h": ""}), ("p", {"p": "mine/a", "d": 2}),
                        ("m", {"p": "mine", "d": {"a": 2}}), ("o", {"p": "mine/a", "d": 2})):
            assert client.call(*request) == DENIED, request
        gateway.rest.set("mine/a", 1, auth=SECRET)
        gateway.rest.set("hall/b", 1)
        assert client.push() == datum("hall/b", 1)
        assert client.pushed() == []
        # The client can log in again on the same socket.
        log_in(client)
        assert client.listen("mine") == datum("mine", {"a": 1})


@pytest.mark.parametrize("kind", ["nonsense", "expired", "a wrong secret"])
def test_what_follows_at_once_is_judged_as_nobodys(gateway, kind):
    """SDKs do not wait for the answer to a login."""
    action, credential, status = BAD[kind]
    with RealtimeClient(gateway.port) as client:
        log_in(client)
        asked = [client.ask("g", {"p": "mine", "q": {}}), client.ask(action, {"cred": credential}),
                 client.ask("g", {"p": "mine", "q": {}}), client.ask("p", {"p": "mine/a", "d": "no"}),
                 client.ask("g", {"p": "hall/a", "q": {}}), client.ask("auth", {"cred": ADA}),
                 client.ask("g", {"p": "mine", "q": {}})]
        answers = [client.answer(number) for number in asked]
        assert [answer["s"] for answer in answers] == [
            "ok", status, "permission_denied", "permission_denied", "ok", "ok", "ok"], answers


def test_ondisconnect_requests_of_an_earlier_login_are_not_carried_out(gateway):
    """The gateway judges them again when it executes them, and then without a user."""
    with RealtimeClient(gateway.port) as client:
        log_in(client)
        client.ok("o", {"p": "mine/left", "d": True})
        client.ok("o", {"p": "hall/left", "d": True})
        assert client.call("auth", {"cred": "nonsense"})["s"] == "invalid_token"
        client.socket.close()
    wait_until(lambda: gateway.rest.value("hall/left"), "the onDisconnect request to be executed")
    assert gateway.rest.value("mine", auth=SECRET) == {"a": 1}


def test_a_first_login_that_fails_changes_nothing(gateway):
    with RealtimeClient(gateway.port) as client:
        assert client.listen("hall") == datum("hall", {"a": 1})
        assert client.call("auth", {"cred": "nonsense"})["s"] == "invalid_token"
        assert client.pushed() == []
        assert client.call("g", {"p": "mine", "q": {}}) == DENIED
        assert client.ok("g", {"p": "hall", "q": {}}) == {"a": 1}


def test_the_same_by_long_polling(worlds):
    """The same session over another protocol."""
    world = worlds["known"]
    session = ByPolling(world)
    try:
        reader = legacy("reader", SECRET, d={"uid": "r", "role": "reader"})
        assert session.request("auth", {"cred": reader})["s"] == "ok"
        assert session.request("q", {"p": SECRET_PATH, "h": ""})["s"] == "ok"
        before = len(session.client.messages)
        assert session.request("auth", {"cred": "nonsense"})["s"] == "invalid_token"
        assert session.request("g", {"p": SECRET_PATH, "q": {}}) == DENIED
        session.request("s", {"c": {}})
        pushes = [message["d"] for message in session.client.messages[before:] if "r" not in message["d"]]
        assert pushes == [cancelled(SECRET_PATH)]
    finally:
        session.close()
