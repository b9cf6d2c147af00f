"""Durable PUTs against pgbench, which does one transaction a write on the same PostgreSQL."""

import json

from harness.context import Context
from harness.gateway import Gateway
from harness.load import FOLDER, Load, Wrong, pgbench, wrk
from harness.report import typical

NAME = "put"
KEYS = 10_000
# Together with quotes and a stamp of nine digits: a leaf of 200 bytes.
LENGTH = 198


def run(context: Context):
    with Gateway() as gateway:
        gateway.sql((FOLDER / "pgbench" / "schema.sql").read_text())
        filled(gateway, context)
        compare(gateway, context)
        gateway.sql("set client_min_messages = warning; drop schema pathmirror_bench cascade")
        verify(gateway, context)


class Sides:
    """The loads that are compared, one call a round. Every round has a seed of its own."""

    def __init__(self, gateway: Gateway, context: Context, seconds: int):
        self.gateway, self.context, self.seconds = gateway, context, seconds
        self.seed = 0

    def put(self, shape: str = "leaf", connections: int = 64, keys: int = KEYS) -> Load:
        self.settle()
        return wrk(self.gateway, "/", self.seconds, connections, "put.lua", (shape, keys, self.seed, LENGTH))

    def sql(self, script: str, clients: int = 64) -> Load:
        self.settle()
        return pgbench(self.gateway, script, self.seconds, clients, keys=KEYS, filler="x" * (LENGTH - 9))

    def settle(self):
        self.seed += 1
        self.gateway.checkpoint()
        self.context.quiet.wait()


def filled(gateway: Gateway, context: Context):
    """Every key is there before anything is measured, on both sides: all writes are updates of rows."""
    context.progress("filling both tables")
    value = "y" * LENGTH
    gateway.request("PUT", "/bench.json", json.dumps({f"k{key}": value for key in range(1, KEYS + 1)}))
    gateway.sql(f"""insert into pathmirror_bench.node (namespace_id, path, value, version)
        select 1, '/bench/k' || key, '"{value}"', 0 from generate_series(1, {KEYS}) key;
        vacuum analyze pathmirror_bench.node; vacuum analyze pathmirror.node""")


def compare(gateway: Gateway, context: Context):
    sides = Sides(gateway, context, context.pick(4, 2))
    puts, pipelined, plain, gapless = [], [], [], []
    for number in context.rounds(5, 2, until=75):
        context.progress(f"64 connections, round {number + 1}")
        puts.append(sides.put())
        pipelined.append(sides.sql("write_pipelined.sql"))
        plain.append(sides.sql("write.sql"))
        if number < context.pick(2, 0):
            gapless.append(sides.sql("write_gapless.sql"))

    def against(text: str, others: list[Load], **options):
        context.measure(text, [put.per_second / other.per_second for put, other in zip(puts, others)],
                        absolute=f"{typical([put.per_second for put in puts])} against "
                        f"{typical([other.per_second for other in others])} a second", **options)

    against("PUTs a second, 64 connections / pgbench, 64 clients, a round trip a statement", plain, aim=1.5)
    against("  / pgbench with each transaction in one round trip (pipelined)", pipelined)
    context.measure("  processor time of a write: pgbench's, pipelined / a PUT's",
                    [other.cost / put.cost for put, other in zip(puts, pipelined)],
                    absolute=f"{typical([other.cost for other in pipelined])} against "
                    f"{typical([put.cost for put in puts])} microseconds, load generators included")
    if gapless:
        against("  / pgbench, pipelined, with gapless seqs as the log has", gapless)

    sides.seconds = context.pick(3, 2)
    context.progress("objects of five fields")
    pairs = [(sides.put("object"), sides.sql("write_object.sql")) for _ in context.rounds(3, 1, until=100)]
    context.measure("PUTs of an object of five fields / pgbench, six rows a transaction, pipelined",
                    [put.per_second / sql.per_second for put, sql in pairs],
                    absolute=f"{typical([put.per_second for put, _ in pairs])} against "
                    f"{typical([sql.per_second for _, sql in pairs])} a second")
    context.progress("one connection")
    pairs = [(sides.put(connections=1), sides.sql("write_pipelined.sql", clients=1))
             for _ in context.rounds(3, 1, until=115)]
    context.measure("latency of a PUT, 1 connection / pgbench, 1 client, pipelined (lower is better)",
                    [put.latency / sql.latency for put, sql in pairs],
                    absolute=f"{typical([put.latency for put, _ in pairs])} against "
                    f"{typical([sql.latency for _, sql in pairs])} ms")


def verify(gateway: Gateway, context: Context):
    context.progress("verifying the log")
    result = json.loads(gateway.command("log", "verify", "--json"))
    if not result["clean"]:
        raise Wrong(f"log verify found {result['differences']} differences and {len(result['problems'])} problems")
    context.note(f"all answers were 2xx; `log verify` is clean after {result['head']:,} entries; pgbench's sequence "
                 "leaves gaps and disorder, and the log must have neither")
