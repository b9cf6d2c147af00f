"""A plain follower of some lines goes through cuts: the stand-in, the proxy and the judge work together before the program's follower does."""

import os
import random
import threading
import time

import pytest
from harness.websocket import Closed
from harness.websocket_client import RealtimeClient
from oracle.ranges import apply_range_merge
from upstream.equality import exact
from upstream.hashing import compound_hash, node_hash
from upstream.judge import changed, judge, upstream_hashes
from upstream.proxy import UpstreamProxy, random_cuts
from upstream.standin import Standin
from upstream.tree import build, export
from upstream.writes import Direct, Writes, run

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)


class PlainFollower:
    """Follows one namespace by the rules of the protocol, and keeps a log: (number, operation, hash of the tree after it)."""

    def __init__(self, port: int, uses_ranges: bool):
        self.port, self.uses_ranges = port, uses_ranges
        self.root, self.log = None, []
        self.stop = threading.Event()

    def _note(self, operation: str):
        digest = node_hash(self.root)
        if operation == "upstream" or digest != (self.log[-1][2] if self.log else ""):
            self.log.append((len(self.log), operation, digest))

    @staticmethod
    def _changes(message: dict) -> dict:
        """What a push puts where."""
        body = message["b"]
        return {body["p"]: body["d"]} if message["a"] == "d" else {f"{body['p']}/{key}": value for key, value in body["d"].items()}

    def connect(self):
        """One connection, to its end."""
        client = RealtimeClient(self.port, ns="shop").greet()
        body = {"p": "/", "h": node_hash(self.root)} | ({"ch": compound_hash(self.root)} if self.uses_ranges and self.root is not None else {})
        client.ok("q", body)
        # What came before the answer becomes one entry, or nothing at all.
        root = build(export(self.root))
        while client.pushes:
            message = client.pushes.popleft()
            root = build(apply_range_merge(export(root), message["b"]["d"])) if message["a"] == "rm" else changed(root, self._changes(message))
        self.root = root
        self._note("resync")
        while not self.stop.is_set():
            try:
                message = client.push(0.1)
            except AssertionError as late:
                if client.socket._buffer:
                    raise Closed(None) from late
                continue
            self.root = changed(self.root, self._changes(message))
            self._note("upstream")

    def run(self):
        while not self.stop.is_set():
            try:
                self.connect()
            except (Closed, ConnectionError, OSError):
                time.sleep(0.01)


@pytest.mark.parametrize("uses_ranges, settings", [(True, {}), (False, {}), (True, {"split_bytes": 500, "range_merges": False}), (True, {"segment": 500, "always_counted": True})],
                         ids=["ranges", "whole", "parts", "segments"])
def test_a_plain_follower_through_cuts(uses_ranges, settings):
    with Standin() as standin, UpstreamProxy(standin.port) as proxy:
        standin.set(**settings)
        writes, dice = Writes(SEED, width=15, long_strings=False), random.Random(SEED)
        run(writes, Direct(standin), 40)
        follower = PlainFollower(proxy.port, uses_ranges)
        thread = threading.Thread(target=follower.run, daemon=True)
        proxy.plan(random_cuts(dice, 25, high=20_000))
        thread.start()
        deadline = time.monotonic() + 40
        while proxy.planned and time.monotonic() < deadline:
            run(writes, Direct(standin), 10)
            time.sleep(0.05)
        proxy.forget_plan()
        run(writes, Direct(standin), 50)
        while node_hash(follower.root) != standin.hash():
            assert time.monotonic() < deadline, f"seed {SEED}: the trees differ"
            time.sleep(0.05)
        follower.stop.set()
        thread.join(10)
        assert exact(export(follower.root)) == exact(standin.export())
        figures = judge(follower.log, upstream_hashes(standin.writes()))
        print(f"seed {SEED}: {figures}, {proxy.cuts} cuts of {proxy.connections} connections, {len(standin.seen('ranges'))} range merges")
        assert proxy.cuts >= 20 and figures["upstream"] > 0 and standin.violations() == []
