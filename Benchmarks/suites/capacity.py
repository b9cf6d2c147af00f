"""The cost of a write and a leaf: bytes on disk and of the write-ahead log, processor time. docs/guides/capacity.md uses these figures."""

import json

from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong, wrk
from suites.puts import LENGTH

NAME = "capacity"
KEYS = 10_000
WAYS = {1: "one connection", 64: "64 connections"}


def run(context: Context):
    with Gateway() as gateway:
        context.progress("loading the data")
        before = sizes(gateway)
        gateway.request("PUT", "/bench.json?print=silent", json.dumps({f"k{key}": "y" * LENGTH for key in range(1, KEYS + 1)}))
        gateway.sql("vacuum pathmirror.node")
        after = sizes(gateway)
        context.measure(f"disk for a leaf of {LENGTH} characters in the tree", [(after["tree"] - before["tree"]) / KEYS], unit=" bytes")
        for connections, text in WAYS.items():
            rounds = [costs(gateway, context, connections, seed) for seed in context.rounds(4, 1, until=60)]
            for what, unit in (("log", " bytes"), ("WAL", " bytes"), ("processor time", " µs")):
                context.measure(f"a PUT of {LENGTH} characters, {text}: {what}", [each[what] for each in rounds], unit=unit)
        result = json.loads(gateway.command("log", "verify", "--json"))
        if not result["clean"]:
            raise Wrong(f"log verify found {result['differences']} differences")
        context.note("the processor time is the gateway's, PostgreSQL's and the load generator's; the write-ahead log has a page's image at its first "
                     "change behind each checkpoint")


def costs(gateway: Gateway, context: Context, connections: int, seed: int) -> dict[str, float]:
    context.progress(f"writing by {connections} connections")
    gateway.checkpoint()
    before, head, wal = sizes(gateway), entries(gateway), position(gateway)
    load = wrk(gateway, "/", context.pick(8, 3), connections, "put.lua", ("leaf", KEYS, seed, LENGTH))
    count = entries(gateway) - head
    return {"log": (sizes(gateway)["log"] - before["log"]) / count, "WAL": (position(gateway) - wal) / count,
            "processor time": load.cost}


def entries(gateway: Gateway) -> int:
    return int(gateway.sql("select head from pathmirror.namespace where name = 'default'"))


def position(gateway: Gateway) -> int:
    return int(gateway.sql("select pg_current_wal_insert_lsn() - '0/0'"))


def sizes(gateway: Gateway) -> dict[str, int]:
    """With indexes and long values; partitions count with their table."""
    rows = gateway.sql("select case when relname like 'log%' then 'log' else 'tree' end, sum(pg_total_relation_size(oid)) from pg_class "
                       "where relnamespace = 'pathmirror'::regnamespace and relkind = 'r' and (relname like 'log%' or relname like 'node%') group by 1")
    return {name: int(size) for name, size in (row.split("|") for row in rows.splitlines())}
