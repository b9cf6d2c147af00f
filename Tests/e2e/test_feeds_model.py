"""Random consumers of one feed: they acknowledge, refuse, extend, forget and return, and the model must hold.

PATHMIRROR_E2E_FEED_SEEDS names other seeds, PATHMIRROR_E2E_FEED_MESSAGES the number of messages for each."""

import os

import pytest
from feed_load import Load
from feed_model import FeedModel
from harness import sql
from harness.feeds import ADMIN, PATIENT, Feed
from harness.waiting import wait_until

SEEDS = [int(seed) for seed in os.environ.get("PATHMIRROR_E2E_FEED_SEEDS", "1,2").split(",")]
MESSAGES = int(os.environ.get("PATHMIRROR_E2E_FEED_MESSAGES", "1500"))


def run(gateway, model: FeedModel, seed: int, forgets: float = 0.0, **definition) -> list[dict]:
    """Works a feed until consumers have taken `count` messages, and judges."""
    feed = Feed(gateway.rest, headers=ADMIN).make(start="beginning", max_attempts=model.max_attempts, **definition)
    with Load([feed], model, seed, forgets=forgets) as load:
        wait_until(lambda: load.fail() or load.taken > MESSAGES, f"{MESSAGES} messages", 120)
        load.finish()
    letters = feed.dead(limit=1000)
    model.dead = {letter["id"] for letter in letters}
    print(f"seed {seed}: {model.judge(sql.log_entries(gateway.database_url))}")
    return letters


@pytest.mark.acceptance
@pytest.mark.parametrize("seed", SEEDS)
def test_consumers_that_refuse(serve, seed):
    letters = run(serve(), FeedModel(max_attempts=1000), seed, **PATIENT)
    assert letters == []


@pytest.mark.acceptance
@pytest.mark.parametrize("seed", SEEDS)
def test_consumers_that_forget(serve, seed):
    """Deadlines pass all the time, attempts run out, and dead letters are retried at the end."""
    gateway = serve()
    model = FeedModel(max_attempts=3, may_expire=True)
    run(gateway, model, seed, forgets=0.2, ack_deadline="150ms", backoff={"first": "1ms", "max": "20ms"})


@pytest.mark.acceptance
def test_strict_order_under_load(serve):
    """Messages are delivered one after another, over all consumers."""
    run(serve(), FeedModel(max_attempts=1000, strict=True), 3, order="namespace", **PATIENT)
