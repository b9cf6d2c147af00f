"""Producers and acknowledging consumers (clients/queue.c), and the engines that are compared with a feed."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import machine, process
from .clients import client
from .gateway import Gateway
from .redis import Redis
from .wrong import Wrong

OWNER = {"Authorization": "Bearer owner"}


@dataclass(frozen=True)
class Worked:
    """The measurements of clients/queue.c; times in milliseconds."""

    produced: int
    acknowledged: int
    per_second: float
    # From the request of a write to the receipt of its message.
    p50: float
    p99: float
    # From the request of a write to its answer.
    answer: float


def work(kind: str, target, name: str, *, producers: int = 0, rate: float = 0, consumers: int = 0, max: int = 100,
         each: bool = False, events: int = 0, seconds: float = 120, keys: int = 10_000, length: int = 200) -> Worked:
    """Runs the program; a message without an acknowledgement at the end is a failure."""
    result = json.loads(process.run(
        [client("queue", "libpq"), kind, target, name, producers, rate, consumers, max, "each" if each else "batch", events, seconds,
         keys, length], seconds + 60))
    wanted = result["produced"] if producers else events
    # More is possible: messages in flight to a consumer of the run before are delivered again.
    if consumers and result["acknowledged"] < wanted:
        raise Wrong(f"{kind}: {result['acknowledged']} of {wanted} messages were acknowledged")
    count = result["acknowledged"] if consumers else result["produced"]
    return Worked(result["produced"], result["acknowledged"], count / result["micros"] * 1e6, result["p50"] / 1e3, result["p99"] / 1e3,
                  result["answer50"] / 1e3)


class Feeds:
    """The gateway's own queue: a new feed for each round."""

    kind = "feed"

    def __init__(self, gateway: Gateway):
        self.gateway, self.target, self._count = gateway, gateway.port, 0

    def fresh(self, consumers: int, **definition) -> str:
        """Creates a feed that begins now, and removes the one before."""
        if self._count:
            self.gateway.request("DELETE", f"/.feeds/bench{self._count}", headers=OWNER)
        self._count += 1
        name = f"bench{self._count}"
        self.gateway.request("PUT", f"/.feeds/{name}", json.dumps({"path": "/bench/{key}", **definition}), headers=OWNER)
        return name

    def fill(self, name: str, events: int, consumers: int):
        work(self.kind, self.target, name, producers=64, events=events)


class Streams(Redis):
    """Redis with a stream for each round."""

    kind = "redis"

    def __init__(self):
        super().__init__()
        self._count = 0

    def fresh(self, consumers: int) -> str:
        """Creates a stream with a group, and removes the one before."""
        if self._count:
            self.ask("DEL", f"bench{self._count}")
        self._count += 1
        name = f"bench{self._count}"
        self.ask("XGROUP", "CREATE", name, "g", "0", "MKSTREAM")
        return name

    def fill(self, name: str, events: int, consumers: int):
        work(self.kind, self.target, name, producers=64, events=events)


class PgQ:
    """PgQ in the gateway's PostgreSQL. A consumer of PgQ takes a whole queue, so each has its own queue, by key. Use as a context.

    `period` is the interval of its daemon's checks for a tick, in seconds; a message is available only after the next tick."""

    kind = "pgq"

    def __init__(self, gateway: Gateway, period: float = 1, lag: str = "3 seconds"):
        self.gateway, self.period, self.lag, self._queues = gateway, period, lag, []
        self._count = 0
        self.target = " ".join(f"{name}={value}" for name, value in (
            ("host", gateway.environment["PGHOST"]), ("port", 5432), ("user", "pathmirror"), ("dbname", "pathmirror")))

    def __enter__(self) -> "PgQ":
        self.gateway.sql("set client_min_messages = warning; create extension if not exists pgq")
        settings = self.gateway.root / f"pgqd-{self.period}.ini"
        settings.write_text(f"[pgqd]\nbase_connstr = {self.target.rpartition(' ')[0]}\ninitial_database = pathmirror\n"
                            f"database_list = pathmirror\nticker_period = {self.period}\nsyslog = 0\n")
        self._child = process.start([machine.program("pgqd"), settings], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.drop()
        process.stop(self._child)

    def drop(self):
        for queue in self._queues:
            self.gateway.sql(f"select pgq.unregister_consumer('{queue}', 'bench'); select pgq.drop_queue('{queue}')")
        self._queues = []

    def fresh(self, consumers: int) -> str:
        self.drop()
        self._count += 1
        name = f"bench{self._count}x"
        self._queues = [f"{name}{number}" for number in range(consumers)]
        for queue in self._queues:
            self.gateway.sql(f"select pgq.create_queue('{queue}'); select pgq.set_queue_config('{queue}', 'ticker_max_lag', '{self.lag}'); "
                             f"select pgq.set_queue_config('{queue}', 'ticker_idle_period', '{self.lag}'); "
                             f"select pgq.register_consumer('{queue}', 'bench')")
        return name

    def fill(self, name: str, events: int, consumers: int):
        """In pieces of some hundred with a tick after each, like those of its daemon."""
        piece = 500
        for _ in range(events // piece // consumers):
            self.gateway.sql("".join(
                f"select pgq.insert_event('{queue}', 'write', '@1@' || repeat('x', 197)) from generate_series(1, {piece}) \\g /dev/null\n"
                f"select pgq.force_tick('{queue}') \\g /dev/null\nselect pgq.ticker('{queue}') \\g /dev/null\n" for queue in self._queues))
