"""Pulls that wait, through a gateway that forwards them to the one that works the feed."""

from ..attack import Attack
from ..crowd import Repeaters, request

# The forwarding client of the first version with feeds had 2,000 slots.
PULLS = 2_600


def prepare(tenant, short: bool) -> dict:
    tenant.feed("prey", path="/work/{key}")
    return {"token": tenant.token("prey")}


def run(spec) -> dict:
    pull = request("POST", f"/.feeds/prey/pull?ns={spec.ns}", spec.token, b'{"wait":"60s"}')
    crowd = Repeaters(spec.port, PULLS, pull)
    crowd.run()
    return crowd.result()


ATTACK = Attack("forwarded-pulls", f"{PULLS:,} waiting pulls through a gateway that forwards them", prepare, run,
                gateways=2, through=1, connections=PULLS,
                # One connection between the gateways for each pull, with an end at each.
                more_descriptors=2 * PULLS + 400)
