"""`namespace move` of a namespace with mirrors: their tables, and what their records were, are where the namespace is."""

import json
import random
import subprocess
import threading

import pytest
from harness import cli, sql
from harness.mirrored import POSTS
from harness.moves import ended, finished, interrupted, move, mover
from harness.waiting import wait_until

KINDS = [
    POSTS,
    {**POSTS, "name": "kept", "table": "mirror.kept", "history": ["changes", "versions"]},
    {**POSTS, "name": "soft", "table": "mirror.soft", "deleted": "soft"},
    {**POSTS, "name": "monthly", "table": "reports.monthly", "indexes": [],
     "partition": {"by": "created_at", "every": "month"}},
]
TABLES = ["mirror.posts", "mirror.kept_changes", "mirror.kept_versions", "mirror.soft", "reports.monthly", "mirror.kept"]
# Where a mover is held up in the target: before there is a table, before it has its place, and when the copy is to live.
STEPS = {
    "adding": "LOCK TABLE pathmirror.mirror IN SHARE MODE",
    "making": "LOCK TABLE pathmirror.mirror_cursor IN SHARE MODE",
    "writers are held up": "LOCK TABLE pathmirror.retention IN SHARE MODE",
}


class Moved:
    """A namespace with mirrors, a gateway, and two databases for it."""

    def __init__(self, two, scratch):
        self.gateway, self.home, self.other = two
        self.rest = self.gateway.rest.at(ns="m")
        self.scratch = scratch
        self.place, self.former = self.home, self.other
        self.dice = random.Random(7)

    def apply(self, *definitions):
        path = self.scratch / "mirrors.json"
        path.write_text(json.dumps(list(definitions)))
        cli.succeeds("mirror", "apply", path, "--yes", "--ns", "m", "--database-url", self.home)

    def write(self, times=30):
        """Posts come, change, do not fit, and go."""
        for _ in range(times):
            key = f"posts/p{self.dice.randrange(12)}"
            kind = self.dice.randrange(5)
            if kind == 0:
                self.put(key, None)
            elif kind == 1:
                self.put(key, {"author": "ada", "title": {"no": "text"}, "starCount": "many"})
            else:
                self.put(key, {
                    "author": self.dice.choice(["ada", "bob"]), "title": f"T{self.dice.random()}", "starCount": self.dice.randrange(9),
                    "createdAt": self.dice.randrange(10**10, 10**12), "tags": ["a", "b"]})

    def put(self, path, value):
        """Tries until it is acknowledged."""
        wait_until(lambda: self.rest.put(path, value).status == 200, "a write", 60)

    def moved(self):
        """It is elsewhere now."""
        self.place, self.former = self.former, self.place

    @property
    def other_name(self):
        return "b" if self.place == self.home else "home"

    def caught_up(self, url=None):
        wait_until(lambda: sql.rows(url or self.place, "SELECT coalesce(bool_and(seq = head), true) FROM pathmirror.mirror_status")[0][0],
                   "the mirrors to catch up", 60)

    def rows(self, table, url=None):
        return sql.rows(url or self.place, f"SELECT x::text FROM {table} AS x ORDER BY 1")

    def check(self, tables):
        """The tables are what the tree and the log say, and nothing is left of them where the namespace was."""
        self.caught_up()
        assert cli.verify("--database-url", self.home, "--ns", "m").count("clean") >= 1
        for table in tables:
            assert sql.rows(self.place, "SELECT to_regclass(%s) IS NOT NULL", table) == [(True,)], table
        self.has_nothing(self.former, tables)

    @staticmethod
    def has_nothing(url, tables):
        for table in tables:
            assert sql.rows(url, "SELECT to_regclass(%s) IS NULL", table) == [(True,)], table
        for table in ("mirror", "mirror_cursor", "mirror_version", "mirror_error", "mirror_run"):
            assert sql.rows(url, f"SELECT count(*) FROM pathmirror.{table}") == [(0,)], table
        assert sql.rows(url, "SELECT count(*) FROM pg_class WHERE relname ~ '^_(build|old)_'") == [(0,)]


@pytest.fixture
def moved(two, scratch):
    made = Moved(two, scratch)
    made.write()
    return made


def test_all_kinds_there_and_back(moved):
    moved.apply(*KINDS)
    moved.write()
    moved.caught_up()
    for _ in range(2):
        histories = {table: moved.rows(table) for table in TABLES[1:4]}
        begins = sql.rows(moved.place, "SELECT begins_at_seq FROM pathmirror.mirror_cursor ORDER BY mirror")
        move(moved.home, "m", moved.other_name)
        moved.moved()
        moved.check(TABLES)
        assert {table: moved.rows(table) for table in histories} == histories
        assert sql.rows(moved.place, "SELECT begins_at_seq FROM pathmirror.mirror_cursor ORDER BY mirror") == begins
        moved.write()
        moved.check(TABLES)
        # They go on with what was there, and do not begin anew.
        for table, before in histories.items():
            if table.endswith("_changes"):
                assert len(moved.rows(table)) > len(before) and set(before) <= set(moved.rows(table))


def test_a_history_whose_log_is_gone(moved):
    moved.apply(*KINDS[1:3])
    moved.put("posts/gone", {"author": "ada"})
    moved.put("posts/gone", None)
    moved.caught_up()
    head = sql.head(moved.home, "m")
    before = [moved.rows(table) for table in TABLES[1:4]]
    cli.succeeds("log", "prune", "--ns", "m", "--keep", "1", "--database-url", moved.home)
    assert sql.rows(moved.home, "SELECT retained_from > 1 FROM pathmirror.namespace WHERE name = 'm'") == [(True,)]
    move(moved.home, "m", "b")
    moved.moved()
    moved.check(TABLES[1:4])
    assert sql.head(moved.place, "m") == head
    assert [moved.rows(table) for table in TABLES[1:4]] == before


def test_a_table_in_a_third_database_goes_on(moved, postgres):
    third = postgres.create_database()
    moved.apply({**POSTS, "target": third}, {**KINDS[1], "target": third})
    moved.write()

    def there():
        # The namespace's number is another one in each database.
        number = sql.rows(moved.place, "SELECT id FROM pathmirror.namespace WHERE name = 'm'")[0][0]
        head = sql.head(moved.place, "m")
        wait_until(lambda: sql.rows(third, "SELECT count(*) FROM pathmirror.mirror_cursor WHERE seq = %s AND namespace_id = %s", head, number)
                   == [(4,)], "the mirrors to catch up", 60)
        return {table: moved.rows(table, third) for table in TABLES[:3]}

    for _ in range(2):
        before = there()
        sql.execute(third, "CREATE OR REPLACE VIEW authors AS SELECT DISTINCT author FROM mirror.posts")
        move(moved.home, "m", moved.other_name)
        moved.moved()
        assert there() == before
        moved.write()
        assert set(before[TABLES[1]]) < set(there()[TABLES[1]])
        assert cli.verify("--database-url", moved.home, "--ns", "m").count("clean") >= 1
        moved.has_nothing(moved.former, TABLES)


def test_what_is_in_the_way_is_said_before_anything_is_done(moved):
    moved.apply(POSTS)

    def refused():
        done = cli.command("namespace", "move", "m", "--to", "b", "--database-url", moved.home)
        assert done.returncode == 1, done.stdout
        assert sql.rows(moved.home, "SELECT count(*) FROM pathmirror.namespace_move") == [(0,)]
        return done.stderr

    sql.execute(moved.home, "CREATE VIEW authors AS SELECT DISTINCT author FROM mirror.posts")
    said = refused()
    assert "view public.authors reads mirror.posts" in said and "drop it" in said
    sql.execute(moved.home, "DROP VIEW authors")
    sql.execute(moved.other, "CREATE SCHEMA mirror CREATE TABLE posts (x int)")
    assert "In b: mirror.posts exists and is no mirror's table" in refused()
    sql.execute(moved.other, "DROP TABLE mirror.posts")
    sql.execute(moved.home, "INSERT INTO pathmirror.mirror (namespace_id, name, definition) SELECT namespace_id, 'unmade', "
                "'{\"name\": \"unmade\", \"path\": \"/x/{y}\", \"columns\": {}}' FROM pathmirror.mirror")
    assert '"unmade" of "m" has no table yet' in refused()
    sql.execute(moved.home, "DELETE FROM pathmirror.mirror WHERE name = 'unmade'")
    move(moved.home, "m", "b")
    moved.moved()
    moved.check(TABLES[:1])


def test_what_somebody_made_on_a_table(moved):
    """Indexes go along; what can't is told."""
    moved.apply(POSTS, KINDS[1])
    sql.execute(moved.home, "CREATE INDEX by_title ON mirror.posts (lower(title)) WHERE author = 'ada'",
                "CREATE INDEX kept_by_title ON mirror.kept_versions (title)",
                "CREATE FUNCTION shout(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)'",
                "CREATE INDEX by_shout ON mirror.posts (shout(title))",
                "ALTER TABLE mirror.posts ADD CONSTRAINT few CHECK (star_count < 1000)")
    lost = move(moved.home, "m", "b")["lost"]
    moved.moved()
    assert [text for text in lost if "by_shout" in text and text.startswith("mirror.posts: ")], lost
    assert [text for text in lost if "constraint few" in text], lost
    assert len(lost) == 2, lost
    indexes = dict(sql.rows(moved.other, "SELECT indexname, indexdef FROM pg_indexes WHERE indexname IN ('by_title', 'kept_by_title', 'by_shout')"))
    assert set(indexes) == {"by_title", "kept_by_title"} and "WHERE (author = 'ada'" in indexes["by_title"], indexes
    moved.write()
    moved.check([*TABLES[:3], "mirror.kept"])


def test_a_paused_mirror_stays_paused(moved):
    moved.apply(POSTS)
    cli.succeeds("mirror", "pause", "posts", "--ns", "m", "--database-url", moved.home)
    move(moved.home, "m", "b")
    moved.moved()
    moved.write(5)
    assert sql.rows(moved.other, "SELECT is_paused FROM pathmirror.mirror") == [(True,)]
    cli.succeeds("mirror", "resume", "posts", "--ns", "m", "--database-url", moved.home)
    moved.check(TABLES[:1])


def test_what_changes_while_the_move_is_interrupted(moved):
    """Another definition, one that goes, and one that comes: the copy is made to have what the source has."""
    moved.apply(*KINDS[:3])
    interrupted(moved.other, STEPS["writers are held up"], moved.home, "m", "b")
    # The copy's tables follow what of the log is copied, and readers there see them already.
    moved.caught_up(moved.other)
    assert len(moved.rows("mirror.posts", moved.other)) > 0
    columns = {**POSTS["columns"], "stars": {"type": "bigint", "path": "starCount"}}
    moved.apply({**POSTS, "columns": columns}, {**KINDS[1], "columns": columns}, {**KINDS[3], "name": "new"})
    cli.succeeds("mirror", "drop", "soft", "--yes", "--ns", "m", "--database-url", moved.home)
    moved.write()
    finished(moved.home, "m", "b")
    moved.moved()
    tables = [*TABLES[:3], "reports.monthly"]
    moved.check(tables)
    assert sql.rows(moved.other, "SELECT to_regclass('mirror.soft') IS NULL") == [(True,)]
    for table in ("mirror.posts", "mirror.kept_versions"):
        assert sql.rows(moved.other, "SELECT count(*) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'stars'", table) == [(1,)]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("ending", ["again", "abort"])
def test_interrupted(moved, step, ending):
    moved.apply(*KINDS)
    interrupted(moved.other, STEPS[step], moved.home, "m", "b")
    moved.write()
    if ending == "abort":
        def aborted():
            done = cli.command("namespace", "move", "m", "--abort", "--database-url", moved.home)
            assert done.returncode == 0 or "moving" in done.stderr, done.stderr
            return done.returncode == 0
        wait_until(aborted, "the copy to be thrown away", 60)
    else:
        finished(moved.home, "m", "b")
        moved.moved()
    moved.check(TABLES)
    moved.write()
    moved.check(TABLES)


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment_while_clients_write(moved, seed):
    dice = random.Random(seed)
    moved.apply(*KINDS)
    stopped = threading.Event()

    def load():
        while not stopped.is_set():
            moved.write(1)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(2):
            patience = 0.7
            while True:
                process = mover(moved.home, "m", moved.other_name)
                try:
                    process.communicate(timeout=dice.uniform(0.02, patience))
                except subprocess.TimeoutExpired:
                    ended(process)
                    # Whatever the machine's speed, one is left to finish in the end.
                    patience *= 1.3
                else:
                    if process.returncode == 0:
                        break
            moved.moved()
    finally:
        stopped.set()
        thread.join()
    moved.check(TABLES)
