"""Histories of mirrors, by the questions of their users: a former state, the author of a change, removed records."""

import json
import signal

from harness import cli
from harness.gateway import start_serve
from harness.mirrored import POSTS
from harness.waiting import wait_until

KEPT = {**POSTS, "history": True}
SOFT = {**POSTS, "name": "soft_posts", "table": "mirror.soft_posts", "deleted": "soft"}
AS_OF = ("select post_id, title from mirror.posts_versions where _valid_from <= '{0}' and (_valid_to > '{0}' or _valid_to is null) "
         "and not _deleted order by 1")


def put(mirrored, path, value, method="PUT"):
    body = None if value is None else json.dumps(value).encode()
    assert mirrored.rest.send("DELETE" if value is None else method, f"{path}.json", body).status == 200


def now(mirrored) -> str:
    """A time between earlier and later writes."""
    moment = mirrored.rows("select clock_timestamp()::text, pg_sleep(0.01)::text")[0][0]
    return moment


def test_what_it_looked_like_and_who_changed_it(mirrored, scratch, logs):
    put(mirrored, "/posts/p1", {"author": "ada", "title": "One"})
    put(mirrored, "/posts/p2", {"author": "bob", "title": "Two"})
    monday = now(mirrored)
    output = mirrored.run("apply", mirrored.file(KEPT, SOFT), "--yes")
    assert "its history begins with entry 1" in output
    put(mirrored, "/posts/p1/title", "Won")
    put(mirrored, "/posts/p2", None)
    tuesday = now(mirrored)
    # One gateway ends and another starts: no entry is lost or doubled.
    mirrored.gateway.process.send(signal.SIGKILL)
    again = start_serve(mirrored.url, scratch, logs, name="again")
    try:
        mirrored.rest = again.rest
        put(mirrored, "/posts", {"p1": {"author": "ada", "title": "Won"}, "p3": {"author": "eve", "title": "Three"}})
        put(mirrored, "/posts/p2", {"author": "bob", "title": "Back"})
        mirrored.caught_up()
        assert mirrored.rows(AS_OF.format(monday)) == [("p1", "One"), ("p2", "Two")]
        assert mirrored.rows(AS_OF.format(tuesday)) == [("p1", "Won")]
        assert mirrored.rows(AS_OF.format(now(mirrored))) == [("p1", "Won"), ("p2", "Back"), ("p3", "Three")]
        assert mirrored.rows("select post_id, _operation, _via, _old ->> 'title', _new ->> 'title' from mirror.posts_changes "
                             "order by _seq") == [
            ("p1", "insert", "rest", None, "One"), ("p2", "insert", "rest", None, "Two"), ("p1", "update", "rest", "One", "Won"),
            ("p2", "delete", "rest", "Two", None), ("p3", "insert", "rest", None, "Three"), ("p2", "insert", "rest", None, "Back")]
        put(mirrored, "/posts/p3", None)
        mirrored.caught_up()
        assert mirrored.rows("select post_id, title, _deleted_at is not null from mirror.soft_posts order by 1") == [
            ("p1", "Won", False), ("p2", "Back", False), ("p3", "Three", True)]
        assert mirrored.verify().startswith("clean")
    finally:
        again.sweep()


def test_columns_change_and_the_past_has_them(mirrored):
    put(mirrored, "/posts/p1", {"author": "ada", "title": "One", "mood": "low"})
    put(mirrored, "/posts/p1/mood", "high")
    mirrored.apply(KEPT)
    assert mirrored.rows("select count(*) from mirror.posts_versions") == [(2,)]  # The column `rest` has the mood.
    plan = mirrored.apply({**KEPT, "columns": {**POSTS["columns"], "mood": "text"}})
    assert [one["action"] for one in plan] == ["rebuild", "rebuild"]
    assert mirrored.rows("select mood, _current from mirror.posts_versions order by _seq") == [("low", False), ("high", True)]
    assert mirrored.run_replay("posts_changes")["rows"] == 2
    assert cli.objects(mirrored.run("ls", "--json"))[1]["begins"] == {"seq": 1, "at": None}
    refused = mirrored.command("replay", "mirror", "posts_changes", "--from", "1")
    assert refused.returncode != 0 and "--from" in refused.stderr
    assert mirrored.verify().startswith("clean")


def test_an_import_a_priority_and_a_transaction(mirrored, scratch):
    put(mirrored, "/posts", {"p1": {"author": "ada", "title": "One"}, "p2": {"author": "bob", "title": "Two"}})
    mirrored.apply(KEPT)
    put(mirrored, "/posts/p1/.priority", 7)
    etag = mirrored.rest.send("GET", "/posts/p1/title.json", None, {"X-Firebase-ETag": "true"}).headers["etag"]
    assert mirrored.rest.send("PUT", "/posts/p1/title.json", b'"Two"', {"if-match": etag}).status == 200
    file = scratch / "posts.json"
    file.write_text(json.dumps({"p1": {"author": "ada", "title": "Two", ".priority": 7}, "p3": {"author": "eve", "title": "Three"}}))
    cli.succeeds("import", str(file), "--path", "/posts", "--database-url", mirrored.url)
    mirrored.caught_up()
    assert mirrored.rows("select post_id, _operation, _via from mirror.posts_changes where _seq > 1 order by _seq, post_id") == [
        ("p1", "update", "rest"), ("p2", "delete", "cli"), ("p3", "insert", "cli")]
    wait_until(lambda: mirrored.verify().startswith("clean"), "a clean verification", 10)
