"""The roles of docs/guides/roles.md, and a database from `pg_restore`: errors name the missing right, with the statement that grants it."""

import json
import re
import subprocess
import uuid

import pytest
from harness import cli, sql
from harness.cluster import postgres_bin
from harness.mirrored import POSTS
from psycopg.conninfo import make_conninfo

GROUPS = ("pathmirror_reader", "pathmirror_writer", "pathmirror_gateway")


@pytest.fixture
def roles(postgres, database_url):
    """An owner and a role for gateways, by the documentation; CREATE on the database is not granted yet."""
    name = uuid.uuid4().hex[:12]
    owner, gateways = f"owner_{name}", f"gateways_{name}"
    for group in GROUPS:
        sql.execute(database_url, f"DO $$ BEGIN CREATE ROLE {group} NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$")
    sql.execute(database_url, f"CREATE ROLE {owner} LOGIN", f"CREATE ROLE {gateways} LOGIN IN ROLE pathmirror_gateway",
                f"CREATE SCHEMA pathmirror AUTHORIZATION {owner}")
    restored = postgres.create_database()
    yield owner, gateways, restored
    for url in (restored, database_url):
        sql.execute(url, f"DROP OWNED BY {owner}, {gateways} CASCADE")
    postgres.drop_database(restored)
    sql.execute(database_url, f"DROP ROLE {owner}, {gateways}")


def refusal(*words) -> str:
    finished = cli.command(*words)
    assert finished.returncode == 1, finished
    assert "owner of schema pathmirror" not in finished.stderr and "SQLSTATE" not in finished.stderr, finished.stderr
    return finished.stderr


def grants(text: str, url: str) -> str:
    """Executes the statement that a message names."""
    (statement,) = re.findall(r"grant create(?:, usage)? on (?:database|schema) \S+ to \w+", text)
    sql.execute(url, statement)
    return statement


def rights(url: str) -> dict | None:
    found = cli.objects(cli.command("doctor", "--json", "--database-url", url).stdout)
    return next((finding for finding in found if finding["check"] == "rights.create"), None)


def written(scratch, *definitions):
    file = scratch / "mirrors.json"
    file.write_text(json.dumps(definitions))
    return file


def migrated(roles, url):
    """Migrates as the owner, which needs no right on the database because the schema exists, and writes as the gateways' role."""
    owner, gateways, _ = roles
    cli.succeeds("migrate", "up", "--database-url", make_conninfo(url, user=owner))
    as_gateways = make_conninfo(url, user=gateways)
    cli.succeeds("import", "-", "--database-url", as_gateways, stdin=b'{"posts":{"p":{"author":"a","title":"t"}}}')
    return as_gateways


def test_the_roles_of_the_documentation(roles, database_url, scratch):
    as_gateways = migrated(roles, database_url)
    file = written(scratch, POSTS)
    text = refusal("mirror", "apply", file, "--yes", "--database-url", as_gateways)
    assert f"the role {roles[1]} lacks the privilege CREATE on the database" in text
    assert rights(as_gateways)["fix"].endswith(grants(text, database_url))
    cli.succeeds("mirror", "apply", file, "--yes", "--database-url", as_gateways)
    assert sql.rows(database_url, "SELECT author FROM mirror.posts") == [("a",)]
    assert rights(as_gateways) is None


def test_a_database_that_was_restored(roles, database_url, scratch):
    """A restored database lacks the grants on the database that was dumped."""
    owner, gateways, restored = roles
    as_gateways = migrated(roles, database_url)
    sql.execute(database_url, f'GRANT CREATE ON DATABASE "{database_url.rpartition("/")[2]}" TO {gateways}')
    cli.succeeds("mirror", "apply", written(scratch, POSTS), "--yes", "--database-url", as_gateways)
    dump = scratch / "dump"
    subprocess.run([postgres_bin() / "pg_dump", "-Fc", "-f", dump, database_url], check=True, capture_output=True)
    subprocess.run([postgres_bin() / "pg_restore", "-d", restored, dump], check=True, capture_output=True)
    as_gateways = make_conninfo(restored, user=gateways)
    # The schemas exist: no right on the database is needed.
    cli.succeeds("migrate", "up", "--database-url", make_conninfo(restored, user=owner))
    cli.succeeds("replay", "mirror", "posts", "--database-url", as_gateways)
    assert sql.rows(restored, "SELECT author FROM mirror.posts") == [("a",)]
    assert rights(as_gateways)["level"] == "note"
    file = written(scratch, {**POSTS, "name": "others", "table": "reports.others"})
    grants(refusal("mirror", "apply", file, "--yes", "--database-url", as_gateways), restored)
    cli.succeeds("mirror", "apply", file, "--yes", "--database-url", as_gateways)
    # A schema of another owner.
    sql.execute(restored, "CREATE SCHEMA theirs")
    file = written(scratch, {**POSTS, "name": "more", "table": "theirs.more"})
    text = refusal("mirror", "apply", file, "--yes", "--database-url", as_gateways)
    assert grants(text, restored).startswith("grant create, usage on schema theirs to")
    cli.succeeds("mirror", "apply", file, "--yes", "--database-url", as_gateways)


def test_who_migrates_and_does_not_own_the_schema_is_told_who_does(roles, database_url):
    owner, gateways, restored = roles
    cli.succeeds("migrate", "up", "--database-url", make_conninfo(database_url, user=owner))
    text = refusal("migrate", "up", "--database-url", make_conninfo(database_url, user=gateways))
    assert f"the role {gateways} does not own the schema pathmirror, which belongs to {owner}" in text
    text = refusal("migrate", "up", "--database-url", make_conninfo(restored, user=owner))
    assert f"the role {owner} lacks the privilege CREATE on the database" in text
    grants(text, restored)
    cli.succeeds("migrate", "up", "--database-url", make_conninfo(restored, user=owner))
