"""The plan of the feed campaign: its faults and their times from a seed, in waves with a pause after each."""

import random
from dataclasses import dataclass

from plan import Deck, Fault, Kind, Round, place_faults
from plan import details as common_details

# Application names of the connections that work feeds, without the leading "pathmirror ".
BACKENDS = ("feed reader", "feed writer", "feeds", "feed administration")
# Tables that feeds read or write while they begin, deliver and end.
TABLES = ("snapshot", "feed", "feed_progress", "feed_message", "feed_owner", "feed_worker")

# Texts of the calls that may be lost, by backend; None for any call.
CALLS = {"feeds": ["feed_message", "feed_message", "feed_progress", "feed_owner", "definition", None],
         "feed reader": ["pathmirror.snapshot", "pathmirror.snapshot", "pathmirror.log", "pathmirror.namespace", None],
         "feed writer": ["feed_message", "feed_progress", None], "feed administration": [None]}

# Faults are short: the interleavings count, and a wave must end soon. `feeds` is the resource of faults that lock tables.
FEED_KINDS = {kind.name: kind for kind in (
    Kind("gateway-kill", "process", 4, (0.2, 3.0)),
    Kind("gateway-stop", "process", 2, (0.2, 1.0)),
    Kind("gateway-freeze", "process", 3, (0.3, 1.2)),
    Kind("gateway-freeze-past-lease", "process", 4, (2.5, 4.0)),
    Kind("link-reset", "link", 4, (0.0, 0.0)),
    Kind("link-close", "link", 2, (0.0, 0.0)),
    Kind("link-refuse", "link", 2, (0.5, 2.0)),
    Kind("link-stall", "link", 3, (1.0, 3.5)),
    Kind("link-stall-up", "link", 1, (1.0, 3.5)),
    Kind("link-stall-down", "link", 2, (1.0, 3.5)),
    Kind("link-cut-in-message", "link", 6, (0.3, 1.0)),
    Kind("link-cut-after-commit", "link", 6, (0.3, 1.0)),
    Kind("door-reset", "door", 3, (0.0, 0.0)),
    Kind("door-stall", "door", 2, (0.5, 2.5)),
    Kind("door-cut-in-answer", "door", 5, (0.2, 0.6)),
    Kind("named-terminated", "named", 10, (0.0, 0.0)),
    Kind("table-held", "feeds", 8, (0.3, 1.2)),
    Kind("begin-interrupted", "process", 8, (3.0, 4.0)),
    Kind("takeover-call-lost", "process", 10, (3.0, 4.0)),
    Kind("young-feed", "all", 4, (3.0, 4.0)),
    Kind("link-call-lost", "link", 8, (0.5, 1.5)),
    Kind("backends-terminated", "postgres", 4, (0.0, 0.0)),
    Kind("postgres-kill", "postgres", 2, (0.0, 0.3)),
    Kind("postgres-restart", "postgres", 2, (0.0, 0.0)),
    Kind("postgres-freeze", "postgres", 2, (0.5, 3.0)),
    Kind("power-cut", "postgres", 2, (0.0, 0.5)),
    Kind("hooks-reset", "hooks", 3, (0.0, 0.0)),
    Kind("hooks-silent", "hooks", 2, (0.5, 2.0)),
    Kind("nats-reset", "nats", 2, (0.0, 0.0)),
    Kind("nats-cut-in-message", "nats", 2, (0.3, 1.0)),
    Kind("nats-freeze", "nats", 2, (0.5, 2.5)),
    Kind("nats-restart", "nats", 1, (0.0, 0.5)),
    Kind("kafka-down", "kafka", 2, (0.5, 2.5)),
    Kind("kafka-errors", "kafka", 2, (0.0, 0.0)),
    Kind("kafka-slow", "kafka", 1, (0.5, 2.5)),
)}
# A minute for `make test`: kinds that end soon.
SHORT_FEEDS = ["gateway-kill", "gateway-freeze-past-lease", "link-reset", "link-cut-in-message", "link-cut-after-commit",
               "door-cut-in-answer", "named-terminated", "table-held", "young-feed", "begin-interrupted", "takeover-call-lost", "backends-terminated", "postgres-kill",
               "hooks-reset", "nats-reset", "kafka-errors"]


@dataclass(frozen=True)
class FeedRound(Round):
    """`rests`: the times between waves, when all faults have ended and every feed must finish."""

    rests: tuple[float, ...] = ()


def make_feeds(seed: int, faults: int, per_round: int = 100, per_wave: int = 10, spacing: float = 0.8, kinds=None,
               evenly: bool = False) -> list[FeedRound]:
    """The plan of a feed campaign. The same arguments make the same plan."""
    dice = random.Random(seed)
    deck = Deck(dice, kinds or FEED_KINDS, evenly, FEED_KINDS)
    rounds, number = [], 0
    while number < faults:
        made, rests, begin = [], [], 0.0
        while len(made) < per_round and number + len(made) < faults:
            count = min(per_wave, per_round - len(made), faults - number - len(made))
            wave = place_faults(dice, deck, number + len(made), count, spacing, False, FEED_KINDS, details)
            made += [Fault(fault.number, fault.kind, round(fault.at + begin, 2), fault.lasts, fault.gateway, fault.details)
                     for fault in wave]
            begin = round(max(fault.at + fault.lasts for fault in made) + 0.2, 2)
            rests.append(begin)
        rounds.append(FeedRound(len(rounds), dice.getrandbits(32), False, False, tuple(made), tuple(rests)))
        number += len(made)
    return rounds


def details(name: str, dice: random.Random) -> dict:
    """The other parameters of a fault."""
    if name == "named-terminated":
        return {"backend": dice.choice(BACKENDS), "one": dice.random() < 0.6, "dice": dice.getrandbits(32)}
    if name == "table-held":
        return {"table": dice.choice(TABLES)}
    if name == "begin-interrupted":
        # A gateway that has just claimed a feed reads its messages.
        return {"table": dice.choice(["snapshot", *["feed_message"] * 4, *TABLES[1:]]), "most": dice.choice([1, 2, 4])}
    if name in ("takeover-call-lost", "link-call-lost"):
        backend = dice.choice(["feed reader", "feed reader", "feed reader", "feeds", "feeds", "feeds", "feed writer", "feed administration"])
        text = dice.choice(CALLS[backend])
        skip = dice.choice([0, 1, 2, 3] if text else [0, 1, 2, 3, 5, 8, 13, 20, 30, 45])
        return {"backend": backend, "text": text, "skip": skip, "lost": dice.choice(["before", "after"])}
    if name == "young-feed":
        return {"most": dice.choice([1, 1, 2])}
    if name == "nats-cut-in-message":
        return {"bytes": dice.choice([0, 1, 20, 100, 400])}
    if name == "kafka-errors":
        # NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT, NOT_LEADER_FOR_PARTITION: after all of them librdkafka tries again.
        return {"errors": [dice.choice([19, 7, 6]) for _ in range(dice.randint(1, 4))]}
    return common_details(name, dice)
