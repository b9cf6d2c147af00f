"""The hash of a node (version 1), which is also its ETag."""

import base64
import hashlib
import struct

from .order import key_rank, value_rank


def _leaf(value) -> str:
    if isinstance(value, bool):
        return f"boolean:{'true' if value else 'false'}"
    if isinstance(value, (int, float)):
        return f"number:{struct.pack('>d', value).hex()}"
    return f"string:{value}"


def node_hash(node) -> str:
    """The hash of an export form; the empty string for null."""
    priority = node.get(".priority") if isinstance(node, dict) else None
    text = "" if priority is None else f"priority:{_leaf(priority)}:"
    if isinstance(node, dict) and ".value" in node:
        node = node[".value"]
    if isinstance(node, dict):
        children = [(key, child) for key, child in node.items() if not key.startswith(".")]

        def rank(pair):
            own = pair[1].get(".priority") if isinstance(pair[1], dict) else None
            return (value_rank(own), key_rank(pair[0]))

        hashes = [(key, node_hash(child)) for key, child in sorted(children, key=rank)]
        inner = "".join(f":{key}:{digest}" for key, digest in hashes if digest)
        if not inner:
            return ""
        text += inner
    elif node is None:
        return ""
    else:
        text += _leaf(node)
    return base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()


def etag(node) -> str:
    """The tag of a node, as REST gives it."""
    return node_hash(node) or "null_etag"
