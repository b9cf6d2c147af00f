"""The tree of a database: nodes, JSON in and out, the order of keys, server values, and changes in place."""

import json
import re
from bisect import bisect_left
from functools import lru_cache

MAX_DEPTH = 32
MAX_KEY_BYTES = 768
MAX_STRING_BYTES = 10 * 1024 * 1024
PRIORITY = ".priority"
_INTEGER_KEY = re.compile(r"-?0*[0-9]{1,10}")
_FORBIDDEN = re.compile(r"[.#$\[\]/\x00-\x1f\x7f]")


class Invalid(ValueError):
    """Data or a path that the database refuses."""


# MARK: JSON

def _integer(text: str):
    if text.startswith("-") and not text.strip("-0"):
        return -0.0
    if len(text) > 20:
        return _double(text)
    number = int(text)
    return number if -2**63 <= number < 2**63 else float(number)


def _double(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise Invalid("a number that a double cannot hold")
    return number


def _refuse(text: str):
    raise Invalid(f"{text} is not JSON")


def _whole(value):
    """The value without halves of surrogate pairs, each of which becomes U+FFFD."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    elif isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    elif isinstance(value, list):
        return [_whole(item) for item in value]
    return value


def parse(text: str | bytes):
    """Reads JSON. Integers outside of int64 become doubles, and -0 keeps its sign."""
    try:
        value = json.loads(text, parse_int=_integer, parse_float=_double, parse_constant=_refuse)
        return _whole(value) if "\\u" in (text if isinstance(text, str) else text.decode()) else value
    except (ValueError, RecursionError) as failure:
        raise Invalid(f"Invalid data; couldn't parse JSON: {failure}") from None


def dump(value) -> str:
    """Writes compact JSON. A double that is an integer outside of int64 has an exponent, as Python always writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# MARK: Keys and paths

@lru_cache(1 << 17)
def key_rank(key: str) -> tuple:
    """The rank of a key: integers of 32 bits come first, numerically and shorter ones first, then the rest by UTF-16 code unit."""
    if _INTEGER_KEY.fullmatch(key) and -2**31 <= int(key) <= 2**31 - 1:
        return (0, int(key), len(key))
    return (1, key.encode("utf-16-be"))


def split_path(text: str) -> tuple[str, ...]:
    """The keys of a path; empty parts drop out."""
    return tuple(part for part in text.split("/") if part)


def join_path(path) -> str:
    return "/".join(path)


def check_key(key: str):
    if not key or _FORBIDDEN.search(key):
        raise Invalid(f"Invalid data; couldn't parse key {key[:40]!r}. Key value can't be empty or contain $ # [ ] / or .")
    if len(key) * 4 > MAX_KEY_BYTES and len(key.encode()) > MAX_KEY_BYTES:
        raise Invalid(f"a key has more than {MAX_KEY_BYTES} bytes")


def check_path(path: tuple[str, ...]):
    """Accepts `.priority` as the last part only."""
    for key in path[:-1] if path[-1:] == (PRIORITY,) else path:
        check_key(key)
    if len(path) - (path[-1:] == (PRIORITY,)) > MAX_DEPTH:
        raise Invalid(f"a path has more than {MAX_DEPTH} levels")


# MARK: Nodes

class Node:
    """A leaf (`children` is None), or an inner node with at least one child.

    `size` is an estimate of the bytes of its export form, and `digest` its hash once it was needed.
    """

    __slots__ = ("value", "priority", "children", "order", "size", "digest")

    def __init__(self, value=None, priority=None, children: dict | None = None):
        self.value, self.priority, self.children = value, priority, children
        self.order = self.digest = None
        self.measure()

    def measure(self):
        """Computes the size again from the sizes of the children."""
        if self.children is None:
            self.size = scalar_size(self.value) + (8 if self.priority is not None else 0)
        else:
            self.size = 2 + sum(entry_size(key) + child.size for key, child in self.children.items())
        self.size += self._priority_size()

    def _priority_size(self) -> int:
        return 0 if self.priority is None else 13 + scalar_size(self.priority)

    @property
    def is_leaf(self) -> bool:
        return self.children is None

    def ordered(self) -> list[tuple[tuple, str]]:
        """(rank, key) of the children in the order of keys."""
        if self.order is None:
            self.order = sorted((key_rank(key), key) for key in self.children)
        return self.order

    def replace(self, key: str, child: "Node | None", before: int | None):
        """Sets or removes a child; `before` is the size that it had, None if there was none."""
        if before is not None:
            self.size -= entry_size(key) + before
        if child is not None:
            self.size += entry_size(key) + child.size
            self.children[key] = child
        else:
            self.children.pop(key, None)
        if self.order is not None and (before is None) != (child is None):
            place = (key_rank(key), key)
            index = bisect_left(self.order, place)
            if child is not None:
                self.order.insert(index, place)
            else:
                del self.order[index]
        self.digest = None


def entry_size(key: str) -> int:
    return len(key.encode()) + 4


def scalar_size(value) -> int:
    if isinstance(value, str):
        return len(value.encode()) + 2
    return len(json.dumps(value))


def check_scalar(value):
    if not isinstance(value, (str, int, float)):
        raise Invalid("a value is neither a string, nor a number, nor a boolean")
    if isinstance(value, str) and len(value) * 4 > MAX_STRING_BYTES and len(value.encode()) > MAX_STRING_BYTES:
        raise Invalid("a string has more than 10 MB")


def check_priority(value):
    if value is not None and (isinstance(value, bool) or not isinstance(value, (str, int, float))):
        raise Invalid("a priority is neither a string nor a number")


def build(data, level: int = 0) -> Node | None:
    """The node of an export form whose server values are resolved. `level` is the number of keys above it."""
    if data is None:
        return None
    if isinstance(data, list):
        data = {str(index): item for index, item in enumerate(data)}
    if not isinstance(data, dict):
        check_scalar(data)
        return Node(data)
    priority = data.get(PRIORITY)
    check_priority(priority)
    if ".value" in data:
        if set(data) - {".value", PRIORITY}:
            raise Invalid("a node has a value and children")
        if data[".value"] is None:
            return None
        check_scalar(data[".value"])
        return Node(data[".value"], priority)
    children = {}
    for key, item in data.items():
        if key == PRIORITY:
            continue
        check_key(key)
        if level >= MAX_DEPTH:
            raise Invalid(f"the tree has more than {MAX_DEPTH} levels")
        child = build(item, level + 1)
        if child is not None:
            children[key] = child
    return Node(None, priority, children) if children else None


def export(node: Node | None):
    """The export form: priorities included, never arrays."""
    if node is None:
        return None
    if node.children is None:
        return node.value if node.priority is None else {".value": node.value, PRIORITY: node.priority}
    made = {key: export(node.children[key]) for _, key in node.ordered()}
    if node.priority is not None:
        made[PRIORITY] = node.priority
    return made


def plain(node: Node | None):
    """The form of plain reads: without priorities, and with arrays where keys look like those of one."""
    if node is None:
        return None
    if node.children is None:
        return node.value
    return coerce({key: plain(node.children[key]) for _, key in node.ordered()})


def coerce(children: dict):
    """An array if all keys are its indices and more than half of them are taken."""
    if not all(re.fullmatch(r"0|[1-9][0-9]{0,9}", key) for key in children):
        return children
    last = max(int(key) for key in children)
    if last >= 2 * len(children):
        return children
    return [children.get(str(index)) for index in range(last + 1)]


# MARK: Paths

def at(node: Node | None, path) -> Node | None:
    """The node at a path without `.priority`."""
    for key in path:
        if node is None or node.children is None:
            return None
        node = node.children.get(key)
    return node


def assign(node: Node | None, path: tuple[str, ...], new, index: int = 0) -> Node | None:
    """The tree with the value at a path replaced by a node, or by a priority where the path ends with `.priority`.

    Changes nodes in place. A leaf that gets a child keeps its priority, and null below a leaf changes nothing.
    """
    if index == len(path):
        return new
    key = path[index]
    if key == PRIORITY:
        if node is not None:
            node.priority, node.digest = new, None
            node.measure()
        return node
    if node is None or node.children is None:
        child = assign(None, path, new, index + 1)
        if child is None:
            return node
        return Node(None, node.priority if node else None, {key: child})
    old = node.children.get(key)
    before = old.size if old is not None else None
    child = assign(old, path, new, index + 1)
    node.replace(key, child, before)
    return node if node.children else None


# MARK: Server values

def resolve(data, base: Node | None, now: int):
    """Data with its server values resolved; `base` is the node that is now at the same path."""
    if isinstance(data, list):
        data = {str(index): item for index, item in enumerate(data)}
    if not isinstance(data, dict):
        return data
    if ".sv" in data:
        return server_value(data, base.value if base is not None and base.is_leaf else None, now)
    made = {}
    for key, item in data.items():
        if key == PRIORITY:
            made[key] = server_value(item, base.priority if base else None, now)
        elif key == ".value":
            made[key] = server_value(item, base.value if base is not None and base.is_leaf else None, now)
        else:
            made[key] = resolve(item, at(base, (key,)), now)
    return made


def server_value(data, current, now: int):
    """One scalar, which may be a server value; `current` is the scalar there."""
    if not isinstance(data, dict) or ".sv" not in data:
        return data
    what = data[".sv"]
    if what == "timestamp":
        return now
    step = what.get("increment") if isinstance(what, dict) and set(what) == {"increment"} else None
    if isinstance(step, bool) or not isinstance(step, (int, float)) or len(data) > 1:
        raise Invalid(f"unknown server value {str(what)[:40]}")
    if isinstance(current, bool) or not isinstance(current, (int, float)):
        return step
    total = current + step
    if isinstance(total, int) and not -2**63 <= total < 2**63:
        return float(total)
    if total in (float("inf"), float("-inf")):
        raise Invalid("the sum is no number")
    return total
