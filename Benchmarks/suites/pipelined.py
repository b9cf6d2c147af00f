"""Durable writes with several in flight on each connection, against XADD in a Redis that syncs its file before it answers."""

from statistics import median

from harness.context import Context
from harness.gateway import Gateway
from harness.load import FOLDER, Load, appends
from harness.redis import Redis
from harness.report import typical
from suites.puts import KEYS, LENGTH, filled, verify
from suites.wsputs import RealtimeSides

NAME = "pipelined"
TITLE = "Durable writes, pipelined"
TEXT = """The same writes by 64 realtime WebSockets, with 1, 4 and 16 writes in flight on each.
Redis, with `appendonly yes` and `appendfsync always`, gets XADDs of the same values, with as many connections and as many in flight.
HTTP PUTs are compared with XADDs with one in flight.
Redis appends to a file and to a list in memory, and has no tree, no rules and no SQL.
Like the gateway, it syncs once for all writes that arrived during the previous sync.
The aim is 0.6 first, and the rate of Redis later."""

CONNECTIONS = 64
DEPTHS = (1, 4, 16)


def run(context: Context):
    with Gateway() as gateway, Redis() as redis:
        gateway.sql((FOLDER / "pgbench" / "schema.sql").read_text())
        filled(gateway, context)
        compare(RealtimeSides(gateway, context, context.pick(3, 1)), redis, context)
        gateway.sql("set client_min_messages = warning; drop schema pathmirror_bench cascade")
        verify(gateway, context)


def compare(sides: RealtimeSides, redis: Redis, context: Context):
    puts: list[Load] = []
    ours: dict[int, list[Load]] = {depth: [] for depth in DEPTHS}
    theirs: dict[int, list[Load]] = {depth: [] for depth in DEPTHS}
    for number in context.rounds(3, 1, until=55):
        for depth in DEPTHS:
            context.progress(f"{depth} in flight, round {number + 1}")
            if depth == 1:
                puts.append(sides.put(connections=CONNECTIONS))
            ours[depth].append(sides.write(depth))
            sides.settle()
            theirs[depth].append(appends(redis, sides.seconds, CONNECTIONS, depth, KEYS, LENGTH + 2, sides.seed))

    def against(text: str, a: list[Load], b: list[Load], **options):
        context.measure(text, [x.per_second / y.per_second for x, y in zip(a, b)],
                        absolute=f"{typical([x.per_second for x in a])} against {typical([y.per_second for y in b])} a second, p50 "
                        f"{typical([x.latency for x in a])} against {typical([y.latency for y in b])} ms", **options)

    against(f"HTTP PUTs a second, {CONNECTIONS} connections / XADDs, one in flight", puts, theirs[1])
    for depth in DEPTHS:
        against(f"WebSocket writes a second, {CONNECTIONS} connections, {depth} in flight each / XADDs", ours[depth], theirs[depth],
                aim=0.6 if depth == 16 else None)
    context.measure("processor time of a write, 16 in flight: XADD's / WebSocket's", [b.cost / a.cost for a, b in zip(ours[16], theirs[16])],
                    absolute=f"{typical([b.cost for b in theirs[16]])} against {typical([a.cost for a in ours[16]])} µs, load generators included")
    context.plot(f"Writes a second by writes in flight on each of {CONNECTIONS} connections", "in flight", "writes a second",
                 {name: [(depth, median(load.per_second for load in side[depth])) for depth in DEPTHS]
                  for name, side in (("Pathmirror, WebSocket", ours), ("Redis, XADD", theirs))}, log_x=False)
