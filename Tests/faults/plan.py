"""The faults of a campaign and their times, from a seed, before the campaign starts."""

import random
from dataclasses import dataclass, field

GATEWAYS = ("a", "b", "c")


@dataclass(frozen=True)
class Kind:
    """`on`: the resource that the fault needs for itself. `often`: its share. `lasts`: minimum and maximum of the seconds."""

    name: str
    on: str
    often: int
    lasts: tuple[float, float]
    needs_clock: bool = False


KINDS = {kind.name: kind for kind in (
    Kind("gateway-kill", "process", 4, (0.2, 2.0)),
    Kind("gateway-stop", "process", 1, (0.2, 1.0)),
    Kind("gateway-freeze", "process", 3, (0.3, 2.0)),
    Kind("gateway-freeze-past-lease", "process", 4, (4.0, 6.0)),
    Kind("gateway-freeze-long", "process", 1, (19.0, 21.0)),
    Kind("link-reset", "link", 4, (0.0, 0.0)),
    Kind("link-close", "link", 2, (0.0, 0.0)),
    Kind("link-refuse", "link", 2, (1.0, 3.0)),
    Kind("link-delay", "link", 2, (2.0, 4.0)),
    Kind("link-stall", "link", 3, (2.0, 6.0)),
    Kind("link-stall-long", "link", 1, (19.0, 21.0)),
    Kind("link-stall-up", "link", 2, (2.0, 5.0)),
    Kind("link-stall-down", "link", 2, (2.0, 5.0)),
    Kind("link-cut-in-message", "link", 5, (0.8, 2.0)),
    Kind("link-stall-in-message", "link", 3, (3.0, 5.0)),
    Kind("link-stall-in-message-long", "link", 1, (19.0, 21.0)),
    Kind("link-cut-in-copy", "link", 3, (2.5, 4.0)),
    Kind("link-stall-in-copy-long", "link", 1, (21.0, 23.0)),
    Kind("link-cut-after-commit", "link", 6, (0.8, 2.0)),
    Kind("link-stall-after-commit", "link", 3, (3.0, 5.0)),
    Kind("door-reset", "door", 3, (0.0, 0.0)),
    Kind("door-close", "door", 2, (0.0, 0.0)),
    Kind("door-stall", "door", 2, (1.0, 4.0)),
    Kind("door-cut-in-answer", "door", 3, (0.5, 1.0)),
    Kind("backends-terminated", "postgres", 3, (0.0, 0.0)),
    Kind("backend-killed", "postgres", 2, (0.0, 0.0)),
    Kind("postgres-kill", "postgres", 3, (0.0, 1.0)),
    Kind("postgres-restart", "postgres", 1, (0.0, 0.0)),
    Kind("postgres-immediate", "postgres", 1, (0.0, 0.0)),
    Kind("postgres-freeze", "postgres", 2, (1.0, 4.0)),
    Kind("power-cut", "postgres", 5, (0.0, 1.0)),
    Kind("power-cut-of-all", "all", 2, (0.0, 1.0)),
    Kind("power-cut-asynchronous", "postgres", 2, (0.0, 1.0)),
    Kind("disk-full", "postgres", 2, (1.5, 3.0)),
    Kind("head-held", "postgres", 2, (1.5, 4.0)),
    Kind("clock-postgres", "postgres", 3, (2.0, 4.0), True),
    Kind("clock-gateway", "process", 3, (2.0, 4.0), True),
)}
# Last in its round, because it loses acknowledged writes.
PUT_BACK = Kind("copy-put-back", "postgres", 0, (1.5, 3.5))
LONG = {"gateway-freeze-long", "link-stall-long", "link-stall-in-message-long", "link-stall-in-copy-long"}


@dataclass(frozen=True)
class Fault:
    """One fault of a plan; `at` is in seconds after the beginning of the round."""

    number: int
    kind: str
    at: float
    lasts: float
    gateway: str | None
    details: dict = field(hash=False, default_factory=dict)

    def __str__(self):
        more = " ".join(f"{name}={value}" for name, value in self.details.items() if name != "dice")
        return " ".join(word for word in (f"{self.kind}", self.gateway or "", more) if word)


@dataclass(frozen=True)
class Round:
    """One round's faults in the order of their beginnings."""

    number: int
    seed: int
    clock: bool
    puts_back: bool
    faults: tuple[Fault, ...]


class Deck:
    """Kinds by their shares; each comes at least once before any exceeds its share."""

    def __init__(self, dice: random.Random, names, evenly: bool = False, catalogue=None):
        self._dice, self._cards = dice, []
        self._fresh = [name for name in sorted(names) for _ in range(1 if evenly else (catalogue or KINDS)[name].often)]

    def draw(self, fits) -> str | None:
        for _ in range(2):
            for place, name in enumerate(self._cards):
                if fits(name):
                    return self._cards.pop(place)
            fresh = list(self._fresh)
            self._dice.shuffle(fresh)
            self._cards += fresh
        return None


def make(seed: int, faults: int, per_round: int = 20, spacing: float = 2.2, kinds=None, put_back: int = 3,
         clocks: bool = False, evenly: bool = False) -> list[Round]:
    """The plan of a campaign. The same arguments make the same plan. `put_back`: in every so
    many rounds an older copy comes back at the end, 0 for none. `evenly`: each kind as often as any other."""
    dice = random.Random(seed)
    deck = Deck(dice, kinds or KINDS, evenly)
    rounds, number = [], 0
    while number < faults:
        index = len(rounds)
        clock = index % 2 == 1 or clocks
        puts_back = put_back > 0 and index % put_back == put_back - 1
        count = min(per_round, faults - number)
        made = place_faults(dice, deck, number, count - puts_back, spacing, clock)
        number += len(made)
        if puts_back:
            at = max((fault.at + fault.lasts for fault in made), default=0) + 3
            made.append(Fault(number, PUT_BACK.name, round(at, 2), round(dice.uniform(*PUT_BACK.lasts), 2), None))
            number += 1
        rounds.append(Round(index, dice.getrandbits(32), clock, puts_back, tuple(made)))
    return rounds


def details(name: str, dice: random.Random) -> dict:
    """The other parameters of a fault."""
    if name in ("link-cut-in-message", "link-stall-in-message"):
        return {"bytes": dice.choice([0, 1, 5, 40, 200, 600, 1500, 4000])}
    if name == "link-stall-in-message-long":
        # After the statement that takes the head's lock.
        return {"bytes": dice.choice([400, 600, 800, 1500])}
    if name in ("link-cut-after-commit", "link-cut-in-copy"):
        return {"how": dice.choice(["reset", "close"])}
    if name in ("link-stall", "link-stall-long", "link-stall-up", "link-stall-down", "link-stall-after-commit", "door-stall",
                "link-stall-in-copy-long"):
        return {"then": dice.choice(["on", "reset"])}
    if name == "link-delay":
        return {"ms": dice.choice([50, 150, 400])}
    if name == "door-cut-in-answer":
        return {"bytes": dice.choice([0, 10, 100, 400])}
    if name.startswith("power-cut"):
        return {"dice": dice.getrandbits(32)}
    if name.startswith("clock-"):
        return {"seconds": dice.choice([60, -3600, 60, -3600, -2])}
    if name == "backends-terminated":
        return {"one": dice.random() < 0.5, "dice": dice.getrandbits(32)}
    return {}


def place_faults(dice: random.Random, deck: Deck, number: int, count: int, spacing: float, clock: bool, catalogue=None,
           details=details) -> list[Fault]:
    """Faults in the order of their beginnings. `catalogue` has the kinds that the deck deals, KINDS where it is left out."""
    catalogue = catalogue or KINDS
    busy: dict[str, float] = {}
    at, made, long_until = 1.0, [], 0.0
    while len(made) < count:
        at += dice.uniform(0.3, 2 * spacing - 0.3)
        gateways = list(GATEWAYS)
        dice.shuffle(gateways)
        chosen: list[str | None] = []

        def fits(name: str) -> bool:
            kind = catalogue[name]
            if kind.needs_clock and not clock:
                return False
            if name in LONG and at < long_until:
                return False
            places = {"postgres": [("postgres",)], "all": [("postgres", *(f"process-{g}" for g in GATEWAYS))]}.get(
                kind.on, [(f"{kind.on}-{g}",) for g in gateways] if kind.on in ("process", "link", "door") else [(kind.on,)])
            for place in places:
                if all(busy.get(resource, 0.0) < at for resource in place):
                    chosen[:] = place
                    return True
            return False

        name = deck.draw(fits)
        if name is None:
            continue
        kind = catalogue[name]
        lasts = round(dice.uniform(*kind.lasts), 2)
        for resource in chosen:
            # Leaves time for the recovery of the struck resource.
            busy[resource] = at + lasts + 1.0
        if name in LONG:
            long_until = at + lasts
        gateway = chosen[0].partition("-")[2] if kind.on in ("process", "link", "door") else None
        made.append(Fault(number + len(made), name, round(at, 2), lasts, gateway, details(name, dice)))
    return made
