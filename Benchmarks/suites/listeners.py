"""Thousands of listeners on one path and one writer, beside a server that only sends."""

import http.client
import os
import statistics
import time

from harness import machine
from harness.broadcast import Broadcast
from harness.connections import Connections
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong
from harness.processor import used_by
from harness.report import figure, typical

NAME = "listeners"
PATH = "/room/topic"
FEW = 1_000
MANY = 5_000
OTHER_FILES = 500


class Writer:
    """One keep-alive connection that PUTs always new values to the path."""

    def __init__(self, gateway: Gateway):
        self.connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        self.pid = gateway.pid
        self.count = 0

    def put(self):
        self.count += 1
        self.connection.request("PUT", f"{PATH}.json?print=silent", f'"message {self.count}"')
        answer = self.connection.getresponse()
        answer.read()
        if answer.status != 204:
            raise Wrong(f"a PUT was answered with {answer.status}")


class Fanout:
    """The figures of one side, over all rounds."""

    def __init__(self):
        # Events a second; seconds of the server's processor time an event; the client's share of a processor.
        self.delivered: list[float] = []
        self.costs: list[float] = []
        self.client: list[float] = []
        # Smallest share of the events that were delivered at all.
        self.share = 1.0
        # Milliseconds, of all rounds together, and each round's median.
        self.times: list[float] = []
        self.middles: list[float] = []

    def measure(self, writer: Writer | Broadcast, listeners: Connections, count: int, seconds: float):
        latencies(writer, listeners, 5)
        times = latencies(writer, listeners, count)
        self.times += times
        self.middles.append(statistics.median(times))
        first, start = writer.count, time.monotonic()
        cost, client = used_by(writer.pid), used_by(listeners.pid)
        while time.monotonic() < start + seconds:
            writer.put()
        written = writer.count - first
        events, end = heard(listeners, written)
        took = end / 1e9 - start
        self.delivered.append(events * listeners.count / took)
        self.costs.append((used_by(writer.pid) - cost) / (events * listeners.count))
        self.client.append((used_by(listeners.pid) - client) / took)
        self.share = min(self.share, events / written)


def run(context: Context):
    many = min(MANY, (machine.raise_open_files(2 * MANY + OTHER_FILES) - OTHER_FILES) // 2)
    with Gateway() as gateway:
        slowed(context, gateway, min(FEW, many))
        for text, kinds in ((f"{many:,} SSE listeners", {"stream": many}),
                            (f"{many:,} WebSocket listeners", {"listen": many}),
                            (f"{many:,} of each", {"stream": many, "listen": many})):
            compare(context, gateway, text, kinds)
    context.note("delivered events are counted where they arrive, by a client in C whose process takes part of the time, on both "
                 "sides alike; times are from sending a PUT (or the broadcast's command) to the arrival of the last event; the "
                 "broadcast has neither database nor protocol: what it does is the limit")


def slowed(context: Context, gateway: Gateway, few: int, aim: float | None = None):
    """The loss of a writer by listeners."""
    seconds = context.pick(3, 1)
    ratios, shares = [], []
    for number in context.rounds(3, 1, until=20):
        context.progress(f"one writer, round {number + 1}")
        writer = Writer(gateway)
        writer.put()
        context.quiet.wait()
        alone = rate(writer, seconds)
        with Connections(gateway.port, PATH, stream=few) as listeners:
            first = writer.count
            ratios.append(rate(writer, seconds) / alone)
            shares.append(heard(listeners, writer.count - first)[0] / (writer.count - first))
    context.measure(f"one writer's PUTs beside {few:,} SSE listeners / without", ratios, aim=aim,
                    absolute=f"{figure(100 * min(shares))} % of all events delivered")


def compare(context: Context, gateway: Gateway, text: str, kinds: dict[str, int]):
    count, seconds = context.pick(60, 20), context.pick(3, 1)
    ours, raw = Fanout(), Fanout()
    start = time.monotonic()
    for number in range(context.pick(3, 1)):
        if number and time.monotonic() > start + 25:
            break
        context.progress(f"{text}, round {number + 1}")
        context.quiet.wait()
        writer = Writer(gateway)
        writer.put()
        with Connections(gateway.port, PATH, **kinds) as listeners:
            ours.measure(writer, listeners, count, seconds)
        writer.connection.close()
        context.quiet.wait()
        # As many threads as the gateway has loops.
        with Broadcast(sum(kinds.values()), len(os.sched_getaffinity(0))) as broadcast:
            raw_kinds = {f"raw_{kind}": of_kind for kind, of_kind in kinds.items()}
            with Connections(broadcast.port, PATH, **raw_kinds) as listeners:
                broadcast.accepted()
                raw.measure(broadcast, listeners, count, seconds)
    context.measure(f"{text}: events a second / a broadcast in C", [a / b for a, b in zip(ours.delivered, raw.delivered)],
                    absolute=f"{typical(ours.delivered)} against {typical(raw.delivered)} a second, "
                    f"{figure(100 * ours.share)} % of all delivered")
    context.measure("  processor time an event: gateway / broadcast (lower is better)",
                    [a / b for a, b in zip(ours.costs, raw.costs)],
                    absolute=f"{typical([cost * 1e6 for cost in ours.costs])} against "
                    f"{typical([cost * 1e6 for cost in raw.costs])} microseconds; the client had "
                    f"{typical(ours.client)} of a processor")
    context.measure("  from a PUT to the last delivery, p50: gateway / broadcast (lower is better)",
                    [a / b for a, b in zip(ours.middles, raw.middles)],
                    absolute=f"{spread(ours.times)} against {spread(raw.times)}")


def spread(times: list[float]) -> str:
    ordered = sorted(times)
    return f"p50 {figure(statistics.median(ordered))} ms, p99 {figure(ordered[int(len(ordered) * 0.99)])} ms"


def rate(writer: Writer, seconds: float) -> float:
    """PUTs a second, one at a time."""
    start, first = time.monotonic(), writer.count
    while time.monotonic() < start + seconds:
        writer.put()
    return (writer.count - first) / (time.monotonic() - start)


def latencies(writer: Writer | Broadcast, listeners: Connections, count: int) -> list[float]:
    """Milliseconds from sending a PUT until each listener has its event, one PUT at a time."""
    found = []
    for _ in range(count):
        start = time.monotonic_ns()
        writer.put()
        report = listeners.reached(10)
        if report is None:
            raise Wrong("not all listeners got an event within 10 s")
        found.append((report[1] - start) / 1e6)
    listeners.seen += count
    return found


def heard(listeners: Connections, written: int) -> tuple[int, int]:
    """The number of written events that each listener has received, and the time of the last one."""
    events, end = 0, time.monotonic_ns()
    while events < written:
        report = listeners.reached(2)
        if report is None:
            break
        events, end = report[0] - listeners.seen, report[1]
    return events, end
