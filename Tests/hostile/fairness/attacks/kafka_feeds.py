"""Feeds into Kafka without messages, whose brokers are unreachable."""

import json

from ..attack import Attack
from ..crowd import Crowd, Queue, request

FEEDS, BROKERS = 200, 4


def prepare(tenant, short: bool) -> dict:
    tenant.feed("first", path="/idle/{key}")
    return {"brokers": ",".join(f"127.0.0.1:{tenant.free_port()}" for _ in range(BROKERS))}


def run(spec) -> dict:
    feeds = [request("PUT", f"/.feeds/kafka{number}?ns={spec.ns}", spec.secret, json.dumps({
        "path": "/idle/{key}", "kafka": {"brokers": spec.brokers, "topic": f"t{number}"}}).encode()) for number in range(FEEDS)]
    made = Queue(spec.port, 8, feeds)
    counts = made.finish()
    idle = Crowd(spec.port)
    idle.over = made.over
    idle.run()
    return counts


ATTACK = Attack("kafka-feeds", f"{FEEDS} idle Kafka feeds with {BROKERS} unreachable brokers", prepare, run, connections=8)
