"""docs/guides/dashboards.md: its SQL runs, for the role that it makes."""

import json
import re

import psycopg
import pytest
from harness import sql
from harness.binary import REPOSITORY

PAGE = (REPOSITORY / "docs" / "guides" / "dashboards.md").read_text()
BLOCKS = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
POSTS = {
    "a": {"author": "ada", "text": "On engines", "starCount": 2, "stars": {"bob": True, "cyd": True}},
    "b": {"author": "bob", "text": "Notes", "starCount": 1, "stars": {"ada": True}},
}


def plain(query: str) -> str:
    """A query as Grafana sends it."""
    query = query.replace("$__timeFrom()", "(now() - interval '1 hour')::text").replace("$__timeTo()", "now()::text")
    query = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 between now() - interval '1 hour' and now()", query)
    return re.sub(r"\$__timeGroup\((\w+), '5m'\)", r"date_bin('5 minutes', \1, timestamptz '2000-01-01')", query)


@pytest.fixture
def reader(mirrored):
    """What the page's role gets of each query, by a word in it."""
    for key, post in POSTS.items():
        mirrored.rest.send("PUT", f"/posts/{key}.json", json.dumps(post).encode())
    mirrored.run("apply", REPOSITORY / "examples" / "dbt" / "mirrors.json", "--yes")
    mirrored.caught_up()
    made = [block for block in BLOCKS if block.startswith("create")]
    assert len(made) == 2
    sql.execute(mirrored.url, *made)
    try:
        with psycopg.connect(mirrored.url, user="reports", autocommit=True) as connection:
            def ask(word: str) -> list[tuple]:
                query, = [block for block in BLOCKS if word in block and block not in made]
                return connection.execute(plain(query)).fetchall()
            ask.connection = connection
            yield ask
    finally:
        sql.execute(mirrored.url, "drop schema report cascade", "drop role reports")


def test_every_query_gives_what_the_page_says(reader):
    assert [row[:3] for row in reader("mirror_status")] == [(name, "running", 0) for name in ("all_posts", "post_stars", "posts", "posts_changes")]
    assert [row[:3] for row in reader("from report.author")] == [("ada", 1, 2), ("bob", 1, 1)]
    assert sum(row[1] for row in reader("as changed")) == 2
    assert [row[1:] for row in reader("log_entry")] == [(2, "set", "/posts/b"), (1, "set", "/posts/a")]
    assert reader("liked_by") == [("ada", "bob", 1), ("ada", "cyd", 1), ("bob", "ada", 1)]
    # Every block is one of these, or makes something.
    assert len(BLOCKS) == 2 + 5


def test_the_role_reads_and_nothing_else(reader):
    for statement in ("update mirror.posts set text = ''", "select pathmirror.set('default', '/x', '1')", "select * from pathmirror.mirror",
                      "create temp table t (a int)"):
        with pytest.raises(psycopg.Error):
            reader.connection.execute(statement)
    reader.connection.execute("set default_transaction_read_only = off")
    for statement in ("update mirror.posts set text = ''", "delete from pathmirror.log", "select pathmirror.set('default', '/x', '1')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.connection.execute(statement)
