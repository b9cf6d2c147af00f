"""Readers of the log that all connect at once, and stay."""

from ..attack import Attack
from ..crowd import Holders, request

READERS = 200


def prepare(tenant, short: bool) -> dict:
    tenant.feed("prey", path="/work/{key}")
    for number in range(100):
        tenant.write("PATCH", "work", {f"k{number}-{one}": "x" * 1_000 for one in range(10)})
    return {"token": tenant.token("prey")}


def run(spec) -> dict:
    crowd = Holders(spec.port, READERS, request("GET", f"/.log?ns={spec.ns}&path=/work&offset=-1&live=sse", spec.token))
    crowd.run()
    return crowd.result()


ATTACK = Attack("log-burst", f"{READERS} GET /.log in one burst", prepare, run, connections=READERS)
