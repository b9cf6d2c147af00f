#!/usr/bin/env python3
"""Pathmirror's benchmarks: ratios within one run, sides taking turns. See README.md."""

import argparse
import os
import signal
import statistics
import sys
import time
from pathlib import Path

from harness import machine, process
from harness.context import Context
from harness.load import Wrong
from suites import before, capacity, feeds, gateways, gets, hostile, lag, listeners, memory, mirrors, namespaces, puts, realtime, replays, rules, snapshot, sql, standby, transfers, webhooks, wsputs

SUITES = {suite.NAME: suite for suite in (
    puts, wsputs, gets, transfers, memory, capacity, listeners, mirrors, lag, sql, replays, feeds, webhooks, rules, namespaces, snapshot, standby, gateways, realtime, hostile, before)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Measures Pathmirror against PostgreSQL's own tools and against itself.")
    parser.add_argument("--quick", action="store_true",
                        help="fewer and shorter rounds, a fifth of the data: under five minutes")
    parser.add_argument("--only", metavar="NAME", action="append", choices=list(SUITES),
                        help=f"one suite (may be repeated): {', '.join(SUITES)}")
    parser.add_argument("--namespaces", metavar="N", type=int, help="how many namespaces the suite of that name makes")
    parser.add_argument("--before", metavar="BINARY", type=Path,
                        help="an earlier pathmirror that the suite `before` compares with; without it that suite is left out")
    parser.add_argument("--js-sdk", metavar="FILE", type=Path,
                        help="the official JavaScript SDK as one CommonJS file, which the suite `realtime` compares with")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes the results there, too")
    arguments = parser.parse_args()

    context = Context(arguments.quick, machine.Quiet(budget=5 if arguments.quick else 30), namespaces=arguments.namespaces,
                      before=arguments.before and str(arguments.before.resolve()),
                      js_sdk=arguments.js_sdk and str(arguments.js_sdk.resolve()))
    start = time.monotonic()
    failures = []
    for name in arguments.only or (name for name in SUITES if name != before.NAME or arguments.before):
        context.begin(name)
        try:
            SUITES[name].run(context)
        except (Wrong, process.Failed) as error:
            failures.append(f"{name}: {error}")
        finally:
            process.stop_all()

    others = statistics.median(context.quiet.shares or [0])
    if others > 0.15:
        context.report.notes.append(f"other programs used {others:.0%} of the processors: ratios are off, too, as who "
                                    "has more processes then gets more of them")
    print(context.report.text())
    missed = [measure.text.strip() for measure in context.report.measures if measure.met is False]
    print(f"\n{time.monotonic() - start:.0f} s;", f"aims missed: {'; '.join(missed)}" if missed else "no aim missed")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(context.report.json(
            quick=arguments.quick, cores=len(os.sched_getaffinity(0)), othersShare=others, failures=failures))
    return 1 if failures else 0


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
