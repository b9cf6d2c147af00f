"""One writer and 1 to 10,000 listeners on one path, beside a server in C that does nothing but send the same bytes."""

import os
from statistics import median

from harness import machine
from harness.broadcast import Broadcast
from harness.connections import Connections
from harness.context import Context
from harness.gateway import Gateway
from harness.report import figure, typical
from harness.wrong import Wrong
from suites.listeners import PATH, Fanout, Writer, slowed

NAME = "live"
TITLE = "Live fan-out"
TEXT = """One writer PUTs changing values to a path on which 1 to 10,000 clients listen, by server-sent events or realtime WebSockets.
`clients/broadcast.c` has as many threads as there are processors, and sends the same bytes to as many sockets, without a database or a protocol.
The client that counts the events is one process on the same two processors for both sides, so the race compares the server's processor time.
With one listener nearly all of that time is the write itself, which the broadcast does not have; with many listeners its share should vanish.
Every listener must receive every event, once and in order.
The writer sends the next value after the answer to the previous one, so the times are those of a closed loop."""

COUNTS = (1, 100, 1_000, 10_000)
OTHER_FILES = 500


def run(context: Context):
    counts = [count for count in COUNTS if count <= context.pick(10_000, 1_000)]
    if machine.raise_open_files(max(counts) + OTHER_FILES) < max(counts) + OTHER_FILES:
        raise Wrong(f"{max(counts):,} open files are not allowed here")
    with Gateway() as gateway:
        slowed(context, gateway, 1_000, aim=0.6)
        costs: dict[str, list] = {}
        for kind, text in (("stream", "SSE"), ("listen", "WebSocket")):
            for count in counts:
                ours, raw = compare(context, gateway, f"{count:,} {text} listeners", {kind: count})
                costs.setdefault(f"Pathmirror, {text}", []).append((count, 1e6 * median(ours.costs)))
                costs.setdefault(f"broadcast in C, {text}", []).append((count, 1e6 * median(raw.costs)))
                told(context, text, count, ours, raw)
        context.plot("Processor time of an event by listeners", "listeners", "µs of the server's processor time", costs, log_y=True)
        context.plot("Processor time of a write with its events by listeners", "listeners", "µs of the server's processor time",
                     {name: [(count, cost * count) for count, cost in points] for name, points in costs.items()}, log_y=True)


def compare(context: Context, gateway: Gateway, text: str, kinds: dict[str, int]) -> tuple[Fanout, Fanout]:
    events, seconds = context.pick(20, 10), context.pick(2, 1)
    ours, raw = Fanout(), Fanout()
    for number in range(context.pick(3, 1)):
        context.progress(f"{text}, round {number + 1}")
        context.quiet.wait()
        writer = Writer(gateway)
        writer.put()
        with Connections(gateway.port, PATH, **kinds) as listeners:
            ours.measure(writer, listeners, events, seconds)
        writer.connection.close()
        context.quiet.wait()
        with Broadcast(sum(kinds.values()), len(os.sched_getaffinity(0))) as broadcast:
            with Connections(broadcast.port, PATH, **{f"raw_{kind}": count for kind, count in kinds.items()}) as listeners:
                broadcast.accepted()
                raw.measure(broadcast, listeners, events, seconds)
    return ours, raw


def told(context: Context, text: str, count: int, ours: Fanout, raw: Fanout):
    name = f"{count:,} {text} listener{'s' if count > 1 else ''}"
    context.measure(f"{name}: processor time an event, gateway / broadcast (lower is better)", [a / b for a, b in zip(ours.costs, raw.costs)],
                    at_most=1.15,
                    absolute=f"{typical([cost * 1e6 for cost in ours.costs])} against {typical([cost * 1e6 for cost in raw.costs])} µs; "
                    f"{figure(100 * ours.share)} % of all delivered")
    context.measure("  events a second / broadcast", [a / b for a, b in zip(ours.delivered, raw.delivered)],
                    absolute=f"{typical(ours.delivered)} against {typical(raw.delivered)} a second; last delivery p50 "
                    f"{typical(ours.times)} against {typical(raw.times)} ms")
