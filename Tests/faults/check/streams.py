"""Compares listeners with the log: a value of some entry, then every entry once and in order."""

from collections.abc import Iterable
from dataclasses import dataclass

from workload.listeners import Event, Listening

from .entries import Entry, Restored, apply, assign, difference, keys, trees_at


@dataclass(frozen=True)
class Away:
    """A time in which gateways could not reach PostgreSQL for longer than they let a resuming stream wait
    (docs/reference/streaming.md#resuming). They may then begin the stream with an older value, if they announce it."""

    begin: float
    end: float
    gateways: frozenset

    def excuses(self, event: Event) -> bool:
        return self.begin <= event.at <= self.end and event.gateway in self.gateways


def changes_of(event: Event) -> dict:
    """The changes of an event in the form of an entry: absolute path and value."""
    if event.kind == "put":
        return {_joined(event.path): event.data}
    return {_joined(event.path, key): value for key, value in event.data.items()}


def _joined(*parts: str) -> str:
    return "/" + "/".join(key for part in parts for key in keys(part))


def is_fresh(event: Event) -> bool:
    """The whole value: no client of the campaign writes at the root."""
    return event.kind == "put" and not keys(event.path)


def stream(name: str, events: list[Event], entries: list[Entry], restored: Restored | None, head: int,
           away: Iterable[Away] = ()) -> list[str]:
    """Checks one reader's events, over all its connections."""
    wrong: list[str] = []
    wanted: dict[int, list[Event]] = {}
    by_seq = {entry.seq: entry for entry in entries}
    place: int | None = None
    for event in events:
        if restored and restored.killed < event.at < restored.noticed:
            # These events may still be of lost entries; the end of the round checks the resulting value.
            place = None
            continue
        is_old = restored is not None and event.at <= restored.killed
        if is_fresh(event):
            if place is not None and event.seq < place and not (event.may_repeat and any(one.excuses(event) for one in away)):
                announced = "announced" if event.may_repeat else "not announced"
                wrong.append(f"{name}: a fresh put of seq {event.seq} after seq {place} ({event.gateway}, {announced})")
            if not is_old or event.seq <= restored.kept:
                wanted.setdefault(event.seq, []).append(event)
            place = event.seq
            continue
        if place is None:
            if not restored:
                wrong.append(f"{name}: a change before any value: {event.seq} {event.path}")
            place = event.seq - 1
        if event.seq != place + 1:
            wrong.append(f"{name}: seq {event.seq} follows {place} (connection {event.connection}, {event.gateway})")
        place = event.seq
        if is_old and event.seq > restored.kept:
            continue
        entry = by_seq.get(event.seq)
        if entry is None:
            wrong.append(f"{name}: seq {event.seq} is not in the log, but was told by {event.gateway}")
        elif changes_of(event) != entry.changes:
            wrong.append(f"{name}: seq {event.seq} was told as {str(changes_of(event))[:120]}, and is {str(entry.changes)[:120]}")
    for seq, tree, fresh in trees_at(entries, wanted):
        wrong += [f"{name}: the value of seq {seq} by {event.gateway} differs from the log's tree {difference(event.data, tree)}"
                  for event in fresh if event.data != tree]
    wrong += [f"{name}: a value of seq {seq}, which the log has not" for seq in wanted if seq > head or (seq and seq not in by_seq)]
    if events and events[-1].seq != head:
        wrong.append(f"{name}: the stream ended at seq {events[-1].seq}, and the log at {head}")
    wrong += folded(name, events, entries)
    return wrong[:8]


def folded(name: str, events: list[Event], entries: list[Entry]) -> list[str]:
    """Checks that all events of a reader fold to the tree."""
    mine, tree = None, None
    for event in events:
        for path, value in changes_of(event).items():
            mine = assign(mine, path, value)
    for entry in entries:
        tree = apply(tree, entry)
    return [] if mine == tree else [f"{name}: what the stream told adds up to another tree: {difference(mine, tree)}"]


def listen(name: str, listening: Listening, entries: list[Entry]) -> list[str]:
    """Checks a realtime listen of /reg: the value at some entry, and then all changes, each once."""
    changes = [(keys(path)[1], value) for entry in entries for path, value in entry.changes.items() if keys(path)[0] == "reg"]
    begin = _state_at(changes, listening)
    if begin is None:
        return [f"{name}: no entry has made this value of /reg: {str(listening.first)[:200]} ({listening.gateway})"]
    expected = changes[begin:begin + len(listening.pushes)]
    for number, (told, real) in enumerate(zip(listening.pushes, expected)):
        if told != real:
            return [f"{name}: push {number} was {told}, and the log has {real} ({listening.gateway})"]
    if len(expected) < len(listening.pushes):
        return [f"{name}: more pushes than the log has changes ({listening.gateway})"]
    return []


def _state_at(changes: list[tuple[str, object]], listening: Listening) -> int | None:
    """The number of changes that precede the first value of the listen."""
    state: dict[str, object] = {}
    places = [0] if not listening.first else []
    for number, (key, value) in enumerate(changes, 1):
        state[key] = value
        if state == listening.first:
            places.append(number)
    return places[-1] if places else None
