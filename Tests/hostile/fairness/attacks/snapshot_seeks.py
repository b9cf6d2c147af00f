"""A feed that is moved to a snapshot of a large tree, many times at once."""

from ..attack import Attack
from ..crowd import Repeaters, request

SEEKS = 40
GROUPS, EACH = 600, 1_000


def prepare(tenant, short: bool) -> dict:
    tenant.feed("prey", path="/big/{group}/{key}")
    tenant.write("PUT", "big", {f"g{group:03d}": {f"k{number:03d}": number for number in range(EACH)} for group in range(GROUPS)})
    return {"token": tenant.token("prey")}


def run(spec) -> dict:
    crowd = Repeaters(spec.port, SEEKS, request("POST", f"/.feeds/prey/seek?ns={spec.ns}", spec.token, b'{"to":"snapshot"}'))
    crowd.run()
    return crowd.result()


ATTACK = Attack("snapshot-seeks", f"{SEEKS} × seek to snapshot on {GROUPS * EACH:,} leaves", prepare, run, connections=SEEKS)
