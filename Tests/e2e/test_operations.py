"""Health, metrics, logs, graceful shutdown."""

import http.client
import json
import signal
import threading
import time
import urllib.request

import pytest
from harness import cli
from harness.gateway import SECRET, start_serve
from harness.raw import Responses, raw_connection
from harness.sse import Listener
from harness.waiting import wait_until
from prometheus_client.parser import text_string_to_metric_families


def metrics(gateway) -> dict:
    """Every family by name, after a real parser of the format has read the page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/.metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families and all(family.documentation and family.type != "unknown" for family in families.values())
    return families


def total(families: dict, *words: str) -> float:
    """The sum over the family whose name has all these words."""
    name = next(name for name in sorted(families, key=len) if all(word in name for word in words))
    return sum(sample.value for sample in families[name].samples
               if not sample.name.endswith(("_bucket", "_sum", "_created")))


def test_health(dev):
    for path in ("/.health/live", "/.health/ready"):
        response = dev.rest.send("GET", path)
        assert response.status == 200, (path, response.body)


@pytest.mark.parametrize("words", [
    ["writes"], ["batch"], ["commit"], ["conflicts"], ["streams"], ["bytes"], ["conflat"], ["head"]])
def test_every_promised_metric_is_there(dev, at, words):
    at.set(value=1)
    families = metrics(dev)
    assert all(name.startswith(("pathmirror_", "process_")) for name in families)
    found = [name for name in families if all(word in name for word in words)]
    assert found, f"{words} in none of {sorted(families)}"


def test_the_commit_latency_is_a_histogram(dev, at):
    at.set(value=1)
    histograms = [family for name, family in metrics(dev).items() if family.type == "histogram" and "commit" in name]
    assert histograms
    buckets = [sample for sample in histograms[0].samples if sample.name.endswith("_bucket")]
    assert "+Inf" in {sample.labels["le"] for sample in buckets}
    assert max(sample.value for sample in buckets) >= 1


def test_metrics_count(serve):
    gateway = serve()
    rest = gateway.unique()
    rest.set("x", 0)
    before = metrics(gateway)
    with Listener(rest) as listener:
        listener.next()
        for number in range(10):
            rest.set("x", number)
        listener.wait_for_value({"x": 9})
        wait_until(lambda: total(metrics(gateway), "streams") >= 1, "the listener to be counted")
        after = metrics(gateway)
    assert total(after, "writes") - total(before, "writes") == 10
    assert total(after, "head") >= 11
    wait_until(lambda: total(metrics(gateway), "streams") == total(before, "streams"), "the listener to be gone")


def test_conflicts_are_counted(serve):
    gateway = serve()
    rest = gateway.unique()
    rest.set(value=1)
    before = total(metrics(gateway), "conflicts")
    # A refused comparison is the client's error; a collision of two gateways is a conflict.
    other = serve(name="serve-b")
    threads = [threading.Thread(target=lambda r=r: [r.set("n", number) for number in range(200)]) for r in (rest, other.rest.at(rest.base))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total(metrics(gateway), "conflicts") >= before


def test_logs_as_json(serve):
    gateway = serve("--log-format", "json")
    gateway.unique().set(value=1)
    gateway.stop()
    lines = [line for line in gateway.process.stderr().splitlines() if line.strip()]
    assert lines
    for line in lines:
        assert isinstance(json.loads(line), dict), line


def test_logs_as_text(serve):
    gateway = serve("--log-format", "text")
    gateway.stop()
    assert gateway.process.stderr().strip()


def test_an_unknown_log_format_is_wrong_usage(database_url):
    assert cli.command("serve", "--database-url", database_url, "--listen", "127.0.0.1:1", "--log-format", "xml").returncode == 2


def test_secrets_are_not_logged(serve):
    gateway = serve("--log-format", "json", rules=None)
    gateway.rest.put("x", 1, auth=SECRET)
    gateway.rest.put("x", 1, auth="wrong-secret-of-a-client")
    gateway.rest.put("x", 1, headers={"Authorization": "Bearer wrong-secret-of-a-client"})
    gateway.stop()
    output = gateway.process.stdout() + gateway.process.stderr()
    assert SECRET not in output and "wrong-secret-of-a-client" not in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_shutdown_finishes_what_is_in_flight_and_ends_streams(serve, database_url, number):
    gateway = serve()
    rest = gateway.unique()
    rest.set(value={})
    acknowledged, stop = [], threading.Event()

    def write(worker):
        count = 0
        while not stop.is_set():
            try:
                if rest.put(f"w{worker}n{count}", count).status == 200:
                    acknowledged.append(f"w{worker}n{count}")
                count += 1
            except (OSError, http.client.HTTPException):
                return

    listener = Listener(rest)
    writers = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for writer in writers:
        writer.start()
    wait_until(lambda: len(acknowledged) > 50, "some writes")
    begin = time.monotonic()
    gateway.process.send(number)
    listener.wait_for_end(10)
    assert gateway.process.wait(15) == 0
    took = time.monotonic() - begin
    stop.set()
    for writer in writers:
        writer.join()
    listener.close()
    assert took < 10, f"shutdown took {took:.1f} s"
    again = serve()
    there = again.rest.at(rest.base).value()
    assert set(acknowledged) <= set(there)
    # The stream emitted all entries that were acknowledged before its end, or emits them when it resumes.
    with Listener(again.rest.at(rest.base), last_event_id=listener.last_id, value=listener.value) as resumed:
        final = again.rest.at(rest.base).set("final", True).seq
        resumed.wait_for_id(final)
        resumed.wait_for_value({**there, "final": True})
    cli.verify("--database-url", database_url)


def test_shutdown_answers_a_request_that_is_half_sent_or_closes(serve):
    gateway = serve("--shutdown-timeout", "1s")
    with raw_connection(gateway.port) as idle, raw_connection(gateway.port) as busy:
        idle.sendall(b"GET /x.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert Responses(idle).next()[0] == 200
        busy.sendall(b"PUT /x.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12")
        gateway.process.send(signal.SIGTERM)
        assert gateway.process.wait(20) == 0


def test_a_port_that_is_taken_is_explained(serve, database_url, scratch, logs):
    gateway = serve()
    second = start_serve(database_url, scratch, logs, port=gateway.port, wait=False)
    try:
        assert second.process.wait(20) == 1
        assert str(gateway.port) in second.process.stderr()
    finally:
        second.sweep()
    assert gateway.ready()
