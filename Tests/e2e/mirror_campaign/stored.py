"""The contents of the tables of a database, read in one snapshot, in forms that distinguish values that Python takes for equal."""

import datetime
import functools
import json
import uuid
from decimal import Decimal

import psycopg
from oracle.mirror import Number, Shape, loads
from psycopg.types.json import set_json_loads

_DECIMALS = functools.partial(json.loads, parse_float=Decimal, parse_int=Decimal)


def shown(value):
    """One text for each value: to Python 1, 1.0 and true are equal, and 12.50 is 12.5."""
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    if value is None or isinstance(value, bool):
        return f"<{value}>"
    if isinstance(value, Number):
        return f"#{Decimal(value.text):f}"
    if isinstance(value, (int, Decimal)):
        # In jsonb -0.0 is 0.0, which has a digit more than 0.
        return f"#{Decimal(value):f}" if value else "#0"
    if isinstance(value, float):
        return f"~{value!r}"
    if isinstance(value, datetime.datetime):
        return f"@{value.astimezone(datetime.timezone.utc).isoformat()}"
    return value if isinstance(value, str) else f"{type(value).__name__} {value}"


def cell(value, kind: str):
    """The text of a column's value, for the expected and the stored value."""
    return shown(float(value) if kind == "double precision" and value is not None else value)


def as_json(value, kind: str):
    """The expected result of `to_jsonb` for a cell."""
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat()
        return f"{text.rstrip('0') if '.' in text else text}+00:00"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value) if isinstance(value, uuid.UUID) else cell(value, kind)


class Stored:
    """The table of one mirror, its position in the log, and its errors."""

    def __init__(self, connection, namespace, mirror, generation, definition, seq, begins):
        self.definition, self.seq, self.begins, self.id = definition, seq, begins, (mirror, definition["name"])
        self.name, self.shape = definition["name"], Shape(definition)
        self.keeps = definition.get("keeps") or ("latest" if definition.get("deleted") else None)
        self.keys = [part.strip("{}") for part in self.shape.parts if part.startswith("{")]
        self.table = ".".join(f'"{part}"' for part in definition["table"].split("."))
        self.errors = set(connection.execute(
            "select record, column_name from pathmirror.mirror_error where namespace_id = %s and mirror = %s and generation = %s",
            [namespace, mirror, generation]).fetchall())
        self.misfits = {(json.dumps(key, sort_keys=True), column or "") for key, column in connection.execute(
            "select key::text::json, column_name from pathmirror.mirror_misfit where mirror = %s", [self.name]).fetchall()}
        ours = {None: ["_seq", "_updated_at", "_misfits"], "latest": ["_seq", "_updated_at", "_misfits", "_deleted_at"],
                "changes": ["_seq", "_at", "_operation", "_uid", "_admin", "_via", "_old", "_new", "_misfits"]}[self.keeps]
        self.rows = self._read(connection, self.table, None if self.keeps == "changes" else list(self.shape.types), ours)
        # The rows of the view of versions over a table of changes.
        self.states = self._read(
            connection, self._view(), list(self.shape.types),
            ["_seq", "_valid_from", "_valid_to", "_current", "_deleted", "_uid", "_admin", "_via", "_misfits"]) if self.keeps == "changes" else {}
        self.versions = {(key, at): (is_begin, admin if uid is None and via is None else (uid, admin, via), record)
                         for key, at, is_begin, uid, admin, via, record in connection.execute(
            "select key, seq, is_begin, uid, is_admin, via, record from pathmirror.mirror_version where namespace_id = %s and mirror = %s",
            [namespace, mirror]).fetchall()} if self.keeps else {}

    def _view(self) -> str:
        schema, table = self.definition["table"].split(".")
        return f'"{schema}"."{table.removesuffix("_changes")}_versions"'

    def _read(self, connection, place, columns, ours) -> dict:
        names = [*self.keys, *(columns or []), *ours]
        listed = ", ".join(f'"{name}"' for name in names)
        found = connection.execute(f"select {listed} from {place}").fetchall()
        rows = {}
        for values in found:
            row = dict(zip(names[len(self.keys):], values[len(self.keys):]))
            row["cells"] = {name: cell(row[name], kind) for name, kind in self.shape.types.items()} if columns is not None else None
            key = values[:len(self.keys)]
            rows[(key, row["_seq"]) if self.keeps == "changes" else key] = row
        if len(rows) != len(found):
            raise AssertionError(f"two rows of {place} have the same keys")
        return rows


def read(connection) -> list[Stored]:
    """Reads every mirror whose table is in this database; the transaction is one snapshot."""
    set_json_loads(_DECIMALS, connection)
    if not connection.execute("select to_regclass('pathmirror.mirror_cursor')").fetchone()[0]:
        return []
    return [Stored(connection, namespace, mirror, generation, loads(text), seq, begins)
            for namespace, mirror, generation, text, seq, begins in connection.execute(
            "select namespace_id, mirror, generation, definition::text, seq, begins_at_seq from pathmirror.mirror_cursor").fetchall()]


def snapshot(url: str, work):
    """Runs `work` with a connection that reads one snapshot; returns None if the database does not answer."""
    try:
        with psycopg.connect(url) as connection:
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("set timezone to 'UTC'")
            return [work(connection)]
    except psycopg.OperationalError:
        return None
