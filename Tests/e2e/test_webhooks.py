"""Webhooks: deliveries at a real endpoint, verified by the libraries that users use."""

import json
import threading

import pytest
from cloudevents.http import from_http
from harness import endpoint as hooks
from harness.endpoint import OTHER_SECRET, SECRET, Answer, Endpoint, in_turn
from harness.feeds import ADMIN, Feed
from harness.gateway import start_serve
from harness.scratch import scratch_directory
from harness.waiting import wait_until
from standardwebhooks import Webhook, WebhookVerificationError

# Retries are fast enough for a test, and no delivery runs out of attempts by accident.
QUICK = {"backoff": {"first": "10ms", "max": "50ms"}, "max_attempts": 50}


@pytest.fixture(scope="module")
def gateway(postgres, logs):
    """A gateway that may deliver to this machine by its number."""
    with scratch_directory("hooks") as path:
        gateway = start_serve(postgres.create_database(), path, logs, *hooks.OPTIONS, "--create-namespaces",
                              env={"PATHMIRROR_SINK_HOOK": SECRET, "PATHMIRROR_SINK_TOKEN": "Bearer 7"})
        try:
            yield gateway
        finally:
            gateway.sweep()


@pytest.fixture
def feed(gateway, ns):
    feed = Feed(gateway.rest.at("", ns=ns), ns=ns, headers=ADMIN)
    yield feed
    feed.call("DELETE")


@pytest.fixture
def tree(feed):
    return feed.rest


def dead(feed: Feed, count: int = 1) -> list[dict]:
    return wait_until(lambda: len(found := feed.dead()) >= count and found, f"{count} dead letters")


def test_a_missing_secret_is_a_warning(feed, tree):
    """The gateway that answers may not be the one that delivers, and each has an environment of its own."""
    with Endpoint() as endpoint:
        made = feed.apply("/orders/{order_id}", 201, webhook=endpoint.hook(secrets=["env:PATHMIRROR_SINK_MISSING"], headers={"Authorization": "env:PATHMIRROR_SINK_TOKEN"}))
        assert made["warnings"] == [
            "webhook.secrets[0]: this gateway has no environment variable PATHMIRROR_SINK_MISSING for this namespace, or it is empty. "
            "The feed is broken on every gateway without it."]
        wait_until(lambda: feed.status()["state"] == "broken", "the feed to be broken")
        assert "warnings" not in feed.apply("/orders/{order_id}", 200, webhook=endpoint.hook(secrets=["env:PATHMIRROR_SINK_HOOK"]))


def test_the_published_library_verifies(feed, tree):
    with Endpoint() as endpoint:
        feed.make(webhook=endpoint.hook(secrets=["env:PATHMIRROR_SINK_HOOK", OTHER_SECRET], headers={"Authorization": "env:PATHMIRROR_SINK_TOKEN"}))
        tree.set("orders/o1", {"name": "Zoë", "total": 7})
        (delivery,) = endpoint.wait_for(1)
    # Both secrets are valid while one replaces the other.
    for secret in (SECRET, OTHER_SECRET):
        message = Webhook(secret).verify(delivery.body, delivery.headers)
    assert message["id"] == delivery.id
    assert (message["key"], message["event"], message["value"], message["attempt"]) == (
        "o1", "created", {"name": "Zoë", "total": 7}, 1)
    assert delivery.headers["content-type"] == "application/json"
    assert delivery.headers["authorization"] == "Bearer 7"
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(delivery.body.replace(b"7", b"8"), delivery.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(delivery.body, {**delivery.headers, "webhook-id": "other"})


def test_secrets_are_not_shown(feed):
    with Endpoint() as endpoint:
        hook = endpoint.hook(secrets=[SECRET, "env:PATHMIRROR_SINK_HOOK"], headers={"X-Key": "hunter2"})
        feed.make(webhook=hook)
        shown = feed.definition()["webhook"]
        assert (shown["secrets"], shown["headers"]) == (["(set)", "env:PATHMIRROR_SINK_HOOK"], {"X-Key": "(set)"})
        assert SECRET not in feed.call("GET").body.decode() + feed.rest.send("GET", f"/.feeds?ns={feed.ns}", None, ADMIN).body.decode()
        # The gateway refuses the masked secret, and the same definition changes nothing.
        assert feed.call("PUT", body={"path": "/orders/{order_id}", "webhook": shown}).status == 400
        assert feed.apply(webhook=hook)["changed"] is False


def test_batches(feed, tree):
    with Endpoint() as endpoint:
        tree.set("orders", {f"k{number:03}": number for number in range(250)})
        feed.make(start="beginning", webhook=endpoint.hook(batch=100))
        endpoint.wait_for_keys({f"k{number:03}" for number in range(250)})
        sizes = [len(delivery.messages) for delivery in endpoint.deliveries]
        assert max(sizes) <= 100 and len(sizes) < 100, sizes
        for delivery in endpoint.deliveries:
            Webhook(SECRET).verify(delivery.body, delivery.headers)
            assert "messages" in json.loads(delivery.body)


def test_what_an_endpoint_names_comes_again(feed, tree):
    def answer(delivery):
        bad = [message["id"] for message in delivery.messages if message["key"] == "k1" and message["attempt"] == 1]
        return Answer(body=json.dumps({"failed": bad}).encode())

    with Endpoint(answer) as endpoint:
        tree.set("orders", {"k0": 0, "k1": 1, "k2": 2})
        feed.make(start="beginning", webhook=endpoint.hook(batch=10), **QUICK)
        feed.drained()
        attempts = sorted((message["key"], message["attempt"]) for message in endpoint.messages)
        assert attempts == [("k0", 1), ("k1", 1), ("k1", 2), ("k2", 1)]


def test_five_hundred_then_two_hundred(feed, tree):
    with Endpoint(in_turn(Answer(500), Answer(instead="reset"), Answer(302, {"Location": "/other"}))) as endpoint:
        feed.make(webhook=endpoint.hook(), **QUICK)
        tree.set("orders/o1", 1)
        found = endpoint.wait_for(4)
        feed.drained()
        # A request that fails on a reused connection is repeated over a new one, within the same attempt.
        assert [delivery.messages[0]["attempt"] for delivery in found] in ([1, 2, 3, 4], [1, 2, 2, 3])
        assert len({delivery.id for delivery in found}) == 1
        assert len(endpoint.deliveries) == 4 and feed.dead() == []


def test_an_endpoint_that_asks_for_a_pause_gets_it(feed, tree):
    with Endpoint(in_turn(Answer(429, {"Retry-After": "2"}))) as endpoint:
        feed.make(webhook=endpoint.hook(), **QUICK)
        tree.set("orders/o1", 1)
        first, second = endpoint.wait_for(2)
        assert second.time - first.time >= 1.9


def test_a_silent_endpoint_is_not_waited_for_longer_than_said(feed, tree):
    with Endpoint(in_turn(Answer(instead="silent"))) as endpoint:
        feed.make(webhook=endpoint.hook(timeout="300ms"), **QUICK)
        tree.set("orders/o1", 1)
        first, second = endpoint.wait_for(2)
        assert 0.2 < second.time - first.time < 10


def test_dead_letters_say_why(feed, tree):
    with Endpoint(lambda delivery: Answer(503)) as endpoint:
        feed.make(webhook=endpoint.hook(headers={"X-Key": "hunter2"}), max_attempts=3, backoff={"first": "1ms", "max": "5ms"})
        tree.set("orders/o1", 1)
        (letter,) = dead(feed)
        assert letter["attempts"] == 3 and len(endpoint.deliveries) == 3
        assert [error["reason"] for error in letter["errors"]] == ["The endpoint answered with status 503."] * 3
        assert "hunter2" not in json.dumps(letter)
        endpoint.answer = lambda delivery: Answer()
        assert feed.retry_dead(all=True) == 1
        endpoint.wait_for(4)
        feed.drained()
        assert feed.dead() == []


def test_whoever_is_gone_is_not_asked_again(feed, tree):
    with Endpoint(lambda delivery: Answer(410)) as endpoint:
        feed.make(webhook=endpoint.hook(), **QUICK)
        tree.set("orders/o1", 1)
        (letter,) = dead(feed)
        assert letter["attempts"] == 1 and len(endpoint.deliveries) == 1


def test_redirects(feed, tree):
    with Endpoint() as target:
        with Endpoint(lambda delivery: Answer(307, {"Location": target.url("/there")})) as endpoint:
            feed.make(webhook=endpoint.hook(headers={"Authorization": "Bearer 7"}))
            tree.set("orders/o1", 1)
            (delivery,) = target.wait_for(1)
            feed.drained()
    assert delivery.path == "/there" and "authorization" not in delivery.headers
    Webhook(SECRET).verify(delivery.body, delivery.headers)


@pytest.mark.parametrize("host", ["127.0.0.2", "127.2", "0x7f000002", "[::ffff:127.0.0.2]", "[::ffff:7f00:2]"])
def test_private_addresses_are_not_reached_unless_named(feed, tree, host):
    with Endpoint(host="127.0.0.2") as endpoint:
        feed.make(webhook=endpoint.hook() | {"url": f"http://{host}:{endpoint.port}/"}, max_attempts=1)
        tree.set("orders/o1", 1)
        (letter,) = dead(feed)
        assert "no public address" in letter["errors"][0]["reason"]
        assert endpoint.deliveries == []


def test_a_redirect_does_not_lead_inside(feed, tree):
    with Endpoint(host="127.0.0.2") as inside:
        with Endpoint(lambda delivery: Answer(307, {"Location": inside.url()})) as endpoint:
            feed.make(webhook=endpoint.hook(), max_attempts=1)
            tree.set("orders/o1", 1)
            (letter,) = dead(feed)
            assert len(endpoint.deliveries) == 1
        assert "no public address" in letter["errors"][0]["reason"]
        assert inside.deliveries == []


def test_one_bad_key_does_not_hold_up_the_others(feed, tree):
    def answer(delivery):
        return Answer(500 if delivery.messages[0]["key"] == "bad" else 200)

    with Endpoint(answer) as endpoint:
        feed.make(webhook=endpoint.hook(), max_attempts=1000, backoff={"first": "10ms", "max": "20ms"})
        for number in range(3):
            tree.set("orders/bad", number)
        for number in range(30):
            tree.set(f"orders/good{number}", number)
        endpoint.wait_for_keys({f"good{number}" for number in range(30)}, 60)
        # In order: of the bad key only its first message.
        assert {message["value"] for message in endpoint.messages if message["key"] == "bad"} == {0}
        endpoint.answer = lambda delivery: Answer()
        feed.drained()
        values = [message["value"] for message in endpoint.messages if message["key"] == "bad"]
        assert values == sorted(values) and set(values) == {0, 1, 2}


def test_order_of_a_key_under_load(feed, tree):
    """Some deliveries fail; the successful ones of each key came in the order of the log."""
    done: dict[str, list[int]] = {}
    lock = threading.Lock()

    def answer(delivery):
        if hash((delivery.id, delivery.time)) % 4 == 0:
            return Answer(500)
        with lock:
            for message in delivery.messages:
                done.setdefault(message["key"], []).append(message["value"])
        return Answer()

    with Endpoint(answer) as endpoint:
        feed.make(webhook=endpoint.hook(concurrency=8, batch=5), **QUICK)
        for number in range(30):
            tree.patch("orders", {f"k{key}": number for key in range(10)})
        feed.drained()
        assert feed.dead() == []
    assert done == {f"k{key}": list(range(30)) for key in range(10)}


@pytest.mark.parametrize("batch", [1, 10])
def test_the_published_library_reads_our_cloudevents(feed, tree, batch):
    with Endpoint() as endpoint:
        feed.make(webhook=endpoint.hook(format="cloudevents", batch=batch))
        tree.set("orders/o1", {"total": 7})
        (delivery,) = endpoint.wait_for(1)
    Webhook(SECRET).verify(delivery.body, delivery.headers)
    kind = delivery.headers["content-type"]
    events = [delivery.body] if batch == 1 else [json.dumps(event).encode() for event in json.loads(delivery.body)]
    assert kind == ("application/cloudevents+json" if batch == 1 else "application/cloudevents-batch+json")
    (event,) = [from_http({"content-type": "application/cloudevents+json"}, text) for text in events]
    assert (event["source"], event["type"], event["subject"], event["partitionkey"]) == (
        f"/{feed.ns}/feeds/orders", "pathmirror.record.created", "/orders/o1", "o1")
    assert event["id"] == event.data["id"] and event["time"] == event.data["time"]
    assert event.data["value"] == {"total": 7}


def test_a_missing_secret_is_told(feed, tree):
    with Endpoint() as endpoint:
        feed.make(webhook=endpoint.hook(secrets=["env:PATHMIRROR_SINK_NONE"]))
        tree.set("orders/o1", 1)
        wait_until(lambda: "PATHMIRROR_SINK_NONE" in json.dumps(feed.status()), "the status to name the variable")
        assert endpoint.deliveries == []
