"""This build against an earlier one, side by side: the cost or gain of a change."""

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
    races = [*(Race(text, load, number) for text, load, number in LOADS),
             FanoutRace(f"{LISTENERS:,} SSE listeners", {"stream": LISTENERS}),
             FanoutRace(f"{LISTENERS:,} WebSocket listeners", {"listen": LISTENERS})]
    for first in (0, 1):
        half(context, races, first)
    for race in races:
        race.report(context)
    context.note("above 1 this build is faster; both gateways and both PostgreSQLs run all the time, one of them idle; "
                 "half of the rounds run on a pair whose other gateway was started first")


def half(context: Context, races: list, first: int):
    """Runs half of the rounds on a pair of gateways. The gateway that starts first is 3 to 5 % slower, even if both run the same
    binary, so the other half needs a pair that starts in the opposite order."""
    binaries = [None, context.before]
    with Gateway(binaries[first]) as one, Gateway(binaries[1 - first]) as other:
        sides = [Side(one, context), Side(other, context)]
        if first:
            sides.reverse()
        for side in sides:
            side.fill()
        for race in races:
            race.run(context, sides)
        for side in sides:
            result = json.loads(side.gateway.command("log", "verify", "--json"))
            if not result["clean"]:
                raise Wrong(f"log verify found {result['differences']} differences")


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


def turns(number: int):
    """Alternates which side goes first, because the machine is warmer for the second one."""
    for turn in range(number):
        yield turn, (0, 1) if turn % 2 else (1, 0)


class Race:
    """One load on both builds."""

    SECONDS, ROUNDS = (4, 2), (3, 2)

    def __init__(self, text: str, load, number: int):
        self.text, self.load, self.number = text, load, number
        self.found: list[list[Load]] = [[], []]

    def run(self, context: Context, sides: list[Side]):
        for turn, order in turns(context.pick(*self.ROUNDS)):
            context.progress(f"{self.text}, round {turn + 1}")
            for index in order:
                self.found[index].append(self.load(sides[index], context.pick(*self.SECONDS), self.number))

    def report(self, context: Context):
        now, before = self.found
        context.measure(self.text + ": now / before", [a.per_second / b.per_second for a, b in zip(now, before)],
                        absolute=f"{typical([a.per_second for a in now])} against "
                        f"{typical([b.per_second for b in before])} a second")
        context.measure("  processor time of one: before / now", [b.cost / a.cost for a, b in zip(now, before)],
                        absolute=f"{typical([b.cost for b in before])} against {typical([a.cost for a in now])} microseconds")


class FanoutRace:
    """Events to many listeners on both builds."""

    ROUNDS = (2, 1)

    def __init__(self, text: str, kinds: dict[str, int]):
        self.text, self.kinds = text, kinds
        self.found = [Fanout(), Fanout()]

    def run(self, context: Context, sides: list[Side]):
        for turn, order in turns(context.pick(*self.ROUNDS)):
            context.progress(f"{self.text}, round {turn + 1}")
            for index in order:
                gateway = sides[index].gateway
                context.quiet.wait()
                writer = Writer(gateway)
                writer.put()
                with Connections(gateway.port, PATH, **self.kinds) as listeners:
                    self.found[index].measure(writer, listeners, context.pick(40, 20), context.pick(3, 1))
                writer.connection.close()

    def report(self, context: Context):
        now, before = self.found
        context.measure(f"{self.text}, one writer: events a second: now / before",
                        [a / b for a, b in zip(now.delivered, before.delivered)],
                        absolute=f"{typical(now.delivered)} against {typical(before.delivered)} a second")
        context.measure("  processor time of an event: before / now", [b / a for a, b in zip(now.costs, before.costs)])
