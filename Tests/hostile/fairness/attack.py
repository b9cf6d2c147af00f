"""What an attack on other tenants is."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

MIB = 1 << 20


@dataclass
class Attack:
    """One row of the table: an attacker who has one namespace's secret, or the token of one feed.

    `prepare` runs in the campaign's process. It gets a `world.Tenant`, and whether the attack is to be short, and makes feeds and data
    with the namespace's secret; the dictionary that it returns is part of `spec`. `arm` and `run` run in the attacker's process: `arm`
    before the quiet values are measured, `run` from the start of the attack until standard input ends. `run` returns counts of the
    answers to its requests.
    """

    name: str
    summary: str
    prepare: Callable[..., dict]
    run: Callable[[SimpleNamespace], dict]
    arm: Callable[[SimpleNamespace], None] = lambda spec: None
    gateways: int = 1
    # The gateway that attacker and victim use; 0 works all feeds.
    through: int = 0
    # What the gateways together may have more than before the attack.
    more_bytes: int = 512 * MIB
    more_threads: int = 16
    # Descriptors beyond one for each connection of the attacker.
    more_descriptors: int = 200
    # What the database may grow by while the attack runs.
    more_disk: int = 128 * MIB
    # The attacker's own connections to gateways.
    connections: int = 0
    # For the tests: how long the attack lasts there, and the worst latency (milliseconds) that is borne.
    short_seconds: float = 4
    worst: float = 2_000

    def __repr__(self) -> str:
        return self.name
