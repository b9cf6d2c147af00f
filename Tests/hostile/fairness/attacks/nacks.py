"""Messages that one client pulls and nacks with long reasons at full speed, which makes the database write."""

import http.client
import json
import random
import string

from ..attack import MIB, Attack
from ..crowd import Crowd

MESSAGES, ATTEMPTS = 1_000, 1_000
LENGTH = 2_000


def reason(dice: random.Random) -> str:
    """A text that compresses badly."""
    return "".join(dice.choices(string.ascii_letters + string.digits, k=LENGTH))


def prepare(tenant, short: bool) -> dict:
    tenant.feed("prey", path="/work/{key}", max_attempts=ATTEMPTS, backoff={"first": "1ms", "max": "1ms"}, ack_deadline="10m")
    tenant.write("PATCH", "work", {f"k{number}": number for number in range(MESSAGES)})
    return {"token": tenant.token("prey")}


def run(spec) -> dict:
    idle, dice, counts = Crowd(spec.port), random.Random(7), {"nacks": 0, "refused": 0, "retries": 0}
    connection = http.client.HTTPConnection("127.0.0.1", spec.port, timeout=20)

    def ask(what: str, **body) -> dict:
        try:
            connection.request("POST", f"/.feeds/prey/{what}?ns={spec.ns}", json.dumps(body), {"Authorization": f"Bearer {spec.token}"})
            answer = connection.getresponse()
            data = answer.read()
            if answer.status == 200:
                return json.loads(data)
        except (OSError, ValueError, http.client.HTTPException):
            connection.close()
        counts["refused"] += 1
        return {}

    while not idle.over:
        idle.turn(0)
        ids = [message["id"] for message in ask("pull", max=1_000).get("messages", [])]
        if ids:
            counts["nacks"] += list(ask("nack", ids=ids, reason=reason(dice), delay="0s").get("results", {}).values()).count("done")
        else:
            idle.turn(0.01)
            # Once all are dead letters, the attack retries them.
            counts["retries"] += ask("dead/retry", all=True).get("count", 0) > 0
    return counts


ATTACK = Attack("nacks", f"{MESSAGES:,} messages nacked with reasons of {LENGTH:,} bytes as fast as they come", prepare, run,
                more_disk=64 * MIB, connections=1, short_seconds=10)
