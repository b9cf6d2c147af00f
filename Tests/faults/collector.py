"""Reads the log while it grows, so that later pruning loses nothing, and so that changes of entries are noticed."""

import json
import threading

from check import log
from check.entries import Entry
from rig.rig import Rig

QUERY = ("select seq, (extract(epoch from committed_at) * 1000000)::bigint, batch_id::text, op, path, changes::text "
         "from pathmirror.log where namespace_id = (select id from pathmirror.namespace where name = %s) and seq > %s order by seq")


class Collector:
    """All entries of a namespace so far, by seq."""

    def __init__(self, namespace: str = "default"):
        self.namespace = namespace
        self.entries: dict[int, Entry] = {}
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def _read(self, rig: Rig, after: int) -> list[Entry]:
        return [Entry(seq, at, batch, op, path, json.loads(changes)) for seq, at, batch, op, path, changes in rig.rows(QUERY, self.namespace, after)]

    def collect(self, rig: Rig):
        """Adds the new entries."""
        with self._lock:
            for entry in self._read(rig, max(self.entries, default=0)):
                self.entries[entry.seq] = entry

    def compare(self, rig: Rig):
        """Reads the whole log and compares it with the earlier reads."""
        with self._lock:
            now = self._read(rig, 0)
            self.wrong += log.unchanged(self.entries, now)
            self.entries |= {entry.seq: entry for entry in now}

    def went_back(self, rig: Rig) -> int:
        """Handles a restored older copy: forgets the lost entries, and returns the last common seq."""
        with self._lock:
            now = {entry.seq: entry for entry in self._read(rig, 0)}
            first = min(now, default=1)
            kept = first - 1
            while kept + 1 in now and now[kept + 1] == self.entries.get(kept + 1):
                kept += 1
            self.entries = {seq: entry for seq, entry in self.entries.items() if seq <= kept} | {
                seq: entry for seq, entry in now.items() if seq > kept}
            return kept

    def list(self) -> list[Entry]:
        with self._lock:
            return [self.entries[seq] for seq in sorted(self.entries)]
