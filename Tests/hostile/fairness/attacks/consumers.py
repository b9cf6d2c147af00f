"""The status of a feed with messages that thousands of consumers hold."""

import random

from ..attack import Attack
from ..crowd import Queue, Repeaters, request

CONSUMERS, ASKERS = 8_468, 8


def prepare(tenant, short: bool) -> dict:
    tenant.feed("prey", path="/work/{key}", ack_deadline="12h")
    tenant.write("PATCH", "work", {f"k{number}": number for number in range(CONSUMERS)})
    return {"token": tenant.token("prey")}


def arm(spec):
    names = [f"{number:05d}-{'c' * 90}" for number in range(CONSUMERS)]
    random.Random(7).shuffle(names)
    target = f"/.feeds/prey/pull?ns={spec.ns}"
    pulls = [request("POST", target, spec.token, b'{"max":1,"wait":"20s","consumer":"%s"}' % name.encode()) for name in names]
    Queue(spec.port, 64, pulls).finish()


def run(spec) -> dict:
    crowd = Repeaters(spec.port, ASKERS, request("GET", f"/.feeds/prey/status?ns={spec.ns}", spec.token))
    crowd.run()
    return crowd.result()


ATTACK = Attack("consumers", f"status of a feed with {CONSUMERS:,} consumers, on {ASKERS} connections", prepare, run, arm, connections=ASKERS,
                worst=1_000)
