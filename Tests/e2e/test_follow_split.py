"""Upstreams that are too big for one listen: the follower splits the key space, splits again where a part grows, and loses nothing."""

import os
import random
import time

import pytest
from harness.threads import beside
from harness.waiting import wait_until
from upstream.writes import Direct, Writes, run

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)


def collection(count: int, prefix: str = "k") -> dict:
    return {f"{prefix}{number:05}": {"name": f"Number {number}", "text": "x" * 60} for number in range(count)}


def listens(standin) -> list[dict]:
    return [listen for session in standin.state()["sessions"] for listen in session["listens"]]


def covers_all_keys(found: list[dict]) -> bool:
    """Whether the ranges at the root have neither a gap nor an end."""
    ranges = sorted(((one["q"].get("sp", ""), one["q"].get("ep")) for one in found if one["p"] == "" and one["q"]), key=lambda one: one[0])
    return bool(ranges) and ranges[0][0] == "" and any(end is None for _, end in ranges)


@pytest.mark.parametrize("closes", [False, True], ids=["too_big", "payload"])
def test_a_tree_that_is_too_big_is_split(followed, closes):
    followed.standin.put("", {"orders": collection(400, "o"), "users": collection(100, "u"), "stock": {"a": 1}, "version": 7})
    followed.standin.set(too_big_bytes=30_000, too_big_closes=closes)
    followed.begin(is_live=False)
    followed.wait_equal(120)
    found = listens(followed.standin)
    assert len(found) > 1 and covers_all_keys(found), found
    status = followed.following.wait_live()
    assert status["parts"], "the status says that order holds within a part only"
    # A new key at the top comes as soon as any other.
    for key in ("0new", "middle", "zzz", "\U0001f600", "-5"):
        begin = time.monotonic()
        followed.standin.put(key, {"new": True})
        wait_until(lambda: followed.rest.value(key) is not None, f"{key} to appear", 20, 0.01)
        assert time.monotonic() - begin < 3
    followed.standin.put("stock", None)
    followed.wait_equal()
    assert followed.standin.violations() == []


def test_a_part_that_grows_is_split_again(followed):
    followed.standin.put("", {"orders": collection(50, "o"), "users": collection(50, "u")})
    followed.standin.set(too_big_bytes=30_000)
    followed.begin().wait_equal()
    before = len(listens(followed.standin))
    for number in range(500):
        followed.standin.put(f"orders/o{number % 7}{number:05}", {"text": "y" * 60})
    followed.wait_equal(120)
    wait_until(lambda: len(listens(followed.standin)) > before, "more parts", 60)
    followed.standin.put("orders/last", 1)
    followed.wait_equal()


def test_splitting_during_writes_loses_nothing(followed):
    writes = Writes(SEED, width=150, long_strings=False)
    run(writes, Direct(followed.standin), 800)
    followed.standin.set(too_big_bytes=max(20_000, followed.standin.size() // 6))

    def work(stop):
        run(writes, Direct(followed.standin), 1_000_000, 100, stop)

    with beside(work):
        followed.begin(is_live=False)
        time.sleep(3)
        for limit in (9, 12):
            followed.standin.set(too_big_bytes=max(15_000, followed.standin.size() // limit))
            followed.standin.do("cut")
            time.sleep(3)
    # A listen in a range of keys does not show the priority of the node itself.
    split = {part["path"] for part in followed.following.told()["parts"] if part["range"]}
    followed.wait_equal(120, without_priorities_of=split)
    print(f"seed {SEED}: {len(listens(followed.standin))} parts of {followed.standin.size()} bytes")
    assert followed.standin.violations() == []


def test_a_reconnect_of_parts_costs_no_data(followed):
    followed.standin.put("", {"orders": collection(400, "o"), "users": collection(300, "u")})
    followed.standin.set(too_big_bytes=40_000)
    followed.begin(is_live=False)
    followed.wait_equal(120)
    followed.following.wait_live()
    sent, whole = followed.standin.bytes_out, len(followed.standin.seen("whole"))
    followed.standin.do("cut")
    wait_until(lambda: covers_all_keys(listens(followed.standin)), "the parts to be back", 60)
    followed.following.wait_live()
    assert len(followed.standin.seen("whole")) == whole and followed.standin.bytes_out - sent < 0.1 * followed.standin.size() + 20_000


def test_a_single_value_that_is_too_big(followed):
    """Where nothing can be split the state says so; the rest may come along or not, and nothing spins."""
    followed.standin.put("", {"big": "x" * 50_000, "small": 1})
    followed.standin.set(too_big_bytes=20_000)
    followed.begin(is_live=False)
    followed.following.wait_trouble("big", "large", "size", "split")
    before = len(followed.standin.requests("q"))
    time.sleep(3)
    assert len(followed.standin.requests("q")) - before < 100, "it spins"
    followed.standin.put("big", "short now")
    followed.wait_equal(120)
