"""Compares tables with the oracle, up to the last column."""

import json
from collections import Counter

from oracle.history import History
from oracle.log import Log
from oracle.mirror import frozen, loads, records

from .stored import Stored, as_json, cell


class Difference(AssertionError):
    """A table differs from the oracle's result for its definition and the log."""


class Comparison:
    """Compares the mirrors of one database repeatedly, and keeps the computed histories between comparisons."""

    def __init__(self, log: Log, place):
        self.log, self.place, self.known, self.compared = log, place, {}, Counter()

    def compare(self, found: Stored):
        self.compared.update({"tables compared": 1, f"rows compared ({found.keeps or 'plain'})": len(found.rows)})
        if found.keeps:
            self._history(found)
        else:
            self._plain(found)

    def _wrong(self, found, key, wanted, got):
        raise Difference(f"{self.place()}, mirror {found.name} ({found.definition['path']}, {found.keeps}) at seq {found.seq}: "
                         f"{key}: expected {wanted}, found {got}\n{json.dumps(found.definition)}")

    def _same(self, found, key, wanted, got):
        if wanted != got:
            self._wrong(found, key, wanted, got)

    def _rows(self, found, wanted):
        """Checks that both have the same keys, and then compares the rows."""
        for key in wanted.keys() ^ found.rows.keys():
            self._wrong(found, key, "a row" if key in wanted else "no row", found.rows.get(key, "none"))

    def _cells(self, found, made):
        return {name: cell(made.cells[name] if made else None, kind) for name, kind in found.shape.types.items()}

    def _errors(self, found, wanted):
        self._same(found, "errors", sorted(wanted - found.errors), sorted(found.errors - wanted))
        self.compared["errors compared"] += len(wanted)
        parts = found.shape.parts
        views = {(json.dumps({part.strip("{}"): key for part, key in zip(parts, path[1:].split("/")) if part.startswith("{")}, sort_keys=True), column)
                 for path, column in wanted}
        self._same(found, "the view mirror_misfit", sorted(views - found.misfits), sorted(found.misfits - views))

    def _updated(self, found, key, row, filled):
        """Checks that the entry of a row exists, and that the row has its time. A row may have the time of an earlier entry if the table
        was filled from the tree."""
        if not 1 <= row["_seq"] <= found.seq:
            self._wrong(found, key, f"a _seq from 1 to {found.seq}", row["_seq"])
        # The time of an entry that was pruned before the table was filled is unknown.
        if row["_updated_at"] is not None:
            last = self.log.entries[row["_seq"]].at
            self._same(found, (key, "_updated_at"), min(last, row["_updated_at"]) if filled else last, row["_updated_at"])

    def _plain(self, found):
        shape, rows, errors = found.shape, {}, set()
        for keys, value in records(self.log.trees[found.seq], shape.parts):
            made = shape.row(keys, value)
            errors |= made.errors
            if made.is_row:
                rows[shape.stored(keys)] = made
        self._rows(found, rows)
        for key, made in rows.items():
            row = found.rows[key]
            self._same(found, key, (self._cells(found, made), made.misfits), (row["cells"], row["_misfits"] or []))
            self._updated(found, key, row, filled=True)
        self._errors(found, errors)

    def _worked_out(self, found) -> History:
        """Continues with the history that was computed for the same definition."""
        definition = frozen(found.definition)
        known = self.known.get(found.id)
        if not known or known[0] != definition or known[1].begins != found.begins or known[1].seq > found.seq:
            known = self.known[found.id] = (definition, History(found.definition, found.begins, self.log))
        known[1].advance(found.seq)
        return known[1]

    def _history(self, found):
        history = self._worked_out(found)
        if found.keeps == "latest":
            self._latest(found, history)
            return
        self._versions_of_records(found, history)
        self._rows(found, history.changes)
        self._changes(found, history)
        self._versions(found, history)
        self._errors(found, {error for error in history.all_errors() if error[1] == ""})

    def _versions_of_records(self, found, history):
        """Compares `pathmirror.mirror_version`, from which a rebuild fills the table."""
        wanted = {("/".join(map(str, keys)), seq): (seq < history.begins, author, frozen(record)) for (keys, seq), (author, record) in history.versions.items()}
        got = {place: (begin, author, frozen(loads(record)) if record else "null") for place, (begin, author, record) in found.versions.items()}
        for place in wanted.keys() | got.keys():
            self._same(found, ("version", place), wanted.get(place), got.get(place))

    def _changes(self, found, history):
        for place, (operation, author, old, new) in history.changes.items():
            row = found.rows[place]
            self.compared[f"changes by {operation}"] += 1
            self._same(found, place, (operation, self.log.entries[place[1]].at, *(author or (None,) * 3), new.misfits if new else []),
                       (row["_operation"], row["_at"], row["_uid"], row["_admin"], row["_via"], row["_misfits"] or []))
            for member, made in (("_old", old), ("_new", new)):
                wanted = made and {name: as_json(made.cells[name], kind) for name, kind in found.shape.types.items()}
                got = row[member] and {name: cell(value, found.shape.types.get(name, "")) for name, value in row[member].items()}
                self._same(found, (place, member), wanted, got)

    def _versions(self, found, history):
        """Compares the view over the table of changes."""
        self._same(found, "versions", sorted(map(str, history.changes)), sorted(map(str, found.states)))
        ends, newest = {}, {}
        for keys, seq in sorted(history.changes, key=lambda place: place[1]):
            if keys in newest:
                ends[keys, newest[keys]] = self.log.entries[seq].at
            newest[keys] = seq
        for place, (_, author, _, new) in history.changes.items():
            row, is_current = found.states[place], newest[place[0]] == place[1]
            self._same(found, place, (self.log.entries[place[1]].at, ends.get(place), is_current, new is None, *(author or (None,) * 3), new.misfits if new else []),
                       (row["_valid_from"], row["_valid_to"], row["_current"], row["_deleted"], row["_uid"], row["_admin"], row["_via"], row["_misfits"] or []))
            self._same(found, place, self._cells(found, new), row["cells"])

    def _latest(self, found, history):
        self._rows(found, history.last)
        for key, (made, seq, is_gone) in history.last.items():
            row = found.rows[key]
            self.compared["removed rows that stay"] += is_gone
            self._same(found, key, (self._cells(found, made), made.misfits), (row["cells"], row["_misfits"] or []))
            self._same(found, (key, "_deleted_at"), self.log.entries[seq].at if is_gone else None, row["_deleted_at"])
            if seq is not None:
                self._same(found, (key, "_seq"), seq, row["_seq"])
            self._updated(found, key, row, filled=seq is None)
        self._errors(found, history.all_errors())
