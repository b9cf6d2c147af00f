"""A campaign, not part of `make test`: a namespace follows a stand-in for the Realtime Database that is written to at full speed, while
connections are cut at random bytes, gateways are killed, frozen and started, PostgreSQL restarts, and tokens expire. The campaign fails if
a tree of the log is none that the upstream had, if a message is lost, doubled or out of order without a gap, if a `resync` entry stands
where nothing was missed, or if feeds and a mirror differ from the upstream's own tree.

    PATHMIRROR_BINARY=.build/release/pathmirror python Tests/e2e/campaign_follow.py --writes 100000 --cuts 200 --kills 100"""

import argparse
import contextlib
import functools
import random
import sys
import time

from follow_campaign import phases
from follow_campaign.judging import Violation
from follow_campaign.world import World
from harness.cluster import Cluster
from harness.scratch import scratch_directory

# The part of all writes that each phase has.
SHARES = {"cuts": 0.35, "kills": 0.25, "freezes": 0.08, "starts": 0.07, "restarts": 0.08, "tokens": 0.1, "everything": 0.07}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the writes and the faults")
    parser.add_argument("--writes", type=int, default=100_000, help="upstream writes in all")
    parser.add_argument("--cuts", type=int, default=200, help="connections cut at random bytes")
    parser.add_argument("--kills", type=int, default=100, help="kill -9 of the gateway that follows")
    parser.add_argument("--freezes", type=int, default=10, help="of the gateway that follows, by SIGSTOP")
    parser.add_argument("--starts", type=int, default=10, help="of two gateways at once")
    parser.add_argument("--restarts", type=int, default=10, help="of PostgreSQL")
    parser.add_argument("--tokens", type=float, default=600, help="seconds with tokens that expire every 20 s, and nothing else")
    parser.add_argument("--everything", type=int, default=40, help="faults of all kinds without a pause")
    parser.add_argument("--only", help="a comma-separated list of phases")
    parser.add_argument("--keep", action="store_true", help="leaves PostgreSQL's data and the programs' output where they are")
    return parser.parse_args()


def campaign(options, stack):
    folder = stack.enter_context(scratch_directory("follow", options.keep))
    cluster = Cluster(stack.enter_context(scratch_directory("pg", options.keep)), folder)
    stack.callback(cluster.stop, "immediate")
    cluster.start()
    world = stack.enter_context(World(options.seed, cluster, folder))
    chosen = [name for name in (options.only.split(",") if options.only else SHARES) if getattr(options, name)]
    whole = sum(SHARES[name] for name in chosen)
    start = time.monotonic()
    world.begin(min(1000, options.writes // 10))
    print(f"first load: {time.monotonic() - start:.1f} s for {world.standin.size()} bytes", flush=True)
    left = options.writes - world.figures["writes"]
    for name in chosen:
        work = functools.partial(getattr(phases, name), count=getattr(options, name))
        phases.Phase(world, name, int(left * SHARES[name] / whole)).run(work)
    print(f"the end: {world.finish()}", flush=True)
    return world


def main():
    options = arguments()
    print(f"seed {options.seed}", flush=True)
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        try:
            world = campaign(options, stack)
        except Violation as violation:
            again = " ".join(f"--{name} {getattr(options, name)}" for name in ("seed", "writes", *SHARES))
            print(f"VIOLATION after {time.monotonic() - start:.0f} s: {violation}\nagain: {again}", file=sys.stderr, flush=True)
            raise SystemExit(1) from None
        print(f"no violation: seed {options.seed}, {time.monotonic() - start:.0f} s, {world.figures}, {dict(world.writes.counts)}")


if __name__ == "__main__":
    main()
