"""Equality of trees that distinguishes what Python does not."""

import struct


def exact(value):
    """A form in which values are equal only if they are the same; integers up to 2^53 may also be doubles."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return ("number", struct.pack(">d", value), value if isinstance(value, int) and abs(value) > 2**53 else None)
    return (type(value).__name__, value)
