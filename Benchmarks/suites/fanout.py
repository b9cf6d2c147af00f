"""A thousand listeners on one path and one writer."""

import http.client
import statistics
import time

from harness import machine
from harness.connections import Connections
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong
from harness.report import figure, typical

NAME = "fanout"
LISTENERS = 1_000


class Writer:
    """One keep-alive connection that PUTs ever other values to the path."""

    def __init__(self, gateway: Gateway):
        self.connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        self.count = 0

    def put(self):
        self.count += 1
        self.connection.request("PUT", "/room/topic.json?print=silent", f'"message {self.count}"')
        answer = self.connection.getresponse()
        answer.read()
        if answer.status != 204:
            raise Wrong(f"a PUT was answered with {answer.status}")

    def rate(self, seconds: float) -> float:
        start, first = time.monotonic(), self.count
        while time.monotonic() < start + seconds:
            self.put()
        return (self.count - first) / (time.monotonic() - start)


def run(context: Context):
    machine.raise_open_files(LISTENERS + 500)
    seconds = context.pick(3, 1.5)
    ratios, delivered, shares, times = [], [], [], []
    with Gateway() as gateway:
        for number in context.rounds(3, 1, until=25):
            context.progress(f"round {number + 1}")
            writer = Writer(gateway)
            writer.put()
            context.quiet.wait()
            alone = writer.rate(seconds)
            with Connections(gateway.port, LISTENERS, "/room/topic") as listeners:
                times += latencies(writer, listeners, context.pick(200, 60))
                first, start = writer.count, time.monotonic()
                beside = writer.rate(seconds)
                events, end = heard(listeners, writer.count - first)
                delivered.append(events * LISTENERS / (end / 1e9 - start))
                shares.append(events / (writer.count - first))
            ratios.append(beside / alone)
    context.measure(f"one writer's PUTs beside {LISTENERS:,} listeners / without", ratios,
                    absolute=f"{typical(delivered)} events a second delivered, {figure(100 * min(shares))} % of all")
    ordered = sorted(times)
    middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    context.measure(f"from a PUT's sending to the last of {LISTENERS:,} deliveries: p99 / p50", [late / middle],
                    absolute=f"p50 {figure(middle)} ms, p99 {figure(late)} ms")
    context.note("the listeners' process is a Python program and takes part of the time; events that slow listeners "
                 "were spared by conflation are missing from the share delivered")


def latencies(writer: Writer, listeners: Connections, count: int) -> list[float]:
    """Milliseconds from sending a PUT until each listener has its event, one PUT at a time."""
    found = []
    for _ in range(count):
        start = time.monotonic_ns()
        writer.put()
        report = listeners.reached(10)
        if report is None:
            raise Wrong("not all listeners got an event within 10 s")
        found.append((report[1] - start) / 1e6)
    listeners.seen = count
    return found


def heard(listeners: Connections, written: int) -> tuple[int, int]:
    """How many events each listener has had of those that were written, and when the last one came."""
    events, end = 0, time.monotonic_ns()
    while events < written:
        report = listeners.reached(2)
        if report is None:
            break
        events, end = report[0] - listeners.seen, report[1]
    return events, end
