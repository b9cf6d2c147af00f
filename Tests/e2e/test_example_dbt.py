"""`mirror dbt` and examples/dbt: a dbt project on mirrors' tables."""

import itertools
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml
from harness import sql
from harness.binary import REPOSITORY
from harness.process import run
from harness.waiting import wait_until

EXAMPLE = REPOSITORY / "examples" / "dbt"
POSTS = {
    "a": {"author": "ada", "text": "On engines", "starCount": 2, "stars": {"bob": True, "cyd": True}},
    "b": {"author": "ada", "text": "Notes"},
    "c": {"author": "bob", "text": "One two three", "starCount": 1, "stars": {"ada": True}},
}


class Project:
    """A copy of the example, and dbt for it."""

    def __init__(self, mirrored, scratch):
        self.mirrored, self.folder = mirrored, scratch / "dbt"
        shutil.copytree(EXAMPLE, self.folder, ignore=shutil.ignore_patterns("target", "logs", ".user.yml"))
        url = urlsplit(mirrored.url)
        hosts = parse_qs(url.query).get("host", [url.hostname])
        self.environment = os.environ | {
            "PGHOST": hosts[0] or "localhost", "PGPORT": str(url.port or parse_qs(url.query).get("port", ["5432"])[0]),
            "PGUSER": unquote(url.username or "postgres"), "PGPASSWORD": unquote(url.password or ""), "PGDATABASE": url.path.strip("/")}

    def dbt(self, *words) -> str:
        place = ["--project-dir", self.folder, "--profiles-dir", self.folder]
        finished = run([Path(sys.executable).parent / "dbt", "--no-use-colors", *words, *place], env=self.environment)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    def rows(self, query: str) -> list[tuple]:
        return sql.rows(self.mirrored.url, query)


@pytest.fixture
def project(mirrored, scratch):
    for key, post in POSTS.items():
        mirrored.rest.send("PUT", f"/posts/{key}.json", json.dumps(post).encode())
    mirrored.run("apply", EXAMPLE / "mirrors.json", "--yes")
    mirrored.caught_up()
    return Project(mirrored, scratch)


def test_the_sources_of_the_example_are_what_the_command_writes(project):
    written = project.mirrored.run("dbt")
    assert written == (EXAMPLE / "models" / "sources.yml").read_text()


def test_the_project_builds_and_follows(project):
    """One test of all models, because each run of dbt takes seconds."""
    assert "WARN=0 ERROR=0" in project.dbt("build")
    assert project.rows("select author, posts, stars from blog.authors order by author") == [("ada", 2, 2), ("bob", 1, 1)]
    facts = "select post_id, letters, words, star_count from blog.post_facts order by post_id"
    ledger = "select post_id, star_count, removed_at is not null from blog.post_ledger order by post_id"
    edits = "select post_id, operation, editor, letters_more from blog.edits order by _seq"
    writer = "nobody signed in"
    assert project.rows(facts) == [("a", 10, 2, 2), ("b", 5, 1, 0), ("c", 13, 3, 1)]
    assert project.rows(ledger) == [("a", 2, False), ("b", 0, False), ("c", 1, False)]
    assert project.rows(edits) == [(post, "insert", writer, letters) for post, letters in (("a", 10), ("b", 5), ("c", 13))]
    # A run repeats the rows of the newest entry that it has seen. From here on that is the entry of b.
    rest = project.mirrored.rest
    rest.send("PUT", "/posts/b/text.json", b'"Notes and more"')
    project.mirrored.caught_up()
    project.dbt("build")
    # A run keeps existing rows unless the source row has changed since.
    project.rows("update blog.post_facts set words = 99 where post_id = 'c' returning 1")
    project.rows("update blog.post_ledger set star_count = 99 where post_id = 'c' returning 1")
    rest.send("PUT", "/posts/d.json", json.dumps({"author": "dee", "text": "New"}).encode())
    rest.send("PUT", "/posts/b/starCount.json", b"7")
    rest.send("DELETE", "/posts/a.json")
    project.mirrored.caught_up()
    project.dbt("build")
    assert project.rows(facts) == [("b", 14, 3, 7), ("c", 13, 99, 1), ("d", 3, 1, 0)]
    assert project.rows("select author from blog.authors order by author") == [("ada",), ("bob",), ("dee",)]
    assert project.rows(ledger) == [("a", 2, True), ("b", 7, False), ("c", 99, False), ("d", 0, False)]
    changes = [("b", "update", writer, 9), ("d", "insert", writer, 3), ("a", "delete", writer, -10)]
    assert project.rows(edits)[3:] == changes


def test_it_builds_while_clients_delete(project):
    """Clients delete between a model's run and its tests, and before the next run."""
    rest = project.mirrored.rest
    project.dbt("run")
    rest.send("DELETE", "/posts/a.json")
    project.mirrored.caught_up()
    assert "WARN=0 ERROR=0" in project.dbt("test")
    stop = threading.Event()

    def write_and_delete():
        for number in itertools.count():
            if stop.is_set():
                return
            rest.send("PUT", f"/posts/k{number}.json", json.dumps({"author": "eve", "text": f"Post {number}"}).encode())
            if number >= 20:
                rest.send("DELETE", f"/posts/k{number - 20}.json")

    writer = threading.Thread(target=write_and_delete)
    writer.start()
    try:
        assert "WARN=0 ERROR=0" in project.dbt("build")
    finally:
        stop.set()
        writer.join()
    project.mirrored.caught_up()
    assert "WARN=0 ERROR=0" in project.dbt("build")
    assert project.rows("select post_id from blog.post_facts order by 1") == project.rows("select post_id from mirror.posts order by 1")


def test_freshness_is_how_far_a_mirror_is_behind(project):
    """A table is fresh without writes."""
    seq = project.rows("select max(seq) from pathmirror.log")[0][0]
    sql.execute(project.mirrored.url, "update pathmirror.log set committed_at = committed_at - interval '3 days'")
    assert "ERROR" not in project.dbt("source", "freshness")
    project.mirrored.run("pause", "posts")

    def is_left_behind() -> bool:
        """Whether a new write reaches the other mirrors and not the paused one, which may still apply writes for a moment."""
        project.mirrored.rest.send("PUT", "/posts/x.json", b'{"author":"x"}')
        wait_until(lambda: not project.rows("select 1 from pathmirror.mirror_status where name <> 'posts' and seq < head"),
                   "the other mirrors to reach the head")
        return project.rows("select seq < head from pathmirror.mirror_status where name = 'posts'") == [(True,)]

    wait_until(is_left_behind, "the mirror to pause")
    sql.execute(project.mirrored.url, f"update pathmirror.log set committed_at = committed_at - interval '20 minutes' where seq > {seq}")
    assert "WARN freshness of mirror.posts" in project.dbt("source", "freshness")


def test_names_and_comments_reach_dbt_as_they_are(mirrored, scratch):
    comment = "{{ drop }} {% raw %} {# no #} 'q' \"d\" \\ : # & \x7f \u2028 {{{ é\nline"
    mirrored.apply(
        {"name": "odd", "path": "/odd/{Key}/{n}", "table": "My Schema.Ta-ble", "comment": comment, "keys": {"n": "bigint"},
         "columns": {"Größe": {"type": "numeric", "comment": "{{ x }}"}, "select": "text[]", "two \"words\"": {"type": "text", "not null": "skip", "path": "w"}}},
        {"name": "even", "path": "/even/{Key}", "table": "My Schema.Ta ble", "columns": {"a": "text"}})
    mirrored.rest.send("PUT", "/odd/k/1.json", '{"Größe": 1.5, "select": {"a": true}, "w": "x"}'.encode())
    mirrored.caught_up()
    source, = yaml.safe_load(mirrored.run("dbt", "odd"))["sources"]
    table, = source["tables"]
    assert (source["name"], source["schema"], table["name"], table["identifier"]) == ("My_Schema", "My Schema", "Ta_ble", "Ta-ble")
    columns = {column["name"]: column for column in table["columns"]}
    assert columns["n"] == {"name": "n", "data_type": "bigint", "data_tests": ["not_null"]}
    assert columns["Größe"]["quote"] and columns["select"]["data_type"] == "text[]"
    project = Project(mirrored, scratch)
    shutil.rmtree(project.folder / "models")
    (project.folder / "models").mkdir()
    mirrored.run("dbt", "-o", project.folder / "models" / "sources.yml")
    project.dbt("build")
    lines = project.dbt("--quiet", "ls", "--resource-type", "source", "--output", "json", "--output-keys", "name", "identifier", "description")
    listed = {source["name"]: source for source in map(json.loads, lines.splitlines())}
    assert [(name, listed[name]["identifier"]) for name in sorted(listed)] == [("Ta_ble", "Ta ble"), ("Ta_ble_2", "Ta-ble")]
    assert listed["Ta_ble_2"]["description"] == comment + "\n\nThe records at /odd/{Key}/{n} of the namespace default: the mirror odd."


def test_what_is_wrong_is_said(mirrored):
    done = mirrored.command("mirror", "dbt")
    assert done.returncode == 1 and 'The namespace "default" has no mirror in the gateway\'s database.' in done.stderr
    done = mirrored.command("mirror", "dbt", "post")
    assert done.returncode == 1 and 'There is no mirror "post"' in done.stderr
