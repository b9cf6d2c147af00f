"""Some rounds of `make campaign NAME=follow`, and a check that the campaign can fail: each broken promise is noticed."""

import os

import pytest
from follow_campaign import phases
from follow_campaign.judging import Judge, UpstreamHistory, Violation
from follow_campaign.projection import compare_mirror
from follow_campaign.world import NS, World
from harness import sql
from upstream.database import Namespace
from upstream.hashing import node_hash
from upstream.standin import Received
from upstream.writes import Writes, apply_to

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", 5))


def test_a_minute_of_the_campaign(follows, own_postgres, scratch):
    with World(SEED, own_postgres, scratch, width=15) as world:
        world.begin(100)
        for name, writes, count in (("cuts", 400, 6), ("kills", 200, 2), ("starts", 100, 1), ("restarts", 100, 1), ("everything", 100, 3)):
            phases.Phase(world, name, writes).run(lambda phase, name=name, count=count: getattr(phases, name)(phase, count))
        print(world.finish(), world.figures)
        assert world.judge.counts["upstream"] > 0 and world.judge.counts["resync"] > 1


def test_every_planted_mistake(follows, own_postgres, scratch):
    with World(SEED, own_postgres, scratch, width=15) as world:
        world.begin(100)
        phases.Phase(world, "cuts", 100).run(lambda phase: phases.cuts(phase, 1))
        for planted in (a_lie, a_lost_message, a_write_by_the_follower, a_corrupted_leaf, a_wrong_row, a_missing_row, a_feed_without_a_record, a_feed_with_a_stale_record):
            planted(world)
        world.finish()


# MARK: mistakes in the world

def notices(work, *words):
    with pytest.raises(Violation) as found:
        work()
    assert all(word in str(found.value) for word in words), found.value


def a_lie(world):
    """The upstream sends the follower a leaf that it does not have."""
    world.standin.do("lie", path="orders/lie", data=1, only=NS)
    notices(lambda: world.settle(3), "to be the upstream's")
    world.standin.put("orders/lie", 1, NS)
    # The log has that tree already, and then the message.
    notices(world.settle, "applied twice")
    skip_log(world)


def a_lost_message(world):
    """The next message changes a tree that the upstream never had."""
    world.standin.set(lost_pushes=1)
    world.standin.put("orders/lost", 1, NS)
    world.standin.put("orders/next", 1, NS)
    world.proxy.cut()
    notices(world.settle, "never had")
    skip_log(world)


def a_write_by_the_follower(world):
    number = world.sessions[0].number
    for action in ("q", "p"):
        world.standin.received.append(Received(number, action, {"p": "/a"}, 1, 0))
    notices(world.judge_requests, "not only read")


def a_corrupted_leaf(world):
    """`follow verify` names it."""
    path, = sql.rows(world.url, "select path, value::text from pathmirror.node where path ~ '^/orders/[a-z0-9/]+$' limit 1")
    sql.execute(world.url, f"update pathmirror.node set value = '\"corrupted\"' where path = $x${path[0]}$x$")
    notices(world.verify, "differs", path[0])
    sql.execute(world.url, f"update pathmirror.node set value = $x${path[1]}$x$ where path = $x${path[0]}$x$")
    world.verify()


def a_wrong_row(world):
    tampered(world, "update mirror.orders set note = 'tampered', name = 'tampered'", "mirror orders")


def a_missing_row(world):
    tampered(world, "delete from mirror.orders", "expected a row")


def tampered(world, statement, *words):
    sql.autocommit(world.url, "create table public.before as select * from mirror.orders",
                   f"{statement} where ctid = (select min(ctid) from mirror.orders)")
    notices(lambda: compare_mirror(world.url, world.standin.export(ns=NS)), *words)
    sql.execute(world.url, "delete from mirror.orders", "insert into mirror.orders select * from public.before", "drop table public.before")
    compare_mirror(world.url, world.standin.export(ns=NS))


def a_feed_without_a_record(world):
    feed = world.feeds[0]
    key, value = next(iter(feed.held.items()))
    del feed.held[key]
    notices(lambda: feed.compare(world.standin.export(ns=NS)), f"of {key}")
    feed.held[key] = value


def a_feed_with_a_stale_record(world):
    feed = world.feeds[1]
    key, value = next(iter(feed.held.items()))
    feed.held[key] = {"stale": True}
    notices(lambda: feed.compare(world.standin.export(ns=NS)), f"of {key}")
    feed.held[key] = value


def skip_log(world):
    """Judges the entries after a mistake that the log will always have."""
    list(world.log.entries())
    world.judge.at, world.judge.digest = len(world.history.hashes) - 1, world.history.hashes[-1]
    world.settle()


# MARK: mistakes in a log, without a world

@pytest.fixture
def history():
    """The trees of some writes, among them the same one again and again."""
    history = UpstreamHistory()
    for digest in "a b c d b e e f a g".split():
        history.add(digest)
    return history


def judged(history, *entries, ends: bool = True):
    judge = Judge(history)
    for seq, (op, digest) in enumerate(entries, 1):
        judge.entry(seq, op, digest)
    if ends:
        judge.end()
    return judge


def whole(history):
    return [("upstream", digest) for digest in history.hashes[1:]]


def test_good_logs(history):
    assert judged(history, *whole(history)).counts == {"upstream": 10, "resync": 0}
    judged(history, ("resync", "c"), *whole(history)[3:])
    judged(history, *whole(history)[:2], ("resync", "g"))
    # A message that changes nothing may make no entry.
    assert judged(history, *whole(history)[:6], *whole(history)[7:]).jumps == 0
    # The upstream came back to the same tree in a gap, which makes no entry.
    assert judged(history, *whole(history)[:2], *whole(history)[5:]).jumps == 1


@pytest.mark.parametrize("name, entries, words", [
    ("in part", [("upstream", "a"), ("upstream", "half of b")], "never had"),
    ("lost", [("upstream", "a"), ("upstream", "c")], "a message was lost"),
    ("twice", [("upstream", "a"), ("upstream", "b"), ("upstream", "b")], "applied twice"),
    ("out of order", [("upstream", "a"), ("upstream", "c"), ("upstream", "b")], "lost"),
    ("back", [("resync", "d"), ("resync", "c")], "goes back"),
    ("a resync of nothing", [("upstream", "a"), ("resync", "a")], "changed nothing"),
    ("another operation", [("set", "a")], "operation set"),
    ("not the end", [("upstream", "a")], "ends at tree 1"),
    ("after the end", [("resync", "g"), ("upstream", "a")], "not the message"),
])
def test_bad_logs(history, name, entries, words):
    with pytest.raises(Violation, match=words):
        judged(history, *entries)


def test_the_history_is_that_of_the_upstream():
    """Hashes of a copy that executes the same writes."""
    namespace, history = Namespace("copy"), UpstreamHistory()
    writes = Writes(SEED, width=10, long_strings=False)
    for operation in writes.take(300):
        apply_to(namespace, operation)
    history.take(namespace.writes)
    assert history.hashes[-1] == node_hash(namespace.root) and len(history.hashes) == 301
