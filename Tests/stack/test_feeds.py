"""Durable feeds through the proxy: a service with its feed's token, whichever gateway works the feed, and Prometheus' figures."""

import http.client
import json
from urllib.parse import quote

import pytest
from harness.feeds import Feed
from harness.waiting import wait_until
from stack import GATEWAYS

DEFINITION = {"path": "/shop/orders/{order_id}", "ack_deadline": "3s", "max_attempts": 1000}
SECRET_FILE = "/run/secrets/admin_secret"


@pytest.fixture
def administrator(stack):
    """The feed in the view of administrators, of a path without data. It is removed afterwards."""
    stack.wait_until_served()
    stack.rest.set("shop/orders", None)
    feed = Feed(stack.rest, "mailer", headers={})
    feed.call("DELETE")
    feed.apply(status=201, **DEFINITION)
    yield feed
    assert feed.call("DELETE").status == 200


@pytest.fixture
def service(stack, administrator):
    """The feed in the view of a service: with a token of its own, through the proxy."""
    token = stack.execute("gateway-a", "pathmirror", "token", "mint", "--feed", "mailer", "--ns", "default", "--secret-file", SECRET_FILE,
                          "--expires-in", "1h").strip()
    stack.credentials.append(token)
    return Feed(stack.anybody, "mailer", headers={"Authorization": f"Bearer {token}"})


def take(service: Feed, wanted: set[str]) -> list[dict]:
    """Consumes until every key has been acknowledged; returns the messages in their order."""
    found, done = [], set()

    def consumed():
        answer = service.call("POST", "pull", {"max": 10, "wait": "2s", "consumer": "mailer-1"})
        if answer.status != 200:
            # No gateway works the feed at the moment, or the proxy found none.
            assert answer.status in (502, 503, 504), (answer.status, answer.body)
            return False
        messages = answer.json()["messages"]
        found.extend(messages)
        if messages:
            settled = service.call("POST", "ack", {"ids": [message["id"] for message in messages], "consumer": "mailer-1"})
            results = settled.json()["results"] if settled.status == 200 else {}
            done.update(message["key"] for message in messages if results.get(message["id"]) == "done")
        return wanted <= done

    wait_until(consumed, f"{len(wanted)} messages to be acknowledged", 90, 0.1)
    return found


def test_a_service_consumes_its_feed_through_the_proxy(stack, service):
    for number in range(20):
        stack.rest.set(f"shop/orders/o{number}", {"total": number})
    found = take(service, {f"o{number}" for number in range(20)})
    assert [message["key"] for message in found] == [f"o{number}" for number in range(20)]
    # Two gateways take turns, and both answer the same.
    wait_until(lambda: all(service.status()["lag_entries"] == 0 for _ in range(4)), "both gateways to know that nothing is left")
    assert service.status()["acknowledged"] == 20


def test_a_feeds_token_opens_nothing_else(stack, service):
    stack.rest.set("shop/orders/o1", 1)
    assert service.rest.send("GET", "/shop/orders.json", None, service.headers).status == 401
    assert service.rest.send("PUT", "/shop/orders/o1.json", b"2", service.headers).status == 401
    assert service.call("DELETE").status == service.call("PUT", "", DEFINITION).status == 401
    assert service.named("other").call("POST", "pull", {}).status == 401
    assert stack.anybody.send("POST", "/.feeds/mailer/pull", b"{}").status == 401
    log = service.rest.send("GET", "/.log?path=/shop/orders/o1", None, service.headers)
    assert log.status == 200 and log.json()[-1]["changes"] == {"/shop/orders/o1": 1}


@pytest.mark.parametrize("how", ["KILL", "TERM"])
def test_the_other_gateway_takes_the_feed_over(stack, service, how):
    stack.rest.set("shop/orders/before", 1)
    take(service, {"before"})
    address = service.status()["gateway"]
    (owner,) = [name for name in GATEWAYS if any(network["IPAddress"] in address
                                                 for network in stack.inspect(name)["NetworkSettings"]["Networks"].values())]
    # A stop takes its time: a container that still runs cannot be started again.
    stack.compose(*(["kill"] if how == "KILL" else ["stop"]), owner)
    try:
        # The other gateway delivers its messages, because the proxy finds it.
        wait_until(lambda: stack.rest.put("shop/orders/after", 1).status == 200, "a write while a gateway is away", 30)
        found = take(service, {"after"})
        assert {message["key"] for message in found} == {"after"}, found
    finally:
        stack.compose("start", owner)
        stack.wait_until_served()


def ask_prometheus(stack, path: str):
    connection = http.client.HTTPConnection("127.0.0.1", stack.prometheus_port, timeout=10)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())["data"]
    finally:
        connection.close()


def test_prometheus_sees_the_feed_and_has_its_alerts(stack, service):
    stack.rest.set("shop/orders/o1", 1)
    take(service, {"o1"})

    def value(metric: str):
        query = quote(f'max({metric}{{feed="default/mailer"}})')
        found = ask_prometheus(stack, f"/api/v1/query?query={query}")["result"]
        return float(found[0]["value"][1]) if found else None

    wait_until(lambda: value("pathmirror_feed_up") == 1, "the feed's state in Prometheus", 60, 1)
    wait_until(lambda: value("pathmirror_feed_acknowledged_total") == 1, "the feed's counters in Prometheus", 60, 1)
    rules = [rule for group in ask_prometheus(stack, "/api/v1/rules")["groups"] for rule in group["rules"]]
    of_feeds = {rule["name"]: rule["health"] for rule in rules if rule["name"].startswith("PathmirrorFeed")}
    assert of_feeds.keys() >= {"PathmirrorFeedLagging", "PathmirrorFeedDeadLetters", "PathmirrorFeedNotRunning", "PathmirrorFeedHoldsBackPruning"}
    # Their expressions have been evaluated, without an error.
    wait_until(lambda: all(rule["health"] == "ok" for group in ask_prometheus(stack, "/api/v1/rules")["groups"] for rule in group["rules"]
                           if rule["name"] in of_feeds), "the alerts to be evaluated", 60, 1)
