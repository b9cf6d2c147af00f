"""Values in export form: assignments, children, and one normal form for comparing."""


def split(node) -> tuple[object, object]:
    """(value or children, priority) of an export form; children is a dict without `.priority`."""
    if isinstance(node, list):
        node = {str(index): item for index, item in enumerate(node)}
    if not isinstance(node, dict):
        return node, None
    priority = node.get(".priority")
    if ".value" in node:
        return node[".value"], priority
    children = {key: normal(item) for key, item in node.items() if key != ".priority"}
    children = {key: item for key, item in children.items() if item is not None}
    return (children, priority) if children else (None, None)


def join(value, priority):
    if value is None or priority is None:
        return value
    return {**value, ".priority": priority} if isinstance(value, dict) else {".value": value, ".priority": priority}


def normal(node):
    """The same value without empty parts and needless wrappers."""
    return join(*split(node))


def child(node, key: str):
    value, _ = split(node)
    return value.get(key) if isinstance(value, dict) else None


def at(node, path: str):
    """The value at a path; its last part may be `.priority`."""
    for key in path.split("/"):
        if key:
            node = split(node)[1] if key == ".priority" else child(node, key)
    return node


def assign(node, keys: list[str], value):
    """The tree with the value at a path replaced. A leaf keeps its priority when a child is written below it."""
    if not keys:
        return normal(value)
    own, priority = split(node)
    if keys[0] == ".priority":
        return join(own, value)
    inner = assign(child(node, keys[0]), keys[1:], value)
    if inner is None and not isinstance(own, dict):
        return join(own, priority)
    children = dict(own) if isinstance(own, dict) else {}
    children.pop(keys[0], None)
    if inner is not None:
        children[keys[0]] = inner
    return join(children or None, priority)


def without_own_priority(node):
    return split(node)[0]
