"""What a mirror's table should hold, worked out from the whole tree by the words of docs/mirror-reference.md."""

import datetime
import re
import uuid
from decimal import Decimal

from .export import assign, split
from .order import key_rank
from .tree import plain, without_priorities

_UTC = datetime.timezone.utc
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=_UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999


class ConversionError(Exception):
    """The value does not fit the column."""


def _at(node, path: str):
    """The value at a column's path, in export form."""
    for key in [] if path == "." else path.split("/"):
        value, priority = split(node)
        node = priority if key == ".priority" else (value.get(key) if isinstance(value, dict) else None)
    return node


def _without(node, path: str):
    return assign(node, [] if path == "." else path.split("/"), None)


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _moment(text: str) -> datetime.datetime:
    for shape in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M"):
        try:
            return datetime.datetime.strptime(text, shape).replace(tzinfo=_UTC)
        except ValueError:
            continue
    raise ConversionError


def _in_range(milliseconds) -> datetime.datetime:
    if not _FIRST <= milliseconds <= _LAST:
        raise ConversionError
    return _EPOCH + datetime.timedelta(microseconds=round(milliseconds * 1000))


def _key_set(value) -> list[str]:
    if not isinstance(value, dict):
        raise ConversionError
    members = [(key, split(item)[0]) for key, item in sorted(value.items(), key=lambda item: key_rank(item[0]))]
    if all(isinstance(item, bool) for _, item in members):
        return [key for key, item in members if item]
    if all(key == str(index) and isinstance(item, str) and "\0" not in item for index, (key, item) in enumerate(members)):
        return [item for _, item in members]
    raise ConversionError


def _holds_nul(value) -> bool:
    if isinstance(value, dict):
        return any(_holds_nul(item) for item in value.values())
    if isinstance(value, list):
        return any(_holds_nul(item) for item in value)
    return isinstance(value, str) and "\0" in value


def convert(node, kind: str):
    """The value as psycopg reads it from a column; None for nothing."""
    value = split(node)[0]
    if value is None:
        return None
    if kind == "jsonb":
        shown = plain(without_priorities(node))
        if _holds_nul(shown):
            raise ConversionError
        return shown
    if kind == "text[]":
        return _key_set(value)
    if isinstance(value, dict):
        raise ConversionError
    text = isinstance(value, str)
    if kind == "text":
        if text:
            if "\0" in value:
                raise ConversionError
            return value
        return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "bigint" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind == "double precision" and _is_number(value):
        return float(value)
    if kind == "numeric" and (_is_number(value) or text and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value)):
        return Decimal(str(value))
    if kind == "timestamptz" and (_is_number(value) or text):
        return _moment(value) if text else _in_range(value)
    if kind == "date" and (_is_number(value) or text):
        return (_moment(value) if text else _in_range(value)).date()
    if kind == "uuid" and text and re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        return uuid.UUID(value)
    raise ConversionError


def records(node, parts: list[str], keys: tuple = ()):
    """(captured keys, path, record) of all that a pattern finds."""
    if not parts:
        yield keys, node
        return
    value, _ = split(node)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if parts[0].startswith("{"):
            yield from records(item, parts[1:], (*keys, key))
        elif parts[0] == key:
            yield from records(item, parts[1:], keys)


# Filters and what they mean, said without the rules language. What is no number can't be compared with one, and says no.
FILTERS = {
    "data.child('a').exists()": lambda record, keys: _at(record, "a") is not None,
    "data.hasChildren()": lambda record, keys: isinstance(split(record)[0], dict),
    "$k != 'a'": lambda record, keys: keys[-1] != "a",
    "data.child('b').val() > 3": lambda record, keys: _is_number(split(_at(record, "b"))[0]) and split(_at(record, "b"))[0] > 3,
}


def project(definition: dict, tree) -> tuple[dict, set]:
    """Rows by their keys (columns' values and the set of misfits), and errors as (record's path, column)."""
    parts = definition["path"].strip("/").split("/")
    captures = [part.strip("{}") for part in parts if part.startswith("{")]
    kinds = [_named(definition.get("keys", {}).get(name, "text"))["type"] for name in captures]
    rest = definition.get("rest")
    rest = rest["column"] if isinstance(rest, dict) else rest
    rows, errors = {}, set()
    for keys, record in records(tree, parts):
        if "filter" in definition and not FILTERS[definition["filter"]](record, keys):
            continue
        captured = iter(keys)
        path = "".join(f"/{next(captured) if part.startswith('{') else part}" for part in parts)
        if any(kind == "bigint" and not _is_bigint(key) for kind, key in zip(kinds, keys)):
            errors.add((path, ""))
            continue
        row, misfits, wanted, left = {}, set(), True, record
        for name, column in definition.get("columns", {}).items():
            column = _named(column)
            place = column.get("path", name)
            value = _at(record, place)
            cell = None
            try:
                cell = convert(value, column["type"])
                left = _without(left, place)
            except ConversionError:
                misfits.add(name)
                errors.add((path, name))
            policy = column.get("not null")
            if value is None or name in misfits and policy:
                if column.get("default") is not None:
                    cell = convert(column["default"], column["type"])
                elif policy:
                    wanted = False
                    if policy == "error":
                        errors.add((path, name))
            row[name] = cell
        if rest:
            try:
                row[rest] = convert(left, "jsonb")
            except ConversionError:
                row[rest] = None
                misfits.add(rest)
                errors.add((path, rest))
        if wanted:
            keys = tuple(int(key) if kind == "bigint" else key for kind, key in zip(kinds, keys))
            rows[keys] = (row, misfits)
    return rows, errors


def _named(column) -> dict:
    return column if isinstance(column, dict) else {"type": column}


def _is_bigint(key: str) -> bool:
    return bool(re.fullmatch(r"0|-?[1-9][0-9]*", key)) and -(2**63) <= int(key) < 2**63
