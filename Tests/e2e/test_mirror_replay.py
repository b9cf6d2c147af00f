"""`replay mirror`, and `log verify` of mirrors: both find damaged tables, and the replay repairs them under load."""

import json
import os
import signal
import threading

import psycopg
import pytest
from harness import cli, sql
from harness.binary import pathmirror
from harness.mirrored import POSTS, USER_POSTS
from harness.process import Process
from harness.waiting import wait_until

ROOMS = {"name": "messages", "path": "/rooms/{room}/messages/{number}", "keys": {"number": "bigint"},
         "columns": {"text": "text", "sent": "timestamptz", "price": "numeric"}, "rest": "rest"}
BUILDS = "select nspname || '.' || relname from pg_class join pg_namespace n on n.oid = relnamespace where relname ~ '^_(build|old)'"


@pytest.fixture
def posts(mirrored):
    """A mirror with some rows, at the head."""
    mirrored.apply(POSTS, ROOMS)
    for number, name in enumerate(("a", "b", "c", "d")):
        mirrored.rest.put(f"posts/{name}", {"author": "ada", "title": name.upper(), "starCount": number, "extra": {"q": number}})
    mirrored.rest.put("rooms", {"x": {"messages": {"1": {"text": "hi", "price": "1.50"}, "2": {"text": "ho", "sent": 5}}},
                                "x!": {"messages": {"10": {"text": "!"}, "odd": {"text": "?"}}}})
    mirrored.caught_up()
    return mirrored


def titles(mirrored):
    return dict(mirrored.rows("select post_id, title from mirror.posts"))


# MARK: log verify

@pytest.mark.parametrize("damage, said", [
    ("update mirror.posts set title = 'x' where post_id = 'b'", 'mirror posts: row post_id "b": title differs'),
    ("update mirror.posts set title = null, rest = '{}' where post_id = 'b'", 'row post_id "b": title, rest differ'),
    ("update mirror.posts set _misfits = '{title}' where post_id = 'b'", 'row post_id "b": _misfits differs'),
    ("update mirror.posts set _seq = 99 where post_id = 'b'", 'row post_id "b": _seq differs'),
    ("update mirror.posts set post_id = 'e' where post_id = 'b'",
     'row post_id "b" is missing\nmirror posts: row post_id "e" should not be there'),
    ("delete from mirror.posts where post_id = 'b'", 'row post_id "b" is missing'),
    ("insert into mirror.posts (post_id, author, _seq) values ('a\"/', 'x', 1)", 'row post_id "a\\"/" should not be there'),
    ("alter table mirror.posts drop constraint posts_pkey; insert into mirror.posts select * from mirror.posts where post_id = 'b'",
     'row post_id "b" occurs twice'),
    ("update mirror.messages set price = 1.51 where number = 1", 'mirror messages: row room "x", number "1": price differs'),
    ("update mirror.messages set sent = sent + interval '1 us' where number = 2", 'row room "x", number "2": sent differs'),
    ("delete from mirror.messages where room = 'x!'", 'row room "x!", number "10" is missing'),
    ("alter table mirror.posts drop column title", "mirror posts: its table mirror.posts can't be compared: "),
    ("alter table mirror.posts rename to elsewhere", "mirror posts: its table mirror.posts does not exist"),
    ("update pathmirror.mirror_cursor set seq = 4", 'row post_id "d" is missing' "|" "should not be there"),
])
def test_verify_finds_damage(posts, damage, said):
    assert ", 2 mirrors" in posts.verify()
    sql.execute(posts.url, *damage.split("; "))
    finished = posts.command("log", "verify", "--json")
    found = json.loads(finished.stdout)
    assert finished.returncode == 1 and not found["clean"] and found["differences"] == 0, finished.stdout
    assert any(part in "\n".join(found["problems"]) for part in said.split("|")), found
    assert posts.command("log", "verify", "--skip-mirrors").returncode == 0


def test_values_that_only_look_different_are_no_damage(posts):
    sql.execute(posts.url, "update mirror.messages set price = 1.5000 where number = 1",
                "update mirror.posts set rest = '{ \"extra\" : {\"q\":1.0}}' where post_id = 'b'")
    posts.verify()


def test_verify_tells_the_first_differences_and_how_many(posts):
    posts.rest.put("posts", {f"p{number:03}": {"author": "bob"} for number in range(200)})
    posts.caught_up()
    sql.execute(posts.url, "update mirror.posts set author = 'x'")
    problems = json.loads(posts.command("log", "verify", "--json").stdout)["problems"]
    assert len(problems) == 21 and problems[-1] == "mirror posts: 200 differences in all"


def test_verify_of_mirrors_elsewhere(mirrored, own_postgres):
    other = own_postgres.create_database()
    mirrored.apply({**POSTS, "target": other}, USER_POSTS)
    mirrored.rest.put("posts/a", {"author": "ada"})
    mirrored.caught_up()
    assert ", 2 mirrors" in mirrored.verify()
    sql.execute(other, "update mirror.posts set author = 'x'")
    assert 'mirror posts: row post_id "a": author differs' in mirrored.command("log", "verify").stdout
    own_postgres.stop()
    finished = mirrored.command("log", "verify")
    assert finished.returncode == 1 and "mirror posts can't be verified: " in finished.stdout
    assert mirrored.command("log", "verify", "--skip-mirrors").returncode == 0


def test_a_mirror_without_a_table_is_named(posts):
    sql.execute(posts.url, "insert into pathmirror.mirror (namespace_id, name, definition) "
                "select namespace_id, 'new', replace(definition::text, '\"posts\"', '\"new\"')::json from pathmirror.mirror where name = 'posts'")
    assert "mirror new has no table yet" in posts.verify()


def test_verify_is_clean_while_everything_changes(posts):
    stop, failures = threading.Event(), []

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            posts.rest.patch("", {f"posts/p{number % 50}": {"author": f"u{number}"}, f"rooms/x/messages/{number % 9}/text": "t"})

    def rebuild():
        while not stop.is_set():
            finished = posts.command("replay", "mirror", "posts")
            if finished.returncode:
                failures.append(finished.stderr)

    threads = [threading.Thread(target=work) for work in (write, rebuild)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert ", 2 mirrors" in posts.verify()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


# MARK: replay mirror

def test_a_rebuild_repairs_the_table_and_it_goes_on_following(posts):
    sql.execute(posts.url, "update mirror.posts set title = 'x' where post_id = 'b'", "delete from mirror.posts where post_id = 'c'",
                "insert into mirror.posts (post_id, author, _seq) values ('e', 'x', 1)")
    said = posts.run_replay("posts")
    assert said["rows"] == 4 and said["verifiedSeq"] == said["seq"] == sql.head(posts.url)
    assert titles(posts) == {"a": "A", "b": "B", "c": "C", "d": "D"}
    posts.verify()
    posts.rest.put("posts/a/title", "new")
    posts.caught_up()
    assert titles(posts)["a"] == "new"
    assert posts.rows(BUILDS) == []


def test_a_dry_run_counts_and_changes_nothing(posts):
    sql.execute(posts.url, "delete from mirror.posts")
    said = posts.run_replay("posts", "--dry-run")
    head = sql.head(posts.url)
    assert (said["records"], said["rows"], said["misfits"], said["seq"], said["cursor"]) == (4, 4, 0, head, head)
    assert posts.run_replay("messages", "--dry-run")["misfits"] == 1
    assert "Would rebuild mirror.posts" in posts.command("replay", "mirror", "posts", "--dry-run").stdout
    assert titles(posts) == {} and posts.rows(BUILDS) == []


def test_an_unknown_mirror_and_bad_options(posts):
    assert 'no mirror "nobody"' in posts.command("replay", "mirror", "nobody").stderr
    assert posts.command("replay", "mirror").returncode == 2
    assert posts.command("replay", "mirror", "posts", "--from", "soon").returncode == 2
    assert posts.command("replay", "mirror", "posts", "--rate", "0").returncode == 2
    assert "head is" in posts.command("replay", "mirror", "posts", "--from", "1000").stderr


def test_readers_and_writers_go_on_through_rebuilds(posts):
    posts.rest.put("posts", {f"p{number}": {"author": "ada"} for number in range(300)})
    posts.caught_up()
    stop, seen, failures, written = threading.Event(), set(), [], []

    def read():
        with psycopg.connect(posts.url, autocommit=True) as connection:
            while not stop.is_set():
                try:
                    seen.add(connection.execute("select count(*) from mirror.posts").fetchone()[0] >= 300)
                except psycopg.Error as error:
                    failures.append(str(error))

    def write():
        while not stop.is_set():
            assert posts.rest.put(f"posts/n{len(written)}", {"author": "bob"}).status == 200
            written.append(len(written))

    threads = [threading.Thread(target=work) for work in (read, read, write)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            said = posts.run_replay("posts")
            assert said["rows"] >= 300
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == [] and seen == {True}
    posts.caught_up()
    assert posts.rows("select count(*) from mirror.posts") == [(300 + len(written),)]
    posts.verify()


def test_a_killed_rebuild_leaves_the_old_table_and_is_cleaned_up_by_the_next(posts, logs):
    posts.rest.put("posts", {f"p{number}": {"author": "ada", "title": "t"} for number in range(200)})
    posts.caught_up()
    process = Process([pathmirror(), "replay", "mirror", "posts", "--rate", "50", "--database-url", posts.url], "replay", logs)
    wait_until(lambda: posts.rows(BUILDS), "the new table")
    process.kill()
    posts.rest.put("posts/p0/title", "later")
    posts.caught_up()
    assert titles(posts)["p0"] == "later" and posts.rows("select count(*) from mirror.posts") == [(200,)]
    wait_until(lambda: not posts.rows("select 1 from pg_locks where locktype = 'advisory' and objsubid = 1 and pid in "
                                      "(select pid from pg_stat_activity where application_name = 'pathmirror mirror build')"),
               "the killed one's session to end")
    assert posts.run_replay("posts", "--dry-run")["leftovers"] == [posts.rows(BUILDS)[0][0]]
    assert posts.run_replay("posts")["removedLeftover"] is True
    assert posts.rows(BUILDS) == [] and len(titles(posts)) == 200
    posts.verify()


def test_dropping_a_mirror_takes_a_killed_rebuild_with_it(posts, logs):
    process = Process([pathmirror(), "replay", "mirror", "posts", "--rate", "1", "--database-url", posts.url], "replay", logs)
    wait_until(lambda: posts.rows(BUILDS), "the new table")
    process.kill()
    posts.run("drop", "posts", "--yes")
    assert posts.rows(BUILDS) == []


def test_a_new_table_that_is_wrong_never_takes_the_others_place(posts, logs):
    """The new table is damaged between its fill and its comparison."""
    posts.rest.put("posts", {f"p{number}": {"author": "ada", "title": "t"} for number in range(40)})
    posts.caught_up()
    process = Process([pathmirror(), "replay", "mirror", "posts", "--rate", "20", "--database-url", posts.url], "replay", logs)
    table = wait_until(lambda: posts.rows(BUILDS), "the new table")[0][0]
    # All rows become visible at the end of the fill; the comparison follows at the same rate.
    wait_until(lambda: posts.rows(f"update {table} set title = 'wrong' where post_id = 'p9' returning 1"), "its rows", 30)
    assert process.wait(60) == 1
    assert 'row post_id "p9": title differs' in process.stderr() and "the old table stays in place" in process.stderr()
    assert titles(posts)["p9"] == "t" and posts.rows(BUILDS) == []
    posts.verify()


def test_a_pruned_mirror_is_made_anew(posts):
    posts.run("pause", "posts")
    wait_until(lambda: "paused" in posts.run("status", "posts"), "the pause")
    posts.rest.put("posts/late", {"author": "ada", "title": "L"})
    posts.rest.put("posts/later", {"author": "ada", "title": "L"})
    wait_until(lambda: posts.rows("select seq = head from pathmirror.mirror_status where name = 'messages'") == [(True,)], "the other")
    assert cli.command("log", "prune", "--keep", "1 entry", "--force", "--yes", "--database-url", posts.url).returncode == 0
    posts.run("resume", "posts")
    wait_until(lambda: posts.rows("select state, message ~ 'replay mirror' from pathmirror.mirror_status where name = 'posts'")
               == [("broken", True)], "the mirror to say so")
    assert "is no longer in the log" in posts.command("replay", "mirror", "posts", "--from", "1").stderr
    posts.run_replay("posts")
    assert set(titles(posts)) == {"a", "b", "c", "d", "late", "later"}
    posts.rest.put("posts/last", {"author": "ada"})
    posts.caught_up()
    assert "last" in titles(posts)
    posts.verify()


def test_a_mirror_elsewhere_is_made_anew(mirrored, postgres):
    other = postgres.create_database()
    mirrored.apply({**POSTS, "target": other})
    mirrored.rest.put("posts/a", {"author": "ada"})
    mirrored.caught_up()
    sql.execute(other, "delete from mirror.posts")
    assert mirrored.run_replay("posts")["rows"] == 1
    assert sql.rows(other, "select post_id from mirror.posts") == [("a",)]
    mirrored.rest.put("posts/b", {"author": "ada"})
    mirrored.caught_up()
    assert len(sql.rows(other, "select post_id from mirror.posts")) == 2
    mirrored.verify()


def test_what_an_index_can_not_hold_is_left_out_of_a_new_table(mirrored):
    noise = "".join(chr(33 + os.urandom(1)[0] % 90) for _ in range(20_000)).replace('"', "x").replace("\\", "y")
    mirrored.rest.put("posts", {"big": {"author": "ada", "title": noise}, **{f"p{n}": {"author": "ada", "title": "t"} for n in range(50)}})
    applied = mirrored.apply({**POSTS, "indexes": [["title"]]})[0]
    assert (applied["rows"], applied["misfits"]) == (50, 1)
    assert [(one["record"], one["column"]) for one in cli.objects(mirrored.run("errors", "posts", "--json"))] == [("/posts/big", "")]
    mirrored.verify()
    assert mirrored.run_replay("posts")["rows"] == 50
    mirrored.verify()
    sql.execute(mirrored.url, "delete from pathmirror.mirror_error")
    assert 'row post_id "big" is missing' in mirrored.command("log", "verify").stdout


# MARK: a part of the log

def test_a_part_of_the_log_is_applied_again(posts):
    first = posts.rest.put("posts/b/title", "again").seq
    posts.rest.put("posts/f", {"author": "ada", "title": "F"})
    posts.rest.put("posts/c", None)
    posts.caught_up()
    oid = posts.rows("select 'mirror.posts'::regclass::oid")
    sql.execute(posts.url, "update mirror.posts set title = 'wrong'",
                "insert into mirror.posts (post_id, author, _seq) values ('c', 'x', 1)", "delete from mirror.posts where post_id = 'f'")
    assert posts.run_replay("posts", "--from", str(first), "--dry-run") == {
        "name": "posts", "table": "mirror.posts", "from": first, "to": first + 2, "entries": 3, "touching": 3, "dryRun": True}
    assert posts.run_replay("messages", "--from", str(first), "--dry-run")["touching"] == 0
    assert titles(posts)["b"] == "wrong"
    said = posts.run_replay("posts", "--from", str(first))
    assert (said["from"], said["to"]) == (first, first + 2)
    # Rows with later writes are right, and the other rows are unchanged.
    assert titles(posts) == {"a": "wrong", "b": "again", "d": "wrong", "f": "F"}
    assert posts.rows("select 'mirror.posts'::regclass::oid") == oid
    assert 'row post_id "a": title differs' in posts.command("log", "verify").stdout
    posts.run_replay("posts", "--from", "1", "--rate", "20")
    assert titles(posts) == {"a": "A", "b": "again", "d": "D", "f": "F"}
    posts.verify()


def test_a_part_of_the_log_from_a_time_and_one_that_is_not_read_yet(posts):
    posts.run("pause", "posts")
    wait_until(lambda: "paused" in posts.run("status", "posts"), "the pause")
    seq = posts.rest.put("posts/a/title", "unread").seq
    sql.execute(posts.url, "update pathmirror.log set committed_at = timestamptz '2026-01-31 12:00Z' + seq * interval '1 min'")
    said = posts.run_replay("posts", "--from", "2026-01-31T12:02:30Z", "--dry-run")
    assert (said["from"], said["to"]) == (3, seq)
    # The replay also applies the unread entries of a mirror that lags.
    assert posts.run_replay("posts", "--from", "head")["from"] == seq
    assert titles(posts)["a"] == "unread"
    posts.run("resume", "posts")
    posts.caught_up()
    posts.verify()


def test_a_part_of_the_log_under_load(posts):
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            posts.rest.put(f"posts/w{number % 20}/title", f"t{number}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            posts.run_replay("posts", "--from", "2")
    finally:
        stop.set()
        writer.join()
    posts.caught_up()
    posts.verify()


def test_a_mirror_that_is_held_stops_nobody_else(posts):
    with psycopg.connect(posts.url) as holder:
        holder.execute("select from pathmirror.mirror_cursor join pathmirror.mirror on mirror.id = mirror_cursor.mirror "
                       "where mirror.name = 'posts' for update of mirror_cursor")
        posts.rest.patch("", {"posts/new": {"author": "ada"}, "rooms/x/messages/77": {"text": "t"}})
        wait_until(lambda: posts.rows("select 1 from mirror.messages where number = 77"), "the other mirror")
        assert posts.rows("select state, lag_entries from pathmirror.mirror_status where name = 'posts'") == [("running", 1)]
    posts.caught_up()
    assert "new" in titles(posts)


def test_a_killed_application_of_a_part_changes_nothing(posts, logs):
    for number in range(60):
        posts.rest.put("posts/b/title", f"t{number}")
    posts.caught_up()
    sql.execute(posts.url, "update mirror.posts set title = 'wrong' where post_id = 'b'")
    process = Process([pathmirror(), "replay", "mirror", "posts", "--from", "1", "--rate", "20", "--database-url", posts.url], "replay", logs)
    wait_until(lambda: posts.rows("select 1 from pg_stat_activity where application_name = 'pathmirror mirror' and datname = "
                                  "current_database() and backend_xid is not null"), "its transaction to write")
    process.send(signal.SIGKILL)
    process.wait()
    assert titles(posts)["b"] == "wrong"
    posts.run_replay("posts", "--from", "1")
    assert titles(posts)["b"] == "t59"
    posts.verify()


# MARK: limits for errors

def test_errors_past_the_limit_are_counted_and_rows_marked(mirrored):
    limited = {**POSTS, "keep errors": 3}
    mirrored.apply(limited)
    for number in range(5):
        # One after another, because the writes of a batch have no order.
        mirrored.rest.put(f"posts/p{number}", {"author": "ada", "starCount": "many"})
        mirrored.caught_up()
    counts = "select errors, unkept_errors from pathmirror.mirror_status"
    assert mirrored.rows(counts) == [(3, 2)]
    assert mirrored.rows("select count(*) from mirror.posts where _misfits = '{star_count}'") == [(5,)]
    status = json.loads(mirrored.run("status", "posts", "--json"))
    assert (status["errors"], status["unkeptErrors"]) == (3, 2)
    finished = mirrored.command("mirror", "errors", "posts")
    assert len(finished.stdout.splitlines()) == 3 and "2 more errors were found and not stored" in finished.stderr
    # Known errors are updated, and repaired ones make room.
    mirrored.rest.put("posts/p0/starCount", "more")
    mirrored.rest.put("posts/p1/starCount", 7)
    mirrored.rest.put("posts/p4/starCount", "few")
    mirrored.caught_up()
    assert mirrored.rows("select record, value from pathmirror.mirror_error order by 1") == [
        ("/posts/p0", '"more"'), ("/posts/p2", '"many"'), ("/posts/p4", '"few"')]
    mirrored.verify()
    assert [plan["action"] for plan in mirrored.apply({**POSTS, "keep errors": 4})] == ["alter"]
    mirrored.rest.put("posts/p5", {"author": "ada", "starCount": "x"})
    mirrored.rest.put("posts/p6", {"author": "ada", "starCount": "x"})
    mirrored.caught_up()
    assert mirrored.rows(counts) == [(4, 3)]
    # A new table counts its errors again, whatever the source of its rows.
    assert mirrored.run_replay("posts")["misfits"] == 6
    assert mirrored.rows(counts) == [(4, 2)]
    mirrored.verify()


def test_no_errors_need_be_kept_and_another_database_counts_too(mirrored, postgres):
    other = postgres.create_database()
    mirrored.apply({**POSTS, "keep errors": 0, "target": other})
    mirrored.rest.put("posts", {f"p{number}": {"author": "ada", "starCount": "many"} for number in range(20)})
    wait_until(lambda: mirrored.rows("select errors, unkept_errors from pathmirror.mirror_status") == [(0, 20)], "the count")
    assert sql.rows(other, "select count(*) from pathmirror.mirror_error") == [(0,)]
    mirrored.run("drop", "posts", "--yes")
    assert sql.rows(other, "select count(*) from pathmirror.mirror_error_excess") == [(0,)]


# MARK: rights

READER = "select has_table_privilege('pathmirror_reader', 'mirror.{0}', 'select') and has_schema_privilege('pathmirror_reader', 'mirror', 'usage')"


def test_the_reporting_role_may_read_mirrors_wherever_they_are(mirrored, postgres):
    """Roles belong to the whole cluster: the other database has the role as well."""
    other = postgres.create_database()
    mirrored.apply(POSTS, {**USER_POSTS, "target": other})
    mirrored.rest.put("posts/a", {"author": "ada"})
    mirrored.caught_up()
    for _ in range(2):
        assert mirrored.rows(READER.format("posts")) == sql.rows(other, READER.format("user_posts")) == [(True,)]
        with psycopg.connect(mirrored.url) as connection:
            connection.execute("set role pathmirror_reader")
            assert connection.execute("select post_id from mirror.posts").fetchall() == [("a",)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("delete from mirror.posts")
        mirrored.run_replay("posts")
        mirrored.run_replay("user_posts")
    mirrored.apply({**POSTS, "columns": {**POSTS["columns"], "lang": "text"}})
    assert mirrored.rows(READER.format("posts")) == [(True,)]


def test_what_was_revoked_stays_revoked(mirrored):
    mirrored.apply(POSTS)
    sql.execute(mirrored.url, "revoke select on mirror.posts from pathmirror_reader")
    mirrored.run_replay("posts")
    assert mirrored.rows(READER.format("posts")) == [(False,)]


def test_a_database_without_the_role_has_mirrors_all_the_same(mirrored, own_postgres):
    other = own_postgres.create_database()
    mirrored.apply({**POSTS, "target": other})
    assert sql.rows(other, "select count(*) from pg_roles where rolname = 'pathmirror_reader'") == [(0,)]
    mirrored.run_replay("posts")
