"""Tools for tests of moves of namespaces: clients that write and listen during a move, and the checks after it."""

import contextlib
import json
import random
import signal
import subprocess
import threading
import time

import psycopg

from . import cli, sql
from .binary import pathmirror
from .sse import Listener, Refused
from .waiting import wait_until

# Two are the same text for Unicode, and one begins with a mark that combines with the slash before it.
KEYS = ["a", "b", "c", "caf\u00e9", "cafe\u0301", "\u0301x", "long" + "x" * 700]


def random_path(dice):
    return "/".join(dice.choice(KEYS) for _ in range(dice.randint(1, 4)))


def random_value(dice, depth=0):
    kind = dice.randrange(6)
    if kind == 0 and depth < 3:
        return {dice.choice(KEYS): random_value(dice, depth + 1) for _ in range(3)}
    if kind == 1:
        return {".value": dice.randrange(100), ".priority": dice.randrange(5)}
    return dice.choice([1, "text", True, None, 2.5])


class Load:
    """Writers that each count upwards and change random paths of `tree`, and a listener that resumes by its ids.

    A writer sends a number again if its write was not acknowledged, so the log may have that number twice. The log has each acknowledged
    number at the seq of its answer."""

    def __init__(self, rests, seed, writers=3, pause=0):
        """`rests` are clients of the namespace, one for each gateway. Each writer uses one of them, and another one if that gateway is
        away. `pause` is the longest time between two writes of one writer."""
        self.rests, self.seed, self.writers, self.pause = rests, seed, writers, pause
        self.stopped = threading.Event()
        # (seq, path, value), and how often each number was sent.
        self.acknowledged, self.sent = [], {}
        self.refused, self.longest, self.seen = [], 0.0, []
        self.threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]
        self.threads.append(threading.Thread(target=self._listen))

    def _write(self, number):
        dice = random.Random(self.seed * 100 + number)
        last, value, turn = time.monotonic(), 1, number
        while not self.stopped.is_set():
            rest = self.rests[turn % len(self.rests)]
            is_counted = dice.random() < 0.4
            path = f"by/{number}" if is_counted else "tree/" + random_path(dice)
            what = value if is_counted else random_value(dice)
            if is_counted:
                self.sent[number, value] = self.sent.get((number, value), 0) + 1
            try:
                answer = rest.put(path, what)
            except OSError:
                turn += 1
                time.sleep(0.02)
                continue
            if answer.status == 200:
                value += is_counted
                self.acknowledged.append((answer.seq, "/" + path if is_counted else None, what))
                self.longest = max(self.longest, time.monotonic() - last)
                last = time.monotonic()
                if self.pause:
                    time.sleep(dice.uniform(0, self.pause))
            elif answer.status != 400:
                self.refused.append(answer.status)
                time.sleep(0.02)

    def _listen(self):
        last, turn = None, 0
        while not self.stopped.is_set():
            try:
                with Listener(self.rests[turn % len(self.rests)].at("by"), last_event_id=last) as listener:
                    taken = 0
                    while not self.stopped.is_set() and not (listener.ended and taken == len(listener.events)):
                        while taken < len(listener.events):
                            event = listener.events[taken]
                            taken += 1
                            if event.id is not None:
                                last = event.id
                            self.seen.append(event)
                        time.sleep(0.005)
            except (Refused, OSError):
                turn += 1
                time.sleep(0.02)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.goes_on()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def goes_on(self, writes=30, patience=60):
        before = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) >= before + writes, "writes to continue", patience)

    def refusals(self):
        return {status: self.refused.count(status) for status in set(self.refused)}


def check(load, home, url, name):
    """Checks that the log has each acknowledged write at its seq and has no gaps, that the tree equals the log, and that listeners missed
    nothing."""
    cli.verify("--database-url", home, "--ns", name)
    entries = dict(sql.log_entries(url, name))
    assert sorted(entries) == list(range(min(entries), max(entries) + 1)), "the log has gaps"
    assert max(entries) == sql.head(url, name)
    seqs = [seq for seq, _, _ in load.acknowledged]
    assert len(seqs) == len(set(seqs)), "a seq was given twice"
    for seq, path, value in load.acknowledged:
        assert seq in entries, f"the acknowledged write at {seq} is gone"
        if path is not None:
            assert entries[seq] == {path: value}, (seq, entries[seq], path, value)
    written = {}
    for changes in entries.values():
        for path, value in changes.items():
            if path.startswith("/by/"):
                key = int(path[4:]), value
                written[key] = written.get(key, 0) + 1
    for key, times in written.items():
        assert times <= load.sent[key], f"{key} was sent {load.sent[key]} times and is there {times} times"
    # The listener received the numbers in order and without gaps, and twice only if they were written twice. A stream that could not
    # resume starts again with the whole value.
    last, begins = {}, 0
    for event in load.seen:
        if event.kind != "put":
            continue
        if event.path == "/":
            begins += 1
            now = {int(number): value for number, value in numbered(event.data)}
            assert all(now.get(number, 0) >= value for number, value in last.items()), (last, now)
            last.update(now)
        elif event.path.count("/") == 1:
            number = int(event.path[1:])
            before = last.get(number, event.data)
            assert event.data - before in (0, 1), (number, before, event.data)
            last[number] = event.data
    assert last, "the listener has heard nothing"
    return begins


def numbered(value):
    """The children of an array or object, by number."""
    if isinstance(value, list):
        return [(number, child) for number, child in enumerate(value) if child is not None]
    return (value or {}).items()


def mover(home, name, to, *more):
    """A process that moves a namespace."""
    return subprocess.Popen(
        [pathmirror(), "namespace", "move", name, "--to", to, "--database-url", home, *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def move(home, name, to, *more):
    """Moves the namespace and returns the report of the command."""
    return json.loads(cli.succeeds("namespace", "move", name, "--to", to, "--json", *more, "--database-url", home))


@contextlib.contextmanager
def held(url, *statements):
    """Holds the locks of another session until the end of the context."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)
        yield connection
        connection.rollback()


def waits(url):
    """Whether a mover waits for a lock there."""
    return sql.rows(url, "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, 'pathmirror namespace move') "
                    "AND wait_event_type = 'Lock' AND datname = current_database()") != [(0,)]


def ended(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def interrupted(url, lock, home, name, to):
    """A mover that is killed where it waits for a lock."""
    with held(url, lock):
        process = mover(home, name, to)
        wait_until(lambda: waits(url), "the mover to be there", 60)
        ended(process)
    wait_until(lambda: all(sql.rows(home, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE "
                                    "starts_with(application_name, 'pathmirror namespace move'))")[0]), "the mover's sessions to end", 60)


def finished(home, name, to):
    """Runs the command until it succeeds: the server may need a moment to notice that the former mover has ended."""
    def attempt():
        process = mover(home, name, to)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0 or "moving" in errors, errors
        return process.returncode == 0
    wait_until(attempt, "the move", 60)


def _database(url):
    return url.rsplit("/", 1)[1].split("?")[0]


def _copy_database(url, source, copy):
    """Makes `copy` a copy of the database `source`, and ends the connections to both."""
    with psycopg.connect(url.rsplit("/", 1)[0] + "/postgres", autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{source}" ALLOW_CONNECTIONS false')

        def made():
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN (%s, %s)", (source, copy))
            try:
                connection.execute(f'DROP DATABASE IF EXISTS "{copy}" WITH (FORCE)')
                connection.execute(f'CREATE DATABASE "{copy}" TEMPLATE "{source}"')
            except psycopg.Error:
                return False
            return True

        wait_until(made, "the database to be copied", 60)
        connection.execute(f'ALTER DATABASE "{source}" ALLOW_CONNECTIONS true')


def back_up(url):
    """Keeps a copy of a database for `restore`."""
    _copy_database(url, _database(url), _database(url) + "_kept")


def restore(url):
    """Restores a database from the copy of `back_up`."""
    _copy_database(url, _database(url) + "_kept", _database(url))
