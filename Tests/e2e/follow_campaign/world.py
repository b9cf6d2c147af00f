"""Two gateways of which one follows a stand-in through the proxy, with two feeds and a mirror; the faults, and what must hold when they end."""

import json
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import psycopg
from harness import cli, sql
from harness.follow import Following
from harness.gateway import SECRET, start_serve
from harness.ports import free_port
from harness.rest import Rest
from harness.waiting import Late, wait_until
from harness.websocket import Closed, Rejected
from harness.websocket_client import RealtimeClient
from upstream.equality import exact
from upstream.proxy import UpstreamProxy
from upstream.session import READ_ACTIONS
from upstream.standin import Standin
from upstream.writes import BySocket, Direct, Mixed, Writes, run

from .judging import Judge, LogReading, UpstreamHistory, Violation
from .projection import FEEDS, ORDERS, FeedState, compare_mirror

# Retries that a campaign of hundreds of cuts can wait for.
TUNE = "follow-first-retry=50ms,follow-longest-retry=400ms,follow-refusal-pause=500ms"
NS = "shop"
# Both are set to expire every so many seconds, for the whole campaign.
TOKEN_LIFETIME = 20


class Burst:
    """Writes at full speed in a thread of its own; `done` waits for them."""

    def __init__(self, world, count: int):
        self._world, self.count, self.failure, self._begin, self.seconds = world, count, None, time.monotonic(), 0.0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self):
        try:
            run(self._world.writes, self._world.writer, self.count)
        except BaseException as failure:
            self.failure = failure
        self.seconds = time.monotonic() - self._begin

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def done(self) -> float:
        self._thread.join(600)
        if self.failure is not None or self.is_running:
            raise RuntimeError(f"the upstream did not take the writes: {self.failure!r}")
        self._world.pace = 0.7 * self._world.pace + 0.3 * self.count / max(0.001, self.seconds)
        return self.seconds


class World:
    """Use as a context."""

    def __init__(self, seed: int, cluster, folder: Path, width: int = 30):
        self.seed, self.cluster, self.folder = seed, cluster, folder
        self.dice = random.Random(seed)
        self.writes = Writes(seed, width=width)
        self.counts: Counter[str] = Counter()
        self.url = cluster.create_database()
        self.standin = Standin()
        self.history = UpstreamHistory()
        self.judge = Judge(self.history)
        self.log = LogReading(self.url)
        self.gateways: list = []
        self.feeds: list[FeedState] = []
        self.following = Following(self.url)
        self._sent_violations: list = []
        self.listens = 0
        # Writes a second of a burst, about.
        self.pace = 2_000.0

    # MARK: life

    def __enter__(self):
        self.standin.__enter__()
        self.proxy = UpstreamProxy(self.standin.port)
        self.standin.account.lifetime = TOKEN_LIFETIME
        self.credentials = self.standin.credentials(self.folder / f"account-{self.seed}.json")
        token = self.standin.account.issue(1e7)
        self.socket = BySocket(self.standin.port, NS, token, depth=50)
        self.writer = Mixed(self.seed, Direct(self.standin), self.socket)
        for _ in range(2):
            self.gateways.append(self._serve(free_port()))
        for gateway in self.gateways:
            gateway.wait_ready(60)
        return self

    def __exit__(self, *_):
        for feed in self.feeds:
            feed.end()
        for gateway in self.gateways:
            gateway.process.send(signal.SIGCONT)
            gateway.sweep()
        self.proxy.__exit__()
        self.standin.__exit__()

    def _serve(self, port: int):
        return start_serve(self.url, self.folder, self.folder, port=port, name=f"follow-{len(self.gateways)}", wait=False, tune=TUNE)

    def begin(self, first: int):
        """Some writes, two feeds, a mirror, and the namespace follows."""
        run(self.writes, self.writer, first)
        file = self.folder / "mirrors.json"
        file.write_text(json.dumps([ORDERS]))
        cli.succeeds("mirror", "apply", file, "--yes", "--database-url", self.url)
        for name in FEEDS:
            feed = FeedState(name, lambda: self.gateways)
            feed.feed(0).make(f"/{name}/{{key}}", start="beginning", ack_deadline="1m")
            self.feeds.append(feed.begin())
        self.following.add(self.proxy.url(NS), self.credentials)
        self.settle()

    # MARK: who follows

    @property
    def sessions(self) -> list:
        """The sessions of followers that listen."""
        return [session for session in list(self.standin.sessions) if session.listens]

    def follower(self) -> int | None:
        """The gateway that has the claim, as the database says; None while it says nothing, or names one that is gone."""
        try:
            name = sql.rows(self.url, "select gateway from pathmirror.follow where fence is not null")
        except psycopg.Error:
            return None
        found = [number for number, gateway in enumerate(self.gateways) if name and name[0][0] and f"(pid {gateway.process.pid})" in name[0][0]]
        return found[0] if found else None

    def wait_follower(self, patience: float = 60) -> int:
        """Waits until a gateway listens, and says which."""
        def look():
            number = self.follower() if self.sessions else None
            return number is not None and (number,)

        return self._promised(look, "a gateway to follow", patience)[0]

    def _promised(self, condition, what: str, patience: float):
        try:
            return wait_until(condition, what, patience, 0.05)
        except Late as late:
            raise Violation(f"{late}\n{self.report()}") from None

    def report(self) -> str:
        """The status that operators see, and the last lines of the gateways, for a violation's message."""
        try:
            status = self.following.status()
        except (psycopg.Error, AssertionError) as error:
            status = repr(error)
        return "\n".join([f"status {status}", *(gateway.process.tail(12) for gateway in self.gateways)])

    # MARK: faults

    def burst(self, count: int) -> Burst:
        return Burst(self, count)

    def kill(self, number: int):
        """kill -9 of a gateway, and another one at its port that gets ready by itself."""
        self.gateways[number].process.kill()
        self.counts["kills"] += 1
        self.restart(number)

    def restart(self, number: int):
        self.gateways[number] = self._serve(self.gateways[number].port)

    def revoke(self, closes: bool):
        """The upstream revokes the login of sessions that listen; the writer's continues."""
        self.standin.call(lambda: self.standin.misbehaviour.run("revoke_auth", self.sessions, closes=closes))

    def ready(self):
        for gateway in self.gateways:
            gateway.wait_ready(90)

    # MARK: what must hold

    def settle(self, patience: float = 150):
        """Ends all faults, waits until both gateways are equal to the upstream, and judges the log up to there."""
        self.proxy.forget_plan()
        self.proxy.thaw()
        self.proxy.refuse(False)
        self.ready()
        self.wait_follower(patience)
        for gateway in self.gateways:
            self._promised(lambda gateway=gateway: self.is_equal(gateway), f"the tree of {gateway.process.name} to be the upstream's", patience)
        self.judge_log()
        self.judge_requests()

    def is_equal(self, gateway) -> bool:
        """By the hash that a realtime client proves, and by comparing every value."""
        try:
            with RealtimeClient(gateway.port, ns="default") as client:
                client.ok("gauth", {"cred": SECRET})
                if client.listen("/", hash=self.standin.hash(ns=NS)) is not None:
                    return False
            rest = Rest(gateway.port, params={"ns": "default"}, headers={"Authorization": f"Bearer {SECRET}"})
            answer = rest.get(format="export")
            return answer.status == 200 and exact(answer.json()) == exact(self.standin.export(ns=NS))
        except (OSError, AssertionError, Closed, Rejected):
            return False

    def judge_log(self):
        """Judges the log's new entries by the upstream's own writes, which are forgotten then."""
        namespace = self.standin.namespace(NS)

        def take():
            found, namespace.writes = namespace.writes, []
            return found

        self.history.take(self.standin.call(take))
        for seq, op, digest in self.log.entries():
            self.judge.entry(seq, op, digest)
        self.judge.end()
        for event in self.standin.call(self._take_events):
            if event["event"] in ("equal", "ranges", "whole"):
                self.counts[f"listens {event['event']}"] += 1
        brought = self.counts["listens ranges"] + self.counts["listens whole"]
        if self.judge.counts["resync"] > brought:
            raise Violation(f"{self.judge.counts['resync']} resync entries, and only {brought} listens were told of a difference")
        if self.judge.jumps > self.counts["listens equal"]:
            raise Violation(f"{self.judge.jumps} gaps without an entry, and only {self.counts['listens equal']} listens were told that nothing differs")

    def _take_events(self) -> list:
        found, self.standin.events = self.standin.events, []
        return found

    def judge_requests(self):
        """A session that listens has only read; and nothing was written by REST."""
        def take():
            found, self.standin.received = self.standin.received, []
            return found

        found = self.standin.call(take)
        listening = {one.session for one in found if one.action == "q"}
        self.listens += sum(one.action == "q" for one in found)
        wrong = [one for one in found if one.session in listening and one.action not in READ_ACTIONS]
        wrong += [one for one in self.standin.http if one["method"] not in ("GET", "HEAD", "OPTIONS") and one["path"] != "/token"]
        if wrong:
            raise Violation(f"the follower sent what does not only read: {wrong[0]}")

    def verify(self):
        """`follow verify` says equal."""
        finished = self.following.verify(180)
        if finished.returncode != 0 or "equal at" not in finished.stdout:
            raise Violation(f"follow verify: {finished.returncode}: {finished.stdout}{finished.stderr}")
        self.counts["verified"] += 1

    def finish(self) -> str:
        """Everything once more, with the feeds and the mirror."""
        self.settle()
        self.verify()
        if not cli.succeeds("log", "verify", "--database-url", self.url).startswith("clean"):
            raise Violation("log verify is not clean")
        tree = self.standin.export(ns=NS)
        for feed in self.feeds:
            self._promised(feed.is_drained, f"feed {feed.name} to be drained", 120)
            # The consumer still takes over the last messages that it acknowledged.
            time.sleep(1)
            feed.compare(tree)
        rows = compare_mirror(self.url, tree)
        told = ", ".join(f"feed {feed.name} told {feed.messages} messages ({feed.repeated} of them again) of {len(feed.held)} records" for feed in self.feeds)
        return f"{told}; the mirror has {rows} rows; all agree with the upstream's own tree"

    @property
    def figures(self) -> dict:
        return {"writes": len(self.history.hashes) - 1, **self.judge.counts, "equal after a gap": self.judge.jumps, "cuts": self.proxy.cuts,
                "sessions": self.proxy.connections, "listens": self.listens, **self.counts}
