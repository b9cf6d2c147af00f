"""Writes from SQL, by pathmirror.set, against hand-written transactions of a log insert and a leaf upsert."""

import json

from harness.context import Context
from harness.gateway import Gateway
from harness.load import FOLDER, Load, Wrong, pgbench
from harness.report import typical

NAME = "sql"
TITLE = "Writes from SQL"
TEXT = """`pathmirror.set` from SQL sessions, each write in a transaction of its own.
pgbench inserts a log row and upserts a leaf in one transaction and one round trip.
Its gapless variant takes the lock that seqs without gaps in commit order require, which Pathmirror's log promises.
1,000 writes in one transaction are compared with a loop on the server that does the same by hand."""
# The statements of write_many.sql.
KEYS = 10_000
LENGTH = 198


def run(context: Context):
    with Gateway() as gateway:
        value = "y" * LENGTH
        gateway.request("PUT", "/bench.json", json.dumps({f"k{key}": value for key in range(1, KEYS + 1)}))
        gateway.sql((FOLDER / "pgbench" / "schema.sql").read_text())
        gateway.sql(f"""insert into pathmirror_bench.node (namespace_id, path, value, version)
            select 1, '/bench/k' || key, '"{value}"', 0 from generate_series(1, {KEYS}) key;
            vacuum analyze pathmirror_bench.node; vacuum analyze pathmirror.node""")
        compare(context, gateway)
        gateway.sql("set client_min_messages = warning; drop schema pathmirror_bench cascade")
        result = json.loads(gateway.command("log", "verify", "--json"))
        if not result["clean"]:
            raise Wrong(f"log verify found {result['differences']} differences and {len(result['problems'])} problems")


def compare(context: Context, gateway: Gateway):
    seconds = context.pick(2, 1)

    def load(script: str, clients: int) -> Load:
        gateway.checkpoint()
        context.quiet.wait()
        return pgbench(gateway, script, seconds, clients, keys=KEYS, filler="x" * (LENGTH - 9))

    one, sixteen, many = [], [], []
    for number in context.rounds(6, 2, until=60):
        context.progress(f"round {number + 1}")
        one.append((load("sql_set.sql", 1), load("write_pipelined.sql", 1)))
        sixteen.append((load("sql_set.sql", 16), load("write_gapless.sql", 16), load("write_pipelined.sql", 16)))
        many.append((load("sql_set_many.sql", 1), load("write_many.sql", 1)))

    def ratio(text: str, pairs: list[tuple[Load, Load]], each: int = 1, **options):
        ours, theirs = ([side.per_second * each for side in sides] for sides in zip(*pairs))
        context.measure(text, [our / their for our, their in zip(ours, theirs)], **options,
                        absolute=f"{typical(ours)} against {typical(theirs)} a second")

    ratio("pathmirror.set, 1 session / pgbench's log insert and upsert, pipelined", one)
    ratio("  16 sessions / pgbench, pipelined, with gapless seqs as the log has", [(a, b) for a, b, _ in sixteen], aim=1.0)
    ratio("  16 sessions / pgbench, pipelined, with gaps", [(a, c) for a, _, c in sixteen])
    ratio("  1,000 in one transaction / the same by hand in a loop on the server", many, 1_000, aim=0.6)
    context.note("the writers of a namespace wait for each other's COMMIT, and so for each other's fsync, so the rates of SQL sessions do not "
                 "add up. Gateways combine writes instead; in SQL, `pathmirror.update` or one transaction for several writes does that")
