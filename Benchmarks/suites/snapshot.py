"""The cost of an open snapshot for writers: PostgreSQL keeps every version of the row that each commit changes, and the search for the
newest one must not take longer the more there are."""

import subprocess
import time

from harness import machine, process
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Load, wrk
from harness.report import figure, typical

NAME = "snapshot"
KEYS = 5_000_000
HOLD = "begin isolation level repeatable read; select count(*) from pathmirror.namespace; select pg_sleep(3600);"


def run(context: Context):
    seconds = context.pick(300, 45)
    with Gateway() as held, Gateway() as free:
        # Both have written, so that the row and the statements are there.
        for gateway in (held, free):
            put(gateway, context, 2, 0)
        before = head(held)
        child = hold(held)
        try:
            ratios, first, last = [], [], []
            end = time.monotonic() + seconds
            number = 0
            while time.monotonic() < end:
                number += 1
                context.progress(f"{time.monotonic() - (end - seconds):.0f} of {seconds} s under a snapshot")
                load(held)
                here, there = put(held, context, 3, number), put(free, context, 3, number)
                ratios.append(here.latency / there.latency)
                (first if time.monotonic() < end - seconds / 2 else last).append(here.latency)
            versions = head(held) - before
        finally:
            process.stop(child)
        half = max(1, len(ratios) // 2)
        context.measure("latency of a PUT under a snapshot that is held open / without one, 1 connection (lower is better)",
                        ratios[half:], at_most=1.5,
                        absolute=f"{typical(last or first)} ms in the second half of {seconds} s, {versions:,} commits behind the snapshot")
        context.measure("  the second half / the first half", [typical_of(last or first) / typical_of(first or last)],
                        absolute=f"{figure(typical_of(first or last))} ms in the first")


def hold(gateway: Gateway) -> subprocess.Popen:
    """A session of its own with a snapshot of this moment."""
    child = process.start([machine.program("psql"), "-X", "-q", "-c", HOLD], env=gateway.environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while gateway.sql("select count(*) from pg_stat_activity where backend_xmin is not null and query like '%pg_sleep%' "
                      "and pid <> pg_backend_pid()").strip() == "0":
        if time.monotonic() > end:
            raise process.Failed("psql did not take its snapshot")
        time.sleep(0.1)
    return child


def head(gateway: Gateway) -> int:
    return int(gateway.sql("select head from pathmirror.namespace where name = 'default'"))


def load(gateway: Gateway):
    """Commits of one write each, so that versions accumulate."""
    wrk(gateway, "/", 6, 2, "put.lua", ("leaf", KEYS, 7, 20))


def put(gateway: Gateway, context: Context, seconds: float, seed: int) -> Load:
    return wrk(gateway, "/", seconds, 1, "put.lua", ("leaf", KEYS, seed, 20))


def typical_of(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
