"""Cloud Functions keep firing: a source file that uses firebase-functions, under functions-framework, receives the events of a feed."""

import contextlib

import pytest
from harness import cli
from harness import endpoint as hooks
from harness.feeds import ADMIN, Feed
from harness.follow import TUNE, Followed
from harness.functions import KINDS, Function
from harness.gateway import end_private_postgres, start_dev
from harness.waiting import wait_until

QUICK = {"backoff": {"first": "50ms", "max": "500ms"}, "max_attempts": 500}
KEYS = ("k1", "k2", "k3")
TYPE = "google.firebase.database.ref.v1."


@pytest.fixture
def functions(scratch, logs):
    """All functions of the source file, by name."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(Function(name, scratch, logs)) for name in KINDS}


def minted(scratch, *words) -> str:
    return cli.succeeds("token", "mint", "--secret-file", scratch / "admin-secret", *words).strip()


def apply(gateway, functions, **more):
    for name, function in functions.items():
        Feed(gateway.rest, name, headers=ADMIN).ask("PUT", body=function.definition(**QUICK, **more), status=201)


def facts(event: dict) -> tuple:
    return event["before"], event["after"], event["params"], event["auth"]


def test_functions_see_before_after_params_and_auth(serve, scratch, functions):
    gateway = serve(*hooks.OPTIONS)
    apply(gateway, functions)
    at = gateway.rest.at("rooms/r1/messages/m1")
    ada = {"auth": minted(scratch, "--uid", "ada")}
    first, second = {"text": "hi", "tags": {"a": True, "b": 1.5}}, {"text": "hello", "tags": {"b": 1.5, "c": "é"}, "n": 7}
    at.set("", first, **ada)
    at.set("", second)
    at.with_headers(**ADMIN).delete()
    params = {"room": "r1", "message": "m1"}
    expected = [(None, first, params, ["app_user", "ada"]), (first, second, params, ["unauthenticated", None]),
                (second, None, params, ["admin", None])]
    assert [facts(event) for event in functions["written"].wait_for(3)] == expected
    for place, name in enumerate(KINDS[:3]):
        (event,) = functions[name].wait_for(1)
        assert facts(event) == expected[place]
        assert event["type"] == TYPE + name
    assert [event["type"] for event in functions["written"].events] == [f"{TYPE}written"] * 3
    event = functions["created"].events[0]
    assert event["id"] == "default:1:0"
    assert event["source"] == "//firebasedatabase.googleapis.com/projects/_/locations/us-central1/instances/default"
    assert (event["subject"], event["reference"]) == ("refs/rooms/r1/messages/m1", "rooms/r1/messages/m1")
    assert (event["instance"], event["location"]) == ("default", "us-central1")
    assert event["time"].startswith("20") and event["time"].endswith("+00:00")


@pytest.mark.parametrize("before, after", [
    (7, {"a": 1}), ({"a": 1}, 7), ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 3}}), ({"a": {"b": {"c": 1}}}, {"a": {"b": {"d": 1}}}),
    ({"a": ["x", "y", "z"]}, {"a": ["x", "w"]}), (["x", "y"], ["x"]), ({"a": {"b": 1}, "n": 1}, {"n": 2}), ("", "é\u0001 \"")])
def test_the_value_after_an_update_is_the_written_one(serve, scratch, logs, before, after):
    """firebase-functions makes it from two parts: the value before the write, and the difference."""
    def objects(value):
        if isinstance(value, list):
            return {str(index): objects(one) for index, one in enumerate(value)}
        return {key: objects(one) for key, one in value.items()} if isinstance(value, dict) else value

    with Function("updated", scratch, logs) as function:
        gateway = serve(*hooks.OPTIONS)
        apply(gateway, {"updated": function})
        at = gateway.rest.at("rooms/r 1/messages/mé")
        at.set("", before)
        at.set("", after)
        (event,) = function.wait_for(1)
        # Arrays are objects in events.
        assert (event["before"], event["after"]) == (objects(before), objects(after))
        assert event["reference"] == "rooms/r%201/messages/m%C3%A9"


def follow(gateway, upstream, scratch):
    upstream.put("rooms/r1/messages/m0", {"text": "old"})
    Followed(gateway, upstream, upstream.credentials(scratch / "account.json")).begin().wait_equal()


@pytest.mark.usefixtures("follows")
def test_functions_of_a_followed_namespace(functions, serve, upstream, scratch):
    """The author of a write at the upstream is unknown."""
    gateway = serve(*hooks.OPTIONS, tune=TUNE)
    follow(gateway, upstream, scratch)
    apply(gateway, functions)
    upstream.put("rooms/r1/messages/m1", {"text": "hi", "n": 1})
    upstream.merge("rooms/r1/messages/m1", {"text": "hello"})
    upstream.put("rooms/r1/messages/m1", None)
    params, auth = {"room": "r1", "message": "m1"}, ["unknown", None]
    first, second = {"text": "hi", "n": 1}, {"text": "hello", "n": 1}
    expected = [(None, first, params, auth), (first, second, params, auth), (second, None, params, auth)]
    assert [facts(event) for event in functions["written"].wait_for(3)] == expected
    for place, name in enumerate(KINDS[:3]):
        assert [facts(event) for event in functions[name].wait_for(1)] == [expected[place]]


@pytest.mark.usefixtures("follows")
@pytest.mark.parametrize("is_followed", [False, True])
def test_functions_fire_across_crashes_of_either_side(serve, upstream, scratch, logs, is_followed):
    """Each change of each message reaches the function, and the changes of a message do so in order."""
    gateway = serve(*hooks.OPTIONS, tune=TUNE)
    if is_followed:
        follow(gateway, upstream, scratch)

    def write(key: str, value):
        (upstream.put if is_followed else gateway.rest.set)(f"rooms/r/messages/{key}", value)

    with Function("written", scratch, logs) as function:
        apply(gateway, {"written": function})
        for turn in range(4):
            for number in range(1, 11):
                for key in KEYS:
                    write(key, turn * 10 + number)
                if number == 5 and turn % 2:
                    gateway.process.kill()
                    # The claim of the killed gateway ends, and the new one continues.
                    gateway = serve(*hooks.OPTIONS, port=gateway.port, tune=TUNE)
                elif number == 5:
                    function.kill()
            if turn % 2 == 0:
                function.start()

        def changes():
            """The different changes of each key, in the order of their first coming."""
            unique = {event["id"]: event for event in reversed(function.events)}
            found = {key: [] for key in KEYS}
            for event in reversed(unique.values()):
                found[event["params"]["message"]].append((event["before"], event["after"]))
            return found

        wait_until(lambda: all(found and found[-1][1] == 40 for found in changes().values()), "the last changes", 120)
        for found in changes().values():
            if not is_followed:
                assert found == [(number - 1 or None, number) for number in range(1, 41)]
            # The follower finds one change instead of those that the upstream made while no gateway ran.
            assert [before for before, _ in found] == [None, *(after for _, after in found[:-1])]
        assert {event["auth"][0] for event in function.events} == {"unknown" if is_followed else "unauthenticated"}


def test_a_large_event_is_sent_and_a_truncated_dead_letter_is_not(serve, scratch):
    """A stored message of more than 1 MiB has no values, so that a function would see a wrong change."""
    refuses = True
    with hooks.Endpoint(lambda _: hooks.Answer(500 if refuses else 200)) as endpoint:
        gateway = serve(*hooks.OPTIONS)
        feed = Feed(gateway.rest, "big", headers=ADMIN).make("/big/{key}", max_attempts=1, webhook=endpoint.hook(format="firebase"))
        gateway.rest.set("big/a", "x" * 1_200_000)
        (delivery,) = endpoint.wait_for(1)
        assert len(delivery.body) > 1_200_000
        (dead,) = wait_until(feed.dead, "the dead letter")
        assert dead["truncated"] is True
        refuses = False
        feed.ask("POST", "dead/retry", {"all": True})
        (dead,) = wait_until(lambda: [one for one in feed.dead() if len(one["errors"]) == 2], "the dead letter to come again")
        assert "lacks the value before or after the change" in dead["errors"][-1]["reason"]
        assert len(endpoint.deliveries) == 1
        feed.ask("POST", "seek", {"to": "beginning"})
        assert len(endpoint.wait_for(2)[1].body) > 1_200_000


def test_messages_and_filters_have_the_author(serve, scratch):
    gateway = serve()
    everyone = Feed(gateway.rest, "all", headers=ADMIN).make("/t/{key}")
    users = Feed(gateway.rest, "users", headers=ADMIN).make("/t/{key}", filter="auth.type == 'user' && auth.uid == 'ada'")
    gateway.rest.set("t/a", 1, auth=minted(scratch, "--uid", "ada"))
    gateway.rest.set("t/b", 1, auth=minted(scratch, "--uid", "bob"))
    gateway.rest.set("t/c", 1)
    gateway.rest.with_headers(**ADMIN).set("t/d", 1)
    authors = {message["key"]: message["auth"] for message in everyone.next(4)}
    assert authors == {"a": {"type": "user", "uid": "ada"}, "b": {"type": "user", "uid": "bob"}, "c": {"type": "none", "uid": None},
                       "d": {"type": "admin", "uid": None}}
    assert [message["key"] for message in users.next(1)] == ["a"]
    assert users.pull() == []
    snapshot = Feed(gateway.rest, "snapshot", headers=ADMIN).make("/t/{key}", start="snapshot")
    assert {str(message["auth"]) for message in snapshot.next(4)} == {"{'type': 'unknown', 'uid': None}"}
