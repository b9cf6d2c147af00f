"""PostgreSQL is away: writes fail with 503, reads and listeners are served from memory, and all recovers without help."""

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import cli, sql
from harness.gateway import start_serve
from harness.sse import Listener
from harness.waiting import wait_until


@pytest.fixture
def gateway(own_postgres, scratch, logs):
    gateway = start_serve(own_postgres.create_database(), scratch, logs, "--commit-deadline", "1s", tune="stream-keep-alive=300ms")
    yield gateway
    gateway.sweep()


def readiness(gateway) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    connection.request("GET", "/.health/ready")
    answer = connection.getresponse()
    status, body = answer.status, answer.read()
    connection.close()
    return status, body.decode()


@pytest.mark.parametrize("way", ["fast", "kill"])
def test_an_outage_and_its_end(gateway, own_postgres, way):
    rest = gateway.unique()
    rest.set(value={"a": 1})
    with Listener(rest) as listener:
        listener.next()
        own_postgres.kill() if way == "kill" else own_postgres.stop(way)

        # In parallel: each request may wait for the database before it fails.
        with ThreadPoolExecutor() as pool:
            writes = [pool.submit(rest.put, "b", 2), pool.submit(rest.post, "list", 1), pool.submit(rest.patch, "", {"b": 2}),
                      pool.submit(rest.delete, "a")]
            # Reads do not wait for the blocked writes.
            assert rest.value() == {"a": 1}
        for write in writes:
            refused = write.result()
            assert refused.status == 503 and int(refused.headers["Retry-After"]) >= 0 and refused.error
        assert rest.value() == {"a": 1}
        with Listener(rest) as late:
            assert late.next().change == ("put", "/", {"a": 1})
        status, text = wait_until(lambda: (found := readiness(gateway))[0] != 200 and found, "ready to tell the truth")
        assert status == 503 and "stale" in text
        live = rest.send("GET", "/.health/live")
        assert live.status == 200
        seen = listener.keep_alives
        listener.wait_for_keep_alive(seen + 2)

        own_postgres.start()
        wait_until(lambda: rest.put("b", 3).status == 200, "writes to work again", 30, 0.05)
        assert listener.next().change == ("put", "/b", 3)
        wait_until(lambda: readiness(gateway)[0] == 200, "ready again")
        assert rest.value() == {"a": 1, "b": 3}
    assert gateway.process.running
    cli.verify("--database-url", gateway.database_url)


def test_what_was_not_acknowledged_is_there_once_or_not_at_all(gateway, own_postgres):
    """Writers work while PostgreSQL is killed: a write with 200 is in the log once, one with 503 at most once."""
    rest = gateway.unique()
    outcomes = {}
    stop = threading.Event()

    def write(worker):
        number = 0
        while not stop.is_set():
            key = f"w{worker}n{number}"
            outcomes[key] = rest.put(key, number).status
            number += 1
            if outcomes[key] != 200:
                stop.wait(0.02)

    writers = [threading.Thread(target=write, args=(worker,)) for worker in range(6)]
    for writer in writers:
        writer.start()
    wait_until(lambda: len(outcomes) > 100, "some writes")
    own_postgres.kill()
    own_postgres.start()
    count = len(outcomes)
    wait_until(lambda: list(outcomes.values())[count:].count(200) > 50, "writes to work again", 30)
    stop.set()
    for writer in writers:
        writer.join()
    assert set(outcomes.values()) <= {200, 503}
    found = [path.rpartition("/")[2] for _, changes in sql.log_entries(gateway.database_url) for path in changes]
    assert len(found) == len(set(found))
    assert {key for key, status in outcomes.items() if status == 200} <= set(found)
    assert set(rest.value()) == set(found)
    cli.verify("--database-url", gateway.database_url)


def test_connections_that_are_cut_are_opened_again(gateway):
    """An administrator ends every connection; clients notice only a short delay."""
    rest = gateway.unique()
    with Listener(rest) as listener:
        listener.next()
        for number in range(3):
            sql.execute(gateway.database_url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()")
            wait_until(lambda: rest.put("n", number).status == 200, "writes to work again", 20, 0.02)
            listener.wait_for_value({"n": number})


def test_a_gateway_that_starts_before_its_database(own_postgres, scratch, logs):
    url = own_postgres.create_database()
    own_postgres.stop()
    gateway = start_serve(url, scratch, logs, wait=False)
    try:
        wait_until(lambda: not gateway.process.running or gateway.process.stderr().strip(), "a word about it")
        own_postgres.start()
        if gateway.process.running:
            gateway.wait_ready()
            assert gateway.unique().set(value=1)
        else:
            assert gateway.process.child.returncode == 1
    finally:
        gateway.sweep()


def test_errors_never_tell_the_database_password(own_postgres, scratch, logs):
    url = own_postgres.create_database().replace("postgres@", "postgres:hunter2secret@")
    gateway = start_serve(url, scratch, logs, "--commit-deadline", "500ms")
    try:
        own_postgres.stop("immediate")
        response = gateway.rest.put("x", 1)
        assert response.status == 503 and b"hunter2secret" not in response.body
        assert json.loads(response.body)["error"]
        assert "hunter2secret" not in gateway.process.stderr() + gateway.process.stdout()
    finally:
        gateway.sweep()
