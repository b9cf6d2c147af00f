"""`pathmirror dev` takes the registrations of the Functions emulator, and calls it as the Realtime Database emulator does."""

import json

import pytest
from harness import endpoint as hooks
from harness.feeds import ADMIN, OWNER
from harness.functions import Function
from harness.gateway import end_private_postgres, start_dev
from harness.waiting import wait_until

TARGET = "/.settings/functionTriggers.json"
PATH = "/functions/projects/demo/triggers/"


def registration(key: str, path: str = "rooms/{room}/messages/{message}", event: str = "written", namespaces: str = "*") -> dict:
    """A registration as firebase-tools sends it."""
    return {"name": f"projects/demo/locations/us-central1/triggers/{key}", "path": path, "event": f"google.firebase.database.ref.v1.{event}",
            "topic": f"projects/demo/topics/{key}", "namespacePattern": namespaces}


def register(gateway, body: dict, method: str = "POST", status: int = 200, headers: dict = OWNER) -> str:
    answer = gateway.rest.send(method, TARGET, json.dumps(body).encode(), headers)
    assert answer.status == status, answer.body
    return answer.body.decode()


@pytest.fixture
def emulator():
    with hooks.Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def dev(scratch, logs, emulator):
    gateway = start_dev(scratch / "data", logs, None, "--functions", f"127.0.0.1:{emulator.port}")
    yield gateway
    gateway.sweep()
    end_private_postgres(scratch / "data")


def calls(emulator) -> list[tuple]:
    return [(one.path.removeprefix(PATH), one.headers["ce-instance"], one.headers["ce-ref"]) for one in emulator.deliveries]


def wait_for(emulator, *expected: tuple):
    wait_until(lambda: sorted(calls(emulator)) == sorted(expected) or len(calls(emulator)) > len(expected), f"the calls {expected}")
    assert sorted(calls(emulator)) == sorted(expected)


def test_registered_functions_are_called(dev, emulator):
    rest = dev.rest
    rest.set("rooms/r/messages/m", "before")
    assert register(dev, registration("us-central1-greet-0")) == '{"status":"ok"}'
    register(dev, registration("us-central1-only-0", "x/*", "deleted", "shop"), "PUT")
    rest.set("rooms/r/messages/m", "after")
    wait_for(emulator, ("us-central1-greet-0", "default", "rooms/r/messages/m"))
    (first,) = emulator.deliveries
    assert json.loads(first.body)["data"] == "before" and json.loads(first.body)["delta"] == "after"
    assert first.headers["ce-type"] == "google.firebase.database.ref.v1.written"
    # A namespace that a write creates has the function from that write on; a function of another namespace is not called.
    rest.set("rooms/r/messages/n", 1, ns="shop")
    rest.set("x/a", 1, ns="shop")
    rest.set("x/a", 1)
    rest.set("x/a", None)
    rest.set("x/a", None, ns="shop")
    others = [("us-central1-greet-0", "shop", "rooms/r/messages/n"), ("us-central1-only-0", "shop", "x/a")]
    wait_for(emulator, ("us-central1-greet-0", "default", "rooms/r/messages/m"), *others)
    # The emulator has loaded the source again: the old key is not called any more.
    register(dev, registration("us-central1-greet-1"))
    rest.set("rooms/r/messages/m", "third")
    wait_until(lambda: ("us-central1-greet-1", "default", "rooms/r/messages/m") in calls(emulator), "the new key")
    assert len(calls(emulator)) == 4


def test_a_function_of_the_library_is_called(scratch, logs):
    """Under functions-framework, which takes any path."""
    with Function("written", scratch, logs) as function:
        gateway = start_dev(scratch / "data", logs, None, "--functions", f"127.0.0.1:{function.port}")
        try:
            register(gateway, registration("us-central1-written-0"))
            gateway.rest.set("rooms/r1/messages/m1", {"text": "hi"})
            (event,) = function.wait_for(1)
            assert (event["before"], event["after"]) == (None, {"text": "hi"})
            assert event["params"] == {"room": "r1", "message": "m1"}
            assert event["auth"] == ["unauthenticated", None]
        finally:
            gateway.sweep()
            end_private_postgres(scratch / "data")


@pytest.mark.parametrize("change, reason", [
    ({"event": "providers/google.firebase.database/eventTypes/ref.write"}, "register functions of the 2nd generation"),
    ({"name": "projects/demo/triggers/x"}, "the name must be"), ({"path": "a/**"}, "use a wildcard for one whole part"),
    ({"namespacePattern": ""}, "1 to 200 bytes"), ({"path": 7}, "needs the string \\\"path\\\"")])
def test_mistakes_are_named(dev, change, reason):
    assert reason in register(dev, {**registration("us-central1-greet-0"), **change}, status=400)
    assert dev.rest.send("GET", "/.feeds", headers=OWNER).json() == {"feeds": []}


def test_only_administrators_register_and_only_at_dev(dev, serve):
    body = registration("us-central1-greet-0")
    for headers in ({}, {"Authorization": "Bearer none"}):
        assert register(dev, body, status=401, headers=headers) == register(dev, {}, status=401, headers=headers)
    assert dev.rest.send("GET", TARGET, headers=OWNER).status == 405
    gateway = serve()
    for headers in ({}, ADMIN):
        answer = gateway.rest.send("POST", TARGET, json.dumps(body).encode(), headers)
        assert (answer.status, answer.error) == (404, "There is nothing at this path")

