"""Commands whose question stays open while the data changes: they remove only the named data."""

import os
import pty
import select
import subprocess
import time
from contextlib import contextmanager

import pytest
from harness import cli, sql
from harness.binary import pathmirror
from harness.feeds import ADMIN, Feed
from harness.waiting import wait_until


class Question:
    """A command on a terminal of its own. Its output and its errors arrive in one text."""

    def __init__(self, *words: str):
        self.master, slave = pty.openpty()
        self.child = subprocess.Popen([pathmirror(), *words], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "dumb"})
        os.close(slave)
        self.text = ""

    def read(self, until: float) -> bool:
        if not select.select([self.master], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.text += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def wait(self):
        until = time.monotonic() + 60
        while "[y/N]" not in self.text:
            assert self.read(until), self.text

    def answer(self, word: str) -> tuple[int, str]:
        os.write(self.master, f"{word}\n".encode())
        until = time.monotonic() + 60
        while self.read(until):
            pass
        return self.child.wait(60), self.text


@contextmanager
def question(*words: str):
    asked = Question(*words)
    try:
        asked.wait()
        yield asked
    finally:
        asked.child.kill()
        asked.child.wait()
        os.close(asked.master)


@pytest.fixture
def shop(serve, database_url):
    """A gateway with ten entries, and its database."""
    gateway = serve()
    for number in range(10):
        gateway.rest.set(f"orders/o{number}", {"n": number})
    return gateway, database_url


def begins(url: str) -> int:
    return sql.rows(url, "select retained_from from pathmirror.namespace where name = 'default'")[0][0]


def test_a_prune_keeps_the_entries_of_a_reader_that_came_meanwhile(shop):
    gateway, url = shop
    with question("log", "prune", "--keep", "3 entries", "--database-url", url) as asked:
        assert "Drop 7 of 10 entries of default (seq 1 to 7)" in asked.text
        Feed(gateway.rest, headers=ADMIN).make("/orders/{order_id}", start={"seq": 4})
        wait_until(lambda: sql.rows(url, "select seq from pathmirror.log_cursor where kind = 'feed'") == [(4,)], "the feed to need entries")
        code, text = asked.answer("y")
    assert code == 0 and "feed orders still needs the entries after seq 4." in text, text
    assert begins(url) == 5


def test_a_drop_of_all_dead_letters_drops_none_that_it_has_not_named(shop):
    gateway, url = shop
    feed = Feed(gateway.rest, headers=ADMIN).make("/orders/{order_id}", max_attempts=1)
    gateway.rest.set("orders/a", 1)
    feed.nack([feed.one()], reason="no")
    wait_until(lambda: len(feed.dead()) == 1, "a dead letter")
    words = ("feed", "dead", "drop", "orders", "--all", "--database-url", url)
    with question(*words) as asked:
        gateway.rest.set("orders/b", 1)
        feed.nack([feed.one()], reason="no")
        wait_until(lambda: len(feed.dead()) == 2, "another dead letter")
        code, text = asked.answer("y")
    assert code == 1 and "changed while the question was open. Nothing was dropped" in text, text
    assert len(feed.dead()) == 2
    cli.succeeds(*words, "--yes")
    assert feed.dead() == []


def test_keys_of_clients_send_nothing_to_the_terminal(shop):
    gateway, url = shop
    seq = int(gateway.rest.set("orders/x\x9b31m\u202ey", 1).headers["X-Pathmirror-Seq"])
    with question("log", "undo", str(seq), "--database-url", url) as asked:
        assert "Plan to undo entry" in asked.text
        assert not any(mark in asked.text for mark in ("\x9b", "\u202e"))
