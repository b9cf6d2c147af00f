"""Whether a log can be the log of a follower: each of its trees is one that the upstream had, in the upstream's order."""

import psycopg
from oracle.log import apply

from .database import PRIORITY
from .hashing import node_hash
from .tree import assign, build, export, parse, split_path


def _step(path: tuple, value) -> int:
    return 2 if path[-1:] == (PRIORITY,) else 1 if value is None else 0


def changed(root, changes: dict):
    """The tree after a set of changes, whose order has no meaning. Changes nodes in place."""
    placed = [(split_path(path), value) for path, value in changes.items()]
    for path, value in sorted(placed, key=lambda change: _step(*change)):
        root = assign(root, path, value if path[-1:] == (PRIORITY,) else build(value))
    return root


def upstream_hashes(writes, initial=None) -> list[str]:
    """The hash of each tree that the upstream had, without repetitions in a row."""
    root = build(initial)
    found = [node_hash(root)]
    for write in writes:
        root = changed(root, write.changes)
        if node_hash(root) != found[-1]:
            found.append(node_hash(root))
    return found


def log_entries(url: str, ns: str = "default") -> list[tuple[int, str, str]]:
    """(seq, operation, hash of the tree after it) of each entry with changes."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "select seq, op::text, changes::text, parts, namespace_id from pathmirror.log_entry where namespace = %s order by seq", [ns]).fetchall()
        root, found = None, []
        for seq, op, text, parts, namespace in rows:
            changes = parse(text) or {}
            if parts:
                pieces = [change for (part,) in connection.execute("select changes::text from pathmirror.log_part where namespace_id = %s and seq = %s "
                                                                   "order by part", [namespace, seq]).fetchall() for change in parse(part).items()]
                root = build(apply(export(root), list(changes.items()), pieces))
            else:
                root = changed(root, changes)
            if changes or parts:
                found.append((seq, op, node_hash(root)))
    return found


def judge(entries: list[tuple[int, str, str]], hashes: list[str]) -> dict:
    """Raises an AssertionError where a tree of the log is none of the upstream's, where entries skip one without a gap, or where an entry
    of a gap holds nothing. Returns figures."""
    places: dict[str, list[int]] = {}
    for index, digest in enumerate(hashes):
        places.setdefault(digest, []).append(index)
    # An empty namespace already has the trees of an empty upstream.
    possible, before, figures = {-1, *places.get("", [])}, "", {"upstream": 0, "resync": 0, "skipped": 0}
    for seq, op, digest in entries:
        assert op in ("upstream", "resync"), f"entry {seq} has the operation {op}"
        assert digest == "" or digest in places, f"entry {seq} ({op}) left a tree that the upstream never had"
        now = places.get(digest, [])
        if op == "resync":
            assert digest != before, f"entry {seq} is a resync that changed nothing"
            possible = {index for index in now if index > min(possible)}
        else:
            possible = {index for index in now if index - 1 in possible or index in possible}
        assert possible, f"entry {seq} ({op}) does not follow from the entry before it in the upstream's order"
        figures[op] += 1
        before = digest
    assert len(hashes) - 1 in possible or not entries and hashes == [""], "the log does not end where the upstream is"
    figures["upstream trees"] = len(hashes)
    return figures
