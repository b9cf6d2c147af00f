"""Namespaces that leave memory when it is short, and are loaded again: clients only notice a delay."""

import itertools
import re
import threading

import pytest
from harness.gateway import SECRET
from harness.sse import Listener
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

ADMIN = {"Authorization": f"Bearer {SECRET}"}
SHORT = ("--tree-memory", "1MiB", "--create-namespaces")
FILLING = "x" * 150_000


def is_loaded(gateway, ns: str) -> bool:
    text = gateway.rest.send("GET", "/.metrics").body.decode()
    return re.search(rf'^pathmirror_log_head_seq{{namespace="{ns}"}}', text, re.MULTILINE) is not None


def crowd_out(gateway, ns: str, round: int = 0):
    """Uses other namespaces, of more than twice the limit, until the namespace has left memory; recently used ones stay longest."""
    attempts = itertools.count()

    def is_gone():
        attempt = next(attempts)
        for number in range(24):
            gateway.rest.set("filling", FILLING, ns=f"other-{round}-{attempt}-{number}")
        return not is_loaded(gateway, ns)

    wait_until(is_gone, f"{ns} to be evicted")


@pytest.fixture
def gateways(serve):
    return serve(*SHORT), serve(*SHORT, name="second")


def test_what_was_written_is_there_and_goes_on(gateways):
    here, other = gateways
    last = 0
    for round in range(3):
        assert here.rest.set(f"a/{round}", round, ns="mine").seq == last + 1
        crowd_out(here, "mine", round)
        last = other.rest.set(f"b/{round}", round, ns="mine").seq
        answer = here.rest.get("b", ns="mine", headers={"X-Pathmirror-Min-Seq": str(last)})
        assert answer.seq == last and answer.json()[round] == round
        crowd_out(here, "mine", round + 10)
    assert here.rest.value(ns="mine") == {"a": [0, 1, 2], "b": [0, 1, 2]}
    assert here.metric("pathmirror_namespaces_evicted_total") > 30
    assert here.metric("pathmirror_tree_limit_bytes") == 1 << 20
    wait_until(lambda: here.metric("pathmirror_tree_bytes") <= 1 << 20, "the last used one to be evicted")


def test_streams_resume_by_their_ids(gateways):
    here, other = gateways
    place = here.rest.at(ns="mine")
    place.set("a", 1)
    with Listener(place) as first:
        first.next()
        place.set("a", 2)
        seen = first.next().id
        # A namespace with a listener stays, in spite of many others.
        for number in range(12):
            here.rest.set("filling", FILLING, ns=f"early-{number}")
        assert is_loaded(here, "mine")
    crowd_out(here, "mine")
    missed = [other.rest.set("a", value, ns="mine").seq for value in (3, 4, 5)]
    with Listener(place, last_event_id=seen) as second:
        events = [second.next() for _ in missed]
        assert [event.id for event in events] == missed
        assert [event.change for event in events] == [("put", "/a", value) for value in (3, 4, 5)]
        live = other.rest.set("a", 6, ns="mine").seq
        assert second.next().id == live


def test_what_sessions_want_done_is_done(gateways):
    here, other = gateways
    with RealtimeClient(here.port, ns="mine") as client:
        client.put("here", True)
        assert client.ok("o", {"p": "/here", "d": None}) == ""
        for number in range(12):
            here.rest.set("filling", FILLING, ns=f"early-{number}")
        assert client.ok("o", {"p": "/left", "d": True}) == ""
    wait_until(lambda: other.rest.value(ns="mine") == {"left": True}, "the operations to be executed")
    crowd_out(here, "mine")
    assert here.rest.value(ns="mine") == {"left": True}


def test_what_requests_use_again_and_again_stays(serve):
    here = serve(*SHORT, "--page-directory", "none")
    names = [f"used-{number}" for number in range(10)]
    for name in names:
        here.rest.set("filling", FILLING, ns=name)
    for round in range(20):
        for name in names:
            here.rest.set("round", round, ns=name)
            assert here.rest.value("round", ns=name) == round
    assert here.metric("pathmirror_namespace_loads_total") <= len(names) + 1
    # All are in use and exceed the limit: the log says so once, and the gateway evicts the oldest once they are idle.
    wait_until(lambda: here.metric("pathmirror_tree_bytes") <= 1 << 20, "some to be evicted", 30)
    assert here.process.stderr().count("the trees in use take more memory than --tree-memory") <= 1


def test_a_wait_for_nothing_does_not_keep_a_namespace(serve):
    here = serve(*SHORT)
    here.rest.set("a", 1, ns="mine")

    def ask():
        answer = here.rest.get("a", ns="mine", headers={"X-Pathmirror-Min-Seq": "1000000"})
        assert answer.status == 503

    thread = threading.Thread(target=ask)
    thread.start()
    for number in range(12):
        here.rest.set("filling", FILLING, ns=f"early-{number}")
    thread.join()
    crowd_out(here, "mine")
    assert here.rest.value("a", ns="mine") == 1


def test_one_that_is_larger_than_all_of_it_is_served_without_a_page_file(serve):
    here = serve(*SHORT, "--page-directory", "none")
    here.rest.set("a", "y" * 2_000_000, ns="giant")
    here.rest.get("a", ns="giant")
    wait_until(lambda: "than --tree-memory and stays in memory" in here.process.tail(), "the warning")
    crowd_out(here, "other-0-0-0", 1)
    assert is_loaded(here, "giant")
    assert len(here.rest.value("a", ns="giant")) == 2_000_000
