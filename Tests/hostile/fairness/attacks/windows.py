"""Feeds without acknowledgements, each with its own window full of large values that the tree no longer has."""

import http.client
import json
import time

from ..attack import MIB, Attack
from ..crowd import Crowd, Queue, request

FEEDS, VALUES, BYTES = 16, 64, 1_000_000
# The number of values of one write, and of rounds over all. The last values are in memory anyway, and all feeds share them.
EACH, ROUNDS = 8, 2
# The minimum of messages, whose estimated size exceeds their bytes, in a window of 64 MiB.
FULL = 50


def prepare(tenant, short: bool) -> dict:
    tenant.feed("first", path="/idle/{key}")
    return {}


def arm(spec):
    for round_ in range(ROUNDS):
        bodies = [json.dumps({f"k{first + one}": f"{round_}{'x' * BYTES}" for one in range(EACH)}) for first in range(0, VALUES, EACH)]
        path = f"/large.json?ns={spec.ns}&print=silent"
        Queue(spec.port, 1, [request("PATCH", path, spec.secret, body.encode()) for body in bodies]).finish()
        Queue(spec.port, 1, [request("DELETE", path, spec.secret)]).finish()


def run(spec) -> dict:
    idle = Crowd(spec.port)
    connection = http.client.HTTPConnection("127.0.0.1", spec.port, timeout=20)

    def ask(method: str, target: str, body: dict | None = None) -> tuple[int, dict]:
        """Status and body; 0 without an answer in time."""
        try:
            connection.request(method, f"{target}?ns={spec.ns}", json.dumps(body) if body else None, {"Authorization": f"Bearer {spec.secret}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException):
            connection.close()
            return 0, {}

    counts = {"feeds": 0, "full windows": 0}
    for number in range(FEEDS):
        # One at a time: feeds that begin together read the log together, and share the entries.
        status, _ = ask("PUT", f"/.feeds/window{number}", {"path": "/large/{key}", "events": ["created"], "start": "beginning"})
        counts["feeds"] += status == 201
        end, full = time.monotonic() + 2, False
        while not (full or idle.over or time.monotonic() > end):
            idle.turn(0.05)
            status, found = ask("GET", f"/.feeds/window{number}/status")
            full = status == 200 and found["pending_messages"] >= FULL
        counts["full windows"] += full
        if idle.over:
            break
    idle.run()
    return counts


# 512 MiB of windows, the memory of the writes before the attack, and the allocator's reserve.
ATTACK = Attack("windows", f"{FEEDS} feeds that no consumer acknowledges, {VALUES} values of {BYTES // 1_000_000} MB each", prepare, run, arm,
                more_bytes=768 * MIB, connections=1, short_seconds=12)
