"""A database over a network: without authentication of the server (a warning, which shows no password), or silent."""

import threading
import time

import pytest
from harness import cli
from harness.binary import pathmirror
from harness.gateway import start_serve
from harness.process import Process
from harness.proxy import Proxy
from harness.sse import Listener
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

WARNING = "does not verify the server"
# No server answers at this address, and none needs to: the warning comes first.
ABSENT = "192.0.2.1"


def said(logs, url: str, env: dict | None = None) -> str:
    """The log lines of `serve` before it can connect."""
    process = Process([pathmirror(), "serve", "--database-url", url], "network", logs, env=env)
    try:
        wait_until(lambda: WARNING in process.stderr() or not process.running, "the warning", 20)
    finally:
        process.kill() if process.running else None
    return process.stderr()


@pytest.mark.parametrize("url, env, mode", [
    (f"postgresql://me:hunter2@{ABSENT}/shop", {}, "prefer"), (f"postgresql://me:hunter2@{ABSENT}/shop?sslmode=require", {}, "require"),
    ("dbname=shop password=hunter2", {"PGHOST": ABSENT, "PGSSLMODE": "disable"}, "disable"),
    (f"host=localhost hostaddr={ABSENT} password=hunter2", {}, "prefer")])
def test_over_a_network(logs, url, env, mode):
    text = said(logs, url, {"PGPASSWORD": "hunter3", **env})
    line = next(line for line in text.splitlines() if WARNING in line)
    assert " warning " in line and f"sslmode={mode}" in line and "sslmode=verify-full" in line and "sslrootcert" in line
    assert (ABSENT if "localhost" not in url else "localhost") in line
    assert "hunter" not in text


def test_on_this_machine(serve, database_url):
    assert WARNING not in serve().process.stderr()


@pytest.mark.parametrize("url", ["host=127.0.0.1 port=1", "host=localhost port=1", "host=/nowhere", "host=127.0.0.1 port=1 sslmode=verify-full"])
def test_nothing_to_warn_of(url):
    failed = cli.command("serve", "--database-url", url)
    assert failed.returncode == 1 and WARNING not in failed.stderr


def test_a_network_that_swallows_everything(own_postgres, scratch, logs):
    """Connections without an answer and without a refusal. The promise: not ready within 5 s, an answer to the write in flight within 10 s,
    and immediate refusals afterwards. The test allows twice these times, for busy machines."""
    url = own_postgres.create_database()
    with Proxy(own_postgres.port) as proxy:
        gateway = start_serve(url.replace(str(own_postgres.port), str(proxy.port)), scratch, logs)
        try:
            rest = gateway.rest
            rest.set("n", 1)
            with Listener(rest.at("n")) as listener:
                assert listener.next().data == 1
                proxy.swallow()
                start = time.monotonic()
                answers = []
                writer = threading.Thread(target=lambda: answers.append((rest.put("n", 2), time.monotonic() - start)))
                writer.start()
                wait_until(lambda: not gateway.ready(), "ready to tell the truth", 10)
                before = time.monotonic()
                refused = [rest.put("n", 3), rest.post("list", 1), rest.delete("n")]
                assert time.monotonic() - before < 3
                assert {answer.status for answer in refused} == {503}
                assert rest.value("n") == 1
                writer.join()
                answer, seconds = answers[0]
                # Whether the write was sent depends on its committer: one with a connection, or one that had to open one.
                assert answer.status == 503 and answer.error and seconds < 20
                before = time.monotonic()
                assert rest.put("n", 4).status == 503 and time.monotonic() - before < 3
                proxy.swallow(False)
                wait_until(gateway.ready, "ready again", 30)
                wait_until(lambda: rest.put("n", 5).status == 200, "writes to work again", 30)
                listener.wait_for_value(5)
            cli.verify("--database-url", url)
        finally:
            gateway.sweep()


def test_orders_in_a_silent_network_are_refused_together(own_postgres, scratch, logs):
    """One request detects that the database is away; the others do not wait for the same timeout each."""
    url = own_postgres.create_database()
    with Proxy(own_postgres.port) as proxy:
        gateway = start_serve(url.replace(str(own_postgres.port), str(proxy.port)), scratch, logs)
        clients = []
        try:
            clients = [RealtimeClient(gateway.port).greet() for _ in range(20)]
            proxy.swallow()
            wait_until(lambda: not gateway.ready(), "ready to tell the truth", 10)
            start = time.monotonic()
            numbers = [client.ask("o", {"p": "n", "d": 1}) for client in clients]
            for client, number in zip(clients, numbers):
                assert client.answer(number, 60)["s"] == "unavailable"
            # One after another they took 5 s each.
            assert time.monotonic() - start < 50
        finally:
            for client in clients:
                client.socket.plain.close()
            gateway.sweep()
