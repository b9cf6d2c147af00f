"""`mirror export`: a mirror's rows for other programs."""

import csv
import io
import json
import threading

import duckdb
import pyarrow
import pyarrow.parquet
from harness import cli, sql
from harness.mirrored import POSTS

ROWS = {
    "a": {"author": "ada", "title": "Äpfel, \"Birnen\"\nund Nüsse", "starCount": 9_007_199_254_740_993, "createdAt": 1_700_000_000_000,
          "tags": {"x": True, "y,z": True}, "extra": {"q": [1, 2]}},
    "b": {"author": "bob", "title": ""},
    "c": {"author": "\x01\x02\\.", "title": "\\.", "starCount": -1},
}


def fill(mirrored, **posts):
    for key, post in posts.items():
        mirrored.rest.send("PUT", f"/posts/{key}.json", json.dumps(post).encode())
    mirrored.caught_up()


def export(mirrored, *words) -> str:
    return mirrored.run("export", "posts", *words)


def test_csv_has_what_the_table_has(mirrored):
    mirrored.apply(POSTS)
    fill(mirrored, **ROWS)
    text = export(mirrored)
    rows = {row["post_id"]: row for row in csv.DictReader(io.StringIO(text, newline=""))}
    assert list(rows["a"]) == ["post_id", "author", "title", "star_count", "created_at", "tags", "rest", "_seq", "_updated_at", "_misfits"]
    assert rows["a"]["title"] == ROWS["a"]["title"] and rows["a"]["star_count"] == "9007199254740993"
    assert rows["a"]["created_at"] == "2023-11-14 22:13:20+00" and json.loads(rows["a"]["rest"]) == {"extra": {"q": [1, 2]}}
    assert (rows["c"]["author"], rows["c"]["title"]) == ("\x01\x02\\.", "\\.")
    # The export distinguishes an empty text from none.
    assert 'bob,"",0,,' in text
    assert len(rows) == mirrored.rows("select count(*) from mirror.posts")[0][0] == 3


def test_json_keeps_types(mirrored):
    mirrored.apply(POSTS)
    fill(mirrored, **ROWS)
    lines = export(mirrored, "--format", "jsonl").splitlines()
    assert [json.loads(line) for line in sorted(lines)] == [row for row, in mirrored.rows("select row_to_json(p) from mirror.posts p order by post_id")]
    row = json.loads(min(lines))
    assert row["star_count"] == 9_007_199_254_740_993 and row["tags"] == ["x", "y,z"] and row["rest"] == {"extra": {"q": [1, 2]}}
    assert row["created_at"] == "2023-11-14T22:13:20+00:00" and row["_misfits"] is None


def test_later_exports_have_what_was_written_since(mirrored, scratch):
    mirrored.apply(POSTS)
    fill(mirrored, **ROWS)
    file = scratch / "posts.csv"
    done = mirrored.command("mirror", "export", "posts", "-o", file)
    assert done.returncode == 0 and done.stdout == "" and "3 rows in" in done.stderr
    seq = mirrored.rows("select seq from pathmirror.mirror_status")[0][0]
    assert f"--since {seq}" in done.stderr
    fill(mirrored, b={"author": "bob", "title": "B"}, d={"author": "dee"})
    rows = list(csv.DictReader(io.StringIO(export(mirrored, "--since", str(seq)))))
    assert [(row["post_id"], int(row["_seq"])) for row in sorted(rows, key=lambda row: row["_seq"])] == [("c", seq), ("b", seq + 1), ("d", seq + 2)]
    head = mirrored.rows("select seq from pathmirror.mirror_status")[0][0]
    assert [json.loads(line)["post_id"] for line in export(mirrored, "--since", str(head), "--format", "jsonl").splitlines()] == ["d"]
    # The export includes rows that were repaired without a write.
    sql.execute(mirrored.url, "update mirror.posts set title = 'damaged' where post_id = 'b'")
    cli.succeeds("replay", "mirror", "posts", "--from", "1", "--database-url", mirrored.url)
    assert {"b", "d"} <= {json.loads(line)["post_id"] for line in export(mirrored, "--since", str(head), "--format", "jsonl").splitlines()}
    # A mark of another log would make all exports empty for ever.
    refused = mirrored.command("mirror", "export", "posts", "--since", "99999")
    assert refused.returncode == 1 and refused.stdout == "" and "There is no entry 99999: the head is " in refused.stderr


def test_an_export_beside_rebuilds_is_whole(mirrored):
    """A table that replaces another one has all rows from the beginning."""
    mirrored.apply(POSTS)
    fill(mirrored, **{f"p{number}": {"author": "ada", "title": str(number)} for number in range(50)})
    is_done = threading.Event()
    failures = []

    def rebuild():
        try:
            while not is_done.is_set():
                mirrored.run_replay("posts")
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=rebuild)
    thread.start()
    try:
        for _ in range(15):
            assert len(export(mirrored).splitlines()) == 51
    finally:
        is_done.set()
        thread.join()
    assert not failures


def test_what_is_wrong_is_said(mirrored, scratch):
    mirrored.apply(POSTS)
    done = mirrored.command("mirror", "export", "post")
    assert done.returncode == 1 and 'There is no mirror "post"' in done.stderr
    done = mirrored.command("mirror", "export", "posts", "--format", "parquet")
    assert done.returncode == 2 and '--format is csv or jsonl, not "parquet".' in done.stderr
    done = mirrored.command("mirror", "export", "posts", "-o", scratch / "missing" / "file")
    assert done.returncode == 1 and "can't be written" in done.stderr
    # As during the first build of its table.
    mirrored.run("pause", "posts")
    sql.execute(mirrored.url, "delete from pathmirror.mirror_cursor", "drop table mirror.posts")
    done = mirrored.command("mirror", "export", "posts")
    assert done.returncode == 1 and done.stdout == "" and 'The mirror "posts" has no table yet' in done.stderr




def test_duckdb_makes_parquet_of_it(mirrored, scratch):
    """Tests the recipe of the documentation."""
    mirrored.apply(POSTS)
    fill(mirrored, **ROWS)
    lines, parquet = scratch / "posts.jsonl", scratch / "posts.parquet"
    assert mirrored.command("mirror", "export", "posts", "--format", "jsonl", "-o", lines).returncode == 0
    types = "{post_id: 'text', author: 'text', title: 'text', star_count: 'bigint', created_at: 'timestamptz', tags: 'text[]', rest: 'json'}"
    duckdb.sql(f"copy (from read_json('{lines}', columns = {types})) to '{parquet}'")
    rows = duckdb.sql(f"select post_id, author, title, star_count, tags, epoch(created_at) from '{parquet}' order by post_id").fetchall()
    assert rows == mirrored.rows("select post_id, author, title, star_count, tags, extract(epoch from created_at)::float8 from mirror.posts order by post_id")

    # The file as a program other than DuckDB reads it.
    table = pyarrow.parquet.read_table(parquet).sort_by("post_id")
    assert {field.name: field.type for field in table.schema if field.name != "rest"} == {
        "post_id": pyarrow.string(), "author": pyarrow.string(), "title": pyarrow.string(), "star_count": pyarrow.int64(),
        "created_at": pyarrow.timestamp("us", tz="UTC"), "tags": pyarrow.list_(pyarrow.string())}
    assert pyarrow.types.is_string(getattr(table.schema.field("rest").type, "storage_type", table.schema.field("rest").type))
    columns = "post_id, author, title, star_count, created_at, tags, rest"
    stored = mirrored.rows(f"select {columns} from mirror.posts order by post_id")
    found = [tuple(row.values()) for row in table.to_pylist()]
    assert [row[:-1] for row in found] == [row[:-1] for row in stored]
    assert [row[-1] and json.loads(row[-1]) for row in found] == [row[-1] for row in stored]
    assert found[0][3] == ROWS["a"]["starCount"] and [row[4] is None for row in found] == [False, True, True]
    assert table.column("tags").null_count == table.column("rest").null_count == 2


def test_the_list_says_how_large_they_are(mirrored):
    mirrored.apply(POSTS)
    fill(mirrored, **ROWS)
    [line] = cli.objects(mirrored.run("ls", "--json"))
    assert (line["rows"], line["rowsAreEstimated"]) == (3, False)
    assert line["bytes"] == mirrored.rows("select pg_total_relation_size('mirror.posts')")[0][0]
    assert " 3 " in mirrored.run("ls")
    sql.execute(mirrored.url, "drop table mirror.posts")
    [line] = cli.objects(mirrored.run("ls", "--json"))
    assert line["rows"] is None and line["bytes"] is None


def test_large_tables_are_not_counted(mirrored):
    mirrored.apply(POSTS)
    fill(mirrored, **ROWS)
    sql.execute(mirrored.url, "insert into mirror.posts (post_id, author, title, _seq) select 'n' || n, 'ada', repeat(md5(n::text), 6), 1 "
                "from generate_series(1, 60000) as n", "analyze mirror.posts")
    [line] = cli.objects(mirrored.run("ls", "--json"))
    assert line["rowsAreEstimated"] and abs(line["rows"] - 60_003) < 6_000
    assert "~" in mirrored.run("ls")
