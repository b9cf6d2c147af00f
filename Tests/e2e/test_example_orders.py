"""examples/orders: the service is killed again and again while orders are written, and its table is the tree, exactly."""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time

import pytest
from harness.binary import REPOSITORY
from harness.feeds import Feed
from harness.process import Process, run
from harness.threads import beside
from harness.waiting import wait_until

PROGRAM = REPOSITORY / "examples" / "orders" / "orders.py"
KILLS = int(os.environ.get("PATHMIRROR_E2E_EXAMPLE_KILLS", "25"))


class Service:
    """The example in a namespace and with a table of its own."""

    def __init__(self, dev, feed, scratch, logs):
        self.table, self.logs = scratch / "orders.sqlite", logs
        self.options = ["--url", f"http://127.0.0.1:{dev.port}", "--ns", feed.ns, "--table", self.table]

    def command(self, *words) -> subprocess.CompletedProcess:
        return run([sys.executable, PROGRAM, *words, *self.options])

    def succeeds(self, *words) -> str:
        finished = self.command(*words)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def start(self) -> Process:
        return Process([sys.executable, PROGRAM, "run", *self.options], "orders", self.logs)

    def rows(self, query: str) -> list[tuple]:
        if not self.table.exists():
            return []
        table = sqlite3.connect(self.table, timeout=30)
        try:
            return table.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            table.close()

    def count(self) -> int:
        return (self.rows("select value from sums where what = 'messages'") or [(0,)])[0][0]


@pytest.fixture
def service(dev, feed, scratch, logs):
    return Service(dev, feed, scratch, logs)


def test_the_readme(service, tree):
    assert service.succeeds("define").strip() == "made"
    assert service.succeeds("define").strip() == "the same"
    tree.set("orders/o1", {"customer": "ada", "total": 40, "status": "new"})
    tree.set("orders/o2", {"customer": "bob", "total": 2, "status": "new"})
    tree.set("orders/o1/status", "paid")
    service.succeeds("run", "--until-idle")
    assert service.succeeds("show").splitlines() == [
        '{"id": "o1", "customer": "ada", "total": 40, "status": "paid", "changes": 2}',
        '{"id": "o2", "customer": "bob", "total": 2, "status": "new", "changes": 1}', '{"messages": 3, "turnover": 42}']


def test_orders_that_were_there_before(service, tree):
    tree.set("orders", {"o1": {"total": 1}, "o2": {"total": 2}})
    service.succeeds("define")
    tree.delete("orders/o1")
    service.succeeds("run", "--until-idle")
    assert service.rows("select id, total from orders") == [("o2", 2)]


def test_what_is_no_order_is_set_aside(service, tree, feed):
    service.succeeds("define")
    feed.named("order-service").apply(start="snapshot", max_attempts=2, backoff={"first": "1ms", "max": "5ms"})
    tree.set("orders/o1", "not an order")
    tree.set("orders/o1", {"total": 5})
    tree.set("orders/o2", {"total": 6})
    service.succeeds("run", "--until-idle")
    letter, = feed.named("order-service").dead()
    assert (letter["key"], letter["value"]) == ("o1", "not an order") and "AttributeError" in letter["errors"][0]["reason"]
    assert service.rows("select id, total from orders order by id") == [("o1", 5), ("o2", 6)]


@pytest.mark.acceptance
def test_killed_again_and_again(service, tree, feed):
    """Two services share the table; each is killed at random moments."""
    seed = int(os.environ.get("PATHMIRROR_E2E_SEED", random.randrange(10**9)))
    print(f"seed {seed}")
    dice = random.Random(seed)
    service.succeeds("define")
    written = []

    def write(stop):
        own = random.Random(seed + 1)
        while not stop.is_set():
            key = f"orders/o{own.randrange(20)}"
            if own.random() < 0.15:
                tree.delete(key)
            else:
                tree.set(key, {"customer": own.choice(["ada", "bob"]), "total": own.randrange(1000), "status": own.choice(["new", "paid"])})
            written.append(key)
            stop.wait(0.005)

    services = [service.start(), service.start()]
    try:
        with beside(write):
            for number in range(KILLS):
                before = service.count()
                wait_until(lambda: service.count() > before, "a message to have its effect", 30)
                time.sleep(dice.uniform(0, 0.1))
                place = number % 2
                services[place].kill()
                services[place] = service.start()
    finally:
        for process in services:
            process.kill()
    consumed = feed.named("order-service")
    service.succeeds("run", "--until-idle")
    judge(service, tree, consumed)
    print(f"{len(written)} orders written, {service.count()} messages, {consumed.status()['redelivered']} redelivered, {KILLS} kills")
    assert consumed.status()["redelivered"] > 0, "no kill hit: the test showed nothing"


def judge(service: Service, tree, consumed: Feed):
    """Checks that the table equals the tree, and that every message had its effect once."""
    orders = tree.value("orders") or {}
    rows = service.rows("select id, customer, total, status from orders")
    assert {id: {"customer": customer, "total": total, "status": status} for id, customer, total, status in rows} == orders
    sums = dict(service.rows("select what, value from sums"))
    assert sums["turnover"] == sum(order["total"] for order in orders.values()), "an effect is missing, or was twice"
    # A second feed of the same path lists all messages; the namespace was empty at first.
    every = consumed.named("every").make(start="beginning", ack_deadline="10m")
    ids = []
    while messages := every.pull(1000, "1s"):
        every.ack(messages)
        ids += [message["id"] for message in messages]
    seen = [id for id, in service.rows("select message from seen")]
    assert sorted(seen) == sorted(ids) and len(ids) == len(set(ids)) == sums["messages"], json.dumps(sums)
    assert consumed.dead() == []
