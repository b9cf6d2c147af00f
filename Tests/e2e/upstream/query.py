"""The windows of queries: which children of a node a query shows."""

from bisect import bisect_left, bisect_right

from .tree import PRIORITY, Invalid, Node, at, key_rank, split_path

LOWEST, HIGHEST = (-1,), (9,)
_SENTINELS = {"[MIN_NAME]": LOWEST, "[MIN_KEY]": LOWEST, "[MAX_NAME]": HIGHEST, "[MAX_KEY]": HIGHEST}


def bound_rank(key) -> tuple:
    """The rank of a key in a bound, which may be longer than keys are, or a sentinel."""
    if not isinstance(key, str):
        raise Invalid("the key of a bound is no string")
    return _SENTINELS.get(key) or key_rank(key)


def value_rank(value) -> tuple:
    """The rank of a leaf's value; inner nodes are all equal, above."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, (int, float)):
        return (2, value)
    return (3, value.encode("utf-16-be")) if isinstance(value, str) else (4,)


def _index_rank(index: str, child: Node) -> tuple:
    if index == PRIORITY:
        return value_rank(child.priority)
    target = child if index == ".value" else at(child, split_path(index))
    if target is None:
        return (0,)
    return value_rank(target.value) if target.is_leaf else (4,)


def window(node: Node | None, query: dict) -> list[str]:
    """The keys that a query shows, in its order."""
    if not isinstance(query, dict):
        raise Invalid("a query is no object")
    if node is None or node.children is None:
        return []
    index = query.get("i", PRIORITY)
    starts, ends = "sp" in query, "ep" in query
    after, before = not query.get("sin", True), not query.get("ein", True)
    if index == ".key":
        order, low, high = node.ordered(), 0, len(node.children)
        if starts:
            rank = bound_rank(query["sp"])
            low = (bisect_right if after else bisect_left)(order, rank, key=lambda entry: entry[0])
        if ends:
            rank = bound_rank(query["ep"])
            high = (bisect_left if before else bisect_right)(order, rank, key=lambda entry: entry[0])
        keys = [key for _, key in order[low:max(low, high)]]
    else:
        placed = sorted((_index_rank(index, child), key_rank(key), key) for key, child in node.children.items())
        if starts:
            first = (value_rank(query["sp"]), bound_rank(query["sn"]) if "sn" in query else (HIGHEST if after else LOWEST))
            placed = [entry for entry in placed if (entry[:2] > first if after else entry[:2] >= first)]
        if ends:
            last = (value_rank(query["ep"]), bound_rank(query["en"]) if "en" in query else (LOWEST if before else HIGHEST))
            placed = [entry for entry in placed if (entry[:2] < last if before else entry[:2] <= last)]
        keys = [key for _, _, key in placed]
    limit = query.get("l")
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise Invalid("a limit is no positive integer")
        side = query.get("vf", "l" if starts else "r")
        keys = keys[:limit] if side == "l" else keys[-limit:]
    return keys


def filtered(node: Node | None, query: dict) -> Node | None:
    """The node with those children only that a query shows; it shares them. Its own priority is not part of the view."""
    keys = window(node, query)
    return Node(None, None, {key: node.children[key] for key in keys}) if keys else None
