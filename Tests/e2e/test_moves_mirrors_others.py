"""`namespace move` of a namespace with mirrors: nothing of others is touched, and nothing is lost where somebody is in the way."""

import json

import pytest
from harness import cli, sql
from harness.mirrored import POSTS
from harness.moves import finished, held, interrupted, move
from harness.waiting import wait_until

SOFT = {**POSTS, "name": "soft", "table": "mirror.soft", "deleted": "soft"}
# Writers are held up then, and all tables are made.
FENCE = "LOCK TABLE pathmirror.retention IN SHARE MODE"


class Moved:
    def __init__(self, two, scratch):
        self.gateway, self.home, self.other = two
        self.rest = self.gateway.rest.at(ns="m")
        self.scratch = scratch

    def fill(self, times=10, ns="m"):
        for number in range(times):
            self.put(f"posts/p{number}", {"author": "ada", "title": f"T{number}"}, ns)

    def put(self, path, value, ns="m"):
        wait_until(lambda: self.gateway.rest.at(ns=ns).put(path, value).status == 200, "a write", 60)

    def apply(self, *definitions, ns="m"):
        path = self.scratch / "mirrors.json"
        path.write_text(json.dumps(list(definitions)))
        cli.succeeds("mirror", "apply", path, "--yes", "--ns", ns, "--database-url", self.home)

    def command(self, *words, ns="m"):
        return cli.command(*words, "--ns", ns, "--database-url", self.home)

    def move(self, *more):
        return cli.command("namespace", "move", "m", *more, "--database-url", self.home)

    def refused(self, *more):
        done = self.move(*more)
        assert done.returncode == 1, done.stdout
        return done.stderr

    def caught_up(self, url):
        wait_until(lambda: sql.rows(url, "SELECT coalesce(bool_and(seq = head), true) FROM pathmirror.mirror_status")[0][0],
                   "the mirrors to catch up", 60)

    def clean(self, *names):
        for name in names:
            assert cli.verify("--database-url", self.home, "--ns", name).count("clean") >= 1


@pytest.fixture
def moved(two, scratch):
    made = Moved(two, scratch)
    made.fill()
    return made


def rows(url, table):
    return sql.rows(url, f"SELECT x::text FROM {table} AS x ORDER BY 1")


@pytest.mark.parametrize("whose", ["a user's", "a mirror's"])
def test_a_table_of_that_name_is_somebody_elses(moved, whose):
    """It comes after the move has begun, and the mirror is one that brings what its records were."""
    moved.apply(POSTS)
    interrupted(moved.other, FENCE, moved.home, "m", "b")
    if whose == "a user's":
        sql.execute(moved.other, "CREATE TABLE mirror.soft (precious text)", "INSERT INTO mirror.soft VALUES ('mine')")
    else:
        cli.succeeds("namespace", "create", "x", "--in", "b", "--database-url", moved.home)
        moved.fill(3, "x")
        moved.apply(SOFT, ns="x")
    before = rows(moved.other, "mirror.soft")
    moved.apply(POSTS, SOFT)
    for _ in range(2):
        assert "mirror.soft" in moved.refused("--to", "b")
    assert moved.move("--abort").returncode == 0
    assert rows(moved.other, "mirror.soft") == before
    assert sql.rows(moved.other, "SELECT to_regclass('mirror.posts') IS NULL") == [(True,)]
    moved.put("posts/p1", None)
    moved.caught_up(moved.home)
    moved.clean("m")
    if whose == "a mirror's":
        moved.put("posts/p1", None, "x")
        moved.caught_up(moved.other)
        moved.clean("x")


def test_a_namespace_of_the_same_number(moved):
    """The target has the tables of mirrors whose namespace is another one's number there; that one goes."""
    number = sql.rows(moved.home, "SELECT id FROM pathmirror.namespace WHERE name = 'm'")[0][0]
    for name in [f"x{count}" for count in range(number)]:
        cli.succeeds("namespace", "create", name, "--in", "b", "--database-url", moved.home)
    rival = sql.rows(moved.other, "SELECT name FROM pathmirror.namespace WHERE id = %s", number)[0][0]
    moved.apply({**SOFT, "target": moved.other})
    moved.put("posts/p1", None)

    def gone(times):
        wait_until(lambda: sql.rows(moved.other, "SELECT count(*) FROM mirror.soft WHERE _deleted_at IS NOT NULL") == [(times,)], "the mirror", 60)

    gone(1)
    before = rows(moved.other, "pathmirror.mirror_version")
    move(moved.home, rival, "home")
    assert rows(moved.other, "pathmirror.mirror_version") == before
    moved.put("posts/p2", None)
    gone(2)
    moved.clean("m", rival)


def test_a_third_database_that_is_the_target(moved):
    moved.apply(POSTS, {**POSTS, "name": "far", "table": "mirror.far", "target": moved.other})
    move(moved.home, "m", "b")
    moved.put("posts/new", {"author": "bob"})
    wait_until(lambda: len(rows(moved.other, "mirror.far")) == len(rows(moved.other, "mirror.posts")) == 11, "both mirrors", 60)
    moved.clean("m")


def test_a_third_database_that_does_not_follow_yet(moved, postgres):
    """The log is kept for its mirror meanwhile, and one that is dropped leaves no table."""
    third = postgres.create_database()
    moved.apply({**SOFT, "target": third}, {**POSTS, "target": third})
    wait_until(lambda: sql.rows(third, "SELECT count(*) FROM pathmirror.mirror_cursor WHERE seq = 10") == [(2,)], "the mirrors", 60)
    # Where the log is needed from is what gateways have told last.
    wait_until(lambda: sql.rows(moved.home, "SELECT count(*) FROM pathmirror.mirror_run WHERE seq = 10") == [(2,)], "the gateway's word", 60)
    interrupted(third, "LOCK TABLE pathmirror.mirror_version IN SHARE MODE", moved.home, "m", "b")
    assert sql.rows(moved.other, "SELECT count(*) FROM pathmirror.namespace WHERE name = 'm'") == [(1,)]
    moved.put("posts/gone", {"author": "eve"})
    moved.put("posts/gone", None)
    pruned = moved.command("log", "prune", "--keep", "1")
    assert "mirror soft still needs what follows seq 10" in pruned.stderr, (pruned.stdout, pruned.stderr)
    assert moved.command("mirror", "drop", "posts", "--yes").returncode == 0
    finished(moved.home, "m", "b")
    wait_until(lambda: sql.rows(third, "SELECT count(*) FROM mirror.soft WHERE _deleted_at IS NOT NULL") == [(1,)], "the mirror", 60)
    assert sql.rows(third, "SELECT to_regclass('mirror.posts') IS NULL") == [(True,)]
    moved.clean("m")


def test_the_log_is_cut_where_the_copys_mirrors_are_not_yet(moved):
    """What a history has is not lost where the target's gateways were away."""
    moved.apply({**POSTS, "name": "kept", "table": "mirror.kept", "history": ["versions"]})
    interrupted(moved.other, FENCE, moved.home, "m", "b")
    moved.caught_up(moved.other)
    with held(moved.other, "SELECT FROM pathmirror.mirror_cursor FOR UPDATE"):
        for number in range(30):
            moved.put("posts/p1", {"author": "ada", "title": f"v{number}"})
        interrupted(moved.other, FENCE, moved.home, "m", "b")
        moved.caught_up(moved.home)
        before = rows(moved.home, "mirror.kept_versions")
        cli.succeeds("log", "prune", "--ns", "m", "--keep", "1", "--database-url", moved.home)
        assert "The same command goes on" in moved.refused("--to", "b")
    finished(moved.home, "m", "b")
    moved.caught_up(moved.other)
    assert rows(moved.other, "mirror.kept_versions") == before and len(before) == 40
    moved.clean("m")


def test_what_comes_onto_a_table_while_the_move_is_interrupted(moved):
    moved.apply(POSTS)
    interrupted(moved.other, FENCE, moved.home, "m", "b")
    sql.execute(moved.home, "CREATE VIEW authors AS SELECT DISTINCT author FROM mirror.posts", "CREATE INDEX late ON mirror.posts (title)")
    assert "view public.authors reads mirror.posts" in moved.refused("--to", "b")
    # It has not left.
    assert sql.rows(moved.home, "SELECT count(*) FROM pathmirror.namespace WHERE name = 'm'") == [(1,)]
    moved.put("posts/p1", None)
    sql.execute(moved.home, "DROP VIEW authors")
    lost = move(moved.home, "m", "b")["lost"]
    assert lost == ["mirror.posts: The index late is not on the new table."]
    moved.caught_up(moved.other)
    moved.clean("m")


def test_a_view_on_the_copys_table_is_named_with_what_to_do(moved):
    moved.apply(POSTS)
    interrupted(moved.other, FENCE, moved.home, "m", "b")
    sql.execute(moved.other, "CREATE VIEW authors AS SELECT DISTINCT author FROM mirror.posts")
    said = moved.refused("--abort")
    assert "public.authors" in said and "then run the command again" in said
    finished(moved.home, "m", "b")
    assert sql.rows(moved.other, "SELECT count(*) FROM authors") == [(1,)]


def test_a_table_of_another_role_stays(moved):
    """Whoever moves it would carry out what another role has written, and gateways of that role could not use the new table."""
    moved.apply(POSTS)
    name = "gateway_" + moved.home.rsplit("_", 1)[1].split("?")[0]
    sql.autocommit(moved.home, f"CREATE ROLE {name}", f"ALTER TABLE mirror.posts OWNER TO {name}")
    try:
        said = moved.refused("--to", "b")
        assert f"belongs to {name}" in said and "drop the mirror" in said
        assert sql.rows(moved.home, "SELECT count(*) FROM pathmirror.namespace_move") == [(0,)]
        sql.autocommit(moved.home, "ALTER TABLE mirror.posts OWNER TO CURRENT_USER")
        # One that comes when the move is on its way.
        interrupted(moved.other, FENCE, moved.home, "m", "b")
        moved.apply(POSTS, SOFT)
        sql.autocommit(moved.home, f"ALTER TABLE mirror.soft OWNER TO {name}")
        assert f"mirror.soft belongs to {name}" in moved.refused("--to", "b").replace('"', "")
        assert sql.rows(moved.other, "SELECT to_regclass('mirror.soft') IS NULL") == [(True,)]
    finally:
        for table in ("posts", "soft"):
            sql.autocommit(moved.home, f"ALTER TABLE IF EXISTS mirror.{table} OWNER TO CURRENT_USER")
        sql.autocommit(moved.home, f"DROP ROLE {name}")
    move(moved.home, "m", "b")
    moved.clean("m")
