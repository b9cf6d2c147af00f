"""A campaign, not part of `make test`: random writes on mirrors of every kind, histories, children and filters included, while definitions
change and gateways, commands, sessions and PostgreSQL are killed. The campaign fails if a value, time or entry of a table differs from
the result of `oracle/` for its definition and the log.

    PATHMIRROR_BINARY=.build/release/pathmirror python Tests/e2e/campaign_mirrors.py --minutes 60 --seed 7"""

import argparse
import contextlib
import random
import time
from collections import Counter

from harness.cluster import Cluster
from harness.scratch import scratch_directory
from mirror_campaign.world import World


def epoch(seed, cluster, folder, rounds, until, totals):
    """A database with mirrors of its own, for some rounds."""
    world = World(seed, cluster, folder)
    try:
        while len(world.done) < rounds and time.monotonic() < until:
            world.round()
        world.finish()
    finally:
        world.end()
        totals["entries"] += world.log.head
        totals["rounds"] += len(world.done)
        for comparison in world.comparisons:
            totals.update(comparison.compared)
        totals.update(world.counts)
        print(f"  writes {dict(world.statuses)}; commands that failed {dict(world.failures)}", flush=True)
    for url in world.urls:
        cluster.drop_database(url)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="begins no round after so long")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 20), help="of the first database; the next one has the next")
    parser.add_argument("--rounds", type=int, default=30, help="how many in each database")
    parser.add_argument("--keep", action="store_true", help="leaves PostgreSQL's data and the programs' output where they are")
    parser.add_argument("--go-on", action="store_true", help="with the next database after a difference; the exit status reports it at the end")
    options = parser.parse_args()
    start, totals = time.monotonic(), Counter()
    until = start + options.minutes * 60
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch_directory("mirrors", options.keep))
        data = stack.enter_context(scratch_directory("pg", options.keep))
        cluster = Cluster(data, folder)
        stack.callback(cluster.stop, "immediate")
        cluster.start()
        seed = options.seed
        while time.monotonic() < until:
            print(f"seed {seed}, {time.monotonic() - start:.0f} s", flush=True)
            try:
                epoch(seed, cluster, folder, options.rounds, until, totals)
            except Exception as error:
                kept = f"data in {data}, output in {folder}" if options.keep else "--keep keeps the data"
                print(f"  {error}\n  again: --seed {seed} --rounds {options.rounds}; {kept}", flush=True)
                totals["differences"] += 1
                if not options.go_on:
                    raise
            finally:
                print(f"  {time.monotonic() - start:.0f} s: {dict(totals)}", flush=True)
            seed += 1
    if totals["differences"]:
        raise SystemExit(f"{totals['differences']} databases of {seed - options.seed} had differences: {dict(totals)}")
    print(f"no difference: seeds {options.seed} to {seed - 1}, {time.monotonic() - start:.0f} s, {dict(totals)}")


if __name__ == "__main__":
    main()
