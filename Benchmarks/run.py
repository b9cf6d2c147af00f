#!/usr/bin/env python3
"""Pathmirror's benchmarks: ratios within one run, sides taking turns. See README.md."""

import argparse
import datetime
import json
import os
import shlex
import signal
import statistics
import sys
import time
from pathlib import Path

from harness import facts, machine, process
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong
from harness.pages import pages
from suites import (
    before, capacity, compareset, durable, fanout, feeds, follow, gateways, gets, growth, heldfeeds, hostile, lag, listeners, live, memory, mirrors,
    mixed, namespaces, pipelined, puts, reads, realtime, replays, reports, rules, snapshot, sql, standby, tls, transfers, webhooks, wsputs)

# Pathmirror beside others, or beside the least work: the suites of --report, in the order of the page.
OF_RACES = (durable, pipelined, fanout, compareset, reads, live, mixed, feeds, mirrors, sql, transfers, growth, tls)
SUITES = {suite.NAME: suite for suite in (
    puts, wsputs, gets, transfers, memory, capacity, listeners, mirrors, lag, follow, sql, replays, reports, heldfeeds, webhooks, rules, namespaces, snapshot, standby, gateways, realtime, hostile, before, *OF_RACES)}
RACES = [race.NAME for race in OF_RACES]
DOCS = machine.REPOSITORY / "docs" / "explanation"
SETTINGS = """select name || '=' || current_setting(name) from pg_settings
    where source not in ('default', 'override', 'client') and name !~ '^(lc_|log_|data_|hba_|ident_|TimeZone|DateStyle|default_text|dynamic_sh)'
    and category !~ '^(Connections|Reporting|Preset|File)' order by name"""


def main() -> int:
    arguments = parsed()
    if isinstance(arguments.report, Path):
        return write_pages(json.loads(arguments.report.read_text()), arguments.pages)
    context = Context(arguments.quick, machine.Quiet(budget=5 if arguments.quick else 30), namespaces=arguments.namespaces,
                      before=arguments.before and str(arguments.before.resolve()),
                      js_sdk=arguments.js_sdk and str(arguments.js_sdk.resolve()), leaves=arguments.leaves)
    start = time.monotonic()
    names = arguments.only or (RACES if arguments.report else [name for name in SUITES if name != before.NAME or arguments.before])
    failures = run_all(names, context)

    others = statistics.median(context.quiet.shares or [0])
    if others > 0.15:
        context.report.notes.append(f"other programs used {others:.0%} of the processors: ratios are off, too, as who "
                                    "has more processes then gets more of them")
    print(context.report.text())
    missed = [measure.text.strip() for measure in context.report.measures if measure.met is False]
    print(f"\n{time.monotonic() - start:.0f} s;", f"aims missed: {'; '.join(missed)}" if missed else "no aim missed")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    results = context.report.json(
        quick=arguments.quick, cores=len(os.sched_getaffinity(0)), othersShare=others, failures=failures,
        **(told(names, time.monotonic() - start) if arguments.report else {}))
    if arguments.json:
        arguments.json.write_text(results)
    if arguments.report:
        write_pages(json.loads(results), arguments.pages)
    return 1 if failures else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measures Pathmirror against PostgreSQL's own tools, against others, and against itself.")
    parser.add_argument("--quick", action="store_true",
                        help="fewer and shorter rounds, a fifth of the data: under five minutes")
    parser.add_argument("--only", metavar="NAME", action="append", choices=list(SUITES),
                        help=f"one suite (may be repeated): {', '.join(SUITES)}")
    parser.add_argument("--report", metavar="RESULTS", nargs="?", type=Path, const=True,
                        help=f"runs the races ({', '.join(RACES)}), or those of --only, and writes the page with the results and its plots; "
                        "with RESULTS it only writes the page again, from the results of an earlier run")
    parser.add_argument("--pages", metavar="FOLDER", type=Path, default=DOCS, help="where that goes; default: docs/explanation")
    parser.add_argument("--leaves", metavar="N", type=int, help="the largest tree of the suite `growth`; default: a million")
    parser.add_argument("--namespaces", metavar="N", type=int, help="how many namespaces the suites `namespaces` and `growth` make")
    parser.add_argument("--before", metavar="BINARY", type=Path,
                        help="an earlier pathmirror that the suite `before` compares with; without it that suite is left out")
    parser.add_argument("--js-sdk", metavar="FILE", type=Path,
                        help="the official JavaScript SDK as one CommonJS file, which the suite `realtime` compares with")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the results there, too")
    return parser.parse_args()


def run_all(names: list[str], context: Context) -> list[str]:
    """Runs suites; returns one text for each failure. A failed suite is void, and none of its measures is reported."""
    failures = []
    for name in names:
        context.begin(name)
        try:
            SUITES[name].run(context)
        except (Wrong, process.Failed) as error:
            failures.append(f"{name}: {error}")
            context.withdraw()
        finally:
            process.stop_all()
    return failures


def told(names: list[str], seconds: float) -> dict:
    """The facts of the page about a run besides its measures."""
    with Gateway() as gateway:
        settings = dict(line.split("=", 1) for line in gateway.sql(SETTINGS).splitlines())
    machine_facts = facts.facts()
    machine_facts["facts"]["this run"] = (
        f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, {seconds / 60:.0f} minutes")
    machine_facts["facts"]["called"] = f"make bench ARGS={shlex.quote(shlex.join(sys.argv[1:]))}"
    return {"machine": {**machine_facts, "postgres": settings},
            "suites": {name: {"title": getattr(SUITES[name], "TITLE", name), "text": getattr(SUITES[name], "TEXT", SUITES[name].__doc__)}
                       for name in names}}


def write_pages(results: dict, folder: Path) -> int:
    made = pages(results)
    plots = folder / "benchmarks"
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"bench: wrote {folder / 'benchmarks.md'}", file=sys.stderr)
    return 0


def _interrupted(number, _):
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGINT, _interrupted)
    try:
        sys.exit(main())
    except machine.Missing as missing:
        sys.exit(f"bench: {missing}")
    finally:
        process.stop_all()
