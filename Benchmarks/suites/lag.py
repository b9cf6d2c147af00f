"""The lag of a mirror, entry by entry, while clients write at half of their possible rate.

PostgreSQL keeps the time of every commit here (track_commit_timestamp): an entry's lag is the time from its commit to that of its row in
the mirror."""

import json

from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong, wrk
from harness.report import figure, typical

NAME = "lag"
# So many that most writes are rows of their own, each with its own time.
KEYS = 5_000_000
DEFINITION = {"name": "bench", "path": "/bench/{key}", "columns": {
    "active": "boolean", "age": "bigint", "email": "text", "name": "text", "updated": "bigint"}}
WAIT = "select pathmirror.wait_for('default', timeout => '120 s')"
LAGS = """
with lag as (
    select extract(epoch from pg_xact_commit_timestamp(mirrored.xmin) - pg_xact_commit_timestamp(log.xmin)) * 1000 as ms
    from mirror.bench as mirrored
    join pathmirror.log on log.namespace_id = (select id from pathmirror.namespace where name = 'default')
        and log.seq = mirrored._seq
    where mirrored._seq > {after}
)
select json_build_object('count', count(*), 'p50', percentile_cont(0.5) within group (order by ms),
    'p99', percentile_cont(0.99) within group (order by ms), 'max', max(ms)) from lag
"""


def run(context: Context):
    with Gateway() as gateway:
        gateway.sql("alter system set track_commit_timestamp = on")
        gateway.restart()
        definition = gateway.root / "mirror.json"
        definition.write_text(json.dumps(DEFINITION))
        gateway.request("PUT", "/bench/first.json", '{"age": 1}')
        gateway.command("mirror", "apply", definition, "--yes")
        measure(context, gateway)


def measure(context: Context, gateway: Gateway):
    tops, halves, latencies, medians, high, worst = [], [], [], [], [], []
    for number in context.rounds(5, 2, until=45):
        context.progress(f"round {number + 1}")
        for rate in (None, "half"):
            gateway.sql(WAIT)
            gateway.checkpoint()
            context.quiet.wait()
            after = int(gateway.sql("select head from pathmirror.namespace where name = 'default'"))
            pace = (f"{tops[-1] / 2 / 2:.1f}",) if rate else ()
            load = wrk(gateway, "/", context.pick(5, 3), 64, "put.lua", ("object", KEYS, 2 * number + bool(rate), 0, *pace))
            if not rate:
                tops.append(load.per_second)
                continue
            halves.append(load.per_second)
            latencies.append(load.latency)
            gateway.sql(WAIT)
            lags = json.loads(gateway.sql(LAGS.format(after=after)))
            if lags["count"] < 0.9 * load.per_second * context.pick(5, 3):
                raise Wrong(f"only {lags['count']} entries have a row of their own")
            medians.append(lags["p50"])
            high.append(lags["p99"])
            worst.append(lags["max"])
    context.measure("share of the top write rate that was held", [half / top for half, top in zip(halves, tops)],
                    absolute=f"{typical(halves)} of {typical(tops)} PUTs of five fields a second, 64 connections, one mirror")
    context.measure("a mirror's lag at that rate, median of all entries", medians, unit=" ms",
                    absolute=f"a PUT's median latency then: {typical(latencies)} ms")
    context.measure("  99th percentile", high, unit=" ms", absolute=f"largest of all: {figure(max(worst))} ms")
    context.measure("  median / a PUT's median latency (lower is better)", [lag / put for lag, put in zip(medians, latencies)])
