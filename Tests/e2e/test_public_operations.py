"""Situations from public bug reports: exports and imports, and mirrors in SQL.

Each test names its source. docs/reference/compatibility.md has the table."""

import json
import os

import pytest
from harness import cli, sql
from harness.waiting import wait_until


def mirror(name: str, path: str, **columns) -> dict:
    return {"name": name, "path": path, "columns": columns}


# Exports and imports

def test_an_emptied_namespace_is_exported_as_null(serve, database_url, scratch):
    """firebase/firebase-tools#2634: data that was removed must not come back from an older export."""
    rest = serve().rest
    rest.set("", {"a": 1})
    out = scratch / "out.json"
    cli.succeeds("export", "-o", out, "--database-url", database_url)
    assert json.loads(out.read_text()) == {"a": 1}
    rest.delete("")
    cli.succeeds("export", "-o", out, "--database-url", database_url)
    assert json.loads(out.read_text()) is None


def test_an_export_that_fails_leaves_the_last_one(serve, database_url, scratch):
    """firebase/firebase-tools#3504: the older file is replaced only by a whole one."""
    serve().rest.set("", {"a": 1})
    out = scratch / "out.json"
    cli.succeeds("export", "-o", out, "--database-url", database_url)
    before = out.read_bytes()
    sql.execute(database_url, "alter table pathmirror.namespace rename to hidden")
    assert cli.command("export", "-o", out, "--database-url", database_url).returncode != 0
    assert out.read_bytes() == before
    assert [name for name in os.listdir(scratch) if name.startswith("out")] == ["out.json"]


def test_priorities_survive_an_export(serve, database_url, scratch):
    """firebase/firebase-tools#2429: exports of the emulator have priorities."""
    rest = serve().rest
    value = {"a": {".value": 1, ".priority": 2}, "b": {"c": True, ".priority": "high"}}
    rest.set("", value)
    out = scratch / "out.json"
    cli.succeeds("export", "-o", out, "--database-url", database_url)
    rest.delete("")
    cli.succeeds("import", out, "--database-url", database_url)
    wait_until(lambda: rest.value(format="export") == value, "the import to be seen")


def test_an_import_at_the_root(serve, database_url, scratch):
    """FirebaseExtended/firebase-import#45: at `/`, too, a file replaces all."""
    rest = serve().rest
    rest.set("", {"old": 1})
    file = scratch / "export.json"
    file.write_text(json.dumps({f"k{n:05}": {"n": n} for n in range(30_000)}))
    cli.succeeds("import", file, "--path", "/", "--database-url", database_url)
    wait_until(lambda: rest.value("k29999/n") == 29_999, "the import to be seen")
    assert rest.value("old") is None and len(rest.value(shallow="true")) == 30_000


# Mirrors

def test_a_field_with_texts_and_numbers_is_no_number(mirrored, scratch):
    """hasura/graphql-engine#1998: a migration stopped at `expected Text, encountered Number`."""
    for key, value in {"a": "seven", "b": 7, "c": "x", "d": 8.5}.items():
        mirrored.rest.set(f"things/{key}", {"value": value, "name": key})
    file = scratch / "mirrors.json"
    file.write_text(cli.succeeds("mirror", "infer", "/", "--database-url", mirrored.url))
    applied = cli.objects(mirrored.run("apply", file, "--yes", "--json"))
    assert [(plan["name"], plan["rows"], plan["misfits"]) for plan in applied] == [("things", 4, 0)]


def test_records_with_arrays_and_objects(mirrored, scratch):
    """hasura/graphql-engine#1829 and #1891: `invalid data type given for column equipements: object`."""
    data = {f"p{n}": {"name": f"place {n}", "equipments": {"wifi": True, "seats": n}, "solutions": [{"t": 1}, {"t": 2}]} for n in range(5)}
    mirrored.rest.set("places", data)
    file = scratch / "mirrors.json"
    file.write_text(cli.succeeds("mirror", "infer", "/", "--database-url", mirrored.url))
    applied = cli.objects(mirrored.run("apply", file, "--yes", "--json"))
    places = next(plan for plan in applied if plan["name"] == "places")
    assert (places["rows"], places["misfits"]) == (5, 0)
    mirrored.verify()


def test_two_records_exchange_a_unique_value_in_one_write(mirrored):
    """PeerDB-io/peerdb#4169: a unique value that goes over to another record within one transaction."""
    mirrored.rest.set("accounts", {"1": {"email": "alice@example.com"}, "2": {"email": "bob@example.com"}})
    mirrored.apply(mirror("accounts", "/accounts/{id}", email="text"))
    sql.execute(mirrored.url, "create unique index on mirror.accounts (email)")
    assert mirrored.rest.patch("accounts", {"1": None, "3": {"email": "alice@example.com"}}).status == 200
    mirrored.caught_up()
    wanted = [("2", "bob@example.com"), ("3", "alice@example.com")]
    wait_until(lambda: mirrored.rows("select id, email from mirror.accounts order by id") == wanted, "the rows to be right")
    assert cli.objects(mirrored.run("errors", "accounts", "--json")) == []


def test_u0000_in_one_column_spoils_nothing_else(mirrored):
    """medic/cht-core#2426: a message with U+0000 stopped the replication to PostgreSQL."""
    mirrored.apply({**mirror("sms", "/sms/{id}", text="text", sender="text"), "rest": "rest"})
    mirrored.rest.set("sms", {"a": {"text": "x\u0000y", "sender": "+1", "more": "kept"}, "b": {"text": "fine", "sender": "+2"}})
    mirrored.caught_up()
    assert mirrored.rows("select id, text, sender, rest->>'more', 'text' = any(_misfits) from mirror.sms order by id") == [
        ("a", None, "+1", "kept", True), ("b", "fine", "+2", None, None)]


@pytest.mark.parametrize("kind, wanted", [("bigint", 1506428988000), ("numeric", 1506428988000), ("double precision", 1506428988000.0)])
def test_milliseconds_in_a_column(mirrored, kind, wanted):
    """firebase/firebase-ios-sdk#326: times in milliseconds do not fit 32 bits."""
    mirrored.rest.set("events", {"a": {"at": 1506428988000}})
    mirrored.apply(mirror("events", "/events/{id}", at=kind))
    assert mirrored.rows("select at from mirror.events") == [(wanted,)]


def test_whole_doubles_are_integers_in_sql(mirrored):
    """H3LP3RS/HELP#117: `3.0` is stored as 3, and fits a column of integers; 2.5 does not."""
    mirrored.apply(mirror("marks", "/marks/{id}", mark="bigint"))
    mirrored.rest.send("PUT", "/marks.json", b'{"a":{"mark":3.0},"b":{"mark":2.5}}')
    mirrored.caught_up()
    assert mirrored.rows("select id, mark, _misfits from mirror.marks order by id") == [("a", 3, None), ("b", None, ["mark"])]


def test_records_whose_keys_are_numbers(mirrored):
    """firebase/flutterfire#11829: records `1` and `2` read as an array with a hole; in SQL they are rows with those keys."""
    mirrored.rest.set("entries/user", {"2": {"1": {"task": "62"}, "2": {"task": "63"}}})
    mirrored.apply(mirror("entries", "/entries/{user}/{day}/{n}", task="text"))
    assert mirrored.rows('select "user", day, n, task from mirror.entries order by n') == [("user", "2", "1", "62"), ("user", "2", "2", "63")]
