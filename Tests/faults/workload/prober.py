"""Writes to one gateway without a proxy all the time, to measure its outages."""

import time
from dataclasses import dataclass

from .client import Client
from .history import Operation


@dataclass(frozen=True)
class Probe:
    """One attempt."""

    begun: float
    ended: float
    good: bool


class Prober(Client):
    """The probes of one gateway."""

    pause = 0.2

    def __init__(self, name, doors, history, seed, home):
        super().__init__(name, doors, history, seed, home)
        self.probes: list[Probe] = []

    def gateway(self) -> str:
        return self.home

    def step(self) -> bool:
        begun = time.monotonic()
        token = self.token()
        good = self.write(Operation(self.name, "set", "probe", token, gateway=self.home), "PUT", f"probe/{self.home}", token)
        self.probes.append(Probe(begun, time.monotonic(), good))
        return good
