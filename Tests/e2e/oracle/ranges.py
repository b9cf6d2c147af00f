"""Compound hashes and range merges: texts and hashes of version 2, and the result of a range merge at a client."""

import base64
import hashlib
import struct

from .export import assign, split
from .order import key_rank


def path_rank(path: tuple) -> tuple:
    return tuple(key_rank(key) for key in path)


def leaves(node, path: tuple = ()) -> list[tuple[tuple, object]]:
    """(path, leaf in export form) of every leaf in order; the priority of an inner node is a leaf `.priority`."""
    value, priority = split(node)
    if value is None:
        return []
    if not isinstance(value, dict):
        return [(path, node if priority is None else {".value": value, ".priority": priority})]
    children = dict(value) | ({".priority": priority} if priority is not None else {})
    return [row for key in sorted(children, key=key_rank) for row in leaves(children[key], (*path, key))]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _leaf(value) -> str:
    if isinstance(value, bool):
        return f"boolean:{'true' if value else 'false'}"
    if isinstance(value, (int, float)):
        return f"number:{struct.pack('>d', value).hex()}"
    return f"string:{_quoted(value)}"


def range_text(rows) -> str:
    """The text of consecutive leaves: one nested object, cut out of the whole."""
    def group(rows) -> str:
        """The text of rows below one node; their paths begin there."""
        if len(rows) == 1 and not rows[0][0]:
            value, priority = split(rows[0][1])
            return (f"priority:{_leaf(priority)}:" if priority is not None else "") + _leaf(value)
        parts, start = [], 0
        while start < len(rows):
            end = start
            while end < len(rows) and rows[end][0][0] == rows[start][0][0]:
                end += 1
            inner = group([(path[1:], leaf) for path, leaf in rows[start:end]])
            parts.append(f"{_quoted(rows[start][0][0])}:({inner})")
            start = end
        return ",".join(parts)

    return f"({group(rows)})" if rows else ""


def range_hash(rows) -> str:
    text = range_text(rows)
    return base64.b64encode(hashlib.sha1(text.encode()).digest()).decode() if text else ""


def ranges(node, posts: list[tuple]) -> list[list]:
    """The leaves of each range between the posts: (-inf, p0], (p0, p1], …, (pn, inf)."""
    rows, found = leaves(node), []
    for post in posts:
        count = sum(path_rank(path) <= path_rank(post) for path, _ in rows)
        found.append(rows[:count])
        rows = rows[count:]
    return [*found, rows]


def compound(node, posts: list[tuple]) -> dict:
    """The `ch` that a client with this node sends. No leaf may be after the last post."""
    parts = ranges(node, posts)
    assert not parts[-1]
    return {"ps": ["/".join(post) or "/" for post in posts], "hs": [range_hash(rows) for rows in parts[:-1]] + [""]}


def apply_range_merge(node, merges: list[dict]):
    """The value of a client with `node` after a range merge."""
    rows = leaves(node)
    for merge in merges:
        start = tuple(key for key in merge["s"].split("/") if key) if "s" in merge else None
        end = tuple(key for key in merge["e"].split("/") if key) if "e" in merge else None
        kept = [(path, leaf) for path, leaf in rows
                if (start is not None and path_rank(path) <= path_rank(start))
                or (end is not None and path_rank(path) > path_rank(end))]
        # The server repeats leaves outside the range for SDKs, whose priorities depend on them. These leaves change no value.
        fresh = [(path, leaf) for path, leaf in merge_leaves(merge["m"])
                 if (start is None or path_rank(path) > path_rank(start)) and (end is None or path_rank(path) <= path_rank(end))]
        for path, _ in fresh:
            # A leaf replaces the former value at its path.
            kept = [(other, leaf) for other, leaf in kept if other[:len(path)] != path]
        rows = kept + fresh
    tree = None
    for path, leaf in sorted(rows, key=lambda row: row[0][-1:] == (".priority",)):
        tree = assign(tree, list(path), leaf)
    return tree


def merge_leaves(value, path: tuple = ()) -> list[tuple[tuple, object]]:
    """The leaves of `m`, which may have only the priority of a node."""
    if value is None:
        return []
    if not isinstance(value, dict) or ".value" in value:
        return [(path, value)]
    return [row for key, inner in value.items() for row in merge_leaves(inner, (*path, key))]
