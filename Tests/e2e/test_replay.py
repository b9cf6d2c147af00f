"""Former states: `replay tree|log|apply`, `log snapshot|prune|blame`, `diff`."""

import gzip
import json
import signal
import time

import pytest
from harness import cli, sql
from harness.binary import pathmirror
from harness.process import Process
from harness.waiting import wait_until


class History:
    """A namespace with a known past: `trees[seq]` is the tree after entry `seq`."""

    def __init__(self, rest, url):
        self.rest, self.url, self.trees = rest, url, [None]

    def write(self, method, path, *value):
        response = getattr(self.rest, method)(path, *value)
        assert response.status in (200, 204) and response.seq == len(self.trees)
        self.trees.append(self.rest.value(format="export"))

    def run(self, *words, **settings):
        return cli.succeeds(*words, "--database-url", self.url, **settings)

    def fails(self, *words):
        finished = cli.command(*words, "--database-url", self.url)
        assert finished.returncode == 1, finished.stdout
        return finished.stderr

    def tree(self, at, *more):
        return json.loads(self.run("replay", "tree", "--at", str(at), "--output", "-", *more))


@pytest.fixture
def history(serve, database_url):
    history = History(serve().rest, database_url)
    history.write("put", "users", {"ada": {"name": "Ada", "posts": 1}, "bob": {"name": "Bob"}})
    history.write("put", "users/ada/posts", 2)
    history.write("patch", "", {"users/bob/posts": 1, "posts/1": {"by": "bob", "text": "\0 and \U0001f600"}})
    history.write("put", "posts/1", {".value": "short", ".priority": 3})
    history.write("delete", "users/bob")
    history.write("put", "list", ["a", None, "c"])
    history.write("put", "users/ada", None)
    history.write("put", "posts/2/deep", {"x": True})
    return history


def test_every_tree_that_was(history):
    for seq, tree in enumerate(history.trees):
        assert history.tree(seq) == tree, seq
    assert history.tree("head") == history.trees[-1]
    assert history.tree(3, "--path", "/users/ada") == history.trees[3]["users"]["ada"]
    assert "head is 8" in history.fails("replay", "tree", "--at", "9", "--output", "-")


def test_trees_at_a_time(history):
    sql.execute(history.url, "UPDATE pathmirror.log SET committed_at = timestamptz '2026-01-31 12:00Z' + seq * interval '1 min'")
    assert history.tree("2026-01-31T12:03:30Z") == history.trees[3]
    assert history.tree("2026-01-31T13:05:00+01:00") == history.trees[5]
    assert history.tree("2026-01-31 11:00") is None
    assert "2026-31-01" in cli.command(
        "replay", "tree", "--at", "2026-31-01", "--output", "-", "--database-url", history.url).stderr


def test_restore_into_a_namespace(history):
    assert "Would write" in history.run("replay", "tree", "--at", "4", "--into", "restored", "--dry-run")
    assert sql.rows(history.url, "SELECT 1 FROM pathmirror.namespace WHERE name = 'restored'") == []
    history.run("replay", "tree", "--at", "4", "--into", "restored")
    assert json.loads(history.run("export", "--ns", "restored")) == history.trees[4]
    history.run("log", "verify", "--ns", "restored")
    assert "not new" in history.fails("replay", "tree", "--at", "3", "--into", "restored")
    history.run("replay", "tree", "--at", "3", "--into", "restored", "--replace", "--yes")
    assert json.loads(history.run("export", "--ns", "restored")) == history.trees[3]
    history.run("log", "verify", "--ns", "restored")


def test_restore_a_part_in_place(history):
    """The gateway emits the restored part to its listeners, and all other data is unchanged."""
    history.run("replay", "tree", "--at", "6", "--into", "default", "--path", "/users/ada", "--replace")
    expected = dict(history.trees[-1], users={"ada": history.trees[6]["users"]["ada"]})
    wait_until(lambda: history.rest.value(format="export") == expected, "the gateway to follow")
    history.run("log", "verify")


RESTORE_BOB = ["replay", "tree", "--at", "3", "--path", "/users/bob", "--into", "default", "--replace"]


def test_what_was_written_since_goes_only_with_a_yes(history):
    history.write("put", "users/bob", {"name": "Robert", "new": True})
    assert "--yes" in history.fails(*RESTORE_BOB)
    assert history.rest.value(format="export") == history.trees[-1]
    said = json.loads(history.run(*RESTORE_BOB, "--yes", "--json"))
    assert {kind: (rows["count"], rows["firstPaths"]) for kind, rows in said["changes"].items()} == {
        "added": (1, ["/users/bob/posts"]), "changed": (1, ["/users/bob/name"]), "removed": (1, ["/users/bob/new"])}
    wait_until(lambda: history.rest.value("users/bob") == history.trees[3]["users"]["bob"], "the gateway to follow")
    history.run(*said["undo"].split()[1:], "--yes")
    wait_until(lambda: history.rest.value(format="export") == history.trees[-1], "the gateway to follow")
    history.run("log", "verify")


def test_only_what_is_missing_comes_back(history):
    history.write("put", "users/ada", {"name": "Ada Lovelace"})
    history.run("replay", "tree", "--at", "4", "--into", "default", "--missing-only")
    expected = dict(history.trees[-1], users={"ada": {"name": "Ada Lovelace", "posts": 2}, "bob": history.trees[4]["users"]["bob"]})
    wait_until(lambda: history.rest.value(format="export") == expected, "the gateway to follow")
    assert "Nothing was written" in history.run("replay", "tree", "--at", "4", "--into", "default", "--missing-only")
    history.run("log", "verify")


def test_an_entry_is_undone(history):
    """Server values as they were stored, a fan-out update, a priority, and the view of a gateway's clients."""
    before = history.trees[-1]
    history.write("patch", "", {"seen": {".sv": "timestamp"}, "users/eve": {"name": "Eve", ".priority": 2}, "posts/2/deep": None})
    history.write("put", "visits", {".sv": {"increment": 5}})
    history.write("put", "visits", {".sv": {"increment": 5}})
    later = cli.command("log", "undo", "10", "--yes", "--database-url", history.url)
    assert later.returncode == 1 and later.stderr.startswith("11  ") and "/visits" in later.stderr
    history.run("log", "undo", "11", "--yes")
    wait_until(lambda: history.rest.value("visits") == 5, "the gateway to follow")
    history.run("log", "undo", "10", "--yes")
    history.run("log", "undo", "9", "--yes")
    wait_until(lambda: history.rest.value(format="export") == before, "the gateway to follow")
    # The undo restores the former time and does not take a new one.
    history.run("log", "undo", "14", "--yes")
    wait_until(lambda: history.rest.value("seen") == history.trees[9]["seen"], "the gateway to follow")
    assert history.rest.value(format="export") == history.trees[9]
    history.run("log", "verify")


def test_a_killed_restore_goes_on(history, logs):
    history.rest.set("many", {f"k{number}": number for number in range(6_000)})
    words = ["replay", "tree", "--at", "head", "--into", "copy", "--chunked", "--chunk-rows", "1000", "--database-url", history.url]
    process = Process([pathmirror(), *words, "--rate", "3000"], "replay", logs)
    wait_until(lambda: sql.rows(history.url, "SELECT 1 FROM pathmirror.namespace WHERE name = 'copy' AND head >= 2"), "two chunks")
    process.send(signal.SIGKILL)
    process.wait()
    assert "resumes after" in cli.command(*words).stderr
    assert json.loads(history.run("export", "--ns", "copy")) == json.loads(history.run("export"))
    history.run("log", "verify", "--ns", "copy")


def test_snapshots_shorten_the_way(history):
    history.run("log", "snapshot")
    history.run("log", "snapshot", "--at", "4")
    listed = cli.objects(history.run("log", "snapshot", "--list", "--json"))
    assert [(one["seq"], one["madeBy"]) for one in listed] == [(4, "manual"), (8, "manual")]
    for seq, tree in enumerate(history.trees):
        assert history.tree(seq) == tree, seq
    said = json.loads(history.run("replay", "tree", "--at", "6", "--dry-run", "--json"))
    assert (said["snapshot"], said["entries"]) == (4, 2)
    history.run("log", "verify")
    history.run("log", "snapshot", "--drop", "4")
    assert "no snapshot at seq 4" in history.fails("log", "snapshot", "--drop", "4")


def test_prune_and_what_still_works(history):
    dry = json.loads(history.run("log", "prune", "--keep", "3 entries", "--dry-run", "--json"))
    assert (dry["from"], dry["to"], dry["deleted"]) == (1, 6, 5)
    assert sql.rows(history.url, "SELECT min(seq) FROM pathmirror.log") == [(1,)]
    history.run("log", "prune", "--keep", "3 entries", "--yes")
    assert sql.rows(history.url, "SELECT min(seq) FROM pathmirror.log") == [(6,)]
    assert sql.rows(history.url, "SELECT retained_from FROM pathmirror.namespace") == [(6,)]
    for seq in (5, 6, 7, 8):
        assert history.tree(seq) == history.trees[seq]
    assert "reach back only to the tree at seq 5" in history.fails("replay", "tree", "--at", "4", "--output", "-")
    assert "clean" in history.run("log", "verify")
    assert "without the snapshot" in history.fails("log", "snapshot", "--drop", "5")
    history.write("put", "after", 1)
    assert history.tree(9) == history.trees[9]
    assert "Nothing to drop" in history.run("log", "prune", "--keep", "30d")
    # `verify` still finds damage.
    sql.execute(history.url, "UPDATE pathmirror.node SET value = '2' WHERE path = '/after'")
    assert "differ" in history.fails("log", "verify")


def test_prune_stops_at_cursors(history):
    sql.execute(history.url, "INSERT INTO pathmirror.cursor (namespace_id, kind, name, seq) "
                "SELECT id, 'feed', 'mails', 2 FROM pathmirror.namespace")
    finished = cli.command("log", "prune", "--keep", "1 entry", "--yes", "--database-url", history.url)
    assert finished.returncode == 0 and "feed mails still needs the entries after seq 2" in finished.stderr
    assert sql.rows(history.url, "SELECT retained_from FROM pathmirror.namespace") == [(3,)]
    forced = cli.command("log", "prune", "--keep", "1 entry", "--force", "--yes", "--database-url", history.url)
    assert "loses" in forced.stderr
    assert sql.rows(history.url, "SELECT retained_from FROM pathmirror.namespace") == [(8,)]
    history.run("log", "verify")


@pytest.mark.parametrize("keep", ["", "x", "3", "-1", "1.5d", "0d", "0 entries"])
def test_prune_usage(keep):
    assert cli.command("log", "prune", "--keep", keep, "--database-url", "postgresql://127.0.0.1:1/x").returncode == 2


def test_log_out_and_apply(history, scratch):
    out = scratch / "entries.ndjson"
    history.run("replay", "log", "--output", out)
    assert history.run("replay", "log", "--output", "-") == out.read_text()
    lines = cli.objects(out.read_text())
    assert [line["seq"] for line in lines] == list(range(1, 9))
    assert json.loads(history.run("replay", "apply", out, "--ns", "copy", "--json"))["applied"] == 8
    assert json.loads(history.run("replay", "apply", out, "--ns", "copy", "--dry-run", "--json"))["known"] == 8
    again = json.loads(history.run("replay", "apply", out, "--ns", "copy", "--json"))
    assert (again["applied"], again["known"]) == (0, 8)
    assert json.loads(history.run("export", "--ns", "copy")) == history.trees[-1]
    history.run("log", "verify", "--ns", "copy")
    assert sql.head(history.url, "copy") == 8
    replayed = sql.rows(history.url, "SELECT origin -> 'replayed' ->> 'seq' FROM pathmirror.log_entry WHERE namespace = 'copy' AND seq = 5")
    assert replayed == [("5",)]


def test_apply_reaches_listeners_of_another_namespace(history, scratch):
    out = scratch / "some.ndjson"
    history.run("replay", "log", "--from", "2", "--to", "4", "--path", "/users", "--output", out)
    assert [line["seq"] for line in cli.objects(out.read_text())] == [2, 3]
    sql.execute(history.url, "INSERT INTO pathmirror.namespace (name) VALUES ('other')")
    other = history.rest.at(ns="other")
    other.set("before", 1)
    history.run("replay", "apply", out, "--ns", "other")
    wait_until(lambda: other.value() == {"before": 1, "users": {"ada": {"posts": 2}, "bob": {"posts": 1}}}, "the gateway to follow")
    history.run("log", "verify", "--ns", "other")


def test_imports_are_replayed_too(history, scratch):
    data = scratch / "data.json"
    data.write_text(json.dumps({f"k{number}": {"n": number} for number in range(3_000)}))
    history.run("import", data, "--path", "/bulk")
    out = scratch / "all.ndjson"
    history.run("replay", "log", "--output", out)
    assert json.loads(history.run("replay", "apply", out, "--ns", "copy", "--json"))["applied"] == 9
    assert json.loads(history.run("export", "--ns", "copy")) == json.loads(history.run("export"))
    history.run("log", "verify", "--ns", "copy")
    history.run("replay", "log", "--path", "/bulk/k7", "--output", scratch / "one.ndjson")
    history.run("replay", "apply", scratch / "one.ndjson", "--ns", "one")
    assert json.loads(history.run("export", "--ns", "one")) == {"bulk": {"k7": {"n": 7}}}
    history.run("log", "verify", "--ns", "one")
    # The input ends inside the import: the command refuses it, and keeps no part.
    lines = out.read_text().splitlines(keepends=True)
    assert len(lines) > 10
    (scratch / "cut.ndjson").write_text("".join(lines[:-1]))
    assert "ends within entry 9" in history.fails("replay", "apply", scratch / "cut.ndjson", "--ns", "cut")
    assert sql.head(history.url, "cut") == 8


def test_killed_replays_go_on(history, scratch, logs):
    for number in range(60):
        history.rest.set(f"n{number}", number)
    out = scratch / "slow.ndjson"
    slow = Process([pathmirror(), "replay", "log", "--output", out, "--rate", "50", "--database-url", history.url], "replay", logs)
    part = scratch / "slow.ndjson.from1.part"
    # The command writes the file in pieces; this test cuts a complete file.
    slow.send(signal.SIGKILL)
    slow.wait()
    whole = history.run("replay", "log")
    lines = whole.splitlines(keepends=True)
    part.write_text("".join(lines[:30]) + lines[30][:40])
    finished = cli.command("replay", "log", "--output", out, "--database-url", history.url)
    assert "resumes after entry 30" in finished.stderr
    assert out.read_text() == whole and not part.exists()
    apply = ["replay", "apply", out, "--ns", "copy", "--database-url", history.url]
    process = Process([pathmirror(), *apply, "--rate", "40"], "apply", logs)
    wait_until(lambda: sql.rows(history.url, "SELECT 1 FROM pathmirror.namespace WHERE name = 'copy' AND head > 10"), "some to be applied")
    process.send(signal.SIGKILL)
    process.wait()
    done = sql.head(history.url, "copy")
    assert 10 < done < 68
    rest = json.loads(cli.succeeds(*apply, "--json"))
    assert (rest["applied"], rest["known"]) == (68 - done, done)
    assert json.loads(history.run("export", "--ns", "copy")) == json.loads(history.run("export"))
    history.run("log", "verify", "--ns", "copy")


def test_the_rate_is_kept(history, scratch):
    for number in range(40):
        history.rest.set(f"n{number}", number)
    out = scratch / "entries.ndjson"
    history.run("replay", "log", "--output", out)
    start = time.monotonic()
    history.run("replay", "apply", out, "--ns", "copy", "--rate", "20")
    assert time.monotonic() - start > 48 / 20 - 0.5


@pytest.mark.parametrize("text, reason", [
    ("nonsense\n", "Line 1: the line is not a JSON object"), ('{"a":1}\n', "Line 1: the line has no"),
    ('{"source":"s","seq":1,"op":"fly","path":"/","changes":{}}\n', '"fly" is not an operation'),
    ('{"source":"s","seq":1,"op":"set","path":"/","changes":{"/a.b":1}}\n', "Line 1: the line's changes"),
    ('{"source":"s","seq":1,"changes":{"/a":1}}\n', "whose first line is missing")])
def test_bad_files_are_refused(serve, database_url, scratch, text, reason):
    serve().rest.set("a", 1)
    (scratch / "bad").write_text(text)
    finished = cli.command("replay", "apply", scratch / "bad", "--database-url", database_url)
    assert finished.returncode == 1 and reason in finished.stderr
    assert sql.head(database_url) == 1


def differ(history, *words) -> str:
    """The output of `diff` for trees that must differ."""
    finished = cli.command("diff", *words, "--database-url", history.url)
    assert finished.returncode == 1 and not finished.stderr
    return finished.stdout


def test_diff(history):
    found = cli.objects(differ(history, "default@2", "default@5", "--json"))
    assert {one["path"]: (one["old"], one["new"]) for one in found} == {
        "/users/bob/name": ("Bob", None), "/posts/1": (None, "short"), "/posts/1/.priority": (None, 3)}
    backwards = cli.objects(differ(history, "default@5", "default@2", "--json"))
    assert {one["path"]: (one["new"], one["old"]) for one in backwards} == {
        one["path"]: (one["old"], one["new"]) for one in found}
    assert differ(history, "default@2", "default@5", "--path", "/users") == '/users/bob/name: "Bob" → nothing\n'
    assert history.run("diff", "default@8", "default") == ""
    history.run("replay", "tree", "--at", "5", "--into", "then")
    assert history.run("diff", "default@5", "then") == ""
    assert cli.command("diff", "default@x", "default", "--database-url", history.url).returncode == 2


def test_diff_with_an_export(history, scratch):
    """A file is the value at --path, as in `import`."""
    export, packed, part = scratch / "export.json", scratch / "export.json.gz", scratch / "part.json"
    history.run("export", "--output", export)
    assert history.run("diff", "default", export) == ""
    packed.write_bytes(gzip.compress(export.read_bytes()))
    assert history.run("diff", packed, "default") == ""
    found = differ(history, "default@5", export, "--json")
    assert found == differ(history, "default@5", "default", "--json") and found
    history.run("export", "--path", "/posts", "--output", part)
    assert history.run("diff", "default", part, "--path", "/posts") == ""
    part.write_text(json.dumps({**json.loads(part.read_text()), "new": 1}))
    assert differ(history, "default", part, "--path", "/posts") == "/posts/new: nothing → 1\n"


@pytest.mark.parametrize("content, reason", [
    (b"", "is empty"), (b'{"a":', "Line 1, column"), (gzip.compress(b'{"a":1}')[:-4], "is cut short"), (b"\x1f\x8bnone", "is not valid gzip")])
def test_diff_with_a_bad_file(history, scratch, content, reason):
    (scratch / "bad.json").write_bytes(content)
    finished = cli.command("diff", "default", scratch / "bad.json", "--database-url", history.url)
    assert finished.returncode == 2 and reason in finished.stderr and not finished.stdout


def test_blame(history):
    found = cli.objects(history.run("log", "blame", "/users/ada/posts", "--json"))
    assert [(one["seq"], one["current"]) for one in found] == [(7, False), (2, False), (1, False)]
    assert found[1]["changes"] == {"/users/ada/posts": 2} and found[2]["changes"] == {"/users/ada/posts": 1}
    assert found[0]["changes"] == {"/users/ada/posts": None}
    assert found[1]["origin"]["via"] == "rest"
    lines = history.run("log", "blame", "/posts").splitlines()
    assert [line.split()[:2] for line in lines] == [["*", "8"], ["*", "4"], ["3", lines[2].split()[1]]]
    assert "anonymous by rest" in lines[0]
    assert len(cli.objects(history.run("log", "blame", "/", "--limit", "2", "--json"))) == 2
    none = cli.command("log", "blame", "/posts", "--from", "5", "--to", "2", "--database-url", history.url)
    assert none.stdout == "" and none.stderr == "There are no entries from 5 to 2.\n"


PRIORITIZED = {"a": {"b": {"c": 1, ".priority": 2}, "d": {".value": "x", ".priority": "y"}, ".priority": 1}, "0": {"1": True, ".priority": -1},
               "\"é\U0001f600": {"a b": {"z": 1, ".priority": 5}, ".priority": 4}}


@pytest.mark.parametrize("more", [[], ["--chunked", "--chunk-rows", "1"], ["--chunked", "--chunk-rows", "3"]])
def test_a_restored_tree_keeps_priorities_everywhere(history, scratch, more):
    """For the gateway, SQL, `verify`, former trees, and a log into which the entries are replayed."""
    history.write("put", "p", PRIORITIZED)
    sql.execute(history.url, "INSERT INTO pathmirror.namespace (name) VALUES ('copy')")
    copy = history.rest.at(ns="copy")
    assert copy.value() is None
    history.run("replay", "tree", "--at", "head", "--into", "copy", "--path", "/p", *more)
    head = sql.head(history.url, "copy")
    wait_until(lambda: copy.get().seq == head, "the gateway to follow")
    assert copy.value("p", format="export") == PRIORITIZED
    assert sql.rows(history.url, "SELECT pathmirror.get('copy', '/p')") == [(PRIORITIZED,)]
    assert json.loads(history.run("replay", "tree", "--at", "head", "--ns", "copy", "--path", "/p", "--output", "-")) == PRIORITIZED
    history.run("log", "verify", "--ns", "copy")
    out = scratch / "copy.ndjson"
    history.run("replay", "log", "--ns", "copy", "--output", out)
    history.run("replay", "apply", out, "--ns", "again")
    assert json.loads(history.run("export", "--ns", "again"))["p"] == PRIORITIZED
    history.run("log", "verify", "--ns", "again")


def test_older_restores_are_read_right(history):
    """Former restores wrote the priorities of inner nodes before their children."""
    history.write("put", "p", PRIORITIZED)
    history.run("replay", "tree", "--at", "head", "--into", "copy", "--path", "/p")
    sql.execute(history.url, "UPDATE pathmirror.log_part SET changes = (SELECT json_object_agg(path, value ORDER BY position DESC) "
                "FROM pathmirror.each_change(changes))")
    history.run("log", "verify", "--ns", "copy")
    assert json.loads(history.run("replay", "tree", "--at", "head", "--ns", "copy", "--path", "/p", "--output", "-")) == PRIORITIZED


def test_any_order_of_an_update_means_the_same(mirrored):
    """Gateway, SQL, mirror, replay and verify, for each order of the same changes."""
    mirrored.apply({"name": "things", "path": "/{base}/{thing}", "columns": {
        "rank": {"type": "bigint", "path": ".priority"}, "old": "bigint", "new": "bigint"}})
    rest, changes = mirrored.rest, {"x/.priority": 7, "x/new": 1, "y/old": None, "y/new": 2}
    orders = [list(changes), list(reversed(changes)), ["y/old", "y/new", "x/.priority", "x/new"]]
    for number, order in enumerate(orders):
        rest.set(f"b{number}", {"y": {"old": 1, ".priority": 3}})
        rest.patch(f"b{number}", {key: changes[key] for key in order})
        expected = {"x": {"new": 1, ".priority": 7}, "y": {"new": 2, ".priority": 3}}
        assert rest.value(f"b{number}", format="export") == expected, order
        assert mirrored.rows(f"SELECT pathmirror.get('default', '/b{number}')") == [(expected,)], order
        mirrored.caught_up()
        assert mirrored.rows(f"SELECT thing, rank, old, new FROM mirror.things WHERE base = 'b{number}' ORDER BY thing") == [
            ("x", 7, None, 1), ("y", 3, None, 2)], order
        past = cli.succeeds("replay", "tree", "--at", "head", "--path", f"/b{number}", "--output", "-", "--database-url", mirrored.url)
        assert json.loads(past) == expected, order
    mirrored.verify()


def test_a_refused_file_leaves_no_namespace(history, scratch):
    (scratch / "bad.ndjson").write_text("no line of a log\n")
    assert "Line 1" in history.fails("replay", "apply", scratch / "bad.ndjson", "--ns", "new")
    assert "was empty then" in history.fails("replay", "tree", "--at", "0", "--into", "new")
    assert sql.rows(history.url, "SELECT name FROM pathmirror.namespace WHERE name = 'new'") == []


def test_prune_by_age_wants_a_clock_that_is_right(history):
    sql.execute(history.url, "UPDATE pathmirror.log SET committed_at = now() - interval '3 days' WHERE seq <= 4")
    sql.execute(history.url, "UPDATE pathmirror.log SET committed_at = now() + interval '1 hour' WHERE seq = 8")
    said = history.fails("log", "prune", "--keep", "1d")
    assert "behind the time of the newest entry" in said and "--trust-clock" in said and "--keep '100000 entries'" in said
    assert sql.rows(history.url, "SELECT min(seq) FROM pathmirror.log") == [(1,)]
    assert json.loads(history.run("log", "prune", "--keep", "1d", "--trust-clock", "--yes", "--json"))["to"] == 5
    history.run("log", "verify")
