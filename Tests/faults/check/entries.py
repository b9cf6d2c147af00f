"""Entries of the log, and the tree that follows from them."""

import copy
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One entry; `at` is committed_at in microseconds."""

    seq: int
    at: int
    batch: str
    op: str
    path: str
    changes: dict


@dataclass(frozen=True)
class Restored:
    """The database was replaced by an older copy. Entries up to `kept` are unchanged; writes from before `killed` may be lost; and answers
    until `noticed` may still show lost entries."""

    kept: int
    killed: float
    noticed: float
    lost: tuple = ()


def keys(path: str) -> list[str]:
    return [key for key in path.split("/") if key]


def assign(tree, path: str, value):
    """Changes the tree in place and returns it. Values are in export form; None removes, and empty nodes are removed."""
    names = keys(path)
    if not names:
        return _pruned(copy.deepcopy(value))
    if not isinstance(tree, dict):
        tree = {}
    above, node = [], tree
    for name in names[:-1]:
        above.append((node, name))
        below = node.get(name)
        if not isinstance(below, dict):
            if value is None:
                return tree or None
            below = node[name] = {}
        node = below
    value = _pruned(copy.deepcopy(value))
    if value is None:
        node.pop(names[-1], None)
        while above and not node:
            node, name = above.pop()
            del node[name]
    else:
        node[names[-1]] = value
    return tree or None


def _pruned(value):
    if not isinstance(value, dict):
        return value
    left = {key: below for key, below in ((key, _pruned(below)) for key, below in value.items()) if below is not None}
    return left or None


def apply(tree, entry: Entry):
    for path, value in entry.changes.items():
        tree = assign(tree, path, value)
    return tree


def trees_at(entries: list[Entry], wanted: dict[int, list]):
    """Yields (seq, tree, the wanted items of this seq) along the log. The tree belongs to the walk: do not change it."""
    tree = None
    if 0 in wanted:
        yield 0, tree, wanted[0]
    for entry in entries:
        tree = apply(tree, entry)
        if entry.seq in wanted:
            yield entry.seq, tree, wanted[entry.seq]


def tree_of(entries: list[Entry]):
    tree = None
    for entry in entries:
        tree = apply(tree, entry)
    return tree


def tokens(entry: Entry) -> list[str]:
    """The values by which the campaign's clients recognize their writes."""
    found = []
    for path, value in entry.changes.items():
        names = keys(path)
        if names[0] in ("reg", "probe") and len(names) == 2 and isinstance(value, str):
            found.append(value)
        elif names[0] == "marks" and value is True:
            found.append(names[1])
        elif names[0] == "rec" and isinstance(value, dict):
            found.append(value["t"])
        elif names == ["large"] and isinstance(value, dict):
            found.append(value["l0000"])
    return found


def difference(left, right, path: str = "") -> str:
    """The first difference of two trees."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(set(left) | set(right)):
            if left.get(key) != right.get(key):
                return difference(left.get(key), right.get(key), f"{path}/{key}")
        return "nowhere"
    return f"at {path or '/'}: {str(left)[:120]} and {str(right)[:120]}"
