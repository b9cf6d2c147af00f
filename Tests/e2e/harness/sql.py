"""Looks into schema pathmirror the way an operator would."""

import json

import psycopg


def rows(database_url: str, query: str, *values) -> list[tuple]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        return connection.execute(query, values).fetchall()


def execute(database_url: str, *statements: str):
    """Runs statements in one transaction."""
    with psycopg.connect(database_url) as connection:
        for statement in statements:
            connection.execute(statement)


def autocommit(database_url: str, *statements: str):
    """Runs statements one by one, outside of transactions."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def head(database_url: str, ns: str = "default") -> int:
    """The last sequence number of a namespace."""
    return rows(database_url, "SELECT head FROM pathmirror.namespace WHERE name = %s", ns)[0][0]


def log_entries(database_url: str, ns: str = "default") -> list[tuple[int, dict]]:
    """(seq, changes) of every entry of the log, in order."""
    found = rows(database_url, "SELECT l.seq, l.changes::text FROM pathmirror.log l JOIN pathmirror.namespace n "
                 "ON n.id = l.namespace_id WHERE n.name = %s ORDER BY l.seq", ns)
    return [(seq, json.loads(changes)) for seq, changes in found]


def forget_up_to(database_url: str, last: int, ns: str = "default"):
    """Retention by hand: removes the entries up to `last`."""
    execute(database_url,
            f"DELETE FROM pathmirror.log WHERE seq <= {last} AND namespace_id = "
            f"(SELECT id FROM pathmirror.namespace WHERE name = '{ns}')",
            f"UPDATE pathmirror.namespace SET retained_from = {last + 1} WHERE name = '{ns}'")
