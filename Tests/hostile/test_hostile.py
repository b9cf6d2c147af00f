"""Each hostile message, sent without a credential (or with that of a feed) while health checks, a permitted writer and a feed's consumer
work.

The tests judge that the gateway survives and answers all other clients, that its memory stays within a limit, that no data changes, and
that attackers get only the protocols' own refusals. Latencies are shown at the end, not judged."""

import pytest
from attacks import feeds, large, many
from conftest import failed
from harness.gateway import SECRET
from harness.process import peak_resident_bytes, resident_bytes
from harness.waiting import wait_until

ATTACKS = large.ATTACKS + many.ATTACKS + feeds.ATTACKS


def forget_peak(pid: int):
    """Resets the peak of the memory."""
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


@pytest.mark.parametrize("attack", ATTACKS, ids=repr)
def test_the_gateway_goes_on(siege, attack, figures, request, record_property):
    gateway, target, watch = siege.gateway, siege.target, siege.watch
    attack.prepare(target)
    payload = attack.make(target)
    watch.settle()
    pid = gateway.process.pid
    before = resident_bytes(pid)
    forget_peak(pid)
    watch.since()

    answers = attack.send(target, payload)

    seen = watch.settle()
    assert gateway.process.running, gateway.process.tail()
    more = (peak_resident_bytes(pid) - before) / 1e6
    found = sorted(set(answers))
    figures.append(f"{seen['health']['worst']:9.0f} {seen['writer']['worst']:9.0f} {seen['consumer']['worst']:9.0f} {more:7.0f}  {attack.name}: {', '.join(found)}")
    for kind in ("health", "writer", "consumer"):
        record_property(f"worst {kind} ms", round(seen[kind]["worst"], 1))
        assert not seen[kind]["failed"], (kind, seen[kind]["failed"][:5])
    record_property("MB more", round(more))
    assert set(found) <= attack.expected, (found, sorted(attack.expected))
    assert more < attack.megabytes, f"{more:.0f} MB more at the worst; allowed are {attack.megabytes}"
    for place in ("vault", "gate", "sieve", "cells"):
        assert gateway.rest.value(place, auth=SECRET) is None
    # Waits until the state of the attackers is removed.
    wait_until(lambda: gateway.metric("pathmirror_sessions") == 0, "the attackers' sessions to be gone", 60)
    request.node.stash[failed] = False
