"""The judge of a follower's log: each entry is one message of the upstream, whole and once, or the difference after a gap."""

import bisect
from dataclasses import dataclass, field

import psycopg
from oracle.log import apply
from upstream.hashing import node_hash
from upstream.judge import changed
from upstream.tree import build, export, parse


class Violation(AssertionError):
    """A promise of the follower does not hold."""


class UpstreamHistory:
    """The hash of each tree that the upstream had: number 0 is the empty one, number n that after the nth write."""

    def __init__(self):
        self._root = None
        self.hashes = [""]
        self.places: dict[str, list[int]] = {"": [0]}

    def take(self, writes):
        """Adds executed writes."""
        for write in writes:
            self._root = changed(self._root, write.changes)
            self.add(node_hash(self._root))

    def add(self, digest: str):
        self.places.setdefault(digest, []).append(len(self.hashes))
        self.hashes.append(digest)

    def first(self, digest: str, least: int) -> list[int]:
        """The numbers of the trees with this hash, from a number on."""
        known = self.places.get(digest, [])
        return known[bisect.bisect_left(known, least):]


@dataclass
class Judge:
    """Judges entries one after the other. `at` is the smallest number of an upstream's tree at which the log can be."""

    history: UpstreamHistory
    at: int = 0
    digest: str = ""
    counts: dict[str, int] = field(default_factory=lambda: {"upstream": 0, "resync": 0})
    # Trees that were left and came back while nothing was sent: an equal tree after a gap makes no entry.
    jumps: int = 0

    def entry(self, seq: int, op: str, digest: str):
        """Judges the tree after an entry. Every continuation of a larger `at` is one of a smaller, so the smallest is enough."""
        if op not in self.counts:
            raise Violation(f"entry {seq} has the operation {op}")
        if digest not in self.history.places:
            raise Violation(f"entry {seq} ({op}) left a tree that the upstream never had: a message was applied in part, or to another tree")
        if op == "resync":
            if digest == self.digest:
                raise Violation(f"entry {seq} is a resync that changed nothing")
            later = self.history.first(digest, self.at + 1)
            if not later:
                raise Violation(f"entry {seq} (resync) goes back to an earlier tree of the upstream, before {self.at}")
            self.at = later[0]
        else:
            self._message(seq, digest)
        self.counts[op] += 1
        self.digest = digest

    def _message(self, seq: int, digest: str):
        hashes = self.history.hashes
        for before in self.history.first(self.digest, self.at):
            if before + 1 < len(hashes) and hashes[before + 1] == digest:
                self.jumps += any(one != self.digest for one in hashes[self.at:before])
                self.at = before + 1
                return
        where = self.history.places[digest]
        raise Violation(f"entry {seq} (upstream) is not the message behind the entry before it: the log was at tree {self.at} of {len(hashes) - 1}, "
                        f"and the entry leads to {where[:5]}: a message was lost, or applied twice")

    def end(self):
        """The log must have come to the upstream's last tree."""
        if self.digest != self.history.hashes[-1]:
            raise Violation(f"the log ends at tree {self.at}, and the upstream has {len(self.history.hashes) - 1}")


class LogReading:
    """Reads a log step by step, and keeps its last tree."""

    def __init__(self, url: str, ns: str = "default"):
        self._url, self._ns, self._root, self.seq = url, ns, None, 0

    def entries(self):
        """(seq, operation, hash of the tree after it) of each new entry of data."""
        with psycopg.connect(self._url) as connection, connection.cursor("entries") as cursor:
            cursor.execute("select seq, op::text, changes::text, parts, namespace_id from pathmirror.log_entry where namespace = %s and seq > %s order by seq",
                           [self._ns, self.seq])
            for seq, op, text, parts, namespace in cursor:
                if seq != self.seq + 1:
                    raise Violation(f"the log goes from {self.seq} to {seq}")
                self.seq = seq
                if op == "rules":
                    continue
                changes = parse(text) or {}
                if parts:
                    rows = connection.execute("select changes::text from pathmirror.log_part where namespace_id = %s and seq = %s order by part", [namespace, seq])
                    pieces = [change for (part,) in rows.fetchall() for change in parse(part).items()]
                    self._root = build(apply(export(self._root), list(changes.items()), pieces))
                else:
                    self._root = changed(self._root, changes)
                yield seq, op, node_hash(self._root)
