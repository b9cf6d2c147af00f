"""One atomic update of ten paths, against an etcd transaction of ten puts and an SQL transaction of ten upserts."""

from harness.context import Context
from harness.etcd import Etcd
from harness.gateway import Gateway
from harness.load import FOLDER, Load, pgbench, wrk
from harness.report import typical
from suites.puts import KEYS, LENGTH, Sides, filled, verify

NAME = "fanout"
TITLE = "Fan-out writes"
TEXT = """One atomic update of ten paths with a string of 200 bytes each, which is one entry of the log, by 64 connections (PATCH).
etcd executes a transaction of ten puts of the same values by its HTTP gateway.
SQL executes a transaction of one log insert and ten upserts, in two statements and one round trip."""

ETCD_LENGTH = 201
CONNECTIONS = 64


def run(context: Context):
    with Gateway() as gateway, Etcd() as etcd:
        gateway.sql((FOLDER / "pgbench" / "schema.sql").read_text())
        filled(gateway, context)
        compare(Updates(gateway, context, context.pick(3, 1)), etcd, context)
        gateway.sql("set client_min_messages = warning; drop schema pathmirror_bench cascade")
        verify(gateway, context)


class Updates(Sides):
    def update(self) -> Load:
        self.settle()
        return wrk(self.gateway, "/", self.seconds, CONNECTIONS, "update.lua", (KEYS, self.seed, LENGTH))

    def upserts(self) -> Load:
        self.settle()
        return pgbench(self.gateway, "write_ten.sql", self.seconds, CONNECTIONS, keys=KEYS, filler="x" * (LENGTH - 9))

    def puts(self, etcd: Etcd) -> Load:
        self.settle()
        return wrk(etcd, "/", self.seconds, CONNECTIONS, "etcd.lua", (10, KEYS, self.seed, ETCD_LENGTH))


def compare(sides: Updates, etcd: Etcd, context: Context):
    ours, sql, peer = [], [], []
    wrk(etcd, "/", 1, CONNECTIONS, "etcd.lua", (10, KEYS, 0, ETCD_LENGTH))
    for number in context.rounds(3, 1, until=45):
        context.progress(f"round {number + 1}")
        ours.append(sides.update())
        sql.append(sides.upserts())
        peer.append(sides.puts(etcd))
    for name, others in (("etcd transactions of ten puts", peer), ("SQL transactions of ten upserts, pipelined", sql)):
        context.measure(f"updates of ten paths a second / {name}", [a.per_second / b.per_second for a, b in zip(ours, others)], aim=3.0,
                        absolute=f"{typical([a.per_second for a in ours])} against {typical([b.per_second for b in others])} a second, p50 "
                        f"{typical([a.latency for a in ours])} against {typical([b.latency for b in others])} ms")
        context.measure("  processor time of one: theirs / ours", [b.cost / a.cost for a, b in zip(ours, others)],
                        absolute=f"{typical([b.cost for b in others])} against {typical([a.cost for a in ours])} µs, load generators included")
