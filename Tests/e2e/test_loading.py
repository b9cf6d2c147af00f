"""Requests for a large namespace during its load: they wait for the load and get the state at its end."""

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from harness import cli
from harness.gateway import SECRET, start_serve
from harness.proxy import Proxy
from harness.rest import Rest
from harness.waiting import wait_until

ROWS = 70_000
# The last path in the order: a load that waits for it has read nearly all of the tree.
END = "the-very-end"
ROOM = {"title": "A room"}
CONTENT = {"many": {str(number): number for number in range(ROWS)}, "rooms": {"r": ROOM}, "zzz": {"end": END}}


@pytest.fixture
def held(postgres, scratch, logs):
    """A gateway with an unfinished load of a large namespace, which `let_go` lets finish; and a GET of all of it."""
    url = postgres.create_database()
    cli.succeeds("migrate", "up", "--database-url", url)
    cli.succeeds("import", "--database-url", url, "--ns", "large", "-", stdin=json.dumps(CONTENT).encode())
    with Proxy(postgres.port) as proxy:
        proxy.hold(END.encode())
        gateway = start_serve(url.replace(f":{postgres.port}/", f":{proxy.port}/"), scratch, logs)
        rest = Rest(gateway.port, params={"ns": "large"}, headers={"Authorization": f"Bearer {SECRET}"})
        try:
            with ThreadPoolExecutor(20) as threads:
                try:
                    whole = threads.submit(rest.get)
                    yield SimpleNamespace(gateway=gateway, rest=rest, url=url, proxy=proxy, threads=threads, whole=whole)
                finally:
                    proxy.let_go()
        finally:
            gateway.sweep()
    postgres.drop_database(url)


def test_reads_and_writes_wait_for_the_load(held):
    before = held.gateway.metric("pathmirror_http_requests_total")
    room = held.threads.submit(held.rest.get, "rooms/r")
    written = held.threads.submit(held.rest.put, "rooms/r/late", 1)
    # Each read of the metrics is a request, too.
    looks = iter(range(1, 10_000))
    wait_until(lambda: held.gateway.metric("pathmirror_http_requests_total") >= before + 2 + next(looks), "both to have come")
    assert not room.done() and not written.done() and not held.whole.done()
    held.proxy.let_go()
    assert room.result(60).json()["title"] == "A room" and written.result(60).status == 200
    assert held.whole.result(60).json()["zzz"] == {"end": END}
    assert held.rest.value("rooms/r") == {**ROOM, "late": 1}


def test_the_answer_is_not_as_old_as_the_load(held, serve):
    """Another gateway may have notified a waiting client of writes that came after the load began."""
    other = Rest(serve("--ns", "large", url=held.url).port, params=held.rest.params, headers=held.rest.headers)
    written = other.set("rooms/r/number", 5)
    held.proxy.let_go()
    whole = held.whole.result(60)
    assert whole.seq >= written.seq and whole.json()["rooms"]["r"]["number"] == 5
