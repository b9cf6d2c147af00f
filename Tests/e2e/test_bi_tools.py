"""docs/guides/bi-tools.md: its first sections run as on the page, and its queries run for the role that they create."""

import os
import re
import sys
from pathlib import Path

import psycopg
import pytest
from harness.binary import REPOSITORY, pathmirror
from harness.gateway import start_dev
from harness.page import Reader
from harness.waiting import wait_until

PAGE = (REPOSITORY / "docs" / "guides" / "bi-tools.md").read_text()
SETUP, TOOLS = re.split(r"^(?=## Metabase$)", PAGE, flags=re.MULTILINE)
QUERIES = re.findall(r"^```sql\n(.*?)^```$", TOOLS, re.DOTALL | re.MULTILINE)


def plain(query: str) -> str:
    """Returns a query as Grafana sends it."""
    query = query.replace("$__timeFrom()", "(now() - interval '1 hour')::text").replace("$__timeTo()", "now()::text")
    query = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 between now() - interval '1 hour' and now()", query)
    return re.sub(r"\$__timeGroup\((\w+), '5m'\)", r"date_bin('5 minutes', \1, timestamptz '2000-01-01')", query)


@pytest.fixture
def charts(scratch, logs):
    """A connection of the page's role, after the first sections of the page ran."""
    gateway = start_dev(scratch / ".pathmirror", logs)
    socket = str(scratch / ".pathmirror" / "run")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "PATHMIRROR_"))}
    program = scratch / "bin" / "pathmirror"
    program.parent.mkdir()
    program.symlink_to(pathmirror())
    path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def caught_up():
        with psycopg.connect(host=socket, user="pathmirror", dbname="pathmirror", autocommit=True) as connection:
            wait_until(lambda: not connection.execute("select from pathmirror.mirror_status where seq < head").fetchall(), "the mirrors", 60)

    try:
        Reader(scratch, {**clean, "PATH": path, "HOME": str(scratch), "LC_ALL": "C.UTF-8", "PSQLRC": "/dev/null"}, {}, caught_up).do(SETUP)
        with psycopg.connect(host=socket, user="forum_charts", dbname="pathmirror", autocommit=True) as connection:
            yield connection
    finally:
        gateway.stop()


def test_every_query_gives_what_the_page_says(charts):
    def ask(word: str) -> list[tuple]:
        query, = [query for query in QUERIES if word in query]
        return charts.execute(plain(query)).fetchall()

    assert ask("from forum_report.author") == [("ada", 1, 2), ("bob", 1, 1)]
    assert sum(row[1] for row in ask("as changed")) == 2
    assert [row[1:] for row in ask("log_entry")] == [(1, "import", "/")]
    assert ask("liked_by") == [("ada", "bob", 1), ("ada", "cyd", 1), ("bob", "ada", 1)]
    assert len(QUERIES) == 4


def test_the_role_reads_and_nothing_else(charts):
    for statement in ("update forum.posts set text = ''", "select pathmirror.set('forum', '/x', '1')", "select * from pathmirror.mirror",
                      "create temp table t (a int)"):
        with pytest.raises(psycopg.Error):
            charts.execute(statement)
    charts.execute("set default_transaction_read_only = off")
    for statement in ("update forum.posts set text = ''", "delete from pathmirror.log", "select pathmirror.set('forum', '/x', '1')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            charts.execute(statement)
