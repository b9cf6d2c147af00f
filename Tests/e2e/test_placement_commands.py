"""Output of commands about namespaces and databases: their placement, and the next steps."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import cli, sql
from harness.moves import held, interrupted, move
from harness.waiting import wait_until
from psycopg.conninfo import make_conninfo

LOCK = "lock table pathmirror.placement in share row exclusive mode"


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


def refused(home, *words, code=1):
    done = cli.command(*words, "--database-url", home)
    assert done.returncode == code, done
    return done.stderr


def test_a_database_is_forgotten_once_it_is_empty(home, other):
    said(home, "namespace", "create", "shop", "--in", "b")
    text = refused(home, "database", "rm", "b")
    assert "b has namespaces" in text and "(shop)" in text and "database drain b --move" in text
    said(home, "database", "drain", "b", "--move")
    assert said(home, "database", "rm", "b").startswith("b is forgotten.")
    assert [json.loads(line)["name"] for line in said(home, "database", "ls", "--json").splitlines()] == ["home"]
    assert "There is no database" in refused(home, "database", "rm", "b")
    assert "The primary database can't be removed" in refused(home, "database", "rm", "home")
    # The removal changed nothing in the database: it can be added again.
    said(home, "database", "add", "b", other)
    assert json.loads(said(home, "database", "drain", "b", "--json")) == {"name": "b", "state": "draining"}
    assert json.loads(said(home, "database", "drain", "b", "--undo", "--json")) == {"name": "b", "state": "open"}
    assert json.loads(said(home, "database", "rm", "b", "--json")) == {"name": "b", "removed": True}


def test_where_all_are_draining_nothing_is_drained(home, other, postgres):
    third = postgres.create_database()
    said(home, "database", "add", "c", third)
    said(home, "database", "drain", "c")
    assert "c accepts no new namespaces either" in refused(home, "database", "drain", "b", "--move", "--to", "c")
    states = {line["name"]: line["state"] for line in map(json.loads, said(home, "database", "ls", "--json").splitlines())}
    assert states == {"home": "open", "b": "open", "c": "draining"}


@pytest.mark.parametrize("words", [("database", "drain", "b"), ("namespace", "rm", "shop", "--confirm", "shop"), ("namespace", "create", "new", "--in", "b")])
def test_gateways_role_is_told_who_may(home, other, words):
    said(home, "namespace", "create", "shop", "--in", "b")
    role = f"gateway_{uuid.uuid4().hex[:12]}"
    sql.execute(home, f"CREATE ROLE {role} LOGIN")
    try:
        sql.execute(home, f"GRANT pathmirror_gateway TO {role}")
        done = cli.command(*words, "--database-url", make_conninfo(home, user=role))
        assert done.returncode == 1 and "a right that the owner of schema pathmirror has" in done.stderr
        assert "pathmirror: permission denied" in done.stderr and "SQLSTATE" not in done.stderr
    finally:
        sql.execute(home, f"DROP ROLE {role}")


def test_creating_again_changes_nothing_and_says_what_it_did(home, other):
    assert said(home, "namespace", "create", "shop", "--in", "b") == "shop is in b.\n"
    for where in (["--in", "b"], []):
        assert said(home, "namespace", "create", "shop", *where) == "shop is in b already.\n"
    # A namespace without a placement.
    cli.succeeds("namespace", "create", "old", "--database-url", other)
    assert said(home, "namespace", "create", "old", "--in", "b") == "old was in b already, and is served from there from now on.\n"


def test_a_namespace_that_is_elsewhere_is_said_to_be(home, other):
    said(home, "namespace", "create", "shop")
    for words in (["mirror", "ls"], ["feed", "ls"], ["log", "ls"], ["retention", "ls"]):
        text = refused(home, *words, "--ns", "shop", "--in", "b")
        assert "Did you mean" not in text and "'pathmirror namespace show shop' shows its database" in text, words
    assert "Did you mean \"shop\"?" in refused(home, "log", "ls", "--ns", "shpo")


def test_a_home_that_went_back_does_not_have_one_made_anew(home, other):
    said(home, "namespace", "create", "shop", "--in", "b")
    move(home, "shop", "home")
    sql.execute(home, "update pathmirror.placement set database = 'b' where namespace = 'shop'")
    text = refused(home, "namespace", "show", "shop")
    assert "has moved from b to home" in text and "namespace create" not in text


def test_between_two_databases(home, other):
    said(home, "namespace", "create", "shop", "--in", "b")
    interrupted(home, LOCK, home, "shop", "home")
    assert sql.rows(other, "select 1 from pathmirror.namespace where name = 'shop'") == []
    assert "'pathmirror namespace move shop' completes the move" in refused(home, "namespace", "show", "shop")
    found = [json.loads(line) for line in cli.command("doctor", "--json", "--database-url", home).stdout.splitlines()]
    (moving,) = [finding for finding in found if finding.get("check") == "placement.moving"]
    assert moving["level"] == "problem" and "has left b and is not registered in home yet" in moving["what"]
    said(home, "namespace", "move", "shop")
    assert "in home" in said(home, "namespace", "show", "shop")


def test_doctor_looks_at_the_file_of_logins(home, other, scratch):
    file = scratch / "logins"
    file.write_text("# none\n")
    for mode, expected in ((0o644, "warning"), (0o600, None)):
        file.chmod(mode)
        said = cli.command("doctor", "--json", "--database-url", home, "--database-credentials", file).stdout
        levels = [found["level"] for found in map(json.loads, said.splitlines()) if found.get("check") == "settings.secrets"]
        assert levels == ([expected] if expected else [])


def test_a_name_that_comes_back_is_not_mixed_up(home, other, postgres, serve):
    """A running gateway keeps the database that it knows for a name."""
    said(home, "namespace", "create", "shop", "--in", "b")
    gateway = serve("--ns", "default", "--create-namespaces")
    rest = gateway.rest.at(ns="shop")
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served")
    rest.set("x", "in the first")
    said(home, "database", "drain", "b", "--move")
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served by the primary database")
    said(home, "database", "rm", "b")
    third = postgres.create_database()
    said(home, "database", "add", "b", third)
    said(home, "namespace", "create", "new", "--in", "b")
    wait_until(lambda: gateway.rest.at(ns="new").get("x").status == 503, "namespaces of the new database to be refused")
    # The same database cannot be added twice under two names.
    said(home, "database", "add", "c", other)
    said(home, "namespace", "create", "third", "--in", "c")
    wait_until(lambda: gateway.rest.at(ns="third").get("x").status == 503, "namespaces of the renamed database to be refused")
    assert rest.value("x") == "in the first"
    again = serve("--ns", "default", "--create-namespaces", name="again")
    for name in ("new", "third", "shop"):
        wait_until(lambda name=name: again.rest.at(ns=name).get("x").status == 200, f"{name} to be served")


def test_a_move_that_begins_meanwhile_keeps_its_target(home, other):
    said(home, "namespace", "create", "shop")
    with held(home, "select from pathmirror.database where name = 'b' for share",
              "insert into pathmirror.namespace_move (namespace, id, source, target, source_id, stream_key) "
              "values ('shop', gen_random_uuid(), 'home', 'b', 1, gen_random_uuid())") as begun:
        with ThreadPoolExecutor(1) as threads:
            removing = threads.submit(refused, home, "database", "rm", "b")
            wait_until(lambda: sql.rows(home, "select 1 from pg_stat_activity where wait_event_type = 'Lock' and "
                                        "datname = current_database()"), "the command to wait")
            begun.commit()
            assert "b has namespaces" in removing.result(60)
