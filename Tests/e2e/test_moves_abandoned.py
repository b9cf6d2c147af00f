"""`--abandon` ends a move whose target is lost for good, and commands about all databases work without one that is away."""

import json

import psycopg
import pytest
from harness import cli, sql
from harness.moves import interrupted, move
from harness.waiting import wait_until

# Locks at which a mover waits: in the target during the copy, and in the primary database once the copy is active.
COPYING = "LOCK TABLE pathmirror.node IN SHARE MODE"
LEFT = "SELECT FROM pathmirror.placement_version FOR UPDATE"


@pytest.fixture
def home(database_url):
    cli.succeeds("migrate", "up", "--database-url", database_url)
    return database_url


@pytest.fixture
def other(postgres, home):
    url = postgres.create_database()
    said(home, "database", "add", "b", url)
    yield url
    postgres.drop_database(url)


def said(home, *words):
    return cli.succeeds(*words, "--database-url", home)


def refused(home, *words):
    done = cli.command(*words, "--database-url", home)
    assert done.returncode == 1, done
    return done.stderr


def abandoned(home, name, *words):
    return json.loads(said(home, "namespace", "move", name, "--abort", "--abandon", "--json", *words))


def written(home, name, *words):
    cli.succeeds("import", "-", "--ns", name, "--database-url", home, *words, stdin=b'{"a":{"b":1}}')


def moves(home):
    return sql.rows(home, "SELECT namespace FROM pathmirror.namespace_move")


def findings(home, check):
    done = cli.command("doctor", "--json", "--database-url", home)
    return [finding for finding in cli.objects(done.stdout) if finding["check"] == check]


def test_a_move_to_a_database_that_is_gone_is_forgotten(home, other, postgres):
    written(home, "m")
    interrupted(other, COPYING, home, "m", "b")
    assert moves(home) == [("m",)]
    text = refused(home, "namespace", "move", "m", "--abort", "--abandon")
    assert "b can be reached: use --abort without --abandon" in text and moves(home) == [("m",)]
    postgres.drop_database(other)
    for words in (("--abort",), ()):
        text = refused(home, "namespace", "move", "m", *words)
        assert "b can't be reached" in text and "'pathmirror namespace move m --abort --abandon'" in text
    (finding,) = findings(home, "placement.moving")
    assert finding["level"] == "warning" and "--abort --abandon" in finding["fix"]
    assert abandoned(home, "m") == {"name": "m", "from": "home", "to": "b", "database": "home", "milliseconds": None, "lost": []}
    assert moves(home) == []
    # All data is present, and the database can be removed, too.
    assert json.loads(cli.succeeds("export", "--ns", "m", "--database-url", home)) == {"a": {"b": 1}}
    written(home, "m", "--path", "/more")
    assert said(home, "database", "rm", "b").startswith("b is forgotten.")
    assert "has no move of m" in refused(home, "namespace", "move", "m", "--abort", "--abandon")


def test_from_a_database_to_another_one(home, other, postgres):
    third = postgres.create_database()
    try:
        said(home, "database", "add", "c", third)
        said(home, "namespace", "create", "m", "--in", "b")
        written(home, "m")
        interrupted(third, COPYING, home, "m", "c")
    finally:
        postgres.drop_database(third)
    assert said(home, "namespace", "move", "m", "--abort", "--abandon") == "m is in b.\n"
    assert json.loads(cli.succeeds("export", "--ns", "m", "--database-url", home)) == {"a": {"b": 1}}


def test_another_database_in_its_place_is_not_the_target(home, other):
    written(home, "m")
    interrupted(other, COPYING, home, "m", "b")
    sql.execute(other, "UPDATE pathmirror.installation SET id = gen_random_uuid()")
    assert abandoned(home, "m")["database"] == "home" and moves(home) == []


def test_a_namespace_that_had_left_is_lost_and_its_name_is_not(home, other, postgres):
    """Only the target had the namespace. The source keeps the rows that it has not removed."""
    third = postgres.create_database()
    try:
        said(home, "database", "add", "c", third)
        said(home, "namespace", "create", "m", "--in", "b")
        written(home, "m")
        (number,) = sql.rows(other, "SELECT id FROM pathmirror.namespace WHERE name = 'm'")[0]
        interrupted(home, LEFT, home, "m", "c")
    finally:
        postgres.drop_database(third)
    done = abandoned(home, "m")
    assert done["database"] is None and f"the number {number} " in done["lost"][0] and "is lost with c" in done["lost"][0]
    assert moves(home) == []
    assert sql.rows(other, f"SELECT count(*) FROM pathmirror.node WHERE namespace_id = {number}") == [(1,)]
    assert said(home, "namespace", "create", "m") == "m is in b.\n"
    assert said(home, "database", "rm", "c").startswith("c is forgotten.")


def test_nobody_abandons_what_somebody_moves(home, other, postgres):
    written(home, "m")
    interrupted(other, COPYING, home, "m", "b")
    postgres.drop_database(other)
    with psycopg.connect(home) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtextextended('m', 7061746864))")
        assert "Another process is moving" in refused(home, "namespace", "move", "m", "--abort", "--abandon")
    assert moves(home) == [("m",)]
    wait_until(lambda: cli.command("namespace", "move", "m", "--abort", "--abandon", "--database-url", home).returncode == 0, "the move to be forgotten")


def test_abandoning_takes_abort(home):
    done = cli.command("namespace", "move", "m", "--abandon", "--database-url", home)
    assert done.returncode == 2 and "--abandon needs --abort" in done.stderr


def test_commands_about_all_databases_go_on_without_one(home, other, postgres):
    third = postgres.create_database()
    try:
        said(home, "database", "add", "c", third)
        for name, database in (("here", "home"), ("away", "b"), ("there", "c")):
            said(home, "namespace", "create", name, "--in", database)
        sql.execute(third, "DELETE FROM pathmirror.function_file")
        postgres.drop_database(other)
        done = cli.command("migrate", "up", "--database-url", home)
        assert done.returncode == 0, done.stderr
        assert "c: migrated" in done.stdout and "warning: b can't be reached, and was not migrated" in done.stderr
        done = cli.command("namespace", "ls", "--json", "--database-url", home)
        assert done.returncode == 0 and "warning: b can't be reached" in done.stderr
        heads = {found["name"]: (found["database"], found["head"]) for found in cli.objects(done.stdout)}
        assert heads == {"here": ("home", 0), "away": ("b", None), "there": ("c", 0)}
        done = cli.command("namespace", "rm", "none", "--leftovers", "--database-url", home)
        assert (done.returncode, done.stdout) == (0, "none has no remaining tables.\n") and "warning: b can't be reached" in done.stderr
        # A command about that database fails.
        assert "Databases that can't be read: b" in refused(home, "namespace", "ls", "--in", "b")
        found = cli.objects(cli.command("doctor", "--json", "--database-url", home).stdout)
        about = [(finding["check"], finding["level"]) for finding in found if finding["database"] == "b"]
        assert about == [("postgresql.reachable", "warning")], about
        assert any(finding["database"] == "c" for finding in found), "the others are looked at"
    finally:
        postgres.drop_database(third)


def test_a_copy_that_comes_back_is_told_of(home, other):
    """If the target was only away, `doctor` names the copy, and the printed command removes it."""
    written(home, "m")
    interrupted(other, COPYING, home, "m", "b")
    # For a moment, the primary database has a wrong address of it.
    sql.execute(home, "UPDATE pathmirror.database SET port = '1'")
    assert abandoned(home, "m")["database"] == "home"
    sql.execute(home, f"UPDATE pathmirror.database SET port = '{other.rsplit(':', 1)[1].split('/')[0]}'")
    (copies,) = findings(home, "placement.copies")
    assert copies["level"] == "warning" and copies["what"].endswith(": m")
    said(home, "namespace", "move", "m", "--to", "b", "--abort")
    assert findings(home, "placement.copies") == []
    assert move(home, "m", "b")["database"] == "b"
