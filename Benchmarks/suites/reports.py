"""Reports on a long log by SQL: those with a limit by seq or time must not grow with the log, and those over all of it are compared with a
scan of the log."""

import time

from harness.context import Context
from harness.gateway import Gateway
from harness.report import figure

NAME = "reports"
# Four entries a second, because the periods below are hours and days.
ROOM = """
    select pathmirror.ensure_log_partition(id, seq, 1000000)
    from pathmirror.namespace, generate_series(65536, {entries} + 1000000, 1000000) as seq where name = 'default'"""
FILL = """
    begin;
    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, origin)
    select id, seq, now() - ({entries} - seq) * interval '0.25 seconds', gen_random_uuid(), 'set', place,
        ('{{"' || place || '":' || case seq % 4 when 0 then (seq / 4 % 2 = 0)::text else '"a message ' || seq || '"' end || '}}')::json,
        '{{"uid":"u1","admin":false,"via":"ws","ip":"127.0.0.1"}}'
    from pathmirror.namespace, generate_series(head + 1, {last}) as seq
    cross join lateral (
        select case seq % 4 when 0 then '/presence/u' || seq / 4 % 5000 || '/online' else '/messages/m' || seq || '/text' end as place
    ) as named
    where name = 'default';
    update pathmirror.namespace set head = {last}, stamped_at = now() where name = 'default';
    commit"""
# How many entries a transaction adds.
STEP = 500_000
LATE = "pathmirror.seq_at('default', now() - interval '{}')"
# The queries, and their longest time as a part of the time in which PostgreSQL counts the log's rows.
REPORTS = [
    ("seq_at: which entry was the last one an hour ago", f"select {LATE.format('1 hour')}", 0.05),
    ("log_change, the last 1,000 entries",
     "select count(*) from pathmirror.log_change where namespace = 'default' and seq > {entries} - 1000", 0.1),
    ("log_entry, the last hour (14,400 entries)",
     f"select count(*) from pathmirror.log_entry where namespace = 'default' and seq > {LATE.format('1 hour')}", 0.1),
    ("log_change, the last hour",
     f"select count(*) from pathmirror.log_change where namespace = 'default' and seq > {LATE.format('1 hour')}", 0.3),
    ("changes_at a place, the last day (345,600 entries, 17 of them there)",
     f"select count(*) from pathmirror.changes_at('default', '/presence/u7', {LATE.format('1 day')})", None),
    ("changes_at a place, the last day (86,400 of them there)",
     f"select count(*) from pathmirror.changes_at('default', '/presence', {LATE.format('1 day')})", None),
    ("changes_at a place, the whole log, few entries there", "select count(*) from pathmirror.changes_at('default', '/presence/u7')", None),
    ("changes_at a place, the whole log, a quarter of the entries there", "select count(*) from pathmirror.changes_at('default', '/presence')", None),
    ("log_change, the whole log, by path alone",
     "select count(*) from pathmirror.log_change where namespace = 'default' and starts_with(path, '/presence/')", None),
]


def run(context: Context):
    entries = context.pick(10_000_000, 500_000)
    with Gateway() as gateway:
        gateway.request("PUT", "/a.json", "1")
        # No gateway has the namespace in memory while SQL writes its log.
        gateway.restart()
        gateway.sql(ROOM.format(entries=entries))
        for last in range(STEP, entries + 1, STEP):
            context.progress(f"{last:,} of {entries:,} entries")
            gateway.sql(FILL.format(entries=entries, last=last))
        gateway.sql("vacuum analyze pathmirror.log")
        count = "select count(*) from pathmirror.log"
        seconds(gateway, count)
        for text, query, most in REPORTS:
            context.progress(text)
            query = query.replace("{entries}", str(entries))
            # A scan of the whole log takes minutes: once suffices.
            pairs = [(seconds(gateway, query), seconds(gateway, count)) for _ in range(1 if "whole log" in text else 3)]
            context.measure(f"{text} / counting the log's {entries:,} rows (lower is better)", [report / whole for report, whole in pairs],
                            at_most=None if context.quick else most,
                            absolute=f"{figure(min(report for report, _ in pairs))} against {figure(min(whole for _, whole in pairs))} s")


def seconds(gateway: Gateway, query: str) -> float:
    start = time.monotonic()
    gateway.sql(query, patience=900)
    return time.monotonic() - start
