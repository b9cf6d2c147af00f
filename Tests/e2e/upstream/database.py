"""Namespaces: writes that are executed one after the other, and listens that receive them."""

import time
from dataclasses import dataclass, field

from . import hashing, query
from .tree import (MAX_DEPTH, PRIORITY, Invalid, Node, assign, at, build, check_path, check_priority, export, join_path, resolve,
                   server_value, split_path)

OPEN_RULES = '{"rules": {".read": true, ".write": true}}'


@dataclass
class Write:
    """A write that was executed: what came in, and what it put where once server values were resolved."""

    number: int
    kind: str
    path: str
    data: object
    changes: dict[str, object]
    by: str


class Listen:
    """A listen of a session. `query` is None for a default listen."""

    def __init__(self, session, path: tuple, query_: dict | None, tag):
        self.session, self.path, self.query, self.tag = session, path, query_, tag

    @property
    def identity(self) -> tuple:
        return (self.path, repr(sorted(self.query.items())) if self.query else None)

    def view(self, root: Node | None) -> Node | None:
        node = at(root, self.path)
        return node if self.query is None else query.filtered(node, self.query)

    def push(self, action: str, path: tuple, data):
        body = {"p": join_path(path), "d": data}
        if self.tag is not None:
            body["t"] = self.tag
        self.session.push(action, body)


@dataclass
class _Before:
    """What a listen showed before a write, as far as its push depends on that."""

    listen: Listen
    digest: str | None = None
    keys: list[str] = field(default_factory=list)
    was_leaf: bool = False


class Namespace:
    """One database. All its methods run on the thread of the stand-in's loop."""

    def __init__(self, name: str):
        self.name = name
        self.root: Node | None = None
        self.rules = OPEN_RULES
        self.settings: dict[str, object] = {"defaultWriteSizeLimit": "unlimited", "strictTriggerValidation": True}
        self.listens: list[Listen] = []
        self.writes: list[Write] = []
        self.keeps_writes = True
        self.count = 0
        self._last_time = 0

    # MARK: writes

    def put(self, path: tuple, data, hash: str | None = None, by: str = "direct") -> bool:
        """Replaces a value; False if `hash` is not that of the node there. The path may end with `.priority`."""
        return self._execute("put", path, {(): data}, data, hash, by)

    def merge(self, path: tuple, data, hash: str | None = None, by: str = "direct") -> bool:
        """Replaces several values below a path as one write; False if `hash` is not that of the node there."""
        if not isinstance(data, dict):
            raise Invalid("Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?")
        changes = {split_path(key): value for key, value in data.items()}
        if len(changes) != len(data) or () in changes:
            raise Invalid("two keys of an update name the same place, or one names none")
        for one in changes:
            if any(one[:length] in changes for length in range(1, len(one))):
                raise Invalid("a key of an update is an ancestor of another")
        return self._execute("merge", path, changes, data, hash, by)

    def _execute(self, kind, path, changes, data, hash, by) -> bool:
        node = at(self.root, path) if path[-1:] != (PRIORITY,) else None
        if hash is not None and hash != hashing.node_hash(node):
            return False
        now = max(int(time.time() * 1000), self._last_time)
        self._last_time = now
        made: dict[tuple, object] = {}
        for below, value in changes.items():
            place = (*path, *below)
            check_path(place)
            if place[-1:] == (PRIORITY,):
                owner = at(self.root, place[:-1])
                value = server_value(value, owner.priority if owner else None, now)
                check_priority(value)
                if owner is None:
                    raise Invalid("a node that does not exist has no priority")
                made[below] = value
            else:
                made[below] = build(resolve(value, at(self.root, place), now), len(place))
        befores = [self._before(listen, path, made) for listen in self._touched(path)]
        # It is unknown whether the service applies an update in the order of its text, of keys, or all at once. All at once: what one key
        # fills is not emptied by another, and keeps its priority.
        for below, new in sorted(made.items(), key=lambda change: 2 if change[0][-1:] == (PRIORITY,) else change[1] is None):
            self.root = assign(self.root, (*path, *below), new)
        self.count += 1
        results = {below: export(new) if isinstance(new, Node) else new for below, new in made.items()}
        if self.keeps_writes:
            self.writes.append(Write(self.count, kind, join_path(path), data, {join_path((*path, *below)): value
                                                                              for below, value in results.items()}, by))
        for before in befores:
            self._tell(before, kind, path, results)
        return True

    # MARK: pushes

    def _touched(self, path: tuple) -> list[Listen]:
        """The listens at, above or below a path."""
        return [listen for listen in self.listens
                if listen.path[:len(path)] == path[:len(listen.path)]]

    def _before(self, listen: Listen, path: tuple, changes: dict) -> _Before:
        before = _Before(listen)
        if listen.query is not None:
            node = at(self.root, listen.path)
            before.keys = query.window(node, listen.query)
            before.was_leaf = node is not None and node.is_leaf
        if any(len(path) + len(below) < len(listen.path) for below in changes):
            before.digest = hashing.node_hash(at(self.root, listen.path))
        return before

    def _tell(self, before: _Before, kind: str, path: tuple, results: dict):
        listen = before.listen
        if listen not in self.listens:
            return
        inside, is_replaced = {}, False
        for below, value in results.items():
            place = (*path, *below)
            if place[:len(listen.path)] == listen.path:
                inside[place[len(listen.path):]] = value
            elif listen.path[:len(place)] == place:
                is_replaced = True
        if is_replaced and hashing.node_hash(at(self.root, listen.path)) == before.digest:
            return
        if not inside and not is_replaced:
            return
        if listen.query is not None:
            self._tell_window(before, inside, is_replaced)
        elif is_replaced or () in inside:
            listen.push("d", listen.path, export(at(self.root, listen.path)))
        elif kind == "put":
            (below, value), = inside.items()
            listen.push("d", (*listen.path, *below), value)
        else:
            base = path if len(path) >= len(listen.path) else listen.path
            skip = len(base) - len(listen.path)
            listen.push("m", base, {join_path(below[skip:]): value for below, value in inside.items()})
        listen.session.grown(listen)

    def _tell_window(self, before: _Before, inside: dict, is_replaced: bool):
        listen = before.listen
        node = at(self.root, listen.path)
        keys = query.window(node, listen.query)
        if is_replaced or () in inside or bool(keys) != bool(before.keys):
            if keys or before.keys:
                listen.push("d", listen.path, export(listen.view(self.root)))
            return
        had, has = set(before.keys), set(keys)
        changes: dict[str, object] = {key: None for key in before.keys if key not in has}
        for key in keys:
            if key not in had:
                changes[key] = export(node.children[key])
        for below, value in inside.items():
            if below[0] in had & has and below[0] not in changes:
                changes[join_path(below)] = value
        if not changes:
            return
        if len(changes) == 1 and "/" in (only := next(iter(changes))):
            listen.push("d", (*listen.path, *split_path(only)), changes[only])
        else:
            listen.push("m", listen.path, changes)

    # MARK: reads

    def depth(self) -> int:
        """The number of levels of the tree."""
        def levels(node) -> int:
            return 0 if node is None or node.children is None else 1 + max(map(levels, node.children.values()))

        found = levels(self.root)
        assert found <= MAX_DEPTH
        return found
