"""docs/guides/deployment.md through the proxy: REST, rules, streams, sockets, polling, Prometheus, the command line."""

import http.client
import json
import threading

import pytest
from harness.sse import Listener
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient, datum
from harness.websocket_polling import PollingClient
from stack import GATEWAYS


def test_the_shipped_rules_refuse_everybody_but_the_administrator(stack):
    assert stack.anybody.get("x").status == 401
    assert stack.anybody.put("x", 1).status == 401
    assert stack.rest.put("x", {"a": 1}).status == 200
    assert stack.rest.value("x") == {"a": 1}
    assert stack.rest.get("x", auth=stack.secret, headers={"Authorization": ""}).status == 200
    assert stack.rest.get("x", headers={"Authorization": "Bearer wrong"}).status == 401


def test_every_method_passes(stack):
    at = stack.rest.unique()
    assert at.put("a", {"b": 1}).json() == {"b": 1}
    assert at.patch("a", {"c": 2}).json() == {"c": 2}
    name = at.post("a", 3).json()["name"]
    assert at.value("a") == {"b": 1, "c": 2, name: 3}
    assert at.delete("a/b").status == 200
    assert at.value("a") == {"c": 2, name: 3}
    tag = at.get("a", headers={"X-Firebase-ETag": "true"}).etag
    assert at.put("a", 1, headers={"if-match": "wrong"}).status == 412
    assert at.put("a", 1, headers={"if-match": tag}).status == 200


def test_rules_that_are_uploaded_hold_at_both_gateways(stack):
    rules = stack.rest.send("GET", "/.settings/rules.json").body
    try:
        new = json.dumps({"rules": {"open": {".read": True, ".write": True}}}).encode()
        assert stack.rest.send("PUT", "/.settings/rules.json", new).status == 200
        # Ten answers in a row: two gateways take turns.
        wait_until(lambda: all(stack.anybody.put("open/x", 1).status == 200 for _ in range(10)), "the new rules")
        assert stack.anybody.get("closed").status == 401
    finally:
        assert stack.rest.send("PUT", "/.settings/rules.json", rules).status == 200
    wait_until(lambda: all(stack.anybody.get("open/x").status == 401 for _ in range(10)), "the old rules")


def test_streams_hear_writes_at_once_and_resume(stack):
    at = stack.rest.unique()
    with Listener(at) as listener:
        listener.wait_for_value(None)
        for number in range(20):
            at.set("x", number)
        listener.wait_for_value({"x": 19}, 5)
        last = listener.last_id
    at.set("x", 20)
    with Listener(at, last_event_id=last) as listener:
        assert listener.next().change == ("put", "/x", 20)


def test_sockets_listen_and_write(stack):
    at = stack.rest.unique()
    with RealtimeClient(stack.port) as one, RealtimeClient(stack.port) as other:
        for client in (one, other):
            client.ok("auth", {"cred": stack.secret})
        one.listen(at.base)
        other.put(f"/{at.base}/x", 5)
        assert one.push(5) == datum(f"{at.base}/x", 5)


def test_polling_sessions_of_one_address_live_in_both_gateways_and_are_found_there(stack):
    """All clients here come from one bridge address."""
    clients = [PollingClient(stack.port, callback=str(number)) for number in range(12)]
    assert {client.id[0] for client in clients} == {"a", "b"}
    for number, client in enumerate(clients):
        assert client.request(1, "auth", {"cred": stack.secret})["s"] == "ok"
        assert client.request(2, "p", {"p": f"/polled/{number}", "d": number})["s"] == "ok"
        assert not client.closed
    # The other gateway may receive the last one a little later.
    wait_until(lambda: stack.rest.value("polled") == list(range(12)), "all that was written")


def test_a_socket_takes_over_from_polling(stack):
    client = PollingClient(stack.port)
    taker = RealtimeClient(stack.port, extra=f"&s={client.id}")
    taker.socket.opened()
    # Only the gateway of the session knows it, and answers accordingly.
    assert taker.message() == {"t": "c", "d": {"t": "a", "d": None}}
    taker.socket.drop()


def test_clients_behind_one_address_are_not_one_client_to_the_limits(stack):
    """All connections through the engine's bridge have its address; clients that the proxy distinguishes have rates of their own."""
    answers = []

    def ask():
        rest = stack.anybody
        for _ in range(500):
            answers.append(rest.get("x").status)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) == {401}

    def statuses(client: str, count: int) -> list[str]:
        return stack.execute("proxy", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}\n", "-H", f"X-Forwarded-For: {client}",
                             f"http://gateway-a:9000/x.json?n=[1-{count}]").split()

    assert "429" in statuses("198.51.100.7", 4000)
    assert statuses("198.51.100.8", 10) == ["401"] * 10


def test_large_bodies_and_long_paths_pass(stack):
    at = stack.rest.unique()
    text = "x" * (1 << 20)
    assert at.put("big", {str(number): text for number in range(12)}).status == 200
    assert len(at.get("big").body) > 12 << 20
    path = "/".join(["é" * 384] * 30)
    at.set(path, 1)
    assert at.value(path) == 1


def test_prometheus_sees_both_gateways(stack):
    def targets():
        connection = http.client.HTTPConnection("127.0.0.1", stack.prometheus_port, timeout=10)
        connection.request("GET", "/api/v1/targets")
        found = json.loads(connection.getresponse().read())["data"]["activeTargets"]
        connection.close()
        return {target["labels"]["instance"]: target["health"] for target in found}

    wait_until(lambda: all(targets().get(f"{name}:9000") == "up" for name in GATEWAYS), "both targets up", 60, 1)
    assert stack.anybody.send("GET", "/.metrics").status == 404
    asked = stack.execute("proxy", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://gateway-a:9000/.metrics")
    assert asked == "401", "metrics are for Prometheus' network"


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_the_command_line_works_in_the_gateways(stack, gateway):
    at = stack.rest.unique()
    at.set("x", 1)
    assert at.base in stack.execute(gateway, "pathmirror", "log", "ls", "--limit", "1000000")
    stack.execute(gateway, "pathmirror", "rules", "check", "/etc/pathmirror/rules.json")
    assert at.base in stack.execute(gateway, "pathmirror", "export")
    stack.execute(gateway, "pathmirror", "log", "verify")
