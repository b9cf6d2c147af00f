"""The description of an attack on other tenants."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

MIB = 1 << 20


@dataclass
class Attack:
    """One row of the table: an attacker with the secret of one namespace, or the token of one feed.

    `prepare` runs in the campaign's process. It gets a `world.Tenant`, and whether the attack is to be short, and creates feeds and data
    with the namespace's secret; the dictionary that it returns is part of `spec`. `arm` and `run` run in the attacker's process: `arm`
    before the measurement of quiet values, `run` from the start of the attack until standard input ends. `run` returns counts of the
    answers to its requests."""

    name: str
    summary: str
    prepare: Callable[..., dict]
    run: Callable[[SimpleNamespace], dict]
    arm: Callable[[SimpleNamespace], None] = lambda spec: None
    gateways: int = 1
    # The gateway that attacker and victim use; 0 works all feeds.
    through: int = 0
    # The growth of all gateways together since before the attack.
    more_bytes: int = 512 * MIB
    more_threads: int = 16
    # Descriptors beyond one for each connection of the attacker.
    more_descriptors: int = 200
    # The growth of the database during the attack.
    more_disk: int = 128 * MIB
    # The attacker's own connections to gateways.
    connections: int = 0
    # For the tests: the duration of the attack, and the worst allowed latency (milliseconds).
    short_seconds: float = 4
    worst: float = 2_000

    def __repr__(self) -> str:
        return self.name
