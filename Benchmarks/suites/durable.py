"""Durable writes, one request each, by more and more connections: against SQL on the same PostgreSQL, and against etcd."""

from statistics import median

from harness.context import Context
from harness.etcd import Etcd
from harness.gateway import Gateway
from harness.load import FOLDER, Load, wrk
from harness.report import typical
from suites.puts import KEYS, LENGTH, Sides, filled, verify

NAME = "durable"
TITLE = "Durable writes"
TEXT = """A PUT of a string of 200 bytes to one of 10,000 existing paths, by 1 to 256 keep-alive connections.
pgbench, on the same PostgreSQL, inserts a log row and upserts a leaf in one transaction and one round trip.
etcd (one member) gets a put of the same value by its HTTP gateway.
pgbench's sequence may have gaps, and pgbench does not use HTTP.
etcd's own protocol is gRPC, which its HTTP gateway translates.
PostgreSQL has a hundred connections here, so 256 connections to the gateway are compared with 64 clients of pgbench."""

CONNECTIONS = (1, 8, 64, 256)
# PostgreSQL has a hundred connections: services with more clients use a pool.
POOL = 64
# etcd has no quotes around its value; a length that base64 needs no padding for.
ETCD_LENGTH = 201


def run(context: Context):
    with Gateway() as gateway, Etcd() as etcd:
        gateway.sql((FOLDER / "pgbench" / "schema.sql").read_text())
        filled(gateway, context)
        compare(Sides(gateway, context, context.pick(3, 1)), etcd, context)
        gateway.sql("set client_min_messages = warning; drop schema pathmirror_bench cascade")
        verify(gateway, context)


def compare(sides: Sides, etcd: Etcd, context: Context):
    puts: dict[int, list[Load]] = {count: [] for count in CONNECTIONS}
    sql: dict[int, list[Load]] = {count: [] for count in CONNECTIONS}
    peer: dict[int, list[Load]] = {count: [] for count in CONNECTIONS}
    # Once, so that every key exists.
    wrk(etcd, "/", 2, 64, "etcd.lua", (1, KEYS, 0, ETCD_LENGTH))
    for number in context.rounds(3, 1, until=120):
        for count in CONNECTIONS:
            context.progress(f"{count} connections, round {number + 1}")
            puts[count].append(sides.put(connections=count))
            if count <= POOL:
                sql[count].append(sides.sql("write_pipelined.sql", clients=count))
            sides.settle()
            peer[count].append(wrk(etcd, "/", sides.seconds, count, "etcd.lua", (1, KEYS, sides.seed, ETCD_LENGTH)))

    def rates(text: str, ours: list[Load], others: list[Load], **options):
        context.measure(text, [a.per_second / b.per_second for a, b in zip(ours, others)],
                        absolute=f"{typical([a.per_second for a in ours])} against {typical([b.per_second for b in others])} a second", **options)

    for count in CONNECTIONS:
        text = f"PUTs a second, {count} connection{'s' if count > 1 else ''}"
        if sql[count]:
            rates(f"{text} / pgbench, as many clients", puts[count], sql[count], aim=3.0 if count == 64 else None)
        if count > POOL:
            rates(f"{text} / pgbench, {POOL} clients", puts[count], sql[POOL])
        rates(f"{text} / etcd's puts", puts[count], peer[count], aim=5.0 if count == 64 else None)
        if count == 1:
            for name, others, bound in (("pgbench's, one client", sql[1], 1.2), ("etcd's", peer[1], None)):
                context.measure(f"latency of a PUT, 1 connection / {name} (lower is better)",
                                [a.latency / b.latency for a, b in zip(puts[1], others)], at_most=bound,
                                absolute=f"{typical([a.latency for a in puts[1]])} against {typical([b.latency for b in others])} ms")
    context.measure("processor time of a write, 64 connections: pgbench's / a PUT's",
                    [b.cost / a.cost for a, b in zip(puts[64], sql[64])],
                    absolute=f"{typical([b.cost for b in sql[64]])} against {typical([a.cost for a in puts[64]])} µs, load generators included")
    context.measure("processor time of a write, 64 connections: etcd's / a PUT's",
                    [b.cost / a.cost for a, b in zip(puts[64], peer[64])],
                    absolute=f"{typical([b.cost for b in peer[64]])} against {typical([a.cost for a in puts[64]])} µs, load generators included")
    sides_by_name = {"Pathmirror, PUT": puts, "pgbench, pipelined": sql, "etcd, put over HTTP": peer}
    context.plot("Durable writes a second by connections", "connections", "writes a second",
                 {name: [(count, median(load.per_second for load in side[count])) for count in CONNECTIONS if side[count]]
                  for name, side in sides_by_name.items()}, log_y=True)
    context.plot("Latency of a durable write by connections", "connections", "milliseconds, median",
                 {name: [(count, median(load.latency for load in side[count])) for count in CONNECTIONS if side[count]]
                  for name, side in sides_by_name.items()}, log_y=True)

