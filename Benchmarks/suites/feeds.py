"""Events into acknowledging consumers: a feed beside Redis Streams with fsync and PgQ, which do the same work by turns in one run."""

from harness.context import Context
from harness.gateway import Gateway
from harness.queues import Feeds, PgQ, Streams, Worked, work
from harness.report import typical

NAME = "feeds"
TITLE = "Change feeds"
TEXT = """A durable feed, compared with consumer groups of Redis Streams (`appendonly yes`, `appendfsync always`) and with PgQ.
The messages are strings of 200 bytes at 10,000 keys, and a consumer acknowledges a message before it asks for more.
PgQ is in the same PostgreSQL as the gateway, with a queue for each consumer.
It acknowledges whole batches, whose size depends on its ticks, and its consumers poll every 2 ms.
Feeds also keep the order of each key, which the other two do not promise to several consumers.
Times count from the sending of a write, by a connection that waits for its answer.
If fewer writes are accepted than offered, these times omit the waits of the others, and are better than those of the offered rate.
The aims for that rate are the best published figures for a log server on two processors.
A missing message voids the race; other tests check the order.
PgQ's daemon sometimes does not tick for many seconds, which the largest figures show."""

CONSUMERS = 10
# The load of the best published figure for a log server on a machine of this size.
CROWD, OFFERED = 100, 17_000


def run(context: Context):
    with Gateway() as gateway, Streams() as redis:
        feeds = Feeds(gateway)
        drain(context, gateway, feeds, redis)
        live(context, gateway, feeds, redis)
        latency(context, gateway, feeds, redis)
        crowd(context, gateway, feeds)


def settle(context: Context, gateway: Gateway):
    gateway.checkpoint()
    context.quiet.wait()


def compared(context: Context, text: str, ours: list[Worked], others: list[Worked], **options):
    context.measure(text, [one.per_second / other.per_second for one, other in zip(ours, others)],
                    absolute=f"{typical([one.per_second for one in ours])} against {typical([other.per_second for other in others])} a second",
                    **options)


def drain(context: Context, gateway: Gateway, feeds: Feeds, redis: Streams):
    """A backlog, as after a consumer was away."""
    events = context.pick(50_000, 15_000)
    sides: dict[str, list[Worked]] = {"feed": [], "redis": [], "pgq": []}
    each: dict[str, list[Worked]] = {"feed": [], "redis": []}
    with PgQ(gateway) as pgq:
        for number in context.rounds(3, 1, until=60):
            for engine in (feeds, redis, pgq):
                context.progress(f"a backlog of {events:,} events, {engine.kind}, round {number + 1}")
                name = engine.fresh(CONSUMERS)
                engine.fill(name, events, CONSUMERS)
                settle(context, gateway)
                sides[engine.kind].append(work(engine.kind, engine.target, name, consumers=CONSUMERS, events=events))
                if engine is not pgq:
                    name = engine.fresh(CONSUMERS)
                    engine.fill(name, events // 5, CONSUMERS)
                    settle(context, gateway)
                    each[engine.kind].append(work(engine.kind, engine.target, name, consumers=CONSUMERS, events=events // 5, each=True))
    compared(context, f"a backlog into {CONSUMERS} consumers, 100 acknowledged at a time: feed / Redis Streams", sides["feed"], sides["redis"],
             aim=1.0)
    compared(context, "  / PgQ", sides["feed"], sides["pgq"])
    compared(context, "  each acknowledged by itself: feed / Redis Streams", each["feed"], each["redis"])


def live(context: Context, gateway: Gateway, feeds: Feeds, redis: Streams):
    """Writes, deliveries and acknowledgements at once, at full speed."""
    seconds = context.pick(5, 2)
    sides: dict[str, list[Worked]] = {"feed": [], "redis": [], "pgq": []}
    with PgQ(gateway, 0.05, "50 milliseconds") as pgq:
        for number in context.rounds(3, 1, until=130):
            for engine in (feeds, redis, pgq):
                context.progress(f"64 writers and {CONSUMERS} consumers, {engine.kind}, round {number + 1}")
                name = engine.fresh(CONSUMERS)
                settle(context, gateway)
                sides[engine.kind].append(
                    work(engine.kind, engine.target, name, producers=64, consumers=CONSUMERS, seconds=seconds))
    compared(context, f"64 writers into {CONSUMERS} consumers, written until acknowledged: feed / Redis Streams", sides["feed"], sides["redis"],
             aim=1.0)
    compared(context, "  / PgQ that ticks every 50 ms", sides["feed"], sides["pgq"])


def latency(context: Context, gateway: Gateway, feeds: Feeds, redis: Streams):
    """One writer at a low rate, one consumer that waits."""
    sides: dict[str, list[Worked]] = {}

    def measure(label: str, engine):
        context.progress(f"latency, {label}")
        name = engine.fresh(1)
        settle(context, gateway)
        sides.setdefault(label, []).append(
            work(engine.kind, engine.target, name, producers=1, rate=200, consumers=1, seconds=context.pick(5, 3)))

    for _ in context.rounds(3, 1, until=190):
        measure("feed", feeds)
        measure("Redis Streams", redis)
        with PgQ(gateway, 0.01, "10 milliseconds") as pgq:
            measure("PgQ that ticks every 10 ms", pgq)
        with PgQ(gateway) as pgq:
            measure("PgQ as it comes", pgq)
    ours = sides.pop("feed")
    for label, others in sides.items():
        context.measure(f"from a write to its message, p50: {label} / feed", [other.p50 / one.p50 for one, other in zip(ours, others)],
                        aim=3 if label == "PgQ as it comes" else None,
                        absolute=f"{times(others)} against {times(ours)}; answered after {typical([other.answer for other in others])} "
                        f"against {typical([one.answer for one in ours])} ms")


def times(rounds: list[Worked]) -> str:
    return f"p50 {typical([each.p50 for each in rounds])} ms, p99 {typical([each.p99 for each in rounds])} ms"


def crowd(context: Context, gateway: Gateway, feeds: Feeds):
    found = []
    for number in context.rounds(3, 1, until=230):
        context.progress(f"{CROWD} consumers, {OFFERED:,} writes a second offered, round {number + 1}")
        name = feeds.fresh(CROWD)
        settle(context, gateway)
        found.append(work("feed", gateway.port, name, producers=128, rate=OFFERED, consumers=CROWD, seconds=context.pick(8, 3)))
    rate = f"{typical([each.produced / context.pick(8, 3) for each in found])} writes a second were taken"
    context.measure(f"{CROWD} consumers at {OFFERED:,} writes a second offered: from a write to its message, p50",
                    [each.p50 for each in found], unit=" ms", at_most=3, absolute=rate)
    context.measure("  99th percentile", [each.p99 for each in found], unit=" ms", at_most=23)
