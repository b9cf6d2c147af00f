"""The cost of a large tree: the bytes of a reconnect, and the memory of `follow verify`, which names a corrupted leaf.

PATHMIRROR_E2E_FOLLOW_MB says how large the tree is."""

import json
import os
import random
import time

import pytest
from harness import cli, sql
from harness.binary import pathmirror
from harness.process import Process, peak_resident_bytes
from harness.waiting import wait_until
from upstream.proxy import UpstreamProxy

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)
MEGABYTES = int(os.environ.get("PATHMIRROR_E2E_FOLLOW_MB", "20"))
# Records of five leaves.
RECORD = 2_000
RECORDS = MEGABYTES * 1_000_000 // RECORD
# The upgrade, the greeting and the login of a connection, which any tree costs.
CONNECTION = 4_000


def records() -> dict:
    """About RECORD bytes each; no two are alike."""
    return {f"k{number:07}": {"name": f"Customer number {number}", "total": number * 1.25, "state": "paid", "city": f"Town {number % 977}",
                              "note": f"{number:08} of many lines; " * ((RECORD - 130) // 24)} for number in range(RECORDS)}


@pytest.fixture
def large(followed):
    """(what follows a large tree, the proxy through which it does, the bytes of the tree as JSON)."""
    tree = records()
    size = len(json.dumps(tree, separators=(",", ":")))
    with UpstreamProxy(followed.standin.port) as proxy:
        followed.standin.put("customers", tree)
        begin = time.monotonic()
        followed.begin(upstream=proxy.url(), is_live=False)
        followed.following.wait_live(300)
        wait_until(lambda: sql.rows(followed.url, "select seq from pathmirror.log where op = 'resync'"), "the first load", 300, 0.1)
        quiet(followed)
        up, down = proxy.counted()
        print(f"\nseed {SEED}, {size} bytes of JSON: loaded in {time.monotonic() - begin:.1f} s, {up} bytes up, {down} down")
        followed.standin.events.clear()
        yield followed, proxy, size


def head(followed) -> int:
    return sql.head(followed.url)


def quiet(followed):
    """Waits until the follower has all there is."""
    expected = None

    def look():
        nonlocal expected
        status = followed.following.status()
        expected, before = (status["head"], status["position"]), expected
        return status["state"] == "following" and before == expected

    wait_until(look, "the follower to be quiet", 120, 0.5)


def reconnect(followed, proxy, work=None) -> tuple[int, int]:
    """(bytes up, bytes down) of a new connection, after `work` while there was none."""
    sessions = len(followed.standin.seen("connected"))
    proxy.refuse()
    proxy.cut()
    if work:
        work()
    proxy.counted()
    proxy.refuse(False)
    wait_until(lambda: len(followed.standin.seen("connected")) > sessions and [one for one in followed.standin.sessions if one.listens], "a new listen", 90, 0.05)
    quiet(followed)
    return proxy.counted()


def changed_leaves(followed, numbers):
    for number in numbers:
        followed.standin.put(f"customers/k{number:07}/total", -1)


def test_what_a_reconnect_costs(large):
    followed, proxy, size = large
    up, down = reconnect(followed, proxy)
    print(f"nothing changed: {up} bytes up ({up / size:.4%}), {down} down ({down / size:.4%})")
    assert up <= 0.01 * size + CONNECTION and down <= 0.01 * size + CONNECTION
    assert [one["event"] for one in followed.standin.events if one["event"] in ("equal", "ranges", "whole")] == ["equal"]
    before = head(followed)

    numbers = random.Random(SEED).sample(range(RECORDS), 10)
    up, down = reconnect(followed, proxy, lambda: changed_leaves(followed, numbers))
    ranges = followed.standin.seen("ranges")
    print(f"10 changed leaves: {up} bytes up ({up / size:.4%}), {down} down ({down / size:.4%}), {[one['count'] for one in ranges]} parts")
    assert len(ranges) == 1 and ranges[0]["count"] <= 10 and not followed.standin.seen("whole")
    # A part ends after the leaf with which its text is longer than sqrt(100 × size).
    assert down <= 10 * ((size * 100) ** 0.5 + RECORD) * 1.1 + CONNECTION and up <= 0.01 * size + CONNECTION
    assert head(followed) == before + 1
    seq, changes = sql.log_entries(followed.url)[-1]
    assert changes == {f"/customers/k{number:07}/total": -1 for number in numbers}, "a resync entry holds the difference only"
    assert sql.rows(followed.url, "select op::text from pathmirror.log where seq = %s", seq) == [("resync",)]


def measured(*words, logs) -> tuple[int, str, int]:
    """(exit status, standard output, peak resident bytes) of a command."""
    process, peak = Process([pathmirror(), *words], "measured", logs), 0
    deadline = time.monotonic() + 300
    while process.running:
        assert time.monotonic() < deadline, process.tail()
        try:
            peak = max(peak, peak_resident_bytes(process.pid))
        except (OSError, IndexError):
            pass
        time.sleep(0.003)
    return process.child.returncode, process.stdout() + process.stderr(), peak


def test_verify_names_a_corrupted_leaf_and_needs_little_memory(large, logs):
    followed, _, size = large
    numbers = random.Random(SEED).sample(range(RECORDS), 3)
    # This one only loads the tree.
    rules = followed.gateway.process.out.parent / "explained.json"
    rules.write_text('{"rules": {".read": "root.child(\'customers\').exists()"}}')
    status, text, base = measured("rules", "explain", "--rules", rules, "--path", "/", "--ns", "default", "--database-url", followed.url, logs=logs)
    assert status == 0, text
    status, text, equal = measured("follow", "verify", "default", "--database-url", followed.url, logs=logs)
    print(f"loading takes {base >> 20} MiB, verifying {equal >> 20} MiB; {text.strip()!r}")
    assert status == 0 and "equal at seq" in text, text
    path = f"/customers/k{numbers[0]:07}/total"
    sql.execute(followed.url, f"update pathmirror.node set value = '-7' where path = '{path}'")
    status, text, different = measured("follow", "verify", "default", "--database-url", followed.url, logs=logs)
    print(f"a corrupted leaf: {different >> 20} MiB; {text.strip()!r}")
    assert status == 1 and path in text and text.count("/customers/") == 1, text
    assert equal - base <= 64 << 20 and different - base <= 64 << 20
    assert cli.command("log", "verify", "--database-url", followed.url).returncode != 0
