"""pathmirror.mirror_misfit: the reason for a NULL, for readers of the table."""

import json

import psycopg
import pytest
from harness import cli, sql
from harness.mirrored import POSTS, USER_POSTS

JOINED = """
    select post_id, title, misfit.column_name, misfit.value, misfit.reason
    from mirror.posts left join pathmirror.mirror_misfit as misfit
        on misfit.mirror = 'posts' and misfit.key ->> 'post_id' = post_id
    where _misfits is not null or post_id = 'good' order by post_id
"""


@pytest.fixture
def reader(mirrored):
    """A connection of a role that may only read."""
    with psycopg.connect(mirrored.url, autocommit=True) as connection:
        connection.execute("set role pathmirror_reader")
        yield connection


@pytest.fixture
def reports(reader):
    return lambda query: reader.execute(query).fetchall()


def put(mirrored, path, value):
    mirrored.rest.send("PUT", path, json.dumps(value).encode())


def test_a_reader_sees_why_a_value_is_null(mirrored, reports):
    mirrored.apply(POSTS)
    put(mirrored, "/posts.json", {
        "good": {"author": "ada", "title": "On engines"}, "bad one": {"author": "bob", "title": {"en": "Notes"}},
        "é": {"author": "c", "starCount": "many"}})
    mirrored.caught_up()
    assert reports(JOINED) == [
        ("bad one", None, "title", '{"en":"Notes"}', "an object where a single value should be"),
        ("good", "On engines", None, None, None),
        ("é", None, "star_count", '"many"', "a text where a whole number should be")]
    put(mirrored, "/posts/bad%20one/title.json", "Notes")
    mirrored.caught_up()
    assert [row[0] for row in reports(JOINED)] == ["good", "é"]
    # The view omits the errors of an earlier table.
    mirrored.apply({**POSTS, "columns": {**POSTS["columns"], "star_count": {"type": "text", "path": "starCount"}}})
    assert [row[0] for row in reports(JOINED)] == ["good"]


def test_each_captured_key_has_its_name(mirrored, reports):
    mirrored.apply(USER_POSTS)
    put(mirrored, "/user-posts/u1/p1.json", {"author": 5, "tags": "x"})
    put(mirrored, f"/user-posts/u2/{'p' * 700}.json", {"author": {"no": "text"}})
    mirrored.caught_up()
    assert reports("select namespace, mirror, table_name, key, column_name, path from pathmirror.mirror_misfit order by path") == [
        ("default", "user_posts", "mirror.user_posts", {"uid": "u1", "post_id": "p1"}, "tags", "/user-posts/u1/p1/tags"),
        ("default", "user_posts", "mirror.user_posts", {"uid": "u2", "post_id": "p" * 700}, "author", f"/user-posts/u2/{'p' * 700}/author")]


def test_a_row_that_is_left_out_has_no_column(mirrored, reports):
    mirrored.apply({**POSTS, "keys": {"post_id": "bigint"}})
    put(mirrored, "/posts/x.json", {"author": "a"})
    mirrored.caught_up()
    # The record has more than the table shows, so the view omits its value.
    assert reports("select key, column_name, value, reason from pathmirror.mirror_misfit") == [
        ({"post_id": "x"}, None, None, "the key post_id is not a bigint as PostgreSQL writes it")]


def test_who_may_not_read_the_table_sees_nothing_of_it(mirrored, reader, reports):
    mirrored.apply(POSTS, {**USER_POSTS, "table": "other.user_posts"})
    put(mirrored, "/posts/x.json", {"author": "a", "title": {"a": "secret"}})
    put(mirrored, "/user-posts/u1/p1.json", {"author": "a", "tags": "open"})
    mirrored.caught_up()
    mirrors = "select mirror from pathmirror.mirror_misfit order by 1"
    told = []
    reader.add_notice_handler(lambda notice: told.append(notice.message_primary))
    reader.execute("create function pg_temp.tell(text) returns boolean language plpgsql cost 0.0001 as "
                   "$$ begin raise notice '%', $1; return true; end $$")
    assert reports(mirrors) == [("posts",), ("user_posts",)]
    sql.execute(mirrored.url, "revoke select on mirror.posts from pathmirror_reader")
    # A function of the reader, which costs less than the check of rights, gets no rows either.
    assert reports(f"{mirrors.replace(' order', ' where pg_temp.tell(value) order')}") == [("user_posts",)]
    assert told == ['"open"']
    sql.execute(mirrored.url, "grant select on mirror.posts to pathmirror_reader", "revoke usage on schema mirror from pathmirror_reader")
    assert reports(mirrors) == [("user_posts",)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reports("select * from pathmirror.mirror_error")
    # The view shows no rows of a table with row security.
    sql.execute(mirrored.url, "alter table other.user_posts enable row level security",
                "create policy own on other.user_posts for select to pathmirror_reader using (uid = 'u1')")
    assert reports(mirrors) == [] and reports("select uid from other.user_posts") == [("u1",)]


def test_another_database_has_the_view_too(mirrored, postgres):
    other = postgres.create_database()
    mirrored.apply({**POSTS, "target": other})
    put(mirrored, "/posts/x.json", {"author": "a", "title": {"a": 1}})
    mirrored.caught_up()
    assert sql.rows(other, "select mirror, key, column_name, value from pathmirror.mirror_misfit") == [
        ("posts", {"post_id": "x"}, "title", '{"a":1}')]
    with psycopg.connect(other) as connection:
        connection.execute("set role pathmirror_reader")
        assert connection.execute("select count(*) from pathmirror.mirror_misfit").fetchone() == (1,)
    # `migrate up` in that database keeps the view.
    cli.succeeds("migrate", "up", "--database-url", other)
    assert len(sql.rows(other, "select * from pathmirror.mirror_misfit")) == 1
    mirrored.run("drop", "posts", "--yes")
    assert sql.rows(other, "select * from pathmirror.mirror_misfit") == []
