"""The children that a query selects: sort all, cut at the bounds, take the limit."""

from .order import key_rank, value_rank
from .tree import lookup, without_priorities

_BELOW, _ABOVE = (-1,), (9,)


def index_of(order_by: str, child) -> object:
    """The value that a child (export form) is ordered by."""
    if order_by == "$priority":
        return child.get(".priority") if isinstance(child, dict) else None
    value = without_priorities(child)
    return value if order_by == "$value" else lookup(value, order_by)


def select(node, orderBy: str, limitToFirst=None, limitToLast=None, **bounds) -> dict | None:
    """The selected children in order, as a dict; None when there are none. A bound is a value, or a (value, key) pair."""
    if "equalTo" in bounds:
        equal = bounds.pop("equalTo")
        bounds = {"startAt": equal, "endAt": equal}
    by_key = orderBy == "$key"

    def position(key, child):
        return (key_rank(key),) if by_key else (value_rank(index_of(orderBy, child)), key_rank(key))

    def bound(value, open_end):
        if by_key:
            return (key_rank(value),)
        value, key = value if isinstance(value, tuple) else (value, None)
        return (value_rank(value), open_end if key is None else key_rank(key))

    children = [(key, child) for key, child in (node if isinstance(node, dict) else {}).items() if not key.startswith(".")]
    children.sort(key=lambda pair: position(*pair))
    if "startAt" in bounds:
        low = bound(bounds["startAt"], _BELOW)
        children = [pair for pair in children if position(*pair) >= low]
    if "startAfter" in bounds:
        low = bound(bounds["startAfter"], _ABOVE)
        children = [pair for pair in children if position(*pair) > low]
    if "endAt" in bounds:
        high = bound(bounds["endAt"], _ABOVE)
        children = [pair for pair in children if position(*pair) <= high]
    if "endBefore" in bounds:
        high = bound(bounds["endBefore"], _BELOW)
        children = [pair for pair in children if position(*pair) < high]
    if limitToFirst is not None:
        children = children[:limitToFirst]
    if limitToLast is not None:
        children = children[-limitToLast:]
    return dict(children) or None
