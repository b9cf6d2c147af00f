"""Values in one normal form, and their plain and export forms in answers.

The normal form: leaves are themselves, inner nodes are non-empty dicts, arrays are dicts with index keys, null is None."""

import re

_INDEX = re.compile(r"0|[1-9][0-9]*")


def normal(value):
    """The tree for a JSON value."""
    if isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
    if isinstance(value, dict):
        children = {key: normal(item) for key, item in value.items()}
        return {key: item for key, item in children.items() if item is not None} or None
    return value


def plain(node):
    """The plain form of a tree without priorities: array coercion at every level."""
    if not isinstance(node, dict):
        return node
    children = {key: plain(item) for key, item in node.items()}
    if all(_INDEX.fullmatch(key) for key in children):
        top = max(map(int, children))
        if top < 2 * len(children):
            return [children.get(str(index)) for index in range(top + 1)]
    return children


def without_priorities(node):
    """The plain value of an export form, in normal form."""
    if not isinstance(node, dict):
        return node
    if ".value" in node:
        return node[".value"]
    return normal({key: without_priorities(item) for key, item in node.items() if key != ".priority"})


def assign(node, path: str, value):
    """The tree with the value at a path replaced; parts of the path that are empty are skipped."""
    keys = [key for key in path.split("/") if key]
    value = normal(value)
    if not keys:
        return value
    children = dict(node) if isinstance(node, dict) else {}
    child = assign(children.get(keys[0]), "/".join(keys[1:]), value)
    if child is None:
        if not isinstance(node, dict):
            return node
        children.pop(keys[0], None)
    else:
        children[keys[0]] = child
    return children or None


def lookup(node, path: str):
    """The value at a path, or None."""
    for key in path.split("/"):
        if key:
            node = node.get(key) if isinstance(node, dict) else None
    return node
