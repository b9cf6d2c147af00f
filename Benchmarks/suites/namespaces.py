"""Many namespaces: the cost of creating one, and their effect on the speed of PUTs."""

import http.client
import statistics
import threading
import time

from harness import machine
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Load, Wrong, wrk
from harness.processor import Meter
from harness.report import figure, typical

NAME = "namespaces"
FEW = 10
CONNECTIONS = 8


def run(context: Context):
    count = context.namespaces or context.pick(2_000, 300)
    with Gateway() as few, Gateway() as many:
        context.progress(f"making {FEW} and {count:,} namespaces")
        visit(few, "PUT", FEW)
        meter = Meter(many.pid, many.postmaster)
        made = visit(many, "PUT", count)
        spent = meter.used / count * 1e3
        again = visit(many, "PUT", count)
        context.measure("a namespace's first PUT / its second (lower is better)",
                        [statistics.median(made.each) / statistics.median(again.each)],
                        absolute=f"{count:,} made in {figure(made.seconds)} s by {CONNECTIONS} connections, "
                        f"{figure(statistics.median(made.each))} ms and {figure(spent)} ms of processor time each; the second "
                        f"{figure(statistics.median(again.each))} ms")
        tenth = max(1, count // 10)
        context.measure("  the last tenth's first PUT / the first tenth's",
                        [statistics.median(made.each[-tenth:]) / statistics.median(made.each[:tenth])])
        tables = partitions(many) - partitions(few)
        context.note(f"{count:,} namespaces have {tables} partitions more than {FEW} have")
        compare(few, many, context, count)
        idle(few, many, context, count)
        cold(many, context, count)


def partitions(gateway: Gateway) -> int:
    return int(gateway.sql(
        "select count(*) from pg_class where relispartition and relkind = 'r' and relnamespace = 'pathmirror'::regnamespace"))


class Visits:
    """Requests to one namespace after another."""

    def __init__(self, seconds: float, each: list[float]):
        self.seconds, self.each = seconds, each


def visit(gateway: Gateway, method: str, count: int) -> Visits:
    """One request to each namespace, by several connections."""
    each: list[float] = [0.0] * count
    numbers = iter(range(count))
    lock = threading.Lock()
    failures: list[str] = []

    def work():
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
        while not failures:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            start = time.monotonic()
            connection.request(method, f"/first.json?ns=n{number + 1}", str(start) if method == "PUT" else None)
            answer = connection.getresponse()
            content = answer.read()
            each[number] = (time.monotonic() - start) * 1e3
            if answer.status != 200:
                failures.append(f"{method} to namespace n{number + 1} was answered with {answer.status}: {content[:200]!r}")
        connection.close()

    start = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Wrong(failures[0])
    return Visits(time.monotonic() - start, each)


def compare(few: Gateway, many: Gateway, context: Context, count: int):
    seconds = context.pick(4, 2)

    def put(gateway: Gateway, namespaces: int, connections: int, seed: int) -> Load:
        gateway.checkpoint()
        context.quiet.wait()
        return wrk(gateway, "/", seconds, connections, "namespaces.lua", (namespaces, seed))

    ones, loads = [], []
    for number in context.rounds(5, 2, until=240):
        context.progress(f"PUTs, round {number + 1}")
        ones.append((put(many, count, 1, number), put(few, FEW, 1, number)))
        loads.append((put(many, count, 16, number), put(few, FEW, 16, number)))
    context.measure(f"latency of a PUT among {count:,} namespaces / among {FEW}, 1 connection (lower is better)",
                    [here.latency / there.latency for here, there in ones], at_most=1.5,
                    absolute=f"{typical([here.latency for here, _ in ones])} against "
                    f"{typical([there.latency for _, there in ones])} ms")
    context.measure("  processor time of one (lower is better)", [here.cost / there.cost for here, there in ones],
                    absolute=f"{typical([here.cost for here, _ in ones])} against "
                    f"{typical([there.cost for _, there in ones])} microseconds, load generators included")
    context.measure(f"PUTs a second, 16 connections, {count:,} namespaces / {FEW}, whose writes share transactions",
                    [here.per_second / there.per_second for here, there in loads],
                    absolute=f"{typical([here.per_second for here, _ in loads])} against "
                    f"{typical([there.per_second for _, there in loads])} a second")


def idle(few: Gateway, many: Gateway, context: Context, count: int):
    """The cost of their maintenance without requests, and of the metrics."""
    context.progress("doing nothing")
    used = []
    for gateway in (few, many):
        visit(gateway, "GET", FEW)
        meter = Meter(gateway.pid, gateway.postmaster)
        time.sleep(5)
        used.append(meter.used / 5)
    start = time.monotonic()
    report = many.request("GET", "/.metrics")
    seconds = time.monotonic() - start
    context.measure(f"processors used while {count:,} namespaces are idle", [used[1] * 100], unit=" %",
                    absolute=f"{figure(used[0] * 100)} % with {FEW}")
    context.measure("  time of /.metrics", [seconds * 1e3], unit=" ms", absolute=f"{len(report):,} bytes")


def cold(many: Gateway, context: Context, count: int):
    """Loading them all after a restart: a namespace's time and memory."""
    context.progress("loading them all")
    many.restart()
    visit(many, "GET", FEW)
    empty = machine.settled_resident_bytes(many.pid)
    loaded = visit(many, "GET", count)
    full = machine.settled_resident_bytes(many.pid)
    again = visit(many, "GET", count)
    context.measure("a namespace's first GET after a restart / its second (lower is better)",
                    [statistics.median(loaded.each) / statistics.median(again.each)],
                    absolute=f"{figure(statistics.median(loaded.each))} against {figure(statistics.median(again.each))} ms, "
                    f"{CONNECTIONS} connections; all in {figure(loaded.seconds)} s")
    context.measure("memory a loaded namespace", [(full - empty) / (count - FEW)], unit=" bytes")
