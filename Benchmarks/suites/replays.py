"""Former states: a past tree against an export of the present one, and entries applied again against the gateway's PUTs."""

import json
import time

from harness.context import Context
from harness.dataset import dataset
from harness.gateway import Gateway
from harness.load import Wrong, wrk
from harness.report import figure, typical

NAME = "replays"
KEYS = 10_000
LENGTH = 198


def run(context: Context):
    context.progress("making the data (once)")
    data = dataset(context.pick(1_000_000, 200_000))
    with Gateway() as gateway:
        imported = timed(context, gateway, lambda: gateway.command("import", data.export))
        gateway.command("log", "snapshot")
        snapshot = head(gateway)
        # Enough for about this many entries; the machine determines their number.
        wanted, puts, seed = context.pick(200_000, 30_000), [], 0
        while head(gateway) - snapshot < wanted:
            seed += 1
            context.progress(f"writing entries, {head(gateway) - snapshot:,} so far")
            gateway.checkpoint()
            context.quiet.wait()
            puts.append(wrk(gateway, "/", context.pick(4, 2), 64, "put.lua", ("leaf", KEYS, seed, LENGTH)).per_second)
        past_tree(context, gateway, snapshot)
        applying(context, gateway, puts)
        applying_import(context, gateway, data.leaves, imported)


def head(gateway: Gateway) -> int:
    return int(gateway.sql("select head from pathmirror.namespace where name = 'default'"))


def timed(context: Context, gateway: Gateway, work) -> float:
    gateway.checkpoint()
    context.quiet.wait()
    start = time.monotonic()
    work()
    return time.monotonic() - start


def past_tree(context: Context, gateway: Gateway, snapshot: int):
    past, present = gateway.root / "past.json", gateway.root / "present.json"
    last = head(gateway)
    trees, starts, exports = [], [], []
    for number in context.rounds(3, 2, until=60):
        context.progress(f"past trees, round {number + 1}")
        exports.append(timed(context, gateway, lambda: gateway.command("export", "--output", present)))
        starts.append(timed(context, gateway, lambda: gateway.command("replay", "tree", "--at", snapshot, "--output", past)))
        trees.append(timed(context, gateway, lambda: gateway.command("replay", "tree", "--at", last, "--output", past)))
        if json.loads(past.read_bytes()) != json.loads(present.read_bytes()):
            raise Wrong("the tree rebuilt at the head is not the one that is exported")
    context.measure("export's time / time of the tree at a snapshot", [e / s for e, s in zip(exports, starts)],
                    absolute=f"{typical(exports)} against {typical(starts)} s")
    context.measure(f"  of the tree {last - snapshot:,} entries later", [e / t for e, t in zip(exports, trees)],
                    absolute=f"{typical(exports)} against {typical(trees)} s")
    context.note("the tree rebuilt at the head is the one that export gives; the log verifies by the same way")


def applying(context: Context, gateway: Gateway, puts: list[float]):
    count = context.pick(40_000, 10_000)
    file, last = gateway.root / "entries.ndjson", head(gateway)
    gateway.command("replay", "log", "--from", last - count + 1, "--output", file)
    rates = []
    for number in context.rounds(3, 2, until=75):
        context.progress(f"applying {count:,} entries, round {number + 1}")
        namespace = f"copy{number}"
        seconds = timed(context, gateway, lambda: gateway.command("replay", "apply", file, "--ns", namespace))
        rates.append(count / seconds)
        if gateway.sql(f"select head from pathmirror.namespace where name = '{namespace}'") != str(count):
            raise Wrong("not every entry was applied")
    context.measure("entries a second of replay apply / PUTs a second, 64 connections",
                    [rate / put for rate, put in zip(rates, puts * len(rates))],
                    absolute=f"{typical(rates)} against {typical(puts)} a second")


def applying_import(context: Context, gateway: Gateway, leaves: int, imported: float):
    context.progress(f"applying an import of {leaves:,} leaves")
    file = gateway.root / "import.ndjson"
    gateway.command("replay", "log", "--to", 1, "--output", file)
    seconds = timed(context, gateway, lambda: gateway.command("replay", "apply", file, "--ns", "bulk"))
    if gateway.sql("select count(*) from pathmirror.node where namespace_id = "
                   "(select id from pathmirror.namespace where name = 'bulk')") != str(leaves):
        raise Wrong("not every leaf was applied")
    context.measure(f"time of an import of {leaves:,} leaves / of replay apply of its entry", [imported / seconds],
                    absolute=f"{figure(imported)} against {figure(seconds)} s")
