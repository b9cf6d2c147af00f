"""The maximum of dead letters with the longest reasons, requested by clients that do not read."""

import http.client
import json

from ..attack import MIB, Attack
from ..crowd import Holders, request

READERS, MESSAGES, FEWER, ATTEMPTS = 36, 500, 150, 20
# A character of one byte that is six bytes of JSON.
REASON = "\x01" * 2_000


def prepare(tenant, short: bool) -> dict:
    tenant.feed("prey", path="/work/{key}", max_attempts=ATTEMPTS, backoff={"first": "1ms", "max": "1ms"}, ack_deadline="10m")
    messages = FEWER if short else MESSAGES
    tenant.write("PATCH", "work", {f"k{number}": number for number in range(messages)})
    return {"token": tenant.token("prey"), "messages": messages}


def arm(spec):
    connection = http.client.HTTPConnection("127.0.0.1", spec.port, timeout=60)

    def ask(method: str, what: str, **body) -> dict:
        connection.request(method, f"/.feeds/prey/{what}?ns={spec.ns}", json.dumps(body) if body else None, {"Authorization": f"Bearer {spec.token}"})
        return json.loads(connection.getresponse().read())

    failures = 0
    while failures < spec.messages * ATTEMPTS:
        ids = [message["id"] for message in ask("POST", "pull", max=1_000, wait="5s")["messages"]]
        if not ids:
            break
        ask("POST", "nack", ids=ids, reason=REASON, delay="0s")
        failures += len(ids)


def run(spec) -> dict:
    crowd = Holders(spec.port, READERS, request("GET", f"/.feeds/prey/dead?ns={spec.ns}&limit=1000", spec.token), reads=False)
    crowd.run()
    return crowd.result()


ATTACK = Attack("dead-letters", f"{READERS} unread responses with {MESSAGES} dead letters of {ATTEMPTS} long reasons", prepare, run, arm,
                more_bytes=512 * MIB, connections=READERS)
