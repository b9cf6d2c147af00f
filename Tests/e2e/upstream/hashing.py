"""Hashes of nodes (version 1), hashes of ranges (version 2), and the ranges that differ from what a client holds."""

import base64
import hashlib
import struct

from .tree import PRIORITY, Invalid, Node, key_rank, split_path


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()


def _typed(value, quoted: bool) -> str:
    if value is True or value is False:
        return "boolean:true" if value else "boolean:false"
    if isinstance(value, str):
        if quoted:
            value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return "string:" + value
    return "number:" + struct.pack(">d", float(value)).hex()


# MARK: Nodes

def _priority_rank(priority) -> tuple:
    if priority is None:
        return (0,)
    return (2, priority.encode("utf-16-be")) if isinstance(priority, str) else (1, priority)


def node_text(node: Node, own_priority: bool = True) -> str:
    """What the hash of a node is of."""
    text = f"priority:{_typed(node.priority, False)}:" if own_priority and node.priority is not None else ""
    if node.children is None:
        return text + _typed(node.value, False)
    keys = [key for _, key in node.ordered()]
    if any(child.priority is not None for child in node.children.values()):
        keys.sort(key=lambda key: _priority_rank(node.children[key].priority))
    return text + "".join(f":{key}:{node_hash(node.children[key])}" for key in keys)


def node_hash(node: Node | None) -> str:
    """The hash of a node with its priority; empty for null."""
    if node is None:
        return ""
    if node.digest is None:
        node.digest = digest(node_text(node))
    return node.digest


def view_hash(node: Node | None, is_filtered: bool) -> str:
    """The hash of what a listen shows; that of a query leaves the priority of the queried node out."""
    if node is None:
        return ""
    return digest(node_text(node, False)) if is_filtered else node_hash(node)


# MARK: Leaves and ranges

class Leaf:
    """A leaf in the order of ranges: a value with its priority, or the priority of an inner node."""

    __slots__ = ("path", "value", "priority")

    def __init__(self, path: tuple, value, priority=None):
        self.path, self.value, self.priority = path, value, priority

    def text(self) -> str:
        own = "" if self.priority is None else f"priority:{_typed(self.priority, True)}:"
        return own + _typed(self.value, True)

    def exported(self):
        return self.value if self.priority is None else {".value": self.value, PRIORITY: self.priority}


_PRIORITY_RANK = key_rank(PRIORITY)


def leaves(node: Node | None, path: tuple = ()):
    """All leaves, depth first, in the order of keys. The priority of an inner node comes where a child `.priority` would."""
    if node is None:
        return
    if node.children is None:
        yield Leaf(path, node.value, node.priority)
        return
    is_due = node.priority is not None
    for rank, key in list(node.ordered()):
        if is_due and rank > _PRIORITY_RANK:
            is_due = False
            yield Leaf((*path, PRIORITY), node.priority)
        yield from leaves(node.children[key], (*path, key))
    if is_due:
        yield Leaf((*path, PRIORITY), node.priority)


def path_rank(path) -> tuple:
    """The rank of a path: by components, a prefix before what extends it."""
    return tuple(key_rank(key) for key in path)


class RangeText:
    """The text of consecutive leaves, which come one after the other."""

    def __init__(self):
        self._parts: list[str] = []
        self._open: tuple = ()

    def add(self, leaf: Leaf):
        shared = 0
        if not self._parts:
            self._parts.append("(")
        else:
            while shared < min(len(self._open), len(leaf.path)) and self._open[shared] == leaf.path[shared]:
                shared += 1
            self._parts.append(")" * (len(self._open) - shared) + ",")
        for key in leaf.path[shared:]:
            quoted = key.replace("\\", "\\\\").replace('"', '\\"')
            self._parts.append(f'"{quoted}":(')
        self._parts.append(leaf.text())
        self._open = leaf.path

    def text(self) -> str:
        return "".join(self._parts) + ")" * (len(self._open) + 1) if self._parts else ""

    def hash(self) -> str:
        return digest(self.text()) if self._parts else ""


def ranges(node: Node | None, posts: list[tuple]) -> list[list[Leaf]]:
    """The leaves of each range: up to the first post, between posts, and after the last one."""
    found: list[list[Leaf]] = [[]]
    ends = [path_rank(post) for post in posts]
    if any(one >= other for one, other in zip(ends, ends[1:])):
        raise Invalid("the paths of a compound hash are not in order")
    for leaf in leaves(node):
        while len(found) <= len(ends) and path_rank(leaf.path) > ends[len(found) - 1]:
            found.append([])
        found[-1].append(leaf)
    return found + [[] for _ in range(len(ends) + 1 - len(found))]


def range_hash(rows: list[Leaf]) -> str:
    text = RangeText()
    for leaf in rows:
        text.add(leaf)
    return text.hash()


def range_export(rows: list[Leaf]):
    """Exactly these leaves as nested objects; null for none."""
    if not rows:
        return None
    if not rows[0].path:
        return rows[0].exported()
    made: dict = {}
    for leaf in rows:
        place = made
        for key in leaf.path[:-1]:
            place = place.setdefault(key, {})
        place[leaf.path[-1]] = leaf.exported()
    return made


def differences(node: Node | None, compound: dict) -> list[dict]:
    """The body of a range merge: the ranges of a compound hash in which this node differs."""
    if not isinstance(compound, dict) or not isinstance(compound.get("hs"), list) or not isinstance(compound.get("ps"), list):
        raise Invalid("a compound hash has no lists")
    hashes, posts = compound["hs"], compound["ps"]
    if len(hashes) != len(posts) + 1 or not all(isinstance(one, str) for one in (*hashes, *posts)):
        raise Invalid("a compound hash has lists that do not fit")
    found = []
    for index, rows in enumerate(ranges(node, [split_path(post) for post in posts])):
        if range_hash(rows) == hashes[index]:
            continue
        merge: dict = {}
        if index:
            merge["s"] = posts[index - 1]
        if index < len(posts):
            merge["e"] = posts[index]
        merge["m"] = range_export(rows)
        found.append(merge)
    return found


def compound_hash(node: Node | None) -> dict:
    """What a client that holds this node sends: it cuts after leaves whose text is long enough for a tree of this size."""
    limit = max(512, int(((node.size if node else 0) * 100) ** 0.5))
    posts, hashes, text, length, last = [], [], RangeText(), 0, None
    for leaf in leaves(node):
        text.add(leaf)
        last = leaf
        length = sum(map(len, text._parts))
        if length > limit and leaf.path[-1:] != (PRIORITY,):
            posts.append("/".join(leaf.path) or "/")
            hashes.append(text.hash())
            text, last = RangeText(), None
    if last is not None:
        posts.append("/".join(last.path) or "/")
        hashes.append(text.hash())
    return {"hs": [*hashes, ""], "ps": posts}
