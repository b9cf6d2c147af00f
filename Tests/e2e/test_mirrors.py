"""Mirrors: typed tables that follow the tree, from the view of an analyst and an operator."""

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import psycopg
import pytest
from harness import cli, sql
from harness.gateway import start_serve
from harness.mirrored import POSTS, USER_POSTS
from harness.waiting import wait_until
from social import generate

ISO = Path("/usr/share/iso-codes/json")

def test_a_new_mirror_has_what_is_there_and_follows(mirrored):
    mirrored.rest.send("PUT", "/posts/a.json", json.dumps(
        {"author": "ada", "title": "A", "starCount": 3, "tags": {"x": True, "y": True}, "createdAt": 1_700_000_000_000,
         "extra": {"q": 1}}).encode())
    assert [plan["action"] for plan in mirrored.apply(POSTS)] == ["create"]
    assert mirrored.rows("select post_id, author, title, star_count, tags, rest->'extra'->>'q', extract(epoch from created_at)"
                         "::int from mirror.posts") == [("a", "ada", "A", 3, ["x", "y"], "1", 1_700_000_000)]
    mirrored.rest.send("PUT", "/posts/a/starCount.json", b"4")
    mirrored.rest.send("PUT", "/posts/b.json", b'{"author": "bob"}')
    mirrored.caught_up()
    assert mirrored.rows("select post_id, star_count from mirror.posts order by 1") == [("a", 4), ("b", 0)]
    mirrored.rest.send("DELETE", "/posts.json")
    mirrored.caught_up()
    assert mirrored.rows("select count(*) from mirror.posts") == [(0,)]


def test_applying_again_changes_nothing(mirrored):
    mirrored.apply(POSTS)
    before = mirrored.rows("select 'mirror.posts'::regclass::oid, generation from pathmirror.mirror_cursor")
    assert [plan["action"] for plan in mirrored.apply(POSTS)] == ["unchanged"]
    assert mirrored.rows("select 'mirror.posts'::regclass::oid, generation from pathmirror.mirror_cursor") == before


def test_comments_and_indexes_change_in_place(mirrored):
    mirrored.apply(POSTS)
    before = mirrored.rows("select 'mirror.posts'::regclass::oid")
    changed = {**POSTS, "comment": "Posts", "indexes": [["title"]]}
    assert [plan["action"] for plan in mirrored.apply(changed)] == ["alter"]
    assert mirrored.rows("select 'mirror.posts'::regclass::oid") == before
    assert mirrored.rows("select obj_description('mirror.posts'::regclass), (select array_agg(indexname order by 1) "
                         "from pg_indexes where tablename = 'posts')") == [("Posts", ["posts_pkey", "posts_title_idx"])]


def test_values_that_do_not_fit_are_null_recorded_and_kept_in_the_rest(mirrored):
    mirrored.apply(POSTS)
    mirrored.rest.send("PUT", "/posts/a.json", b'{"author": "ada", "starCount": "many"}')
    mirrored.caught_up()
    assert mirrored.rows("select star_count, _misfits, rest->>'starCount' from mirror.posts") == [(None, ["star_count"], "many")]
    errors = cli.objects(mirrored.run("errors", "posts", "--json"))
    assert [(error["column"], error["path"], error["value"]) for error in errors] == [
        ("star_count", "/posts/a/starCount", "many")]
    mirrored.rest.send("PUT", "/posts/a/starCount.json", b"5")
    mirrored.caught_up()
    assert mirrored.rows("select star_count, _misfits, rest from mirror.posts") == [(5, None, None)]
    assert mirrored.run("errors", "posts") == ""


def test_a_filter_makes_a_mirror_of_a_part(mirrored):
    open_posts = {**POSTS, "filter": "data.child('status').val() == 'open' && $post_id != 'draft'"}
    mirrored.rest.send("PUT", "/posts.json", json.dumps({
        "a": {"author": "ada", "status": "open"}, "b": {"author": "bob", "status": "closed"}, "draft": {"author": "c", "status": "open"},
        "odd": {"author": {"no": "text"}, "status": "closed"}}).encode())
    mirrored.apply(open_posts)
    posts = "select post_id from mirror.posts order by 1"
    assert mirrored.rows(posts) == [("a",)]
    # Records that the filter excludes have no errors either.
    assert mirrored.run("errors", "posts") == ""
    # A change of a descendant includes one record and excludes another.
    mirrored.rest.send("PATCH", "/posts.json", b'{"a/status": "closed", "b/status": "open", "new/status": "open", "new/author": "d"}')
    mirrored.caught_up()
    assert mirrored.rows(posts) == [("b",), ("new",)]
    mirrored.verify()
    plan = mirrored.run("apply", mirrored.file({**POSTS, "filter": "data.child('status').val() == 'closed'"}), "--dry-run")
    assert "rebuild" in plan and "the filter" in plan
    mirrored.apply({**POSTS, "filter": "data.child('status').val() == 'closed'"})
    assert mirrored.rows(posts) == [("a",)]
    mirrored.apply(POSTS)
    assert mirrored.rows(posts) == [("a",), ("b",), ("draft",), ("new",)]
    failed = mirrored.command("mirror", "apply", mirrored.file({**POSTS, "filter": "now > 5"}), "--yes")
    assert failed.returncode != 0 and "names now; a filter sees only the record" in failed.stderr


def test_a_changed_type_repairs_what_did_not_fit(mirrored):
    mirrored.apply(POSTS)
    mirrored.rest.send("PUT", "/posts/a.json", b'{"author": "ada", "starCount": "many"}')
    changed = json.loads(json.dumps(POSTS))
    changed["columns"]["star_count"]["type"] = "text"
    changed["columns"]["star_count"]["default"] = "none"
    plan = mirrored.apply(changed)[0]
    assert plan["action"] == "rebuild" and "the type of star_count: bigint → text" in plan["reasons"]
    assert mirrored.rows("select star_count, _misfits from mirror.posts") == [("many", None)]
    assert mirrored.run("errors", "posts") == ""


def test_a_row_that_the_table_refuses_is_recorded_and_the_others_go_on(mirrored):
    mirrored.apply({**POSTS, "indexes": [["title"]]})
    noise = "".join(chr(33 + os.urandom(1)[0] % 90) for _ in range(20_000)).replace('"', "x").replace("\\", "y")
    mirrored.rest.send("PUT", "/posts/big.json", json.dumps({"author": "ada", "title": noise}).encode())
    mirrored.rest.send("PUT", "/posts/small.json", b'{"author": "ada", "title": "t"}')
    mirrored.caught_up()
    assert mirrored.rows("select post_id from mirror.posts") == [("small",)]
    errors = cli.objects(mirrored.run("errors", "posts", "--json"))
    assert [(error["record"], error["column"]) for error in errors] == [("/posts/big", "")]
    mirrored.apply({**POSTS, "indexes": []})
    assert "1 record was converted again; 0 errors are left" in mirrored.run("errors", "posts", "--retry")
    assert mirrored.rows("select count(*) from mirror.posts") == [(2,)]


def test_a_broken_table_stops_nobody_else_and_comes_back(mirrored):
    mirrored.apply(POSTS, USER_POSTS)
    sql.execute(mirrored.url, "alter table mirror.posts rename to hidden")
    mirrored.rest.send("PATCH", "/.json", json.dumps(
        {"posts/a": {"author": "ada"}, "user-posts/ada/a": {"author": "ada"}}).encode())
    wait_until(lambda: mirrored.rows("select count(*) from mirror.user_posts") == [(1,)], "the other mirror")
    wait_until(lambda: mirrored.rows("select state from pathmirror.mirror_status where name = 'posts'") == [("broken",)],
               "the state")
    ready = mirrored.rest.send("GET", "/.health/ready")
    assert ready.status == 200 and ready.json()["mirrors"]["default/posts"]["state"] == "broken"
    assert 'pathmirror_mirror_up{mirror="default/posts"} 0' in mirrored.rest.send("GET", "/.metrics").body.decode()
    assert cli.command("mirror", "status", "--database-url", mirrored.url).returncode == 1
    sql.execute(mirrored.url, "alter table mirror.hidden rename to posts")
    mirrored.caught_up()
    assert mirrored.rows("select post_id from mirror.posts") == [("a",)]


def test_lists_of_a_namespace_have_its_mirrors_only_and_miss_a_namespace_that_there_is_not(mirrored):
    mirrored.apply(POSTS)
    cli.succeeds("namespace", "create", "two", "--database-url", mirrored.url)
    for command in ("ls", "status"):
        assert [line["name"] for line in cli.objects(mirrored.run(command, "--ns", "default", "--json"))] == ["posts"]
        assert mirrored.run(command, "--ns", "two") == ""
        missing = mirrored.command("mirror", command, "--ns", "nosuch")
        assert missing.returncode == 1 and 'There is no namespace "nosuch".' in missing.stderr, missing


def test_pause_resume_and_drop(mirrored):
    mirrored.apply(POSTS)
    mirrored.run("pause", "posts")
    wait_until(lambda: "paused" in mirrored.run("status", "posts"), "the pause")
    mirrored.rest.send("PUT", "/posts/a.json", b'{"author": "ada"}')
    mirrored.run("resume", "posts")
    mirrored.caught_up()
    assert mirrored.rows("select post_id from mirror.posts") == [("a",)]
    mirrored.run("drop", "posts", "--yes")
    assert mirrored.rows("select to_regclass('mirror.posts')::text") == [(None,)]
    assert mirrored.run("ls") == ""


def test_views_and_grants_outlive_a_rebuild(mirrored):
    mirrored.apply(POSTS)
    sql.execute(mirrored.url, "create view public.titles as select post_id, title from mirror.posts",
                "create view public.more as select * from public.titles", "grant select on mirror.posts to public")
    mirrored.rest.send("PUT", "/posts/a.json", b'{"author": "ada", "title": "A", "lang": "en"}')
    mirrored.apply({**POSTS, "columns": {**POSTS["columns"], "lang": "text"}})
    assert mirrored.rows("select * from public.more") == [("a", "A")]
    assert mirrored.rows("select lang from mirror.posts") == [("en",)]
    assert mirrored.rows("select has_table_privilege('public', 'mirror.posts', 'select')") == [(True,)]


def test_indexes_made_by_hand_outlive_a_rebuild(mirrored):
    mirrored.apply(POSTS)
    for key in range(20):
        mirrored.rest.put(f"posts/p{key}", {"author": f"a{key}", "title": f"T{key}", "starCount": key})
    mirrored.caught_up()
    sql.execute(
        mirrored.url, "create index posts_author_idx1 on mirror.posts (author)",
        "create index \"By USING (title) \" on mirror.posts using btree (lower(title) desc nulls last) include (author) where star_count > 3",
        "create unique index once on mirror.posts (author, title)", "create index posts_count on mirror.posts ((star_count + 1))",
        "alter table mirror.posts add constraint twice unique (post_id, title)")
    indexes = "select indexname, indexdef from pg_indexes where schemaname = 'mirror' order by 1"
    before = mirrored.rows(indexes)
    assert len(before) == 3 + 5
    changed = {**POSTS, "columns": {**POSTS["columns"], "lang": "text"}}
    applied, = mirrored.apply(changed)
    assert applied["lost"] == ["The index twice belongs to a constraint, which the new table does not get."]
    kept = [row for row in before if row[0] != "twice"]
    assert mirrored.rows(indexes) == kept
    mirrored.run_replay("posts")
    assert mirrored.rows(indexes) == kept
    # Indexes of a removed column, or of a type that the index does not support.
    changed["columns"] = {**changed["columns"], "star_count": {"type": "text", "path": "starCount"}}
    finished = mirrored.command("mirror", "apply", mirrored.file(changed), "--yes")
    assert finished.returncode == 0, finished.stderr
    assert "mirror.posts: The index posts_count can't be created on the new table: " in finished.stderr
    assert "mirror.posts: The index By USING (title)  can't be created on the new table: " in finished.stderr
    left = [name for name, _ in kept if name not in ("posts_count", "By USING (title) ")]
    assert [row[0] for row in mirrored.rows(indexes)] == left
    # Another schema, and a row that the index cannot hold: the build omits the index, as it does for an index of the definition.
    mirrored.rest.put("posts/twin", {"author": "a1", "title": "T1"})
    mirrored.apply({**changed, "table": "other.posts"})
    assert [row[0] for row in mirrored.rows(indexes.replace("'mirror'", "'other'"))] == left
    mirrored.caught_up()
    assert mirrored.rows("select count(*) from other.posts") == [(20,)]
    assert mirrored.rows("select column_name, key ->> 'post_id' in ('twin', 'p1') from pathmirror.mirror_misfit") == [(None, True)]
    # The error has the index's own name, although the index had another name when it refused the row.
    (reason,), = mirrored.rows("select reason from pathmirror.mirror_misfit")
    assert reason == 'the table refuses the row: duplicate key value violates unique constraint "once"'


def test_what_is_not_about_the_definition_ends_the_build(mirrored):
    """A full disk or a cancellation does not remove a user's index."""
    mirrored.apply(POSTS)
    mirrored.rest.put("posts/a", {"author": "ada"})
    mirrored.caught_up()
    sql.execute(
        mirrored.url, """create function public.full_disk(author text) returns text immutable language plpgsql as $$
        begin
            if current_setting('application_name') like '%build' then raise exception 'no space left' using errcode = '53100'; end if;
            return author;
        end $$""", "create index odd on mirror.posts (public.full_disk(author))")
    finished = mirrored.command("mirror", "apply", mirrored.file({**POSTS, "columns": {**POSTS["columns"], "lang": "text"}}), "--yes")
    assert finished.returncode != 0 and "no space left" in finished.stderr
    assert mirrored.rows("select count(*) from pg_class where relname in ('odd', 'posts') or relname like '\\_build%%'") == [(2,)]


def test_names_that_are_taken_are_refused_in_the_plan(mirrored):
    mirrored.apply({**POSTS, "indexes": []})
    sql.execute(mirrored.url, "create index on mirror.posts (author)", "create table mirror.articles_pkey (a int)")
    for definition, name in [(POSTS, "posts_author_idx"), ({**POSTS, "indexes": [], "table": "mirror.articles"}, "articles_pkey")]:
        finished = mirrored.command("mirror", "apply", mirrored.file(definition), "--dry-run")
        assert finished.returncode != 0 and f'"mirror"."{name}" exists' in finished.stderr, finished.stderr
    sql.execute(mirrored.url, "alter index mirror.posts_author_idx rename to by_author")
    mirrored.apply(POSTS)


def test_policies_and_rights_on_columns_outlive_a_rebuild(mirrored):
    mirrored.apply(POSTS)
    mirrored.rest.put("posts", {"a": {"author": "ada", "title": "A"}, "b": {"author": "bob", "title": "B"}})
    mirrored.caught_up()
    sql.execute(
        mirrored.url, "revoke select on mirror.posts from pathmirror_reader", "grant select (post_id, author) on mirror.posts to pathmirror_reader",
        "alter table mirror.posts enable row level security", "alter table mirror.posts force row level security",
        "create policy adas on mirror.posts for select to pathmirror_reader using (author = 'ada' and post_id <> 'it''s')",
        "create policy nothing on mirror.posts as restrictive for insert to public with check (false)")
    policies = "select policyname, permissive, roles::text, cmd, qual, with_check from pg_policies order by 1"
    before = mirrored.rows(policies)
    mirrored.run_replay("posts")
    assert mirrored.rows(policies) == before and len(before) == 2
    assert mirrored.rows("select relrowsecurity, relforcerowsecurity from pg_class where oid = 'mirror.posts'::regclass") == [(True, True)]
    with psycopg.connect(mirrored.url, autocommit=True) as connection:
        connection.execute("set role pathmirror_reader")
        assert connection.execute("select post_id, author from mirror.posts").fetchall() == [("a", "ada")]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select title from mirror.posts")
    # Rights on columns stay rights on columns: the role does not get the whole table.
    sql.execute(mirrored.url, "update pg_class set relacl = null where oid = 'mirror.posts'::regclass")
    mirrored.run_replay("posts")
    assert mirrored.rows("select has_table_privilege('pathmirror_reader', 'mirror.posts', 'select'), "
                         "has_column_privilege('pathmirror_reader', 'mirror.posts', 'author', 'select')") == [(False, True)]
    # A policy that does not fit is reported.
    columns = {name: column for name, column in POSTS["columns"].items() if name != "author"}
    finished = mirrored.command("mirror", "apply", mirrored.file({**POSTS, "columns": columns, "indexes": []}), "--yes")
    assert finished.returncode != 0 and "The policy adas for the rows of mirror.posts" in finished.stderr
    assert mirrored.rows(policies) == before


def test_a_renamed_column_in_a_rebuild_keeps_its_readers(mirrored):
    mirrored.apply(POSTS)
    mirrored.rest.put("posts/a", {"author": "ada", "title": "A"})
    mirrored.caught_up()
    sql.execute(mirrored.url, "create view public.titles as select post_id, title from mirror.posts", "create index odd on mirror.posts (lower(title))")
    columns = {"headline" if name == "title" else name: column for name, column in POSTS["columns"].items()}
    columns["headline"] = {"type": "text", "path": "title"}
    applied, = mirrored.apply({**POSTS, "columns": {**columns, "lang": "text"}})
    assert applied["action"] == "rebuild" and applied["reasons"] == ["title is now headline", "the new column lang"] and applied["lost"] == []
    assert mirrored.rows("select title from public.titles") == mirrored.rows("select headline from mirror.posts") == [("A",)]
    assert mirrored.rows("select indexdef ~ 'headline' from pg_indexes where indexname = 'odd'") == [(True,)]


def test_a_build_and_a_change_in_place_exclude_one_another(mirrored):
    mirrored.apply(POSTS)
    renamed = {**POSTS, "columns": {"writer" if name == "author" else name: column for name, column in POSTS["columns"].items()}, "indexes": []}
    renamed["columns"]["writer"] = {**POSTS["columns"]["author"], "path": "author"}
    with psycopg.connect(mirrored.url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtextextended("
                           "(select 'pathmirror build _build_' || replace(mirror::text, '-', '') from pathmirror.mirror_cursor), 0))")
        finished = mirrored.command("mirror", "apply", mirrored.file(renamed), "--yes")
        assert finished.returncode != 0 and "Another process is building mirror" in finished.stderr
    assert mirrored.apply(renamed)[0]["action"] == "alter"
    # The previous command ended between the table's database and the catalog's: the next one repeats the second step.
    sql.execute(mirrored.url, "update pathmirror.mirror set definition = replace(definition::text, 'writer', 'author')::json")
    assert mirrored.apply(renamed)[0]["action"] == "unchanged"
    assert mirrored.rows("select definition::text like '%%writer%%' from pathmirror.mirror") == [(True,)]


def test_readers_never_see_a_half_filled_table_while_definitions_change(mirrored):
    for number in range(300):
        mirrored.rest.send("PUT", f"/posts/p{number}.json", b'{"author": "ada"}')
    mirrored.apply(POSTS)
    stop, seen, failures = threading.Event(), set(), []

    def read():
        with psycopg.connect(mirrored.url, autocommit=True) as connection:
            while not stop.is_set():
                try:
                    seen.add(connection.execute("select count(*) from mirror.posts").fetchone()[0] >= 300)
                except psycopg.Error as error:
                    failures.append(str(error))

    def write():
        number = 300
        while not stop.is_set():
            mirrored.rest.send("PUT", f"/posts/p{number}.json", b'{"author": "bob"}')
            number += 1

    threads = [threading.Thread(target=work) for work in (read, read, write)]
    for thread in threads:
        thread.start()
    try:
        for number in range(4):
            assert mirrored.apply({**POSTS, "columns": {**POSTS["columns"], f"new{number}": "text"}})[0]["action"] == "rebuild"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == [] and seen == {True}
    mirrored.caught_up()
    assert mirrored.rows("select (select count(*) from mirror.posts) = "
                         "(select count(*) from pathmirror.node where path like '/posts/%%/author')") == [(True,)]


def test_another_database_as_target_has_the_cursor(mirrored, postgres):
    other = postgres.create_database()
    mirrored.apply({**POSTS, "target": other})
    mirrored.rest.send("PUT", "/posts/a.json", b'{"author": "ada"}')
    wait_until(lambda: sql.rows(other, "select post_id from mirror.posts") == [("a",)], "the other database")
    head = sql.head(mirrored.url)
    wait_until(lambda: sql.rows(other, "select seq from pathmirror.mirror_cursor") == [(head,)], "its cursor")
    mirrored.caught_up()
    assert mirrored.rows("select is_elsewhere, errors from pathmirror.mirror_status") == [(True, 0)]


def test_a_lost_target_is_shown_and_harms_nobody(mirrored, own_postgres):
    other = own_postgres.create_database()
    mirrored.apply({**POSTS, "target": other}, USER_POSTS)
    own_postgres.stop()
    mirrored.rest.send("PATCH", "/.json", json.dumps(
        {"posts/a": {"author": "ada"}, "user-posts/ada/a": {"author": "ada"}}).encode())
    wait_until(lambda: mirrored.rows("select count(*) from mirror.user_posts") == [(1,)], "the mirror beside it")
    state = "select state, message is not null from pathmirror.mirror_status where name = 'posts'"
    wait_until(lambda: mirrored.rows(state) == [("broken", True)], "the state")
    assert mirrored.rest.send("GET", "/.health/ready").status == 200
    own_postgres.start()
    wait_until(lambda: mirrored.rows(state) == [("running", False)], "the mirror to run again", 60)
    mirrored.caught_up()
    assert sql.rows(other, "select post_id from mirror.posts") == [("a",)]


def test_a_killed_gateway_loses_and_repeats_nothing_and_another_takes_over(mirrored, serve, scratch, logs):
    mirrored.apply(POSTS, USER_POSTS)
    other = start_serve(mirrored.url, scratch, logs, name="other")
    stop, written = threading.Event(), []

    def write():
        number = 0
        while not stop.is_set():
            post = {"author": f"u{number % 7}", "title": f"t{number}"}
            body = json.dumps({f"posts/p{number}": post, f"user-posts/u{number % 7}/p{number}": post}).encode()
            if other.rest.send("PATCH", "/.json", body).status == 200:
                written.append(number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            wait_until(lambda: mirrored.rows("select count(*) from mirror.posts")[0][0] > 10, "rows")
            victim = serve(name="victim")
            os.kill(mirrored.gateway.process.pid, signal.SIGKILL)
            mirrored.gateway = victim
    finally:
        stop.set()
        writer.join()
    try:
        mirrored.caught_up()
        assert mirrored.rows("select count(*) from mirror.posts") == [(len(written),)]
        assert mirrored.rows("select count(*) from mirror.posts p join mirror.user_posts u using (post_id, author, title) "
                             "where p._seq = u._seq and u.uid = author") == [(len(written),)]
    finally:
        other.sweep()


def test_mistakes_in_a_definition_are_all_named_with_their_places(mirrored):
    path = mirrored.scratch / "bad.json"
    path.write_text('{\n  "name": "x y",\n  "path": "/posts",\n  "columns": {"a": "txt", "_b": "text"},\n  "tables": 1\n}\n')
    finished = cli.command("mirror", "apply", path, "--database-url", mirrored.url)
    assert finished.returncode == 1
    for part in (":2:11: name:", ":3:11: path:", "columns.a: there is no type \"txt\"", "columns._b:", ":5:3: tables: is unknown"):
        assert part in finished.stderr, finished.stderr


def test_without_yes_nothing_is_changed(mirrored):
    finished = cli.command("mirror", "apply", mirrored.file(POSTS), "--database-url", mirrored.url)
    assert finished.returncode == 1 and "create  posts" in finished.stdout
    assert mirrored.run("ls") == ""


def test_a_table_that_is_no_mirrors_is_left_alone(mirrored):
    sql.execute(mirrored.url, "create schema mirror", "create table mirror.posts (a int)")
    finished = cli.command("mirror", "apply", mirrored.file(POSTS), "--yes", "--database-url", mirrored.url)
    assert finished.returncode == 1 and "mirror.posts exists and belongs to no mirror" in finished.stderr


@pytest.mark.skipif(not ISO.exists(), reason="needs the Debian package iso-codes")
def test_the_iso_lists(mirrored):
    countries = json.loads((ISO / "iso_3166-1.json").read_text())["3166-1"]
    languages = json.loads((ISO / "iso_639-3.json").read_text())["639-3"]
    data = {"countries": {country["alpha_2"]: country for country in countries},
            "languages": {language["alpha_3"]: language for language in languages}}
    file = mirrored.scratch / "iso.json"
    file.write_text(json.dumps(data))
    cli.succeeds("import", file, "--database-url", mirrored.url)
    for path in ("/countries", "/languages"):
        inferred = json.loads(mirrored.run("infer", path))
        mirrored.apply(inferred)
    found = mirrored.rows("select country_id, name, alpha_3, numeric, official_name from mirror.countries order by 1")
    assert found == sorted((c["alpha_2"], c["name"], c["alpha_3"], c["numeric"], c.get("official_name")) for c in countries)
    assert mirrored.rows("select count(*), count(*) filter (where _misfits is not null or rest is not null) "
                         "from mirror.languages") == [(len(languages), 0)]
    assert mirrored.rows("select language_id, name from mirror.languages order by language_id collate \"C\"") == sorted(
        (language["alpha_3"], language["name"]) for language in languages)


def test_the_social_blog(mirrored):
    blog = generate.blog(users=40, posts=400, seed=7)
    file = mirrored.scratch / "blog.json"
    file.write_text(json.dumps(blog))
    cli.succeeds("import", file, "--database-url", mirrored.url)
    mirrored.apply(*generate.MIRRORS)
    assert mirrored.rows("select count(*), sum(star_count) from mirror.posts") == [
        (400, sum(post["starCount"] for post in blog["posts"].values()))]
    # The fan-out is consistent: both paths have each post with equal values.
    assert mirrored.rows("select count(*) from mirror.posts p full join mirror.user_posts u using (post_id) "
                         "where p is null or u is null or (p.title, p.star_count) is distinct from (u.title, u.star_count)") == [(0,)]
    assert mirrored.rows("select count(*) from mirror.comments") == [
        (sum(len(comments) for comments in blog["post-comments"].values()),)]
    assert mirrored.rows("select sum(cardinality(stars)) from mirror.posts") == mirrored.rows(
        "select sum(star_count) from mirror.posts")


def test_drop_under_a_view_says_what_to_do(mirrored):
    mirrored.apply(POSTS)
    sql.execute(mirrored.url, "create view public.titles as select post_id, title from mirror.posts",
                "create materialized view public.\"More\" as select * from public.titles")
    refused = mirrored.command("mirror", "drop", "posts", "--yes")
    assert refused.returncode == 1
    statements = 'drop materialized view public."More"; drop view public.titles;'
    assert statements in refused.stderr and "drop the mirror \"posts\" again" in refused.stderr, refused.stderr
    assert "Nothing was changed" in refused.stderr and "SQLSTATE" not in refused.stderr
    mirrored.rest.send("PUT", "/posts/a.json", b'{"author": "ada", "title": "A"}')
    mirrored.caught_up()
    assert mirrored.rows("select * from public.titles") == [("a", "A")]
    # The printed commands suffice.
    sql.execute(mirrored.url, *statements.rstrip(";").split("; "))
    mirrored.run("drop", "posts", "--yes")
    assert mirrored.run("ls") == ""


def test_drop_under_a_foreign_key_says_what_is_there(mirrored):
    mirrored.apply(POSTS)
    sql.execute(mirrored.url, "create table public.notes (post_id text references mirror.posts)")
    refused = mirrored.command("mirror", "drop", "posts", "--yes")
    assert refused.returncode == 1 and "notes" in refused.stderr and "Nothing was changed" in refused.stderr, refused.stderr
    assert "posts" in mirrored.run("ls")


def test_dates_take_what_timestamps_take(mirrored):
    mirrored.apply({"name": "days", "path": "/days/{day}", "columns": {
        "at": "timestamptz", "on": {"type": "date", "path": "at"}}})
    garbage = "." + "1" * 80
    values = {
        "a": ("2026-01-31", "2026-01-31"), "b": ("2026-01-31T23:30:00-01:00", "2026-02-01"), "c": ("2026-01-31 00:30+01:00", "2026-01-30"),
        "d": ("1969-12-31T23:59:59.999999999Z", "1969-12-31"), "e": (-1, "1969-12-31"), "f": (-0.5, "1969-12-31"), "g": (1.5, "1970-01-01"),
        "h": (f"2026-01-31T12:00:00{garbage}Z", "2026-01-31"), "i": (f"2026-01-31T12:00:00{garbage}Z and more", None),
        "j": (f"2026-01-31T12:00:00{garbage} more", None), "k": ("2026-02-30", None), "l": ("2026-01-31x", None), "m": (True, None)}
    mirrored.rest.set("days", {key: {"at": value} for key, (value, _) in values.items()})
    mirrored.caught_up()
    rows = mirrored.rows("select day, \"on\"::text, (at at time zone 'UTC')::date::text, _misfits from mirror.days order by day")
    assert [(day, on) for day, on, _, _ in rows] == [(key, on) for key, (_, on) in values.items()]
    assert all(on == at for _, on, at, _ in rows)
    assert {day for day, _, _, misfits in rows if misfits} == {"i", "j", "k", "l", "m"}
    mirrored.verify()
