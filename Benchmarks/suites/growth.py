"""Whether a write costs the same at any size: leaves, children of one node, namespaces, listeners elsewhere."""

from dataclasses import dataclass
from statistics import median

from harness.connections import Connections
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Load, wrk
from harness.machine import raise_open_files
from harness.report import figure, typical
from suites.namespaces import visit
from suites.puts import LENGTH

NAME = "growth"
TITLE = "Growth"
TEXT = """PUTs of 200 bytes to random leaves by 64 connections, with growing amounts of existing data.
The data is leaves in nodes of 100 children, as many leaves as children of one node, or namespaces; or there are listeners on another path.
Among namespaces, the PUTs write a number to four leaves of each.
The leaves of trees have values as long as those that replace them.
Otherwise rows grow, pages fill up, and every row that moves needs another entry in the index.
Each size takes turns with the smallest one.
The aim is for trees whose index fits into PostgreSQL's cache (`shared_buffers`).
The table also states the write-ahead log of a write.
After a checkpoint PostgreSQL logs each page completely at its first change, and random writes into a large tree change more such pages.
PostgreSQL needs this against torn pages; it is no cost of the gateway."""

WIDTH = 100
LISTENERS = 1_000


@dataclass(frozen=True)
class Grown:
    load: Load
    # Bytes of write-ahead log of a PUT.
    wal: float
    # The share of the tree's index pages that PostgreSQL found in its cache. PostgreSQL reports this up to a second late, so that some
    # are of the measurement before.
    hits: float


def run(context: Context):
    sizes = [100, 10_000, 100_000, *([1_000_000] if not context.quick else [])]
    sizes += [size for size in (10_000_000,) if context.leaves and context.leaves >= size]
    raise_open_files(LISTENERS + 500)
    with Gateway() as gateway:
        for width, kind in ((WIDTH, "leaves"), (0, "children of one node")):
            trees(context, gateway, sizes if width else [size for size in sizes if size in (100, 10_000, 100_000, 1_000_000)], width, kind)
        among_namespaces(context, gateway)
        elsewhere(context, gateway)


def put(context: Context, gateway: Gateway, query: str, leaves: int, width: int, seed: int, seconds: int) -> Grown:
    context.quiet.wait()
    before, hit, read = wal(gateway), *index_pages(gateway)
    load = wrk(gateway, "/", seconds, 64, "growth.lua", (query, leaves, width, seed, LENGTH))
    after = index_pages(gateway)
    hit, read = after[0] - hit, after[1] - read
    return Grown(load, (wal(gateway) - before) / (load.per_second * seconds), hit / (hit + read) if hit + read else 1)


def wal(gateway: Gateway) -> int:
    return int(gateway.sql("select pg_current_wal_lsn() - '0/0'"))


def index_pages(gateway: Gateway) -> tuple[int, int]:
    """Pages of the tree's indexes that were in PostgreSQL's cache so far, and those that were not."""
    hit, read = gateway.sql("select sum(idx_blks_hit), sum(idx_blks_read) from pg_statio_user_tables where relid = 'pathmirror.node'::regclass").split("|")
    return int(hit), int(read)


def index_bytes(gateway: Gateway) -> int:
    """The size of the index of all trees."""
    return int(gateway.sql("select pg_indexes_size('pathmirror.node')"))


def trees(context: Context, gateway: Gateway, sizes: list[int], width: int, kind: str):
    def named(size: int) -> str:
        return f"ns={'wide' if width == 0 else 'deep'}{size}"

    seconds = context.pick(3, 1)
    found: dict[int, list[Grown]] = {size: [] for size in sizes}
    indexes: dict[int, int] = {}
    for size in sizes:
        context.progress(f"{size:,} {kind}")
        before = index_bytes(gateway)
        fill(gateway, named(size).removeprefix("ns="), size, width)
        indexes[size] = index_bytes(gateway) - before
        # Waits for the load, which takes its time for ten million leaves.
        gateway.request("GET", f"/nothing.json?{named(size)}", patience=600)
    gateway.checkpoint()
    for size in sizes:
        # Not counted: this reaches pages without a write since the checkpoint, and unread nodes.
        context.progress(f"{size:,} {kind}, before the rounds")
        put(context, gateway, named(size), size, width, 0, seconds)
    for number in context.rounds(3, 1, until=300 if width else 400):
        for size in sizes:
            context.progress(f"{size:,} {kind}, round {number + 1}")
            found[size].append(put(context, gateway, named(size), size, width, number + 1, seconds))
    base, cache = found[10_000], int(gateway.sql("select pg_size_bytes(current_setting('shared_buffers'))"))
    for size in sizes:
        if size <= 10_000:
            continue
        pairs = list(zip(found[size], base))
        context.measure(f"PUTs a second into {size:,} {kind} / into 10,000", [a.load.per_second / b.load.per_second for a, b in pairs],
                        aim=0.8 if indexes[size] < cache else None,
                        absolute=f"{typical([a.load.per_second for a, _ in pairs])} against {typical([b.load.per_second for _, b in pairs])} a second; "
                        f"write-ahead log {figure(median(a.wal for a, _ in pairs))} against {figure(median(b.wal for _, b in pairs))} bytes; processor time "
                        f"{typical([a.load.cost for a, _ in pairs])} against {typical([b.load.cost for _, b in pairs])} µs, load generator included; "
                        f"index {figure(indexes[size] / 1e6)} MB, {figure(100 * min(a.hits for a, _ in pairs))} % of its pages that were looked up were in PostgreSQL's cache")
    context.plot(f"Processor time of a PUT by {kind}", kind, "µs, everything together",
                 {"processor time": [(size, median(each.load.cost for each in found[size])) for size in sizes]})
    context.plot(f"PUTs a second by {kind}", kind, "PUTs a second",
                 {"PUTs": [(size, median(each.load.per_second for each in found[size])) for size in sizes]})


def fill(gateway: Gateway, namespace: str, size: int, width: int):
    """By an import, which is fast."""
    path, value = gateway.root / "growth.json", "y" * LENGTH
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"bench":{')
        if width == 0:
            file.writelines(f'{"," if number else ""}"k{number}":"{value}"' for number in range(size))
        else:
            inner = ",".join(f'"k{number}":"{value}"' for number in range(width))
            file.writelines(f'{"," if node else ""}"n{node}":{{{inner}}}' for node in range(size // width))
        file.write("}}")
    gateway.command("import", path, "--ns", namespace, patience=1800)
    path.unlink()


def among_namespaces(context: Context, gateway: Gateway):
    many = context.namespaces or context.pick(2_000, 200)
    context.progress(f"making {many:,} namespaces")
    visit(gateway, "PUT", many)
    gateway.checkpoint()
    counts, seconds = [1, 100, many], context.pick(3, 1)
    found: dict[int, list[Load]] = {count: [] for count in counts}
    for count in counts:
        wrk(gateway, "/", seconds, 64, "namespaces.lua", (count, 0))
    for number in context.rounds(2, 1, until=480):
        for count in counts:
            context.progress(f"among {count:,} namespaces, round {number + 1}")
            context.quiet.wait()
            found[count].append(wrk(gateway, "/", seconds, 64, "namespaces.lua", (count, number + 1)))
    for count in counts[1:]:
        pairs = list(zip(found[count], found[1]))
        context.measure(f"PUTs a second among {count:,} namespaces / in one", [a.per_second / b.per_second for a, b in pairs], aim=0.8,
                        absolute=f"{typical([a.per_second for a, _ in pairs])} against {typical([b.per_second for _, b in pairs])} a second; processor time "
                        f"{typical([a.cost for a, _ in pairs])} against {typical([b.cost for _, b in pairs])} µs, load generator included")
    context.plot("PUTs a second by namespaces", "namespaces", "PUTs a second",
                 {"PUTs": [(count, median(load.per_second for load in found[count])) for count in counts]})


def elsewhere(context: Context, gateway: Gateway):
    """Listeners that a write does not concern."""
    seconds, pairs = context.pick(3, 1), []
    fill(gateway, "default", 10_000, WIDTH)
    for number in context.rounds(3, 1, until=540):
        context.progress(f"listeners elsewhere, round {number + 1}")
        alone = put(context, gateway, "ns=default", 10_000, WIDTH, number, seconds)
        with Connections(gateway.port, "/elsewhere", stream=LISTENERS):
            pairs.append((put(context, gateway, "ns=default", 10_000, WIDTH, number, seconds), alone))
    context.measure(f"PUTs a second beside {LISTENERS:,} SSE listeners on another path / without", [a.load.per_second / b.load.per_second for a, b in pairs],
                    aim=0.8, absolute=f"processor time {typical([a.load.cost for a, _ in pairs])} against {typical([b.load.cost for _, b in pairs])} µs, "
                    "load generator included")
