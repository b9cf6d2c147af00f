"""The expected contents of tables that keep former records: every record before and after every entry, compared exactly."""

from .log import Log, differing
from .mirror import Made, Shape, frozen


class History:
    """One mirror with `keeps` or `"deleted": "soft"`, computed from the log up to an entry."""

    def __init__(self, definition: dict, begins: int, log: Log):
        self.shape, self.log, self.begins = Shape(definition), log, begins
        self.keeps = definition.get("keeps", "latest")
        self.seq = begins - 1
        # For a table of changes: (keys, seq) to (operation, author, before, after).
        self.changes: dict = {}
        # For a table that keeps rows: keys to (row, seq or None, whether the record is removed).
        self.last: dict = {}
        self.errors: dict = {}
        # The records themselves: (keys, seq) to (author, record).
        self.versions: dict = {}
        self._now: dict = {}
        if self.seq > 0:
            for keys, _, record in differing(None, log.trees[self.seq], self.shape.parts):
                self._take(keys, self.seq, None, record, "begin")

    def advance(self, seq: int):
        while self.seq < seq:
            self.seq += 1
            entry = self.log.entries[self.seq]
            for keys, old, new in differing(self.log.trees[self.seq - 1], self.log.trees[self.seq], self.shape.parts):
                if frozen(old) != frozen(new):
                    self._take(keys, self.seq, entry.author, new)

    def _take(self, keys, seq, author, record, begin=None):
        made = self.shape.row(keys, record)
        if not self.shape.holds(keys):
            self.errors[keys] = made.errors
            return
        place = (self.shape.stored(keys), seq)
        self.versions[place] = (author, record)
        old = self._now.get(keys, Made())
        self._now[keys] = made
        self._keep_last(keys, made, None if begin else seq)
        if not old.same(made):
            operation = begin or ("delete" if not made.is_row else "update" if old.is_row else "insert")
            self.changes[place] = (operation, author, old if old.is_row else None, made if made.is_row else None)

    def _keep_last(self, keys, made, seq):
        stored = self.shape.stored(keys)
        if made.is_row:
            self.last[stored] = (made, seq, False)
            self.errors[keys] = made.errors
            return
        known = self.last.get(stored)
        if known and not known[2]:
            self.last[stored] = (known[0], seq, True)
        # A row that stays keeps its errors, and the record's new errors are added.
        self.errors[keys] = made.errors | (known[0].errors if known else set())

    def all_errors(self) -> set:
        return set().union(*self.errors.values()) if self.errors else set()
