"""The order of keys and of values."""

import re

_INTEGER = re.compile(r"-?0*[0-9]{1,10}")


def key_rank(key: str) -> tuple:
    """Integer keys first and numerically, then the others by UTF-16 code unit."""
    if _INTEGER.fullmatch(key) and -2**31 <= int(key) < 2**31:
        return (0, int(key), len(key), b"")
    return (1, 0, 0, key.encode("utf-16-be"))


def value_rank(value) -> tuple:
    """null < false < true < numbers < strings by UTF-16 < objects, which are all equal."""
    if value is None:
        return (0, 0)
    if value is False:
        return (1, 0)
    if value is True:
        return (2, 0)
    if isinstance(value, (int, float)):
        return (3, value)
    if isinstance(value, str):
        return (4, value.encode("utf-16-be"))
    return (5, 0)
