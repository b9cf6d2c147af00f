"""Callers do not learn data that the rules forbid by a realtime session: as test_disclosure_rest.py, by WebSocket and by long polling."""

import json

import pytest
from disclosure.realtime_rows import ROWS
from disclosure.sessions import ByPolling, BySocket
from disclosure.verdicts import judge
from disclosure.worlds import CALLERS, plain
from harness.waiting import wait_until

DENIED = {"s": "permission_denied", "d": "Permission denied"}
DOORS = {"socket": BySocket, "polling": ByPolling}
# Long polling leads to the same session: some of the callers and worlds suffice.
POLLING_CALLERS = ("stranger", "writer", "administrator")
POLLING_WORLDS = ("known", "other", "none", "asked", "low rank", "high rank", "priority")


def perform(world, row, caller, door: str) -> str:
    session = DOORS[door](world)
    try:
        session.log_in(caller)
        seen = session.run(row.requests)
        if row.defers:
            # An answer that completes with the session, and so shows its end.
            assert session.run([("o", {"p": "hall/left", "d": True})])[-1]["s"] == "ok"
    finally:
        session.close()
    if row.defers:
        wait_until(lambda: world.rest.value("hall/left"), "the onDisconnect requests to be executed")
    return plain(json.dumps(seen, sort_keys=True), world)


def is_denial(row):
    """Whether all deniable requests of a row were denied. No other message may follow from them."""

    def look(text: str) -> bool:
        seen = json.loads(text)
        denials = [one["r"] for one in seen if one.get("s") == "permission_denied"]
        if not denials:
            return False
        assert [one for one in seen if one.get("r") in row.denied] == [{"r": number, **DENIED} for number in row.denied], seen
        assert denials == list(row.denied), seen
        return True

    return look


CASES = [(door, row, caller) for door in DOORS for row in ROWS for caller in CALLERS
         if door == "socket" or caller.name in POLLING_CALLERS]


@pytest.mark.parametrize("door,row,caller", CASES, ids=[f"{door}-{row}-{caller}" for door, row, caller in CASES])
def test_realtime(worlds, door, row, caller):
    seen = {}
    for name, world in worlds.items():
        if door == "polling" and name not in POLLING_WORLDS:
            continue
        seen[name] = perform(world, row, caller, door)
        assert world.intact() or not is_denial(row)(seen[name]), f"refused, and written in the world '{name}'"
        world.restore()
    judge(row.needs, caller, seen, json.dumps(row.requests), is_denial(row))
