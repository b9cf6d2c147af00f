"""Each attack of `fairness/attacks` for a few seconds: the gateway survives, another tenant gets fast answers, and resources stay limited.

The limits are generous, because this machine may be busy: they distinguish a shared queue from a fair one. `make campaign NAME=fairness`
has the strict ones."""

import pytest
from fairness import campaign
from fairness.attacks import ATTACKS


@pytest.mark.parametrize("attack", ATTACKS, ids=repr)
def test_another_tenant_is_served(postgres, logs, attack, record_property):
    found = campaign.measure(attack, postgres, logs, attack.short_seconds, quiet_seconds=1, short=True)
    assert not found["ended"], found["ended"]
    assert any(found["attacker"]["counts"].values()), "the attack had no effect"
    for metric, seen in found["attacked"].items():
        record_property(f"worst {metric} ms", seen["worst"])
        assert not seen["errors"], (metric, seen)
        assert seen["count"] and seen["worst"] < attack.worst, (metric, seen)
    for name, allowed in campaign.allowances(attack).items():
        grown = found["during"][name] - found["before"][name]
        assert grown <= allowed, f"{name}: {grown:,} more; allowed are {allowed:,}"
