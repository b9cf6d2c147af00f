"""Compares the deliveries of a feed with the log: each message at least once, none after its acknowledgement, in order, under one id."""

from dataclasses import dataclass

from workload.feeds import FeedNotes, Given, Seek

from .entries import Entry, Restored, assign, keys

Place = tuple[int, str]


@dataclass(frozen=True)
class Wanted:
    """A message that follows from the log."""

    seq: int
    key: str
    event: str
    value: object
    old: object

    @property
    def place(self) -> Place:
        return self.seq, self.key


def wanted(collection: str, entries: list[Entry]) -> list[Wanted]:
    """The messages of a feed /COLLECTION/{key} that begins with the log, in order."""
    found, records = [], {}
    for entry in entries:
        before = {}
        for path, value in entry.changes.items():
            names = keys(path)
            if not names or names[0] != collection:
                continue
            if len(names) == 1:
                for key in records:
                    before.setdefault(key, records[key])
                records |= dict.fromkeys(records)
                for key, whole in (assign(None, "", value) or {}).items():
                    before.setdefault(key, None)
                    records[key] = whole
                continue
            before.setdefault(names[1], records.get(names[1]))
            old = records.get(names[1])
            # A separate tree, which is compared with the former one.
            records[names[1]] = assign({**old} if isinstance(old, dict) else old, "/".join(names[2:]), value)
        for key in sorted(before):
            old, new = before[key], records[key]
            if old != new:
                event = "created" if old is None else "deleted" if new is None else "updated"
                found.append(Wanted(entry.seq, key, event, new, old))
    return found


def judge(notes: FeedNotes, entries: list[Entry], restored: Restored | None) -> list[str]:
    """The violations in the deliveries and answers of one feed."""
    messages = wanted(notes.collection, entries)
    by_place = {message.place: message for message in messages}
    given = [one for one in notes.given if not _is_gone(notes, one, by_place, restored)]
    wrong = _contents(notes, given, by_place)
    if wrong:
        return wrong
    place_of = {one.message["id"]: _place(one) for one in given} | {letter["id"]: (letter["seq"], letter["key"]) for letter in notes.dead}
    return (_identities(given) + _lost(notes, given, messages, place_of, restored) + _order(notes, given, messages)
            + _repeated(notes, given, restored) + (_processed(notes, messages, place_of) if restored is None else [])
            + _sought(notes, messages, place_of))


def _place(one: Given) -> Place:
    return one.message["seq"], one.message["key"]


def _is_gone(notes: FeedNotes, one: Given, by_place: dict[Place, Wanted], restored: Restored | None) -> bool:
    """Whether a delivery is, or may be, of an entry that a restored copy does not have."""
    if restored is None or one.asked >= restored.noticed:
        return False
    if one.came <= restored.killed:
        return one.message["seq"] > restored.kept
    return not _is_right(notes, one, by_place)


def _is_right(notes: FeedNotes, one: Given, by_place: dict[Place, Wanted]) -> bool:
    message, real = one.message, by_place.get(_place(one))
    return real is not None and (message["event"], message["value"], message["old"]) == (real.event, real.value, real.old) \
        and message["id"].split(":")[:2] == [notes.namespace, str(real.seq)] and message["captures"] == {"key": real.key}


def _contents(notes: FeedNotes, given: list[Given], by_place: dict[Place, Wanted]) -> list[str]:
    wrong = [f"{notes.name}: {one.message} came to {one.consumer}, and the log has {by_place.get(_place(one))}"[:600]
             for one in given if not _is_right(notes, one, by_place)]
    return wrong + [f"{notes.name}: attempt {one.message['attempt']} of {one.message['id']}, of {notes.max_attempts}"
                    for one in given if not 1 <= one.message["attempt"] <= notes.max_attempts]


def _identities(given: list[Given]) -> list[str]:
    """Checks that an id belongs to one message in all deliveries."""
    place_of, id_of, wrong = {}, {}, []
    for one in given:
        id, place = one.message["id"], _place(one)
        if place_of.setdefault(id, place) != place or id_of.setdefault(place, id) != id:
            wrong.append(f"{id} is {place}; it was {place_of[id]}, and that was {id_of.get(place)}")
    return wrong


def _order(notes: FeedNotes, given: list[Given], messages: list[Wanted]) -> list[str]:
    """Checks that the first delivery of a message follows the earlier messages of its key: their requests preceded its arrival."""
    asked: dict[Place, float] = {}
    came: dict[Place, float] = {}
    for one in given:
        place = _place(one)
        asked[place] = min(one.asked, asked.get(place, one.asked))
        came[place] = min(one.came, came.get(place, one.came))
    dead = _dead_at_times(notes)
    latest: dict[str, tuple[float, Place]] = {}
    skipped: dict[str, Place] = {}
    wrong = []
    for message in messages:
        line, place = "" if notes.strict else message.key, message.place
        if place not in asked:
            if place not in dead:
                skipped.setdefault(line, place)
            continue
        if line in skipped:
            wrong.append(f"{notes.name}: {place} came, and {skipped[line]} before it never did")
        moment, earlier = latest.get(line, (float("-inf"), None))
        if moment > came[place]:
            wrong.append(f"{notes.name}: {place} came {moment - came[place]:.3f} s before {earlier} was first asked for")
        latest[line] = max((moment, earlier), (asked[place], place), key=lambda pair: pair[0])
    return wrong


def _repeated(notes: FeedNotes, given: list[Given], restored: Restored | None) -> list[str]:
    """Checks that acknowledged messages stay acknowledged: none is delivered to a later request, becomes dead, or is acknowledged again."""
    # The database may lose an acknowledgement from before the restore of an older copy.
    since = restored.noticed if restored else float("-inf")
    done = {id: moments for id, all_moments in notes.done.items()
            if (moments := [moment for moment in all_moments if moment >= since and not _moved_back(notes.seeks, id, _asked(notes, id, moment))])}
    wrong = [f"{notes.name}: {one.message['id']} was given to {one.consumer} by {one.gateway} (attempt {one.message['attempt']}), asked for "
             f"{one.asked - done[one.message['id']][0]:.3f} s after it was answered to be done"
             for one in given if one.message["id"] in done and one.asked > done[one.message["id"]][0]]
    wrong += [f"{notes.name}: {id} was answered to be done {len(moments)} times" for id, moments in done.items() if len(moments) > 1]
    return wrong + [f"{notes.name}: {letter['id']} is a dead letter, and was answered to be done" for letter in notes.dead if letter["id"] in done]


def _dead_at_times(notes: FeedNotes) -> set[Place]:
    """Messages that others of their key may overtake: dead letters, also retried ones, unless later messages wait for them."""
    dead = {(letter["seq"], letter["key"]) for letter in notes.dead}
    return dead | notes.retried if notes.on_dead == "continue" else dead


def _asked(notes: FeedNotes, id: str, answered: float) -> float:
    """The latest time of the request for an acknowledgement: a move of the feed with a later answer may have come after it."""
    return max((moment for moment in notes.said.get(id, []) if moment <= answered), default=answered)


def _moved_back(seeks: list[Seek], id: str, moment: float) -> bool:
    """Whether the feed was moved to a position before this message after the time."""
    seq = int(id.split(":")[1])
    return any(seek.seq < seq and seek.settled >= moment for seek in seeks)


def _processed(notes: FeedNotes, messages: list[Wanted], place_of: dict[str, Place]) -> list[str]:
    """Checks that a later message of a key is first processed after the earlier ones, in spite of losses."""
    first: dict[Place, float] = {}
    for id, moments in notes.said.items():
        if place := place_of.get(id):
            first[place] = min(moments[0], first.get(place, moments[0]))
    dead, latest, wrong = _dead_at_times(notes), {}, []
    for message in messages:
        line, place = "" if notes.strict else message.key, message.place
        if place in dead or place not in first:
            continue
        moment, earlier = latest.get(line, (float("-inf"), None))
        if moment > first[place]:
            wrong.append(f"{notes.name}: {place} was processed {moment - first[place]:.3f} s before {earlier}")
        latest[line] = max((moment, earlier), (first[place], place), key=lambda pair: pair[0])
    return wrong


def _sought(notes: FeedNotes, messages: list[Wanted], place_of: dict[str, Place]) -> list[str]:
    """Checks that messages after the position of a move are processed again, or are dead letters.

    An acknowledgement with an answer after the move counts, too: a consumer that had processed the message before may have received it
    again."""
    dead, wrong = {(letter["seq"], letter["key"]) for letter in notes.dead}, []
    last: dict[Place, float] = {}
    for id, moments in (*notes.said.items(), *notes.done.items()):
        if place := place_of.get(id):
            last[place] = max(moments[-1], last.get(place, moments[-1]))
    for seek in notes.seeks:
        if seek.answered == float("inf"):
            # The move may have had no effect.
            continue
        missing = [message.place for message in messages if seek.seq < message.seq <= seek.head and message.place not in dead
                   and last.get(message.place, float("-inf")) < seek.invoked]
        if missing:
            wrong.append(f"{notes.name}: {len(missing)} messages were not processed after the feed was moved to {seek.seq}: {missing[:4]}")
    return wrong


def _lost(notes: FeedNotes, given: list[Given], messages: list[Wanted], place_of: dict[str, Place], restored: Restored | None) -> list[str]:
    """Checks that every message was delivered, and, as nothing is left to deliver, that it was processed or is dead."""
    delivered = {_place(one) for one in given}
    dead = {(letter["seq"], letter["key"]) for letter in notes.dead}
    said = set()
    for id, moments in notes.said.items():
        place = place_of.get(id)
        if place and (restored is None or place[0] <= restored.kept or moments[-1] > restored.killed):
            said.add(place)
    lost = [message.place for message in messages if message.place not in delivered | dead]
    forgotten = [message.place for message in messages if message.place in delivered and message.place not in said | dead]
    wrong = [f"{notes.name}: {len(lost)} of {len(messages)} messages were never delivered: {lost[:4]}"] if lost else []
    if forgotten:
        wrong.append(f"{notes.name}: {len(forgotten)} messages are done with, though nobody has processed them: {forgotten[:4]}")
    phantoms = [letter["id"] for letter in notes.dead if (letter["seq"], letter["key"]) not in {message.place for message in messages}]
    return wrong + [f"{notes.name}: dead letters of no entry: {phantoms[:4]}"] * bool(phantoms)
