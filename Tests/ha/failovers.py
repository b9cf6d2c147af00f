"""One round: clients work on gateways, the primary is lost repeatedly, and all checks of the fault campaign follow."""

import random
import time
from dataclasses import dataclass

import psycopg
from check.availability import Outage, longest_gap
from check.streams import Away, is_fresh
from ensemble import Ensemble
from harness.waiting import wait_until
from nodes import Node
from onslaught import CATCH_UP, STREAM_WAIT, Onslaught
from plan import Fault, Round

# Faults of the primary. All but the last two promote another node.
KINDS = ("power", "freeze", "network", "switchover", "postgres-kill", "standby-freeze")
FAILOVERS = frozenset(KINDS[:4])
# Beyond Patroni's ttl: election, promotion, gateways that connect again, on a machine that does other work, too.
SLACK = 30.0


def make(seed: int, failovers: int, per_round: int, kinds=KINDS) -> list[Round]:
    """The plan of a campaign: the same arguments make the same one."""
    dice, rounds, number = random.Random(seed), [], 0
    deck: list[str] = []
    while number < failovers:
        faults, at, count = [], 4.0, 0
        while count < min(per_round, failovers - number):
            if not deck:
                deck = [kind for kind in kinds for _ in range(2 if kind in FAILOVERS else 1)]
                dice.shuffle(deck)
            kind = deck.pop()
            lasts = round(dice.uniform(1.0, 8.0), 1)
            faults.append(Fault(len(faults), kind, round(at, 1), lasts, None))
            at += lasts + dice.uniform(2.0, 6.0)
            count += 1 if kind in FAILOVERS or not FAILOVERS & set(kinds) else 0
        number += count
        rounds.append(Round(len(rounds), dice.getrandbits(32), False, False, tuple(faults)))
    return rounds


@dataclass
class Standstill:
    """The time without an acknowledged write by a gateway, around one fault."""

    kind: str
    gateway: str
    seconds: float


class FailoverStrikes:
    """Begins a fault, and waits until there is a primary; ends it, and waits until all nodes have joined."""

    def __init__(self, rig: Ensemble):
        self.rig = rig
        self.outages: dict[int, Outage] = {}
        self.restored, self.missed = None, []
        self.notes: dict[int, str] = {}
        self._struck: dict[int, Node] = {}

    def begin(self, fault: Fault):
        # The fault needs a standby; without one, no node can take over.
        self.rig.wait_whole()
        old = self.rig.primary() if fault.kind != "standby-freeze" else self.rig.synchronous()
        self._struck[fault.number] = old
        self.outages[fault.number] = Outage(fault.kind, time.monotonic(), float("inf"), frozenset(self.rig.names), f"#{fault.number} {fault.kind}")
        {"power": old.kill, "freeze": old.freeze, "network": lambda: old.cut_off(True), "switchover": lambda: self._switch(old),
         "postgres-kill": old.kill_postgres, "standby-freeze": old.freeze}[fault.kind]()
        if fault.kind in FAILOVERS:
            new = wait_until(lambda: self.rig.primary(but=old), f"a new primary after {fault.kind} of {old.name}", 120, 0.1)
            self.notes[fault.number] = f"{old.name} to {new.name} after {time.monotonic() - self.outages[fault.number].begun:.1f} s"
        else:
            self.notes[fault.number] = old.name

    def _switch(self, old: Node):
        status, said = old.ask("/switchover", {"leader": old.name})
        if status != 200:
            raise RuntimeError(f"no switchover: {status} {said}")

    def end(self, fault: Fault):
        old = self._struck[fault.number]
        if fault.kind == "power":
            old.start()
        elif fault.kind in ("freeze", "standby-freeze"):
            old.thaw()
        elif fault.kind == "network":
            old.cut_off(False)
        self.rig.wait_whole(180)
        self.outages[fault.number].ended = time.monotonic()


class Failovers(Onslaught):
    """The campaign's round with other faults."""

    def __init__(self, rig: Ensemble, plan: Round, say):
        super().__init__(rig, plan, say)
        self.strikes = FailoverStrikes(rig)
        self.standstills: list[Standstill] = []

    def _away(self) -> list[Away]:
        return [Away(outage.begun + STREAM_WAIT, outage.ended + CATCH_UP, frozenset(self.rig.names))
                for outage in self.strikes.outages.values()]

    def _availability(self, until: float) -> list[str]:
        wrong, bound = [], self.rig.times["ttl"] + SLACK
        for outage in self.strikes.outages.values():
            for name, prober in self.probers.items():
                gap = longest_gap(prober.probes, outage.begun, min(outage.ended, until))
                self.standstills.append(Standstill(outage.kind, name, gap))
                outage.longest = max(outage.longest, gap)
                if gap > bound:
                    wrong.append(f"writes by {name} stood still for {gap:.1f} s around {outage.text}")
            self.result.gaps[outage.kind] = max(self.result.gaps.get(outage.kind, 0.0), outage.longest)
        return wrong

    def _count(self):
        super()._count()
        # Fresh puts that `_away` excuses, and their number.
        fresh = [(before.seq, event.seq) for one in self.streams for before, event in zip(one.events, one.events[1:]) if is_fresh(event)]
        self.result.figures["fresh puts that took a stream back"] = sum(seq < before for before, seq in fresh)

    def _trees(self, entries) -> list[str]:
        return super()._trees(entries) + self._standbys()

    def _standbys(self) -> list[str]:
        """Checks that every node has the whole log at the end."""
        wrong = []
        for node in self.rig.nodes:
            def head():
                with psycopg.connect(f"postgresql://postgres@127.0.0.1:{node.own}/pm", connect_timeout=5) as connection:
                    return connection.execute("select head from pathmirror.namespace where name = 'default'").fetchone()[0]
            try:
                wait_until(lambda: head() >= self.head, f"node {node.name} to have everything", 30, 0.2)
            except Exception as error:  # noqa: BLE001 - on any error the node has not reached the end
                wrong.append(f"{node.name}: {error}")
        return wrong
