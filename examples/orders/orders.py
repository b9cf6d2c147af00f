#!/usr/bin/env python3
"""An order service: keeps its own table of the data below /orders, by consuming a feed.

    orders.py define              declares the feed; repetitions change nothing
    orders.py run                 consumes until it is interrupted
    orders.py run --until-idle    ends when no message is left
    orders.py show                prints the table

A kill of the service at any moment is harmless: each message has its effect exactly once. The recipe is short. The feed may deliver a
message more than once, but with the same id. So one transaction writes the id and the effect, and the acknowledgement comes after
it. A service that is killed before the commit has done nothing. A service that is killed after the commit gets the message again,
finds its id, and only acknowledges it.
"""

import argparse
import json
import os
import signal
import sqlite3
import sys
import time
import urllib.error
import urllib.request
import uuid

FEED = {"path": "/orders/{order_id}", "start": "snapshot", "ack_deadline": "5s", "backoff": {"first": "200ms", "max": "10s"}}

SCHEMA = """
create table if not exists orders (id text primary key, customer text, total integer, status text, changes integer not null);
create table if not exists sums (what text primary key, value integer not null);
create table if not exists seen (message text primary key, at text not null);
"""


class Gateway:
    """The feed's side: a few requests of JSON over HTTP, repeated while the gateway is away."""

    def __init__(self, url: str, feed: str, credential: str, ns: str):
        self.base, self.credential, self.ns = f"{url.rstrip('/')}/.feeds/{feed}", credential, ns

    def ask(self, method: str, what: str, body: dict | None = None) -> dict:
        request = urllib.request.Request(
            f"{self.base}{what}?ns={self.ns}", method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.credential}", "Content-Type": "application/json"})
        while True:
            try:
                with urllib.request.urlopen(request, timeout=90) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503):
                    sys.exit(f"orders: {method} {what}: {error.code} {error.read().decode(errors='replace')}")
                wait = float(error.headers.get("Retry-After") or 1)
            except OSError as error:
                print(f"orders: the gateway is away ({error}); trying again", file=sys.stderr)
                wait = 0.5
            time.sleep(min(wait, 5))


def apply(table: sqlite3.Connection, message: dict) -> bool:
    """Executes a message unless that was done already. One transaction has the id and the effect."""
    with table:
        table.execute("begin immediate")
        known = table.execute("insert or ignore into seen values (?, ?)", (message["id"], message["time"])).rowcount == 0
        if known:
            return False
        key, order = message["captures"]["order_id"], message["value"]
        before = table.execute("select total from orders where id = ?", (key,)).fetchone()
        if order is None:
            table.execute("delete from orders where id = ?", (key,))
        else:
            table.execute(
                "insert into orders values (?, ?, ?, ?, 1) on conflict (id) do update set "
                "customer = excluded.customer, total = excluded.total, status = excluded.status, changes = changes + 1",
                (key, order.get("customer"), order.get("total", 0), order.get("status")))
        # An effect that would be wrong if it happened twice: a running sum.
        difference = (0 if order is None else order.get("total", 0)) - (before[0] if before else 0)
        table.execute("insert into sums values ('turnover', ?) on conflict (what) do update set value = value + excluded.value",
                      (difference,))
        table.execute("insert into sums values ('messages', 1) on conflict (what) do update set value = value + 1")
    return True


def run(gateway: Gateway, table: sqlite3.Connection, consumer: str, until_idle: bool):
    while True:
        messages = gateway.ask("POST", "/pull", {"max": 50, "wait": "1s" if until_idle else "20s", "consumer": consumer})["messages"]
        if not messages and until_idle:
            status = gateway.ask("GET", "/status")
            if status["lag_entries"] == 0 and status["pending_messages"] == 0 and status["held_messages"] == 0:
                return
        done, refused = [], {}
        for message in messages:
            # Later messages of the same order return to the feed with a refused one: none overtakes it.
            if message["key"] in refused:
                continue
            try:
                apply(table, message)
                done.append(message["id"])
            except (AttributeError, TypeError, ValueError, sqlite3.Error) as error:
                refused[message["key"]] = message["id"], repr(error)
        for id, reason in refused.values():
            # Not a valid order: the feed retries it later, and it becomes a dead letter in the end.
            gateway.ask("POST", "/nack", {"ids": [id], "consumer": consumer, "reason": reason})
        if done:
            # The answer for an id does not matter: it is done, or another consumer has it by now and will find the id in the table.
            gateway.ask("POST", "/ack", {"ids": done, "consumer": consumer})


def open_table(path: str) -> sqlite3.Connection:
    # Several consumers may share the file: each waits for the transactions of the others.
    table = sqlite3.connect(path, timeout=30, isolation_level=None)
    table.execute("pragma journal_mode = wal")
    # A commit is on disk before the acknowledgement to the gateway.
    table.execute("pragma synchronous = full")
    table.executescript(SCHEMA)
    return table


def show(table: sqlite3.Connection):
    for row in table.execute("select id, customer, total, status, changes from orders order by id"):
        print(json.dumps(dict(zip(("id", "customer", "total", "status", "changes"), row))))
    print(json.dumps(dict(table.execute("select what, value from sums order by what"))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=["define", "run", "show"])
    parser.add_argument("--url", default="http://127.0.0.1:9000")
    parser.add_argument("--ns", default="default")
    parser.add_argument("--feed", default="order-service")
    parser.add_argument("--table", default="orders.sqlite", metavar="FILE", help="where the table is kept")
    # A name of this process. Under the name of a killed process, this one would get the messages after those that the killed one still
    # holds.
    parser.add_argument("--consumer", default=f"{os.uname().nodename}-{uuid.uuid4().hex[:12]}", metavar="NAME")
    parser.add_argument("--until-idle", action="store_true", help="end when there is nothing more to consume")
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # `owner` is an administrator of `pathmirror dev`. Elsewhere an administrator defines, and a token of the feed is enough to run.
    gateway = Gateway(words.url, words.feed, os.environ.get("PATHMIRROR_TOKEN", "owner"), words.ns)
    if words.command == "define":
        made = gateway.ask("PUT", "", FEED)
        print("made" if made["created"] else "changed" if made["changed"] else "the same")
        return
    table = open_table(words.table)
    if words.command == "show":
        return show(table)
    try:
        run(gateway, table, words.consumer, words.until_idle)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
