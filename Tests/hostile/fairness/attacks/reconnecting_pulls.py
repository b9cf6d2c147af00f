"""Pulls that wait, whose clients close and reconnect at full speed."""

from collections import deque

from ..attack import Attack
from ..crowd import Crowd, request

PULLS = 4_990
# Connections that are replaced between two polls of the descriptors.
STEP = 16


def prepare(tenant, short: bool) -> dict:
    tenant.feed("prey", path="/work/{key}")
    return {"token": tenant.token("prey")}


def arm(spec):
    """The pulls wait before the attack begins: it measures their replacement."""
    spec.crowd = crowd = Crowd(spec.port)
    spec.pull = request("POST", f"/.feeds/prey/pull?ns={spec.ns}", spec.token, b'{"wait":"60s"}')
    spec.waiting = deque()
    while len(spec.waiting) < PULLS and not crowd.over:
        for _ in range(STEP):
            if link := crowd.open(spec.pull):
                spec.waiting.append(link)
        crowd.turn(0)
    while any(link.out and link.socket.fileno() >= 0 for link in spec.waiting) and not crowd.over:
        crowd.turn()


def run(spec) -> dict:
    crowd, waiting, opened = spec.crowd, spec.waiting, 0
    while not crowd.over:
        for _ in range(STEP):
            # Refused ones as well: a client at full speed does not read the reason.
            if len(waiting) >= PULLS:
                waiting.popleft().close()
            if link := crowd.open(spec.pull):
                waiting.append(link)
                opened += 1
        crowd.turn(0)
    return {**crowd.result(), "connections": opened}


ATTACK = Attack("reconnecting-pulls", f"{PULLS:,} waiting pulls that reconnect as fast as they can", prepare, run, arm, connections=PULLS,
                more_descriptors=3_000, short_seconds=6)
