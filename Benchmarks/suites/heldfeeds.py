"""A feed while a session holds a snapshot open, so that PostgreSQL keeps every version of every row."""

import time

from harness import process
from harness.context import Context
from harness.gateway import Gateway
from harness.queues import Feeds, Worked, work
from harness.report import typical
from suites.feeds import CONSUMERS, times
from suites.snapshot import hold

NAME = "heldfeeds"
RATE = 2_000


def run(context: Context):
    with Gateway() as gateway:
        held(context, gateway, Feeds(gateway))


def held(context: Context, gateway: Gateway, feeds: Feeds):
    """PostgreSQL keeps every version of every row that an open snapshot still sees: a search may not pass through them."""
    seconds, window = context.pick(300, 45), context.pick(10, 5)
    # Messages to a closed connection are delivered again after the deadline: each measurement closes its own connections.
    name = feeds.fresh(CONSUMERS, ack_deadline="2s")

    def look() -> Worked:
        return work("feed", gateway.port, name, producers=16, rate=RATE, consumers=CONSUMERS, seconds=window)

    look()
    before = [look() for _ in range(2)]
    child = hold(gateway)
    try:
        found = []
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            context.progress(f"{time.monotonic() - start:.0f} of {seconds} s under a snapshot, {RATE:,} events a second")
            found.append(look())
    finally:
        process.stop(child)
    half = len(found) // 2
    first, last = found[:max(1, half)], found[half:]
    context.measure(f"{RATE:,} a second under a snapshot held open for {seconds} s: written, delivered and acknowledged / offered",
                    [each.produced / window / RATE for each in found], aim=0.95,
                    absolute=f"{typical([each.produced / window for each in found])} a second")
    context.measure("  from a write to its message, p50 / the write's own answer, in the second half",
                    [each.p50 / each.answer for each in last], at_most=1.5,
                    absolute=f"{times(last)}, answered after {typical([each.answer for each in last])} ms; before the snapshot "
                    f"{times(before)}, answered after {typical([each.answer for each in before])} ms")
    context.measure("  what the message takes beyond the write's answer, the second half - the first half",
                    [median(last) - median(first)], unit=" ms", at_most=0.5)
    context.measure("  the write's own answer, the second half / before the snapshot",
                    [each.answer / min(one.answer for one in before) for each in last])


def median(rounds: list[Worked]) -> float:
    return sorted(each.p50 - each.answer for each in rounds)[len(rounds) // 2]
