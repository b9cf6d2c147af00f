"""kill -9 of the gateway and of PostgreSQL, and commits whose answer is lost, while sessions have many writes in flight each: so many that
a batch is sent while the one before it is being committed.

Every acknowledged write is in the log exactly once, a session's writes are there in the order in which it sent them, and `log verify` is
clean. PATHMIRROR_E2E_CRASH_ROUNDS and PATHMIRROR_E2E_SEED change the number and the dice.
"""

import os
import random
import threading
import time
from collections import Counter

import pytest
from harness import cli, sql
from harness.gateway import start_serve
from harness.ports import free_port
from harness.proxy import Proxy
from harness.waiting import Late, wait_until
from harness.websocket import Closed, Rejected
from harness.websocket_client import RealtimeClient
from test_crash import kill_gateway

SESSIONS = 3
IN_FLIGHT = 40


class Session(threading.Thread):
    """Writes paths of its own, `IN_FLIGHT` at a time, each once, and remembers the acknowledged ones."""

    def __init__(self, port: int, number: int):
        super().__init__(daemon=True)
        self.port, self.number, self.ends = port, number, threading.Event()
        self.count = 0
        self.acknowledged: list[int] = []
        self.unknown = 0
        self.connections = 0
        self.wrong: list = []

    def run(self):
        while not self.ends.is_set():
            try:
                # Requests of each connection have numbers from 1; its writes, from `first`.
                with RealtimeClient(self.port, "default") as client:
                    self.connections += 1
                    self._write(client)
            except (OSError, Closed, Rejected, Late):
                self.ends.wait(0.02)

    def _write(self, client: RealtimeClient):
        first, answered = self.count, 0
        try:
            while not self.ends.is_set() or answered < client.number:
                while not self.ends.is_set() and client.number - answered < IN_FLIGHT:
                    self.count += 1
                    client.ask("p", {"p": f"s{self.number}/n{self.count}", "d": self.count})
                answered += 1
                answer = client.answer(answered)
                if answer["s"] == "ok":
                    self.acknowledged.append(first + answered)
                elif answer["s"] in ("unavailable", "disconnected", "unknown", "overloaded", "internal_error"):
                    self.unknown += 1
                else:
                    self.wrong.append(answer)
        finally:
            self.unknown += client.number - answered


def progress(sessions):
    """Waits until each session has a hundred more acknowledged writes."""
    before = [len(session.acknowledged) for session in sessions]
    wait_until(lambda: all(len(session.acknowledged) > count + 100 or session.wrong for session, count in zip(sessions, before)),
               "every session to have writes acknowledged", 40)


def at_work(port: int) -> list[Session]:
    sessions = [Session(port, number) for number in range(SESSIONS)]
    for session in sessions:
        session.start()
    return sessions


def come_to_the_end(sessions):
    progress(sessions)
    for session in sessions:
        session.ends.set()
    for session in sessions:
        session.join(90)
        assert not session.is_alive()


def judge(url: str, sessions):
    assert [session.wrong for session in sessions if session.wrong] == []
    entries = sql.log_entries(url)
    assert [seq for seq, _ in entries] == list(range(1, sql.head(url) + 1)), "the seqs have gaps"
    written = [list(changes.items()) for _, changes in entries]
    assert all(len(changes) == 1 for changes in written)
    times = Counter(path for ((path, _),) in written)
    assert [path for path, count in times.items() if count > 1] == [], "written twice"
    for session in sessions:
        mine = [value for ((path, value),) in written if path.startswith(f"/s{session.number}/")]
        assert mine == sorted(mine), "a later write has an earlier seq"
        lost = set(session.acknowledged) - set(mine)
        assert lost == set(), f"acknowledged and lost: {sorted(lost)[:10]}"
        assert len(session.acknowledged) == len(set(session.acknowledged)), "acknowledged twice"
    cli.verify("--database-url", url)
    print(f"{sum(len(session.acknowledged) for session in sessions)} writes acknowledged, {sum(session.unknown for session in sessions)} unknown, "
          f"{len(entries)} entries, {sum(session.connections for session in sessions)} connections")


@pytest.mark.acceptance
def test_crashes_with_batches_under_way(own_postgres, scratch, logs):
    rounds = int(os.environ.get("PATHMIRROR_E2E_CRASH_ROUNDS", "8"))
    seed = int(os.environ.get("PATHMIRROR_E2E_SEED", random.randrange(10**9)))
    print(f"seed {seed}")
    dice = random.Random(seed)
    url = own_postgres.create_database()
    gateway = start_serve(url, scratch, logs, port=free_port())
    behind = 0.0
    try:
        sessions = at_work(gateway.port)
        for _ in range(rounds):
            for victim in ("gateway", "postgres"):
                # The kill is at a random moment, anywhere in the life of two batches.
                progress(sessions)
                time.sleep(dice.uniform(0.0, 0.15))
                if victim == "gateway":
                    behind += gateway.metric("pathmirror_pipelined_batches_total")
                    gateway = kill_gateway(gateway, scratch, logs)
                else:
                    own_postgres.kill()
                    own_postgres.start()
        come_to_the_end(sessions)
        judge(url, sessions)
        assert behind > rounds, "no batch followed another"
    finally:
        gateway.sweep()


def test_commits_whose_answer_is_lost_with_a_batch_behind(postgres, scratch, logs):
    url = postgres.create_database()
    with Proxy(postgres.port) as proxy:
        gateway = start_serve(url.replace(f":{postgres.port}/", f":{proxy.port}/"), scratch, logs)
        try:
            sessions = at_work(gateway.port)
            for _ in range(20):
                progress(sessions)
                proxy.lose_answer(b"COMMIT\0")
            come_to_the_end(sessions)
            judge(url, sessions)
            assert gateway.metric("pathmirror_pipelined_batches_total") > 20
            assert gateway.metric("pathmirror_commit_unknown_total") >= 20
        finally:
            gateway.sweep()
