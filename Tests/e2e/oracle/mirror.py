"""The expected contents of a mirror's table, computed from the whole tree by docs/reference/mirrors.md."""

import datetime
import json
import math
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


class Number(float):
    """A number that is no integer of 64 bits: a double. Its JSON is the shortest text that reads as the same double."""

    @property
    def text(self) -> str:
        return repr(float(self))


def _number(text: str):
    """Doubles that are whole and in the range of an integer type count as integers of it."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= 2**53 else Number(value)


def _integer(text: str):
    value = int(text)
    return value if -(2**63) <= value < 2**63 else Number(text)


def loads(text: str):
    """Parses JSON of the log, and keeps numbers as the tree has them."""
    return json.loads(text, parse_float=_number, parse_int=_integer)


def frozen(node) -> str:
    """A text that is equal only for equal values: in Python, true equals 1."""
    return json.dumps(node, sort_keys=True)


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


def _digits(value) -> str:
    return value.text if isinstance(value, Number) else repr(value)


def _moment(text: str) -> datetime.datetime:
    for shape in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M"):
        try:
            return datetime.datetime.strptime(text, shape).replace(tzinfo=_UTC)
        except ValueError:
            continue
    raise ConversionError


def _in_range(milliseconds) -> datetime.datetime:
    if not _FIRST - 1 <= milliseconds <= _LAST + 1:
        raise ConversionError
    micros = milliseconds * 1000 if isinstance(milliseconds, int) else int(math.copysign(math.floor(abs(milliseconds * 1000) + 0.5), milliseconds))
    if not _FIRST <= micros // 1000 <= _LAST:
        raise ConversionError
    return _EPOCH + datetime.timedelta(microseconds=micros)


def _key_set(value) -> list[str]:
    if not isinstance(value, dict):
        raise ConversionError
    members = [(key, split(item)[0]) for key, item in sorted(value.items(), key=lambda item: key_rank(item[0]))]
    if all(isinstance(item, bool) for _, item in members):
        return [key for key, item in members if item]
    texts = {int(key): item for key, item in members
             if re.fullmatch("0|[1-9][0-9]{0,8}", key) and isinstance(item, str) and "\0" not in item}
    if len(texts) < len(members) or max(texts) >= 2 * len(texts):
        raise ConversionError
    return [texts.get(index) for index in range(max(texts) + 1)]


def _storable(node):
    """The rest of an object without the texts that `jsonb` cannot store."""
    value, _ = split(node)
    if isinstance(value, dict):
        left = {key: _storable(item) for key, item in value.items()}
        return {key: item for key, item in left.items() if item is not None} or None
    return None if isinstance(value, str) and "\0" in value else value


def _holds_nul(value) -> bool:
    if isinstance(value, dict):
        return any(_holds_nul(item) for item in value.values())
    if isinstance(value, list):
        return any(_holds_nul(item) for item in value)
    return isinstance(value, str) and "\0" in value


def _cut(node):
    """An object without the texts that `jsonb` cannot store, as psycopg reads it; None for a single value, and if nothing remains."""
    if not isinstance(split(node)[0], dict):
        return None
    left = _storable(node)
    return None if left is None else plain(without_priorities(left))


def convert(node, kind: str):
    """The value as psycopg reads it from a column; None if there is none."""
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
        return {True: "true", False: "false"}[value] if isinstance(value, bool) else _digits(value)
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "bigint" and _is_number(value) and value == value // 1 and -(2**63) <= value < 2**63:
        return int(value)
    if kind == "double precision" and _is_number(value):
        return float(value)
    if kind == "numeric" and (_is_number(value) or text and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value)):
        return Decimal(value if text else _digits(value))
    if kind == "timestamptz" and (_is_number(value) or text):
        return _moment(value) if text else _in_range(value)
    if kind == "date" and (_is_number(value) or text):
        return (_moment(value) if text else _in_range(value)).date()
    if kind == "uuid" and text and re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        return uuid.UUID(value)
    raise ConversionError


def records(node, parts: list[str], keys: tuple = ()):
    """(captured keys, path, record) of all matches of a pattern."""
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


# Filters and their meaning, without the rules language. A comparison of a value that is no number with a number is false.
FILTERS = {
    "data.child('a').exists()": lambda record, keys: _at(record, "a") is not None,
    "data.hasChildren()": lambda record, keys: isinstance(split(record)[0], dict),
    "$k != 'a'": lambda record, keys: keys[-1] != "a",
    "data.child('b').val() > 3": lambda record, keys: _is_number(split(_at(record, "b"))[0]) and split(_at(record, "b"))[0] > 3,
    "data.child('a').isString() || data.getPriority() != null": lambda record, keys: (
        isinstance(split(_at(record, "a"))[0], str) or split(record)[1] is not None),
}


class Shape:
    """A definition, prepared to convert records to rows."""

    def __init__(self, definition: dict):
        self.definition = definition
        self.parts = definition["path"].strip("/").split("/")
        captures = [part.strip("{}") for part in self.parts if part.startswith("{")]
        self.kinds = [_named(definition.get("keys", {}).get(name, "text"))["type"] for name in captures]
        rest = definition.get("rest")
        self.rest = rest["column"] if isinstance(rest, dict) else rest
        self.columns = {name: _named(column) for name, column in definition.get("columns", {}).items()}
        self.types = {**{name: column["type"] for name, column in self.columns.items()}, **({self.rest: "jsonb"} if self.rest else {})}

    def path(self, keys) -> str:
        captured = iter(keys)
        return "".join(f"/{next(captured) if part.startswith('{') else part}" for part in self.parts)

    def holds(self, keys) -> bool:
        readers = {"bigint": _is_bigint, "date": _is_date}
        return all(readers[kind](key) for kind, key in zip(self.kinds, keys) if kind in readers)

    def stored(self, keys) -> tuple:
        """The keys as psycopg reads them."""
        readers = {"bigint": int, "date": datetime.date.fromisoformat}
        return tuple(readers.get(kind, str)(key) for kind, key in zip(self.kinds, keys))

    def row(self, keys, record) -> "Made":
        """The row, errors and cells for a record."""
        made = Made()
        if record is None or "filter" in self.definition and not FILTERS[self.definition["filter"]](record, keys):
            return made
        path = self.path(keys)
        if not self.holds(keys):
            made.errors.add((path, ""))
            return made
        wanted, left = True, record
        for name, column in self.columns.items():
            place = column.get("path", name)
            value = _at(record, place)
            source, cell = value, None
            try:
                cell = convert(value, column["type"])
                left = _without(left, place)
            except ConversionError:
                made.misfits.append(name)
                made.errors.add((path, name))
                if column["type"] == "jsonb":
                    cell = _cut(value)
                if cell is not None:
                    left = _without(left, place)
            policy = column.get("not null")
            if value is None or name in made.misfits and cell is None and policy:
                if column.get("default") is not None:
                    source = column["default"]
                    cell = convert(source, column["type"])
                elif policy:
                    wanted = False
                    if policy == "error":
                        made.errors.add((path, name))
            made.cells[name] = cell
            made.exact.append(_exact(source, cell, column["type"]))
        if self.rest:
            made.cells[self.rest] = None
            try:
                made.cells[self.rest] = convert(left, "jsonb")
            except ConversionError:
                made.cells[self.rest] = _cut(left)
                made.misfits.append(self.rest)
                made.errors.add((path, self.rest))
            made.exact.append(_exact(left, made.cells[self.rest], "jsonb"))
        made.is_row = wanted
        return made


class Made:
    """The row of a record, if it has one, and its conversion errors."""

    def __init__(self):
        self.cells, self.misfits, self.errors, self.exact, self.is_row = {}, [], set(), [], False

    def same(self, other: "Made") -> bool:
        """Whether a history takes both for the same row: all digits and bytes count."""
        if not self.is_row or not other.is_row:
            return self.is_row == other.is_row
        return self.exact == other.exact and self.misfits == other.misfits


def _exact(source, cell, kind: str):
    """The parts of a cell that distinguish values that PostgreSQL takes for equal."""
    if cell is None or kind not in ("numeric", "jsonb"):
        return None if cell is None else (type(cell).__name__, cell)
    if kind == "jsonb":
        return json.dumps(cell, sort_keys=True)
    value = split(source)[0]
    return value if isinstance(value, str) else _digits(value)


def project(definition: dict, tree) -> tuple[dict, set]:
    """Rows by their keys (values of columns and the set of conversion errors), and errors as (path of the record, column)."""
    shape = Shape(definition)
    rows, errors = {}, set()
    for keys, record in records(tree, shape.parts):
        made = shape.row(keys, record)
        errors |= made.errors
        if made.is_row:
            rows[shape.stored(keys)] = (made.cells, set(made.misfits))
    return rows, errors


def _named(column) -> dict:
    return column if isinstance(column, dict) else {"type": column}


def _is_bigint(key: str) -> bool:
    return bool(re.fullmatch(r"0|-?[1-9][0-9]*", key)) and -(2**63) <= int(key) < 2**63


def _is_date(key: str) -> bool:
    try:
        return bool(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", key)) and datetime.date.fromisoformat(key) is not None
    except ValueError:
        return False
