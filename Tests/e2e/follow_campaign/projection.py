"""Compares what two feeds delivered and what a mirror holds with a projection of the upstream's own tree."""

import contextlib
import datetime
import http.client
import json
import threading
import time

import psycopg
from harness import sql
from harness.feeds import ADMIN, Feed
from harness.waiting import Late, wait_until
from mirror_campaign.comparing import Comparison, Difference
from mirror_campaign.stored import read
from oracle.export import normal, split
from oracle.log import Entry
from oracle.mirror import loads
from oracle.tree import plain, without_priorities
from upstream.equality import exact

from .judging import Violation

FEEDS = ("orders", "users")
ORDERS = {"name": "orders", "path": "/orders/{order_id}", "rest": "rest",
          "columns": {"total": "double precision", "name": "text", "note": "text", "items": "jsonb"}}


class FeedState:
    """The records that a feed has delivered, folded by one consumer that goes through whichever gateway answers."""

    def __init__(self, name: str, gateways):
        self.name, self._gateways = name, gateways
        self.held: dict[str, object] = {}
        self.seqs: dict[str, int] = {}
        self.messages = self.repeated = 0
        self.wrong: str | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def feed(self, number: int) -> Feed:
        return Feed(self._gateways()[number % 2].rest, self.name, headers=ADMIN)

    def begin(self) -> "FeedState":
        self._thread.start()
        return self

    def end(self):
        self._is_over.set()
        self._thread.join(40)

    def _work(self):
        number = 0
        while not self._is_over.is_set():
            try:
                found = self.feed(number).call("POST", "pull", {"max": 500, "wait": "300ms"})
                messages = found.json()["messages"] if found.status == 200 else None
                if messages is None:
                    raise OSError
                for message in messages:
                    self.take(message)
                if messages:
                    self.feed(number).call("POST", "ack", {"ids": [message["id"] for message in messages]})
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                number += 1
                self._is_over.wait(0.05)

    def take(self, message: dict):
        """Takes a message over. A message may come again, and an older one never after a newer one of its key was acknowledged."""
        key, seq = message["key"].split("/")[-1], message["seq"]
        self.messages += 1
        if seq <= self.seqs.get(key, 0):
            self.repeated += 1
            return
        self.seqs[key] = seq
        if message["event"] == "deleted":
            if key not in self.held:
                self.wrong = self.wrong or f"feed {self.name} told of the end of {key} at {seq}, which it never told of"
            self.held.pop(key, None)
        else:
            if (message["event"] == "created") == (key in self.held):
                self.wrong = self.wrong or f"feed {self.name} told that {key} was {message['event']} at {seq}, which it was not"
            self.held[key] = message["value"]

    def is_drained(self) -> bool:
        """Whether the feed has read to the head and all is acknowledged, as either gateway says."""
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
            answer = self.feed(int(time.monotonic())).call("GET", "status")
            status = answer.json()
            return answer.status == 200 and status["lag_entries"] == 0 and status["pending_messages"] == 0
        return False

    def compare(self, tree):
        """Asserts that the feed has delivered what the upstream has."""
        if self.wrong:
            raise Violation(self.wrong)
        records = split(tree.get(self.name) if isinstance(tree, dict) else None)[0]
        # Values are as REST returns them, without priorities.
        wanted = {key: plain(without_priorities(value)) for key, value in records.items()} if isinstance(records, dict) else {}
        for key in sorted(self.held.keys() | wanted.keys()):
            if exact(self.held.get(key)) != exact(wanted.get(key)):
                raise Violation(f"feed {self.name} told {json.dumps(self.held.get(key))[:200]} of {key}, and the upstream has {json.dumps(wanted.get(key))[:200]}")


class _LastTree:
    """The upstream's tree as the tree of the log's head, with the times of the log."""

    def __init__(self, tree, connection):
        rows = connection.execute("select seq, committed_at from pathmirror.log_entry where namespace = 'default' order by seq").fetchall()
        self.entries = {seq: Entry(at.replace(microsecond=0) + (at - at.replace(microsecond=0) + _HALF) // _MILLISECOND * _MILLISECOND, None) for seq, at in rows}
        self.head = max(self.entries, default=0)
        self.trees = {self.head: normal(loads(json.dumps(tree)))}


_MILLISECOND = datetime.timedelta(milliseconds=1)
_HALF = _MILLISECOND / 2


def compare_mirror(url: str, tree, patience: float = 60) -> int:
    """The mirror's table must be the oracle's projection of the upstream's tree. Returns the number of rows."""
    try:
        wait_until(lambda: sql.rows(url, "select bool_and(seq is not distinct from head) from pathmirror.mirror_status")[0][0], "the mirror to reach the head", patience, 0.1)
    except Late as late:
        raise Violation(str(late)) from None
    with psycopg.connect(url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("set timezone to 'UTC'")
        comparison = Comparison(_LastTree(tree, connection), lambda: "the upstream's tree")
        found = read(connection)
        if [one.name for one in found] != [ORDERS["name"]]:
            raise Violation("the mirror is gone")
        try:
            comparison.compare(found[0])
        except Difference as difference:
            raise Violation(str(difference)) from None
        return len(found[0].rows)
