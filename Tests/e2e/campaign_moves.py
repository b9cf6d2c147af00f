"""A campaign, not part of `make test`: a namespace moves back and forth between two PostgreSQL servers under load while movers, gateways
and servers are killed, frozen and cut off. The campaign fails if an acknowledged write is lost or doubled, seqs have gaps, the tree
differs from the log, or a listener missed an event.

    PATHMIRROR_BINARY=.build/release/pathmirror python Tests/e2e/campaign_moves.py --moves 100"""

import argparse
import contextlib
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
from harness import cli
from harness.cluster import Cluster
from harness.gateway import start_serve
from harness.moves import Load, check, mover, random_path, random_value
from harness.scratch import scratch_directory
from harness.waiting import Late, wait_until

FAULTS = ("none", "mover", "mover", "mover", "frozen", "two", "sessions", "gateway", "source", "target", "aborted")
NAME = "m"


class Campaign:
    def __init__(self, seed, folder, clusters):
        self.dice = random.Random(seed)
        self.folder, self.clusters = folder, clusters
        self.urls = [cluster.create_database() for cluster in clusters]
        self.ports = []
        self.gateways = [self.gateway(number) for number in range(2)]
        self.ports = [gateway.port for gateway in self.gateways]
        cli.succeeds("database", "add", "b", self.urls[1], "--database-url", self.urls[0])
        self.place = 0
        self.faults, self.interrupted, self.failed, self.said = {}, 0, 0, None

    def gateway(self, number):
        return start_serve(self.urls[0], self.folder, self.folder, "--create-namespaces", "--log-level", "warning", name=f"gateway-{number}",
                           port=self.ports[number] if self.ports else None)

    def start(self, to, *more):
        return mover(self.urls[0], NAME, "home" if to == 0 else "b", *more)

    def strike(self, fault, process):
        """Injects a fault while the mover works, and returns after the repair."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.dice.uniform(0.02, 1.0))
        if fault in ("mover", "aborted"):
            process.kill()
        elif fault == "frozen":
            process.send_signal(signal.SIGSTOP)
            self.start(1 - self.place).communicate(timeout=120)
            process.send_signal(signal.SIGCONT)
        elif fault == "two":
            self.start(1 - self.place).communicate(timeout=120)
        elif fault == "sessions":
            with psycopg.connect(self.urls[self.dice.randrange(2)], autocommit=True) as connection:
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                                   "starts_with(application_name, 'pathmirror namespace move')")
        elif fault == "gateway":
            number = self.dice.randrange(2)
            self.gateways[number].process.kill()
            self.gateways[number] = self.gateway(number)
        elif fault in ("source", "target"):
            cluster = self.clusters[self.place if fault == "source" else 1 - self.place]
            cluster.kill()
            cluster.start()

    def move(self, load):
        fault = self.dice.choice(FAULTS)
        self.faults[fault] = self.faults.get(fault, 0) + 1
        process = self.start(1 - self.place)
        if fault != "none":
            self.strike(fault, process)
        process.communicate(timeout=300)
        self.interrupted += process.returncode != 0
        if fault == "aborted":
            # If the namespace has already left, the loop below finishes the move.
            self.start(1 - self.place, "--abort").communicate(timeout=120)

        def done():
            if process.returncode == 0:
                return True
            again = self.start(1 - self.place)
            _, said = again.communicate(timeout=300)
            if again.returncode != 0:
                self.failed, self.said = self.failed + 1, said
            return again.returncode == 0

        try:
            wait_until(done, "the move", 300, 0.2)
        except Late as late:
            raise Late(f"{late}; {fault}: {self.said}") from None
        self.place = 1 - self.place
        load.goes_on(10, 120)

    def end(self):
        for gateway in self.gateways:
            gateway.sweep()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1e9, help="begins no move after so long")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pathmirror-moves-")))
        folder.chmod(0o755)
        clusters = []
        for number in range(2):
            clusters.append(Cluster(stack.enter_context(scratch_directory("pg")), folder))
            stack.callback(clusters[number].stop, "immediate")
            clusters[number].start()
        campaign = Campaign(options.seed, folder, clusters)
        stack.callback(campaign.end)
        rests = [gateway.rest.at(ns=NAME) for gateway in campaign.gateways]
        for _ in range(200):
            rests[0].put("tree/" + random_path(campaign.dice), random_value(campaign.dice))
        moves = 0
        # A move copies the whole log: without pauses it grows so fast that a hundred moves take a day.
        with Load(rests, options.seed % 1000, writers=4, pause=0.03) as load:
            while moves < options.moves and time.monotonic() - start < options.seconds:
                campaign.move(load)
                moves += 1
                if moves % 10 == 0:
                    print(f"{moves} moves, {len(load.acknowledged)} writes, {time.monotonic() - start:.0f} s", flush=True)
        assert 404 not in load.refused, load.refusals()
        begins = check(load, campaign.urls[0], campaign.urls[campaign.place], NAME)
        print(f"{moves} moves in {time.monotonic() - start:.0f} s; {len(load.acknowledged)} writes acknowledged, {len(load.seen)} events heard, {begins} times from the beginning; "
              f"faults {campaign.faults}; {campaign.interrupted} moves were interrupted, {campaign.failed} commands that were to go on failed; longest stand of a writer, "
              f"faults included, {load.longest:.1f} s; refusals {load.refusals()}")


if __name__ == "__main__":
    main()
