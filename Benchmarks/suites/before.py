"""This build against an earlier one, side by side: what a change cost, or brought."""

import json

from harness import machine
from harness.connections import Connections
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Load, Wrong, writers, wrk
from harness.report import typical
from suites.listeners import PATH, Fanout, Writer
from suites.puts import KEYS, LENGTH

NAME = "before"
LISTENERS = 1_000
OTHER_FILES = 500


def run(context: Context):
    if not context.before:
        raise Wrong("name the earlier binary: --before BINARY")
    machine.raise_open_files(2 * LISTENERS + OTHER_FILES)
    with Gateway() as now, Gateway(context.before) as before:
        sides = [Side(now, context), Side(before, context)]
        for side in sides:
            side.fill()
        loads(context, sides)
        fanout(context, sides)
        for side in sides:
            result = json.loads(side.gateway.command("log", "verify", "--json"))
            if not result["clean"]:
                raise Wrong(f"log verify found {result['differences']} differences")
    context.note("above 1 this build is faster; both gateways and both PostgreSQLs run all the time, one of them idle")


class Side:
    """One of the two builds."""

    def __init__(self, gateway: Gateway, context: Context):
        self.gateway, self.context = gateway, context
        self.seed = 0

    def fill(self):
        self.gateway.request("PUT", "/bench.json", json.dumps({f"k{key}": "y" * LENGTH for key in range(1, KEYS + 1)}))
        self.gateway.request("PUT", "/users.json", json.dumps({f"u{n}": {"name": f"Ada {n}", "age": n} for n in range(1000)}))

    def settle(self):
        self.seed += 1
        self.gateway.checkpoint()
        self.context.quiet.wait()

    def put(self, seconds: int, connections: int) -> Load:
        self.settle()
        return wrk(self.gateway, "/", seconds, connections, "put.lua", ("leaf", KEYS, self.seed, LENGTH))

    def update(self, seconds: int, connections: int) -> Load:
        self.settle()
        return wrk(self.gateway, "/", seconds, connections, "update.lua", (KEYS, self.seed, LENGTH))

    def get(self, seconds: int, _: int) -> Load:
        self.context.quiet.wait()
        return wrk(self.gateway, "/users/u7/name.json", seconds)

    def query(self, seconds: int, _: int) -> Load:
        self.context.quiet.wait()
        return wrk(self.gateway, "/users.json?orderBy=%22%24key%22&limitToFirst=20", seconds)

    def write(self, seconds: int, in_flight: int) -> Load:
        self.settle()
        return writers(self.gateway, seconds, 64, in_flight, KEYS, LENGTH, self.seed)


LOADS = [
    ("PUTs a second, 64 connections", Side.put, 64),
    ("PUTs a second, one connection", Side.put, 1),
    ("PUTs a second, 8 connections", Side.put, 8),
    ("PUTs a second, 256 connections", Side.put, 256),
    ("updates of ten paths a second, 64 connections", Side.update, 64),
    ("GETs of a small value a second, 64 connections", Side.get, 64),
    ("queries of 20 of 1,000 children a second, 64 connections", Side.query, 64),
    ("WebSocket writes a second, 64 connections, 16 in flight each", Side.write, 16),
]


def loads(context: Context, sides: list[Side]):
    seconds = context.pick(4, 2)
    for text, load, number in LOADS:
        found: list[list[Load]] = [[], []]
        for turn in range(context.pick(6, 3)):
            context.progress(f"{text}, round {turn + 1}")
            # Who goes first has the warmer, or the colder, machine: that changes.
            for index in (0, 1) if turn % 2 else (1, 0):
                found[index].append(load(sides[index], seconds, number))
        now, before = found
        context.measure(text + ": now / before", [a.per_second / b.per_second for a, b in zip(now, before)],
                        absolute=f"{typical([a.per_second for a in now])} against "
                        f"{typical([b.per_second for b in before])} a second")
        context.measure("  processor time of one: before / now", [b.cost / a.cost for a, b in zip(now, before)],
                        absolute=f"{typical([b.cost for b in before])} against {typical([a.cost for a in now])} microseconds")


def fanout(context: Context, sides: list[Side]):
    for text, kinds in ((f"{LISTENERS:,} SSE listeners", {"stream": LISTENERS}),
                        (f"{LISTENERS:,} WebSocket listeners", {"listen": LISTENERS})):
        found = [Fanout(), Fanout()]
        for turn in range(context.pick(4, 2)):
            context.progress(f"{text}, round {turn + 1}")
            for index in (0, 1) if turn % 2 else (1, 0):
                gateway = sides[index].gateway
                context.quiet.wait()
                writer = Writer(gateway)
                writer.put()
                with Connections(gateway.port, PATH, **kinds) as listeners:
                    found[index].measure(writer, listeners, context.pick(40, 20), context.pick(3, 1))
                writer.connection.close()
        now, before = found
        context.measure(f"{text}, one writer: events a second: now / before",
                        [a / b for a, b in zip(now.delivered, before.delivered)],
                        absolute=f"{typical(now.delivered)} against {typical(before.delivered)} a second")
        context.measure("  processor time of an event: before / now", [b / a for a, b in zip(now.costs, before.costs)])
