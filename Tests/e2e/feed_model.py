"""A model of a feed: the writes, deliveries and acknowledgements, and the properties that hold in spite of all faults.

The model knows the log (as SQL shows it) and the observations of consumers, but no internals of a gateway. Times are numbers that the
model assigns: the earlier of two notes has the smaller number."""

import itertools
import threading
from dataclasses import dataclass, field

from oracle.tree import assign, lookup, normal


@dataclass
class Delivery:
    """A message as a consumer received it."""

    consumer: str
    message: dict
    # The times of the request and of the answer.
    asked: int
    came: int


@dataclass
class Expected:
    """A message that follows from the log."""

    seq: int
    key: str
    event: str
    value: object
    old: object


@dataclass
class FeedModel:
    """Notes of any number of threads; call `judge` once all have ended."""

    collection: str = "orders"
    max_attempts: int = 10
    # The order is that of the namespace: all keys are one.
    strict: bool = False
    # Deadlines can pass, so the holder of a message is not certain.
    may_expire: bool = False
    deliveries: list[Delivery] = field(default_factory=list)
    # By id: the time of the answer that confirms the acknowledgement.
    done: dict[str, int] = field(default_factory=dict)
    # By consumer and id: the times of requests to settle the message.
    settling: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    # The times at which a consumer lost its messages (its stream ended, or the gateway said so).
    released: dict[str, list[int]] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    _clock: itertools.count = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> int:
        with self._lock:
            return next(self._clock)

    def delivered(self, consumer: str, messages: list[dict], asked: int):
        with self._lock:
            for message in messages:
                self.deliveries.append(Delivery(consumer, message, asked, next(self._clock)))

    def settles(self, consumer: str, ids: list[str]):
        """Records that a consumer is about to send a request, whose arrival is still unknown."""
        with self._lock:
            for id in ids:
                self.settling.setdefault((consumer, id), []).append(next(self._clock))

    def acknowledged(self, results: dict[str, str]):
        with self._lock:
            for id, result in results.items():
                if result == "done":
                    self.done.setdefault(id, next(self._clock))

    # MARK: properties

    def judge(self, entries: list[tuple[int, dict]], all_done: bool = True) -> str:
        """Raises an AssertionError if a property does not hold; else returns a summary line."""
        expected = self.expected(entries)
        by_place = {(message.seq, message.key): message for message in expected}
        self.judge_ids(by_place)
        self.judge_order(expected)
        self.judge_attempts()
        self.judge_holders()
        self.judge_acknowledgements()
        delivered = {(each.message["seq"], each.message["key"]) for each in self.deliveries}
        lost = [place for place in by_place if place not in delivered]
        assert lost == [], f"never delivered: {sorted(lost)[:5]} ({len(lost)} of {len(by_place)})"
        if all_done:
            ids = {each.message["id"] for each in self.deliveries}
            open_ = ids - set(self.done) - self.dead - {id for _, id in self.settling}
            assert not open_, f"neither acknowledged nor dead: {sorted(open_)[:5]}"
        return (f"{len(by_place)} messages, {len(self.deliveries)} deliveries, {len(self.done)} acknowledged, {len(self.dead)} dead, "
                f"{len({each.consumer for each in self.deliveries})} consumers")

    def expected(self, entries) -> list[Expected]:
        """The messages of a feed /COLLECTION/{key} from the beginning of the log."""
        found, tree = [], None
        for seq, changes in entries:
            before = lookup(tree, self.collection)
            for path, value in changes.items():
                tree = assign(tree, path, value)
            after = lookup(tree, self.collection)
            before, after = (side if isinstance(side, dict) else {} for side in (before, after))
            for key in sorted({*before, *after}):
                old, new = before.get(key), after.get(key)
                if old != new:
                    event = "created" if old is None else "deleted" if new is None else "updated"
                    found.append(Expected(seq, key, event, new, old))
        return found

    def judge_ids(self, by_place: dict):
        """Checks that an id belongs to one message in all deliveries, and that the message equals the log."""
        place_of, id_of = {}, {}
        for each in self.deliveries:
            message = each.message
            place = message["seq"], message["key"]
            assert place in by_place, f"of nothing that was written: {message}"
            assert place_of.setdefault(message["id"], place) == place, f"one id, two messages: {message}"
            assert id_of.setdefault(place, message["id"]) == message["id"], f"one message, two ids: {message}, {id_of[place]}"
            wanted = by_place[place]
            assert (message["event"], normal(message["value"])) == (wanted.event, wanted.value), (message, wanted)
            assert message["id"].split(":")[-2] == str(message["seq"]), message

    def judge_order(self, expected: list[Expected]):
        """Checks that a message is delivered after the earlier messages of its key."""
        # A consumer may record an answer later than the gateway gave it. So this checks a weaker property: the request for the earlier
        # message preceded the arrival of the later one.
        first_asked: dict[tuple, int] = {}
        first_came: dict[tuple, int] = {}
        for each in self.deliveries:
            place = each.message["seq"], each.message["key"]
            first_asked[place] = min(each.asked, first_asked.get(place, each.asked))
            first_came[place] = min(each.came, first_came.get(place, each.came))
        latest: dict[str, int] = {}
        skipped: dict[str, Expected] = {}
        for message in expected:
            place, line = (message.seq, message.key), self.line(message.key)
            if place not in first_asked:
                skipped.setdefault(line, message)
                continue
            assert line not in skipped, f"{message} was delivered before an earlier one of its key: {skipped[line]}"
            assert latest.get(line, -1) <= first_came[place], f"an earlier message was asked for when {message} had come already"
            latest[line] = max(first_asked[place], latest.get(line, -1))

    def line(self, key: str) -> str:
        """The key of the order: messages with the same result are delivered in order."""
        return "" if self.strict else key

    def judge_attempts(self):
        for each in self.deliveries:
            assert 1 <= each.message["attempt"] <= self.max_attempts, each.message

    def judge_holders(self):
        """Checks that no two consumers hold messages of one key at once. The check is exact only without deadlines."""
        if self.may_expire:
            return
        held: dict[str, list[Delivery]] = {}
        for each in sorted(self.deliveries, key=lambda each: each.came):
            key = self.line(each.message["key"])
            held[key] = [other for other in held.get(key, []) if not self.had_ended(other, each.came)]
            for other in held[key]:
                assert other.consumer == each.consumer, \
                    f"{each.consumer} was given {each.message['id']} while {other.consumer} held {other.message['id']}"
            held[key].append(each)

    def had_ended(self, delivery: Delivery, time: int) -> bool:
        """Whether the consumer had settled the message, or was gone, at that time."""
        ends = self.settling.get((delivery.consumer, delivery.message["id"]), []) + self.released.get(delivery.consumer, [])
        return any(delivery.came < end < time for end in ends)

    def judge_acknowledgements(self):
        """Checks that a message is never delivered to a later request once its acknowledgement is confirmed."""
        for each in self.deliveries:
            time = self.done.get(each.message["id"])
            assert time is None or each.asked < time, f"delivered after it was acknowledged: {each}"
