"""kill -9 of the gateway, then of PostgreSQL, at random moments, while eight writers work and one stream is resumed.

Every acknowledged write is in the log exactly once, the seqs are gapless, `log verify` is clean, and the stream has
every entry once and in order. PATHMIRROR_E2E_CRASH_ROUNDS and PATHMIRROR_E2E_SEED change the number and the dice.
"""

import http.client
import os
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from harness import cli, sql
from harness.gateway import start_serve
from harness.ports import free_port
from harness.proxy import Proxy
from harness.sse import Listener, Refused
from harness.waiting import wait_until
from oracle.tree import normal

WRITERS = 8


class Writer(threading.Thread):
    """Writes records of its own, each once, and remembers the acknowledged ones."""

    def __init__(self, rest, number: int):
        super().__init__(daemon=True)
        self.rest, self.number, self.stop = rest, number, threading.Event()
        self.puts: dict[str, int] = {}
        self.posts: dict[str, int] = {}
        self.unknown = 0
        self.wrong: list = []

    def run(self):
        count = 0
        while not self.stop.is_set():
            count += 1
            record = {"w": self.number, "n": count}
            try:
                if count % 2:
                    path = f"puts/w{self.number}n{count}"
                    response = self.rest.put(path, record)
                    if response.status == 200:
                        self.puts[path] = response.seq
                else:
                    response = self.rest.post("posts", record)
                    if response.status == 200:
                        self.posts[f"posts/{response.json()['name']}"] = count
                if response.status not in (200, 503):
                    self.wrong.append((record, response.status, response.body))
                if response.status == 503:
                    self.unknown += 1
                    self.stop.wait(0.02)
            except (OSError, http.client.HTTPException):
                # The outcome of this write is unknown: the log has it at most once.
                self.unknown += 1
                self.stop.wait(0.02)


class Reader(threading.Thread):
    """One stream, resumed after every break with the last id. It keeps all events in the order of their arrival."""

    def __init__(self, rest, stop: threading.Event):
        super().__init__(daemon=True)
        self.rest, self.stop = rest, stop
        self.events = []
        self.resumed = 0
        self.last_id: int | None = None
        self.value = None
        self.failure: Exception | None = None

    def run(self):
        while not self.stop.is_set():
            try:
                listener = Listener(self.rest, last_event_id=self.last_id, value=self.value)
            except Refused as refusal:
                if refusal.status != 503:
                    self.failure = refusal
                    return
                time.sleep(0.02)
                continue
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            self.resumed += 1
            while not listener.ended and not self.stop.is_set():
                time.sleep(0.01)
                self.last_id = listener.last_id
            listener.close()
            self.last_id, self.value = listener.last_id, listener.value
            self.events += listener.events


def kill_gateway(gateway, scratch, logs):
    gateway.process.kill()
    return start_serve(gateway.database_url, scratch, logs, port=gateway.port, wait=False)


@contextmanager
def at_work(rest):
    """Runs eight writers at full speed and one stream, and ends them in any case."""
    rest.set(value={"start": True})
    stop = threading.Event()
    reader = Reader(rest, stop)
    writers = [Writer(rest, number) for number in range(WRITERS)]
    try:
        reader.start()
        wait_until(lambda: reader.last_id, "the stream to begin")
        for writer in writers:
            writer.start()
        yield writers, reader
    finally:
        stop.set()
        for writer in writers:
            writer.stop.set()


def come_to_the_end(gateway, rest, writers, reader):
    """Stops the writers, and waits until the stream has emitted all entries."""
    progress(writers)
    stop_writing(writers)
    gateway.wait_ready()
    # This thread's connection was to a former gateway.
    rest.close()
    last = rest.set("end", True).seq
    wait_until(lambda: reader.last_id and reader.last_id >= last, "the stream to reach the end", 30)
    reader.stop.set()
    reader.join(20)


@pytest.mark.acceptance
def test_twenty_crashes(own_postgres, scratch, logs):
    rounds = int(os.environ.get("PATHMIRROR_E2E_CRASH_ROUNDS", "20"))
    seed = int(os.environ.get("PATHMIRROR_E2E_SEED", random.randrange(10**9)))
    print(f"seed {seed}")
    dice = random.Random(seed)
    url = own_postgres.create_database()
    gateway = start_serve(url, scratch, logs, port=free_port())
    rest = gateway.unique()
    try:
        with at_work(rest) as (writers, reader):
            for _ in range(rounds):
                for victim in ("gateway", "postgres"):
                    # The kill is at a random moment, anywhere in the life of a batch.
                    progress(writers)
                    time.sleep(dice.uniform(0.0, 0.15))
                    if victim == "gateway":
                        gateway = kill_gateway(gateway, scratch, logs)
                    else:
                        own_postgres.kill()
                        own_postgres.start()
            come_to_the_end(gateway, rest, writers, reader)
            judge(url, rest, writers, reader)
            # One for the beginning, and one for every gateway after the first.
            assert reader.resumed > rounds, "the stream continued without its gateway"
    finally:
        gateway.sweep()


def test_commits_whose_answer_is_lost(postgres, scratch, logs):
    """A kill rarely falls between a commit and its answer. Every round of this test does, and the gateway must determine the outcome."""
    url = postgres.create_database()
    with Proxy(postgres.port) as proxy:
        gateway = start_serve(url.replace(f":{postgres.port}/", f":{proxy.port}/"), scratch, logs)
        rest = gateway.unique()
        try:
            with at_work(rest) as (writers, reader):
                for _ in range(20):
                    progress(writers)
                    proxy.lose_answer(b"COMMIT\0")
                come_to_the_end(gateway, rest, writers, reader)
                judge(url, rest, writers, reader)
        finally:
            gateway.sweep()


def stop_writing(writers):
    for writer in writers:
        writer.stop.set()
    for writer in writers:
        writer.join(90)


def progress(writers):
    """Waits until each writer has one more acknowledged write."""
    before = [len(writer.puts) for writer in writers]

    def all_went_on():
        return all(len(writer.puts) > count or writer.wrong for writer, count in zip(writers, before))

    wait_until(all_went_on, "every writer to have a write acknowledged", 25)


def judge(url, rest, writers, reader):
    assert [writer.wrong for writer in writers if writer.wrong] == []
    entries = sql.log_entries(url)
    assert [seq for seq, _ in entries] == list(range(1, sql.head(url) + 1)), "the seqs have gaps"
    times = Counter()
    where = {}
    for seq, changes in entries:
        for path, value in changes.items():
            path = path.removeprefix(f"/{rest.base}/")
            times[path] += 1
            where[path] = (seq, value)
    assert [path for path, count in times.items() if count > 1] == [], "written twice"
    records = Counter((value["w"], value["n"]) for _, value in where.values() if isinstance(value, dict) and "w" in value)
    assert [record for record, count in records.items() if count > 1] == [], "one request, two entries"
    acknowledged = 0
    for writer in writers:
        for path, seq in writer.puts.items():
            acknowledged += 1
            assert path in where, f"acknowledged and lost: {path} at {seq}"
            assert where[path][0] == seq, path
            assert path == "puts/w{w}n{n}".format(**where[path][1])
        assert list(writer.puts.values()) == sorted(writer.puts.values()), "a later write has an earlier seq"
        for path, count in writer.posts.items():
            acknowledged += 1
            assert path in where, f"acknowledged and lost: {path}"
            assert where[path][1] == {"w": writer.number, "n": count}, path
    cli.verify("--database-url", url)
    judge_stream(entries, rest, reader)
    print(f"{acknowledged} writes acknowledged, {sum(writer.unknown for writer in writers)} unknown, "
          f"{len(entries)} entries, stream resumed {reader.resumed - 1} times")


def judge_stream(entries, rest, reader):
    assert reader.failure is None, reader.failure
    numbers = [event.id for event in reader.events]
    assert numbers == sorted(set(numbers)), "an id repeats or goes back"
    # The stream is far from the limit at which a gateway skips events, so no fresh put is allowed.
    fresh = [event.id for event in reader.events[1:] if event.kind == "put" and event.path == "/"]
    assert fresh == [], "the stream started again instead of resuming"
    missed = {seq for seq, _ in entries if seq > numbers[0]} - set(numbers)
    assert missed == set(), f"the stream missed {sorted(missed)[:10]}"
    assert reader.value == normal(rest.value()), "the folded stream is not the value"
    told = {event.id: (event.path, event.data) for event in reader.events}
    for seq, changes in entries:
        if seq > numbers[0]:
            (path, value), = changes.items()
            assert told[seq] == (path.removeprefix(f"/{rest.base}"), value)
