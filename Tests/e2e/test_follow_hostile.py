"""A malicious upstream: what is outside of the protocol is contained, reported, and touches no other namespace."""

import os
import random
import time

import pytest
from harness import cli
from harness.follow import TUNE, Followed
from harness.gateway import start_serve
from harness.process import resident_bytes
from harness.scratch import scratch_directory
from harness.waiting import wait_until
from upstream.misbehaviour import INVALID
from upstream.standin import Standin
from upstream.writes import Direct, Writes, run

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)
# A message has at most 256 MiB. A follower holds its segments and, while it combines them, the whole message.
MEMORY = 600 << 20
ENORMOUS = [
    ("announce_segments", {"count": 999_999, "pieces": 20}), ("announce_segments", {"count": 999_999, "pieces": 20_000}), ("announce_frame", {"size": 16 << 30}),
    ("announce_frame", {"size": (1 << 63) - 1}), ("announce_frame", {"size": (1 << 64) - 1}), ("deep_tree", {"depth": 100_000}), ("deep_tree", {"depth": 33}),
    ("endless", {"kind": "segments", "limit": 600 << 20}),
]
# Frames that break the rules of WebSockets.
BROKEN = ["bad_utf8", "binary", "reserved_bits", "masked", "long_control_frame", "close_without_reason"]


@pytest.fixture(scope="module")
def world(postgres, logs, follows):
    """(a gateway with many namespaces, a stand-in, its credentials)."""
    with scratch_directory("hostile") as path, Standin() as standin:
        gateway = start_serve(postgres.create_database(), path, logs, "--create-namespaces", tune=TUNE, name="hostile")
        try:
            credentials = standin.credentials(path / "account.json")
            gateway.rest.at("", ns="other").set("a", "untouched")
            yield gateway, standin, credentials
        finally:
            gateway.sweep()


@pytest.fixture
def victim(world, ns):
    """A namespace that follows one of its own, with some data; afterwards the upstream is good again and nothing follows it."""
    gateway, standin, credentials = world
    standin.behave()
    cli.succeeds("namespace", "create", ns, "--database-url", gateway.database_url)
    followed = Followed(gateway, standin, credentials, ns, ns)
    standin.put("good", {"a": 1, "b": {"c": "two"}}, ns)
    yield followed
    standin.behave()
    followed.following.command("rm", ns, "--yes")


def others_are_served(gateway):
    """Another namespace takes writes and answers, at once."""
    begin = time.monotonic()
    rest = gateway.rest.at("", ns="other")
    rest.set("b", begin)
    assert rest.value("a") == "untouched" and rest.value("b") == begin
    assert time.monotonic() - begin < 5 and gateway.process.running


def recovers(victim, patience: float = 60):
    """With a good upstream the namespace is equal again, and its log never held anything else than the upstream's trees."""
    victim.standin.behave()
    victim.standin.put("good/after", "the mischief", victim.upstream_ns)
    victim.wait_equal(patience)
    victim.judge()


@pytest.mark.parametrize("kind", INVALID)
def test_an_invalid_message(world, victim, kind):
    victim.begin().wait_equal()
    victim.standin.do("invalid", only=victim.upstream_ns, kind=kind)
    others_are_served(world[0])
    recovers(victim)


@pytest.mark.parametrize("kind", INVALID)
def test_an_invalid_message_between_the_data_and_the_answer(world, victim, kind):
    """Within a resync, too, nothing of it may come in."""
    victim.standin.set(on_listen="invalid", on_listen_options={"kind": kind}, on_listen_times=1)
    victim.begin(is_live=False)
    others_are_served(world[0])
    wait_until(lambda: victim.standin.settings.on_listen_times == 0, "the listen", 30)
    recovers(victim)


@pytest.mark.parametrize("command", BROKEN)
def test_broken_frames(world, victim, command):
    victim.begin().wait_equal()
    victim.standin.do(command, only=victim.upstream_ns)
    others_are_served(world[0])
    recovers(victim)


def test_paths_outside_of_the_listen(world, victim):
    """A follower that listens to parts receives data that is in none of them."""
    standin, ns = victim.standin, victim.upstream_ns
    standin.put("", {f"c{number}": {f"k{inner}": "x" * 100 for inner in range(100)} for number in range(5)}, ns)
    standin.set(too_big_bytes=20_000)
    victim.begin(is_live=False)
    victim.wait_equal(90)
    for path in ("outside/x", "../x", ".settings/rules", "/", "c0//k1", "c0/$k"):
        standin.do("outside", only=ns, path=path, data={"bad": True})
        others_are_served(world[0])
    standin.do("cut", only=ns)
    standin.put("good", 1, ns)
    victim.wait_equal(90)
    assert "bad" not in str(victim.admin.value(format="export"))


@pytest.mark.parametrize("command, options", ENORMOUS, ids=[f"{command} {options}" for command, options in ENORMOUS])
def test_what_is_enormous(world, victim, command, options):
    gateway, standin, _ = world
    victim.begin().wait_equal()
    before = resident_bytes(gateway.process.pid)
    sessions = len(standin.seen("connected"))
    standin.do(command, only=victim.upstream_ns, **options)
    begin = time.monotonic()
    while time.monotonic() - begin < 5:
        others_are_served(gateway)
        assert resident_bytes(gateway.process.pid) - before < MEMORY
        if len(standin.seen("connected")) > sessions:
            break
        time.sleep(0.1)
    if len(standin.seen("connected")) == sessions:
        # What never ends may be waited for as long as silence lasts; this test does not.
        standin.do("cut", only=victim.upstream_ns)
    recovers(victim)


@pytest.mark.parametrize("kind", ["rm", "d"])
def test_parts_without_an_end_within_a_listen(world, victim, kind):
    """An initial load that never ends: memory stays bounded, nothing of it is committed, and the state says so."""
    gateway, standin, _ = world
    before = resident_bytes(gateway.process.pid)
    standin.set(withholds_answer=True, on_listen="endless", on_listen_options={"kind": kind, "limit": 1 << 30}, on_listen_times=1)
    victim.begin("--max-bytes-per-day", "100MB", is_live=False)
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        others_are_served(gateway)
        assert resident_bytes(gateway.process.pid) - before < 600 << 20
        time.sleep(0.2)
    assert "endless" not in str(victim.admin.value(shallow="true"))
    victim.following.wait_trouble()
    # The day's bytes are used up: only an operator can resume.
    standin.behave()
    standin.do("cut", only=victim.upstream_ns)
    victim.following.remove()
    victim.begin().wait_equal(60)


@pytest.mark.parametrize("lie", ["equal", "different"])
def test_wrong_hashes(world, victim, lie):
    """An upstream that says "equal" to everything is found out by the first honest one; one that says "different" costs bytes, and no entries."""
    standin, ns = victim.standin, victim.upstream_ns
    victim.begin().wait_equal()
    standin.set(hash_lies=lie)
    standin.do("cut", only=ns)
    wait_until(lambda: standin.alive(ns), "the follower to be back", 60)
    victim.following.wait_live()
    if lie == "equal":
        standin.do("cut", only=ns)
        standin.put("good/missed", 1, ns)
    recovers(victim, 90)
    standin.do("cut", only=ns)
    recovers(victim, 90)


@pytest.mark.parametrize("lies", ["", "different"], ids=["ranges", "whole"])
def test_data_that_comes_again_and_again(world, victim, lies):
    standin, ns = victim.standin, victim.upstream_ns
    victim.begin().wait_equal()
    before = victim.following.status()["head"]
    standin.set(hash_lies=lies)
    for _ in range(5):
        standin.do("listen_again", only=ns)
    recovers(victim)
    # UNKNOWN: whether a message that changes nothing is an entry. It may be one each, and no more.
    assert victim.following.status()["head"] - before <= 6


def test_a_crowd_of_mischief(world, victim):
    """A random sequence of everything, while good writes continue."""
    gateway, standin, _ = world
    dice, ns = random.Random(SEED), victim.upstream_ns
    victim.begin()
    writes = Writes(SEED, width=10, long_strings=False)
    writes.copy.put(("good",), standin.export("good", ns))
    for _ in range(12):
        run(writes, Direct(standin, ns), 10)
        standin.do("invalid", only=ns, kind=dice.choice(list(INVALID)))
        if dice.random() < 0.5:
            standin.do(dice.choice([*BROKEN, "cut", "cancel", "revoke_auth", "error", "close"]), only=ns)
        others_are_served(gateway)
    recovers(victim, 120)
