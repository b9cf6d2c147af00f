"""Several gateways and one upstream: one applies, another takes over, and nothing is applied twice, whatever is killed or frozen."""

import os
import random
import signal
import threading
import time

import pytest
from harness import cli
from harness.binary import pathmirror
from harness.follow import PATIENT, TUNE, Followed
from harness.gateway import start_serve
from harness.ports import free_port
from harness.process import Process
from harness.threads import beside
from harness.waiting import wait_until
from upstream.writes import Direct, Writes, run

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)
KILLS = int(os.environ.get("PATHMIRROR_E2E_FOLLOW_KILLS", "6"))


class Pair:
    """Two gateways on one database, and a namespace that follows the stand-in."""

    def __init__(self, url, standin, scratch, logs):
        self.url, self.scratch, self.logs, self.standin = url, scratch, logs, standin
        self.gateways = [start_serve(url, scratch, logs, port=free_port(), name=name, tune=TUNE) for name in ("one", "two")]
        self.credentials = standin.credentials(scratch / "account.json")
        self.seen = [Followed(gateway, standin, self.credentials) for gateway in self.gateways]

    def kill(self, number: int):
        """kill -9, and a new gateway in its place that gets ready by itself."""
        gateway = self.gateways[number]
        gateway.process.kill()
        self.gateways[number] = start_serve(self.url, self.scratch, self.logs, port=gateway.port, name=f"again-{number}", wait=False, tune=TUNE)

    def sweep(self):
        for gateway in self.gateways:
            gateway.process.send(signal.SIGCONT)
            gateway.sweep()

    def wait_equal(self, patience: float = PATIENT):
        for gateway in self.gateways:
            gateway.wait_ready(60)
        for one in self.seen:
            one.wait_equal(patience)


@pytest.fixture
def pair(follows, database_url, upstream, scratch, logs):
    pair = Pair(database_url, upstream, scratch, logs)
    try:
        yield pair
    finally:
        pair.sweep()


def writing(standin, seed: int, rate: float = 60):
    """Writes beside a test, as work of a thread."""
    def work(stop):
        run(Writes(seed, width=20), Direct(standin), 1_000_000, rate, stop)

    return work


def test_one_follows_and_both_show_it(pair):
    pair.standin.put("a", 1)
    pair.seen[0].begin()
    pair.wait_equal()
    for number in range(50):
        pair.standin.put("a", {"n": number})
    pair.wait_equal()
    assert len(pair.standin.sessions) == 1
    assert pair.seen[1].judge()["resync"] == 1
    for one in pair.seen:
        assert one.admin.put("a", 1).status == 405


def test_gateways_killed_at_random_points(pair):
    dice = random.Random(SEED)
    pair.seen[0].begin()
    with beside(writing(pair.standin, SEED)):
        for _ in range(KILLS):
            time.sleep(dice.uniform(0.05, 2.5))
            pair.kill(dice.randrange(2))
            if dice.random() < 0.3:
                # Both at once: no gateway follows until one is there again.
                pair.kill(dice.randrange(2))
        wait_until(lambda: pair.standin.sessions, "a gateway to follow", PATIENT)
    pair.wait_equal(90)
    print(f"seed {SEED}: {pair.seen[0].judge()}")


def test_a_frozen_gateway_is_replaced_and_applies_nothing_later(pair):
    pair.standin.put("a", 0)
    pair.seen[0].begin()
    pair.wait_equal()
    before = pair.seen[0].following.status()["gateway"]
    sessions = len(pair.standin.seen("connected"))
    frozen = None
    for gateway in pair.gateways:
        # UNKNOWN: how `gateway` names it. So the one is frozen without which no message comes.
        gateway.process.freeze()
        pair.standin.put("a", time.time())
        other = pair.seen[1 - pair.gateways.index(gateway)]
        try:
            wait_until(lambda: other.rest.value("a") == pair.standin.export("a"), "the other gateway to have it", 3)
        except AssertionError:
            frozen = gateway
            break
        gateway.process.send(signal.SIGCONT)
    assert frozen is not None, "no gateway follows"
    other = pair.seen[1 - pair.gateways.index(frozen)]
    other.wait_equal(PATIENT)
    assert other.following.status()["gateway"] != before and len(pair.standin.seen("connected")) > sessions
    with beside(writing(pair.standin, SEED + 1)):
        time.sleep(1)
        frozen.process.send(signal.SIGCONT)
        time.sleep(3)
    pair.wait_equal()
    wait_until(lambda: len(pair.standin.sessions) == 1, "the replaced gateway to disconnect", PATIENT)
    pair.seen[0].judge()


def test_two_gateways_that_start_at_once(follows, database_url, upstream, scratch, logs):
    """One applies: after both were stopped, both start together, many times."""
    pair = Pair(database_url, upstream, scratch, logs)
    try:
        pair.standin.put("a", 1)
        pair.seen[0].begin()
        pair.wait_equal()
        for round in range(3):
            for number in (0, 1):
                pair.gateways[number].process.kill()
            pair.standin.put("a", {"round": round})
            for number in (0, 1):
                pair.gateways[number] = start_serve(database_url, scratch, logs, port=pair.gateways[number].port, name="both", wait=False, tune=TUNE)
            pair.wait_equal(90)
            for number in range(20):
                pair.standin.put("a/n", number)
            pair.wait_equal()
        wait_until(lambda: len(pair.standin.sessions) == 1, "one session", PATIENT)
        pair.seen[0].judge()
    finally:
        pair.sweep()


def test_two_commands_at_once(pair):
    """Two operators who add the same following: one of them succeeds."""
    finished = []

    def add():
        finished.append(cli.command("follow", "add", "default", "--upstream", pair.standin.url(), "--credentials", pair.credentials,
                                    "--database-url", pair.url).returncode)

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(finished)[0] == 0 and sum(code == 0 for code in finished) == 1
    pair.standin.put("a", 1)
    pair.wait_equal()
    pair.seen[0].judge()


def test_commands_killed_at_any_time(pair):
    """`follow add` and `follow rm` that are killed leave a namespace that follows, or one that does not."""
    dice = random.Random(SEED)
    for _ in range(4):
        for words in (["add", "default", "--upstream", pair.standin.url(), "--credentials", pair.credentials], ["rm", "default", "--yes"]):
            process = Process([pathmirror(), "follow", *words, "--database-url", pair.url], "killed", pair.logs)
            try:
                process.wait(dice.uniform(0.005, 0.3))
            except AssertionError:
                process.kill()
    finished = cli.command("follow", "add", "default", "--upstream", pair.standin.url(), "--credentials", pair.credentials, "--database-url", pair.url)
    assert finished.returncode == 0 or "follow" in finished.stderr
    pair.standin.put("a", {"killed": True})
    pair.wait_equal()


def test_a_gateway_that_stops_in_order_hands_over(pair):
    pair.standin.put("a", 1)
    pair.seen[0].begin()
    pair.wait_equal()
    for number in (0, 1):
        gateway = pair.gateways[number]
        assert gateway.stop() == 0
        pair.standin.put("a", {"stopped": number})
        pair.seen[1 - number].wait_equal(20)
        pair.gateways[number] = start_serve(pair.url, pair.scratch, pair.logs, port=gateway.port, name="back", tune=TUNE)
    pair.wait_equal()
    pair.seen[0].judge()
