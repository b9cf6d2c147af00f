"""Gateways log no problem during a successful move, with all kinds of readers on the namespace."""

import contextlib
import re
import threading

import pytest
from harness import cli
from harness.feeds import ADMIN, Feed
from harness.log_stream import LogStream
from harness.moves import Load, move
from harness.sse import Listener
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

# A line of a gateway's log that an operator would examine. A busy machine may stall threads.
TROUBLE = re.compile(r"^\S+ (warning (?!kept from all else)|error )|\berror=")


@contextlib.contextmanager
def pulling(feeds):
    """Consumers that take and acknowledge messages, and hold pulls open meanwhile."""
    stopped = threading.Event()

    def consume(feed):
        while not stopped.is_set():
            answer = feed.call("POST", "pull", {"max": 10, "wait": "1s"})
            if answer.status == 200 and (messages := answer.json()["messages"]):
                feed.call("POST", "ack", {"ids": [message["id"] for message in messages]})
            elif answer.status != 200:
                stopped.wait(0.02)

    threads = [threading.Thread(target=consume, args=(feed,)) for feed in feeds]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("gateways", [1, 2])
def test_a_move_logs_no_trouble(two, serve, gateways):
    gateway, home, _ = two
    all_gateways = [gateway] + [serve("--create-namespaces") for _ in range(gateways - 1)]
    rests = [one.rest.at(ns="m").with_headers(**ADMIN) for one in all_gateways]
    rests[0].set("orders/o0", 1)
    feeds = [Feed(rests[0], name, ns="m", headers=ADMIN).make("/by/{writer}") for name in ("one", "two")]
    before = [len(one.process.stderr()) for one in all_gateways]
    with Load(rests, 1) as load, pulling(feeds):
        for number in range(6):
            with contextlib.ExitStack() as readers:
                for one, rest in zip(all_gateways, rests):
                    readers.enter_context(Listener(rest.at("orders")))
                    readers.enter_context(LogStream(one.port, ADMIN, ns="m"))
                    client = readers.enter_context(RealtimeClient(one.port, ns="m"))
                    client.listen("by")
                move(home, "m", "b" if number % 2 == 0 else "home")
                load.goes_on()
    wait_until(lambda: all(one.process.stderr().count("namespace moved to another database") == 6 for one in all_gateways), "all to have seen the moves")
    cli.verify("--database-url", home, "--ns", "m")
    for one, begin in zip(all_gateways, before):
        troubles = [line for line in one.process.stderr()[begin:].splitlines() if TROUBLE.search(line)]
        assert troubles == []
