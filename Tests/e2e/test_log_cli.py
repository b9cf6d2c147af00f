"""`pathmirror log`: ls, show, tail, verify."""

import json
import signal
import threading

import pytest
from harness import cli, sql
from harness.binary import pathmirror
from harness.process import Process
from oracle.tree import normal


@pytest.fixture
def written(serve, database_url):
    """A gateway with six entries; (location, database URL, their seqs)."""
    rest = serve().unique()
    seqs = [rest.set(value={"a": 1, "b": {"c": "two"}}).seq, rest.set("a", 2).seq, rest.patch(value={"b/c": None, "d/e": True}).seq,
            rest.set("f", {".value": 1, ".priority": 5}).seq, rest.delete("a").seq]
    seqs.append(rest.at("g").set(value="\0 and \U0001f600").seq)
    return rest, database_url, seqs


def test_ls_lists_every_entry(written):
    rest, url, seqs = written
    listed = cli.objects(cli.succeeds("log", "ls", "--database-url", url, "--json"))
    assert [entry["seq"] for entry in listed] == seqs == [1, 2, 3, 4, 5, 6]
    changes = [entry["changes"] for entry in listed]
    assert changes[0] == {f"/{rest.base}": {"a": 1, "b": {"c": "two"}}}
    assert changes[1] == {f"/{rest.base}/a": 2}
    assert changes[2] == {f"/{rest.base}/b/c": None, f"/{rest.base}/d/e": True}
    assert changes[3] == {f"/{rest.base}/f": {".value": 1, ".priority": 5}}
    assert changes[4] == {f"/{rest.base}/a": None}
    assert changes[5] == {f"/{rest.base}/g": "\0 and \U0001f600"}


def test_ls_for_people(written):
    rest, url, seqs = written
    text = cli.succeeds("log", "ls", "--database-url", url)
    assert all(str(seq) in text for seq in seqs) and rest.base in text


@pytest.mark.parametrize("bounds, expected", [
    (["--from", "3"], [3, 4, 5, 6]), (["--to", "2"], [1, 2]), (["--from", "2", "--to", "4"], [2, 3, 4]), (["--from", "100"], [])])
def test_ls_between_bounds(written, bounds, expected):
    _, url, _ = written
    listed = cli.objects(cli.succeeds("log", "ls", "--database-url", url, "--json", *bounds))
    assert [entry["seq"] for entry in listed] == expected


def test_ls_of_a_path_shows_what_touched_it(written):
    rest, url, _ = written
    base = f"/{rest.base}"
    for path, expected in ((f"{base}/a", [1, 2, 5]), (f"{base}/b", [1, 3]), (f"{base}/d/e", [1, 3]), (base, [1, 2, 3, 4, 5, 6]), ("/elsewhere", [])):
        listed = cli.objects(cli.succeeds("log", "ls", "--database-url", url, "--json", "--path", path))
        assert [entry["seq"] for entry in listed] == expected, path


def test_ls_of_a_namespace(written):
    _, url, _ = written
    assert len(cli.objects(cli.succeeds("log", "ls", "--database-url", url, "--ns", "default", "--json"))) == 6
    unknown = cli.command("log", "ls", "--database-url", url, "--ns", "unknown")
    assert unknown.returncode == 1 and "unknown" in unknown.stderr


def test_show_shows_one(written):
    rest, url, seqs = written
    entry = json.loads(cli.succeeds("log", "show", str(seqs[2]), "--database-url", url, "--json"))
    assert entry["seq"] == seqs[2]
    assert entry["changes"] == {f"/{rest.base}/b/c": None, f"/{rest.base}/d/e": True}
    assert f"/{rest.base}/d/e" in cli.succeeds("log", "show", str(seqs[2]), "--database-url", url)


@pytest.mark.parametrize("seq, status", [("999", 1), ("0", None), ("abc", 2), ("-1", 2)])
def test_show_what_is_not_there(written, seq, status):
    _, url, _ = written
    finished = cli.command("log", "show", seq, "--database-url", url)
    assert finished.returncode in ((status,) if status else (1, 2))
    assert finished.stderr.strip()


def test_tail_follows(written, logs):
    rest, url, seqs = written
    tail = Process([pathmirror(), "log", "tail", "--database-url", url, "--json", "--from", "5"], "tail", logs)
    try:
        tail.wait_for_output(r'"seq" ?: ?6\b')
        rest.set("live", 1)
        tail.wait_for_output(r'"seq" ?: ?7\b')
        for number in range(20):
            rest.set("live", number)
        tail.wait_for_output(r'"seq" ?: ?27\b')
    finally:
        status = tail.stop(signal.SIGINT)
    assert [entry["seq"] for entry in cli.objects(tail.stdout())] == list(range(5, 28))
    assert status == 0


def test_verify_finds_nothing(written):
    _, url, _ = written
    assert cli.verify("--database-url", url).strip()


@pytest.mark.parametrize("damage, mention", [
    ("DELETE FROM pathmirror.node WHERE path LIKE '%d/e%'", "d/e"),
    ("DELETE FROM pathmirror.log WHERE seq = 3", "Seq 3 is missing"),
    ("UPDATE pathmirror.namespace SET head = head + 5", None)])
def test_verify_says_where_they_differ(written, damage, mention):
    _, url, _ = written
    sql.execute(url, damage)
    finished = cli.command("log", "verify", "--database-url", url)
    assert finished.returncode == 1
    assert mention is None or mention in finished.stdout + finished.stderr


def test_verify_beside_writers(serve, database_url):
    """`log verify` reads one snapshot in spite of concurrent writes."""
    rest = serve().unique()
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            rest.set(f"n{number % 50}", {"number": number, "list": [number] * 3})
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            cli.verify("--database-url", database_url)
    finally:
        stop.set()
        writer.join()


def test_the_log_of_a_running_dev(dev, at):
    at.set(value={"mine": 1})
    listed = cli.objects(cli.succeeds("log", "ls", "--data", dev.data, "--json", "--path", f"/{at.base}"))
    assert [normal(entry["changes"]) for entry in listed] == [{f"/{at.base}": {"mine": 1}}]
    cli.verify("--data", dev.data)


def test_the_changes_in_sql_are_plain_json(written):
    """The documentation promises plain JSON to SQL readers; jsonb cannot have U+0000, so the column is json."""
    rest, url, _ = written
    kind = sql.rows(url, "SELECT data_type FROM information_schema.columns "
                    "WHERE table_schema = 'pathmirror' AND table_name = 'log' AND column_name = 'changes'")
    assert kind == [("json",)]
    assert sql.log_entries(url)[1] == (2, {f"/{rest.base}/a": 2})


@pytest.mark.parametrize("words", [["log"], ["log", "nonsense"], ["log", "show"], ["log", "ls", "--no-such-option"]])
def test_wrong_usage_exits_with_2(words):
    finished = cli.command(*words)
    assert finished.returncode == 2 and finished.stderr.strip()


def test_an_unreachable_database_is_one_sentence():
    finished = cli.command("log", "ls", "--database-url", "postgresql://nobody:hunter2secret@127.0.0.1:1/none")
    assert finished.returncode == 1
    assert finished.stderr.strip() and len(finished.stderr.strip().splitlines()) <= 3
    assert "hunter2secret" not in finished.stdout + finished.stderr
