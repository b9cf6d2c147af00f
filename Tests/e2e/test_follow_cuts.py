"""Random upstream writes while the connection is cut at random bytes: the log holds the upstream's trees only, feeds and mirrors agree, and a
reconnect costs little.

PATHMIRROR_E2E_FOLLOW_WRITES and PATHMIRROR_E2E_FOLLOW_CUTS say how many there are, and PATHMIRROR_E2E_SEED which.
"""

import json
import os
import random
import time

import psycopg
import pytest
from harness import cli, sql
from harness.feeds import ADMIN, Feed
from harness.follow import TUNE, Followed, Following
from harness.gateway import SECRET, start_serve
from harness.threads import beside
from harness.waiting import wait_until
from mirror_campaign.comparing import Comparison
from mirror_campaign.stored import read
from oracle.export import normal
from oracle.log import Log
from upstream.equality import exact
from upstream.judge import judge, log_entries, upstream_hashes
from upstream.proxy import DOWN, UpstreamProxy, random_cuts
from upstream.writes import ByRest, BySocket, Direct, Mixed, Writes, run

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)
WRITES = int(os.environ.get("PATHMIRROR_E2E_FOLLOW_WRITES", "600"))
# The follower backs off up to 30 s after failures in a row, unless a constant makes it faster.
CUTS = int(os.environ.get("PATHMIRROR_E2E_FOLLOW_CUTS", "40"))
ORDERS = {"name": "orders", "path": "/orders/{order_id}", "rest": "rest",
          "columns": {"total": "double precision", "name": "text", "note": "text", "items": "jsonb"}}


@pytest.fixture
def proxied(followed):
    """(what follows, the proxy through which it does)."""
    with UpstreamProxy(followed.standin.port) as proxy:
        yield followed, proxy


def write_through_cuts(writes, writer, proxy, dice, cuts: int, patience: float):
    """Writes in small runs until all cuts have happened and all writes are done."""
    proxy.plan(random_cuts(dice, cuts))
    proxy.cut()
    done, deadline = 0, time.monotonic() + patience
    while done < WRITES or proxy.planned:
        assert time.monotonic() < deadline, f"seed {SEED}: {proxy.planned} cuts are left after {done} writes"
        run(writes, writer, 10)
        done += 10
        # The upstream continues while the follower is away, but not so long that nothing but gaps is left.
        time.sleep(0.02 if done < WRITES else 0.2)
    proxy.forget_plan()


def consume(feed, messages: list):
    """A consumer of a feed, as work beside a test."""
    def work(stop):
        while not stop.is_set():
            found = feed.pull(100, "200ms")
            messages.extend(found)
            if found:
                feed.settle("ack", found)

    return work


def test_random_writes_with_cuts(proxied, scratch):
    followed, proxy = proxied
    standin, dice = followed.standin, random.Random(SEED)
    (scratch / "mirrors.json").write_text(json.dumps([ORDERS]))
    cli.succeeds("mirror", "apply", scratch / "mirrors.json", "--yes", "--database-url", followed.url)
    feeds = {"orders": Feed(followed.rest, "orders", headers=ADMIN), "users": Feed(followed.rest, "users", headers=ADMIN)}
    for name, feed in feeds.items():
        feed.make(f"/{name}/{{key}}", start="beginning", ack_deadline="10m")
    messages: dict[str, list] = {name: [] for name in feeds}
    writes = Writes(SEED, width=20)
    token = standin.account.issue()
    with BySocket(standin.port, "shop", token) as socket, ByRest(standin.port, "shop", token) as rest:
        writer = Mixed(SEED, socket, rest, Direct(standin))
        run(writes, writer, 50)
        followed.begin(upstream=proxy.url())
        with beside(*(consume(feed, messages[name]) for name, feed in feeds.items())):
            write_through_cuts(writes, writer, proxy, dice, CUTS, 600)
            followed.wait_equal(90)
            for feed in feeds.values():
                feed.drained()
    # Not `followed.judge`: the writers of this test write by the same doors.
    figures = judge(log_entries(followed.url), upstream_hashes(standin.writes()))
    print(f"seed {SEED}: {figures}, {proxy.cuts} cuts, {writes.counts}")
    assert figures["resync"] <= 1 + proxy.connections and figures["upstream"] > 0
    cli.verify("--database-url", followed.url)
    agree(followed, messages)


def without_priorities(value):
    """A value of an export in the form in which feeds send it."""
    if not isinstance(value, dict):
        return value
    if ".value" in value:
        return value[".value"]
    return {key: without_priorities(child) for key, child in value.items() if key != ".priority"}


def agree(followed, messages: dict[str, list]):
    """Two feeds deliver, and a mirror holds, what the upstream has."""
    tree = followed.standin.export() or {}
    for name, told in messages.items():
        held: dict = {}
        for message in told:
            key = message["key"].split("/")[-1]
            if message["event"] == "deleted":
                held.pop(key, None)
            else:
                held[key] = normal(message["value"])
        wanted = tree.get(name)
        wanted = without_priorities(wanted)
        wanted = wanted if isinstance(wanted, dict) else {}
        assert exact(held) == exact(wanted), f"seed {SEED}: feed {name}"
    wait_until(lambda: sql.rows(followed.url, "select coalesce(bool_and(seq is not distinct from head), true) from pathmirror.mirror_status")[0][0], "the mirror", 60)
    log = Log()
    with psycopg.connect(followed.url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("set timezone to 'UTC'")
        log.read(connection)
        comparison = Comparison(log, lambda: f"seed {SEED}")
        for stored in read(connection):
            comparison.compare(stored)


def test_a_second_pathmirror_as_the_upstream(follows, postgres, serve, scratch, logs):
    """The same with a gateway as the upstream: by its own log, no message is lost, repeated or applied in part."""
    url = postgres.create_database()
    upstream = start_serve(url, scratch, logs, name="upstream")
    try:
        secret = scratch / "upstream-secret"
        secret.write_text(SECRET + "\n")
        gateway = serve(tune=TUNE)
        writes, dice = Writes(SEED + 1, width=20), random.Random(SEED)
        with UpstreamProxy(upstream.port) as proxy, BySocket(upstream.port, "default") as socket, ByRest(upstream.port, "default") as rest:
            writer = Mixed(SEED, socket, rest)
            run(writes, writer, 50)
            following = Following(gateway.database_url)
            # UNKNOWN: the form of a file with a database secret.
            following.add(f"http://127.0.0.1:{proxy.port}/?ns=default", secret)
            following.wait_live()
            write_through_cuts(writes, writer, proxy, dice, CUTS, 600)
            wait_until(lambda: exact(gateway.rest.value(format="export")) == exact(upstream.rest.value(format="export")), "the trees to be equal", 90, 0.2)
            assert following.verify().returncode == 0
        hashes = [""]
        for _, _, digest in log_entries(url):
            if digest != hashes[-1]:
                hashes.append(digest)
        print(f"seed {SEED}: {judge(log_entries(gateway.database_url), hashes)}")
        assert cli.succeeds("log", "verify", "--database-url", gateway.database_url)
    finally:
        upstream.sweep()
        postgres.drop_database(url)


# MARK: What a reconnect costs

def large(records: int) -> dict:
    """About 150 bytes a record."""
    return {f"k{number:06}": {"name": f"Customer number {number}", "total": number * 1.25, "state": "paid", "address": f"{number} Long Street, Some Town"}
            for number in range(records)}


def reconnect(followed, proxy) -> tuple[int, int]:
    """(bytes up, bytes down) of a reconnect, until the follower is live again and quiet."""
    proxy.counted()
    made = len(followed.standin.requests("q"))
    proxy.cut()
    wait_until(lambda: len(followed.standin.requests("q")) > made, "a new listen", 60, 0.02)
    followed.wait_equal(30)
    return proxy.counted()


def test_a_reconnect_with_nothing_changed_costs_one_percent(proxied):
    followed, proxy = proxied
    followed.standin.put("customers", large(30_000))
    followed.begin(upstream=proxy.url()).wait_equal(90)
    size = followed.standin.size()
    up, down = reconnect(followed, proxy)
    print(f"{size} bytes: {up} up, {down} down")
    # TLS and HTTP are not part of it; the upgrade, the greeting and the login are some hundred bytes.
    assert up < 0.01 * size + 4000 and down < 0.01 * size + 4000
    assert [event["event"] for event in followed.standin.events if event["event"] in ("equal", "ranges", "whole")] == ["whole", "equal"]
    assert followed.judge()["resync"] == 1


def test_changed_leaves_bring_their_parts_only(proxied):
    followed, proxy = proxied
    followed.standin.put("customers", large(30_000))
    followed.begin(upstream=proxy.url()).wait_equal(90)
    size = followed.standin.size()
    proxy.refuse()
    proxy.cut()
    dice = random.Random(SEED)
    for number in dice.sample(range(30_000), 10):
        followed.standin.put(f"customers/k{number:06}/total", -1)
    proxy.counted()
    proxy.refuse(False)
    followed.wait_equal(60)
    up, down = proxy.counted()
    ranges = followed.standin.seen("ranges")
    print(f"{size} bytes: {up} up, {down} down, {ranges}")
    assert len(ranges) == 1 and ranges[0]["count"] <= 10
    # A part is cut after sqrt(100 × size) bytes.
    assert down < 10 * 2 * (size * 100) ** 0.5 + 8000 and up < 0.01 * size + 4000
    assert followed.judge()["resync"] == 2
    changes = sql.log_entries(followed.url)[-1][1]
    assert len(changes) == 10, "a resync entry holds the difference only"


def test_a_cut_within_the_initial_data_brings_nothing_of_it(proxied):
    followed, proxy = proxied
    # The command and polls of rules use the proxy as well.
    followed.begin("--keep-rules", upstream=proxy.url())
    followed.following.pause(followed.standin)
    followed.standin.put("customers", large(5000))
    proxy.plan([(DOWN, 300_000)])
    followed.following.resume()
    wait_until(lambda: proxy.cuts == 1, "the cut", 40)
    assert followed.rest.value() is None
    followed.wait_equal(60)
    assert followed.judge() == {"upstream": 0, "resync": 1, "skipped": 0, "upstream trees": 2}


def test_an_upstream_that_has_gone_back_to_a_backup(proxied):
    """The tree may also lose what it had: one entry, as after every gap."""
    followed, proxy = proxied
    run(Writes(3), Direct(followed.standin), 100)
    backup = followed.standin.export()
    followed.begin(upstream=proxy.url())
    run(Writes(4), Direct(followed.standin), 100)
    followed.wait_equal(30)
    proxy.refuse()
    proxy.cut()
    followed.standin.put("", backup)
    proxy.refuse(False)
    followed.wait_equal(60)
    followed.judge()


def test_a_follower_is_told_where_a_missing_credential_is(follows, serve, upstream, scratch):
    """An upstream that the account may not read: the state says so, and nothing spins."""
    followed = Followed(serve(tune=TUNE), upstream, upstream.credentials(scratch / "account.json"))
    refused = followed.following.command("add", "other", "--upstream", upstream.url("nothing"), "--credentials", scratch / "none.json")
    assert refused.returncode == 1 and "none.json" in refused.stderr
    followed.begin()
    followed.following.pause(upstream)
    upstream.account.mode = "refuse"
    followed.following.resume()
    followed.following.wait_trouble("credential", "account", "token", "auth")
    time.sleep(3)
    assert len(upstream.account.token_requests) < 60
    upstream.account.mode = "ok"
    followed.following.wait_live()
    followed.wait_equal()
