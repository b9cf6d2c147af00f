"""Every tree that follows from a log, by docs/reference/log.md ("The meaning of an entry").

Trees share the parts that an entry does not change, so that all trees fit in memory, and two consecutive ones compare quickly."""

import datetime

from .export import join, normal
from .mirror import loads


def shallow(node) -> tuple[object, object]:
    """(value or children, priority) of a value in its one normal form."""
    if not isinstance(node, dict):
        return node, None
    if ".value" in node:
        return node[".value"], node.get(".priority")
    if ".priority" not in node:
        return node, None
    return {key: item for key, item in node.items() if key != ".priority"}, node[".priority"]


def put(node, keys: list[str], value):
    """`export.assign` for trees in normal form; copies only the nodes above the path."""
    if not keys:
        return value
    own, priority = shallow(node)
    if keys[0] == ".priority":
        return join(own, value)
    inner = put(own.get(keys[0]) if isinstance(own, dict) else None, keys[1:], value)
    if inner is None and (not isinstance(own, dict) or keys[0] not in own):
        return node
    children = dict(own) if isinstance(own, dict) else {}
    children.pop(keys[0], None)
    if inner is not None:
        children[keys[0]] = inner
    return join(children or None, priority)


def _split(path: str) -> list[str]:
    return [key for key in path.split("/") if key]


def _step(change) -> int:
    path, value = change
    return 2 if path.endswith("/.priority") else 1 if value is None else 0


def _do(tree, changes):
    for path, value in sorted(changes, key=_step):
        tree = put(tree, _split(path), normal(value))
    return tree


def apply(tree, changes: list, parts: list):
    """The tree after an entry: its own changes and those of its parts, each as (path, value)."""
    if not parts:
        return _do(tree, changes)
    for place, _ in changes:
        prefix = place.rstrip("/") + "/"
        own = [(path[len(prefix) - 1:], value) for path, value in parts if (path + "/").startswith(prefix)]
        parts = [(path, value) for path, value in parts if not (path + "/").startswith(prefix)]
        tree = put(tree, _split(place), _do(None, own))
    return _do(tree, parts)


class Entry:
    """The data of an entry besides its changes."""

    def __init__(self, at, author):
        self.at, self.author = at, author


class Log:
    """The trees of a log, read step by step before its entries are pruned. Number 0 is the empty tree."""

    def __init__(self):
        self.trees, self.entries = [None], [Entry(None, None)]

    @property
    def head(self) -> int:
        return len(self.trees) - 1

    def read(self, connection):
        """Reads the new entries of the log."""
        found = connection.execute(
            "select seq, committed_at, origin is null, uid, is_admin, via, changes::text, parts, namespace_id "
            "from pathmirror.log_entry where namespace = 'default' and seq > %s order by seq", [self.head]).fetchall()
        for seq, at, nobody, uid, admin, via, changes, parts, namespace in found:
            if seq != self.head + 1:
                raise AssertionError(f"the log goes from {self.head} to {seq}")
            rows = connection.execute("select changes::text from pathmirror.log_part where namespace_id = %s and seq = %s order by part",
                                      [namespace, seq]).fetchall() if parts else []
            pieces = [change for (text,) in rows for change in loads(text).items()]
            self.trees.append(apply(self.trees[-1], list(loads(changes).items()), pieces))
            # Mirrors store the time in whole milliseconds.
            at = at.replace(microsecond=0) + datetime.timedelta(milliseconds=(at.microsecond + 500) // 1000)
            self.entries.append(Entry(at, None if nobody else (uid, bool(admin), via)))


def differing(old, new, parts: list[str], keys: tuple = ()):
    """(captured keys, record before, record after) of the records that two trees do not share."""
    if old is new:
        return
    if not parts:
        yield keys, old, new
        return
    before, after = (value if isinstance(value, dict) else {} for value in (shallow(old)[0], shallow(new)[0]))
    if not parts[0].startswith("{"):
        yield from differing(before.get(parts[0]), after.get(parts[0]), parts[1:], keys)
        return
    for key in before.keys() | after.keys():
        yield from differing(before.get(key), after.get(key), parts[1:], (*keys, key))
