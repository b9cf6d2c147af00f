"""Ctrl-C and SIGTERM during long work: the command stops, prints its progress and the way to resume, and leaves no half-made state."""

import contextlib
import json
import os
import pty
import signal
import subprocess

import psycopg
import pytest
from harness import cli, sql
from harness.binary import pathmirror
from harness.process import Process
from harness.waiting import wait_until

@pytest.fixture
def interrupt(logs, database_url):
    """Starts a command, waits until `begun`, sends a signal; returns the exit code and the output."""

    def run(*words, begun, number=signal.SIGINT):
        process = Process([pathmirror(), *words, "--database-url", database_url], "interrupted", logs)
        wait_until(lambda: begun(process), "the command to be at it")
        process.send(number)
        code = process.wait()
        assert code == 128 + number, process.stderr()
        said = process.stderr().splitlines()[-1].split("\r")[-1]
        assert said.removeprefix("\x1b[K").startswith("pathmirror: interrupted. "), process.stderr()
        return said.split("interrupted. ")[1]

    return run


@pytest.fixture
def written(serve, database_url):
    """A gateway with 300 entries of one key each."""
    rest = serve().unique()
    for number in range(300):
        rest.set(f"k{number}", number)
    return rest, database_url


def counted(entries: int) -> str:
    return "1 entry is" if entries == 1 else f"{entries} entries are"


def at_work(url: str, purpose: str):
    """Whether a command waits for a lock in the database."""
    return lambda _: sql.rows(url, "select 1 from pg_stat_activity where datname = current_database() and application_name = %s "
                                   "and wait_event_type = 'Lock'", f"pathmirror {purpose}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_import_that_waits_for_its_source(serve, database_url, logs, number):
    """A user can stop an import from a silent pipe."""
    serve()
    child = subprocess.Popen([pathmirror(), "import", "-", "--path", "/half", "--database-url", database_url], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with ended_at_last(child):
        child.stdin.write(b'{"a": {' + b",".join(b'"k%d": "%s"' % (n, b"x" * 1000) for n in range(6000)) + b",")
        child.stdin.flush()
        wait_until(lambda: sql.rows(database_url, "select 1 from pg_stat_activity where datname = current_database() and "
                                                   "application_name = 'pathmirror import' and state = 'idle in transaction'"), "a part to be written")
        child.send_signal(number)
        errors = child.stderr.read().decode()
        assert child.wait(60) == 128 + number, errors
    assert "interrupted. Nothing was changed, as all of it is one transaction." in errors
    assert json.loads(cli.succeeds("export", "--path", "/half", "--database-url", database_url)) is None
    cli.verify("--database-url", database_url)


def test_a_chunked_import_goes_on(serve, database_url, scratch, interrupt):
    rest = serve().unique()
    file = scratch / "big.json"
    value = {f"k{number}": number for number in range(40_000)}
    file.write_text(json.dumps(value))
    command = ("import", file, "--path", f"/{rest.base}", "--chunked", "--chunk-rows", "500")
    said = interrupt(*command, begun=lambda _: rest.value("k2000") == 2000)
    kept = int(said.split(" ")[0])
    assert said == f"{kept} leaves are loaded; the same command resumes after them."
    assert kept % 500 == 0 and 2000 < kept < 40_000
    exported = ("export", "--path", f"/{rest.base}", "--database-url", database_url)
    assert len(json.loads(cli.succeeds(*exported))) == kept
    assert json.loads(cli.succeeds(*command, "--json", "--database-url", database_url))["resumedRows"] == kept
    assert json.loads(cli.succeeds(*exported)) == value
    cli.verify("--database-url", database_url)


def test_replay_log_keeps_what_it_has(written, scratch, interrupt):
    _, url = written
    out = scratch / "entries.ndjson"
    part = scratch / "entries.ndjson.from1.part"
    said = interrupt("replay", "log", "--output", out, "--rate", "40", begun=lambda _: part.exists())
    count = len(part.read_text().splitlines())
    assert said == f"{counted(count)} in {part}; the same command resumes after them." and count < 300
    # The output of the next run includes the lines of the earlier one, here five entries.
    with part.open("w") as kept:
        subprocess.run([pathmirror(), "replay", "log", "--to", "5", "--database-url", url], stdout=kept, check=True)
    said = interrupt("replay", "log", "--output", out, "--rate", "40", begun=lambda process: "resumes after entry 5" in process.stderr())
    count = len(part.read_text().splitlines())
    assert said == f"{counted(count)} in {part}; the same command resumes after them." and 5 <= count < 300
    assert not out.exists()
    cli.succeeds("replay", "log", "--output", out, "--database-url", url)
    assert [json.loads(line)["seq"] for line in out.read_text().splitlines()] == list(range(1, 301)) and not part.exists()


def test_replay_apply_goes_on(written, scratch, interrupt):
    rest, url = written
    out = scratch / "entries.ndjson"
    cli.succeeds("replay", "log", "--output", out, "--database-url", url)
    applied = lambda _: sql.rows(url, "select 1 from pathmirror.namespace where name = 'copy' and head > 20")
    said = interrupt("replay", "apply", out, "--ns", "copy", "--rate", "40", begun=applied)
    assert said.endswith(" entries are done; the same command resumes after them.")
    cli.succeeds("replay", "apply", out, "--ns", "copy", "--database-url", url)
    assert cli.succeeds("diff", "default", "copy", "--database-url", url) == ""


def test_an_export_leaves_no_file(written, scratch, interrupt):
    rest, url = written
    # The command waits for the table, which another session has locked.
    with psycopg.connect(url) as holder:
        holder.execute("lock table pathmirror.node in access exclusive mode")
        said = interrupt("export", "-o", scratch / "out.json", begun=at_work(url, "export"))
    assert said == f"{scratch / 'out.json'} was not written."
    assert not [file.name for file in scratch.iterdir() if file.name.startswith("out.json")]


BEGINS_AGAIN = "The same command starts again from the beginning."


@pytest.fixture
def mirrored_log(written, scratch):
    """A mirror of the gateway's data, and its definition."""
    rest, url = written
    file = scratch / "mirror.json"
    file.write_text(json.dumps({"name": "values", "path": f"/{rest.base}/{{key}}", "columns": {"value": {"type": "bigint", "path": "."}}}))
    cli.succeeds("mirror", "apply", file, "--yes", "--database-url", url)
    return url, file


def leftovers(url: str) -> list:
    """The tables that an aborted build would leave."""
    return sql.rows(url, "select relname from pg_class where relname like '\\_build%%' or relname like '\\_old%%'")


def values(url: str) -> int:
    return sql.rows(url, "select count(*) from mirror.values")[0][0]


def test_applying_a_mirror_goes_on(mirrored_log, scratch, interrupt):
    url, first = mirrored_log
    file = scratch / "second.json"
    file.write_text(json.dumps({"mirrors": [json.loads(first.read_text()), {**json.loads(first.read_text()), "name": "others"}]}))
    with psycopg.connect(url) as holder:
        holder.execute("lock table pathmirror.node in access exclusive mode")
        said = interrupt("mirror", "apply", file, "--yes", begun=at_work(url, "mirror"))
    assert said == "Executed: values; left: others. The same command resumes with these."
    assert leftovers(url) == [] and values(url) == 300
    assert [mirror["name"] for mirror in cli.objects(cli.succeeds("mirror", "ls", "--json", "--database-url", url))] == ["values"]
    cli.succeeds("mirror", "apply", file, "--yes", "--database-url", url)
    assert sql.rows(url, "select count(*) from mirror.others") == [(300,)]
    cli.verify("--database-url", url)


def test_replaying_a_mirror_begins_again(mirrored_log, interrupt):
    url, _ = mirrored_log
    table = sql.rows(url, "select 'mirror.values'::regclass::oid")
    with psycopg.connect(url) as holder:
        holder.execute("lock table pathmirror.node in access exclusive mode")
        said = interrupt("replay", "mirror", "values", begun=at_work(url, "mirror"))
    assert said == f"mirror.values is unchanged, and the new table was removed. {BEGINS_AGAIN}"
    assert leftovers(url) == [] and sql.rows(url, "select 'mirror.values'::regclass::oid") == table and values(url) == 300
    cli.succeeds("replay", "mirror", "values", "--database-url", url)
    cli.verify("--database-url", url)


def test_applying_entries_again_begins_again(mirrored_log, interrupt):
    """All entries are one transaction: none was applied, regardless of the number of pages read."""
    url, _ = mirrored_log
    with psycopg.connect(url) as holder:
        holder.execute("update mirror.values set _seq = 0 where value in (20, 280)")
    with psycopg.connect(url) as holder:
        holder.execute("lock table mirror.values in share mode")
        said = interrupt("replay", "mirror", "values", "--from", "11", "--rate", "50", begun=at_work(url, "mirror"))
    assert said == "No entry was applied, as all of them are one transaction; it is safe to apply them again: --from 11."
    assert sql.rows(url, "select count(*) from mirror.values where _seq = 0") == [(2,)]
    cli.succeeds("replay", "mirror", "values", "--from", "11", "--database-url", url)
    assert sql.rows(url, "select count(*) from mirror.values where _seq = 0") == [(0,)]
    cli.verify("--database-url", url)


def test_exporting_a_mirror_begins_again(mirrored_log, scratch, interrupt):
    url, _ = mirrored_log
    out = scratch / "values.csv"
    with psycopg.connect(url) as holder:
        holder.execute("lock table mirror.values in access exclusive mode")
        said = interrupt("mirror", "export", "values", "-o", out, begun=at_work(url, "mirror"))
    assert said == f"{out} was not written. {BEGINS_AGAIN}"
    assert not [file.name for file in scratch.iterdir() if file.name.startswith("values.csv")]
    cli.succeeds("mirror", "export", "values", "-o", out, "--database-url", url)
    assert len(out.read_text().splitlines()) == 301


@pytest.mark.parametrize("words, purpose, said", [
    (["mirror", "infer", "/", "-o", "inferred.json"], "mirror infer", "Nothing was changed."),
    (["log", "verify"], "log verify", f"0 entries were read, and nothing was changed. {BEGINS_AGAIN}")])
def test_what_reads_the_tree_begins_again(mirrored_log, scratch, interrupt, words, purpose, said):
    url, _ = mirrored_log
    words = [scratch / word if word.endswith(".json") else word for word in words]
    with psycopg.connect(url) as holder:
        holder.execute("lock table pathmirror.node in access exclusive mode")
        assert interrupt(*words, begun=at_work(url, purpose)) == said
    assert not [file.name for file in scratch.iterdir() if file.name.startswith("inferred.json")]
    cli.succeeds(*words, "--database-url", url)


GOES_ON = "the same command resumes."
DROPPED = f"Dropped entries can't be restored; {GOES_ON}"


@pytest.mark.parametrize("words, purpose, said", [
    (["log", "ls"], "log", None), (["log", "show", "1"], "log", None), (["log", "blame", "/"], "log blame", None), (["log", "undo", "1", "--yes"], "log undo", None),
    (["log", "verify"], "log verify", None), (["log", "prune", "--keep", "5 entries", "--yes"], "log prune", DROPPED), (["log", "snapshot"], "log snapshot", None),
    (["diff", "default@1", "default"], "diff", "There may be more differences than those above. Nothing was changed."),
    (["mirror", "infer", "/x"], "mirror infer", None), (["rules", "history"], "rules", None), (["retention", "ls"], "retention ls", None),
    (["retention", "run"], "retention", DROPPED), (["replay", "tree", "--at", "head", "--into", "copy"], "replay tree", None),
    (["replay", "log"], "replay log", None), (["export"], "export", None), (["feed", "ls", "--ns", "default"], "feed ls", None),
    (["namespace", "ls"], "namespace ls", None), (["namespace", "show", "default"], "namespace show", None),
    (["namespace", "create", "other"], "namespace create", f"The namespace may be placed already and not created; {GOES_ON}"),
    (["namespace", "rm", "default", "--confirm", "default"], "namespace rm", None),
    (["namespace", "move", "default", "--to", "home"], "namespace move",
     f"{GOES_ON.capitalize()[:-1]} the move; --abort removes the copy, unless the namespace has left its database already."),
    (["doctor"], "doctor", "The checks are incomplete, and nothing was changed.")])
def test_what_waits_in_the_database_is_stopped(written, interrupt, words, purpose, said):
    _, url = written
    with psycopg.connect(url) as holder:
        holder.execute("lock table pathmirror.namespace in access exclusive mode")
        assert interrupt(*words, begun=at_work(url, purpose)) == (said or "Nothing was changed.")
        assert not at_work(url, purpose)(None)
    cli.verify("--database-url", url)


def test_migrations_go_on(written, interrupt):
    _, url = written
    with psycopg.connect(url) as holder:
        holder.execute("lock table pathmirror.migration in access exclusive mode")
        said = interrupt("migrate", "up", begun=at_work(url, "migrate"))
    assert said == "Completed migrations remain, and the one in progress was rolled back. The same command resumes."
    cli.succeeds("migrate", "up", "--database-url", url)
    cli.verify("--database-url", url)


@pytest.mark.parametrize("words, said", [
    (["namespace", "rm", "default", "--confirm", "default"], "Nothing was changed."), (["log", "prune", "--keep", "5 entries", "--yes"], DROPPED)])
def test_what_removes_begins_again(written, interrupt, words, said):
    """Reads continue, and removals wait: the command is interrupted, and succeeds the second time."""
    _, url = written
    with psycopg.connect(url) as holder:
        for table in ("node", "log", "log_part"):
            holder.execute(f"lock table pathmirror.{table} in share row exclusive mode")
        assert interrupt(*words, begun=at_work(url, " ".join(words[:2]))) == said
    cli.succeeds(*words, "--database-url", url)
    if words[0] == "log":
        cli.verify("--database-url", url)
    else:
        assert cli.command("namespace", "show", "default", "--database-url", url).returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_second_signal_ends_at_once(serve, database_url, number):
    """A reader that stops reading its pipe blocks the command, which then does not see the first signal."""
    serve().rest.set("big", "x" * 1_000_000)
    child = subprocess.Popen([pathmirror(), "export", "--database-url", database_url], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with ended_at_last(child):
        wait_until(lambda: "pipe_write" in open(f"/proc/{child.pid}/wchan").read(), "the pipe to be full")
        child.send_signal(number)
        wait_until(lambda: not pending(child.pid, number), "the first signal to be taken")
        child.send_signal(number)
        assert child.wait(8) == 128 + number


@contextlib.contextmanager
def ended_at_last(child: subprocess.Popen):
    """Closes the pipes of a command, which does not outlive a test that fails."""
    with child:
        try:
            yield
        finally:
            child.kill()


def pending(pid: int, number: int) -> bool:
    """Whether a signal is pending."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("ShdPnd:"):
            return bool(int(line.split()[1], 16) & 1 << number - 1)
    return False


@pytest.mark.parametrize("words", [["log", "ls"], ["log", "ls", "--json"], ["export"], ["replay", "log"], ["help"], ["log", "tail", "--from", "1"]])
def test_a_reader_that_has_seen_enough(written, words):
    """`| head` ends a command without a message."""
    rest, url = written
    rest.set("big", "x" * 300_000)
    source = [] if words == ["help"] else ["--database-url", url]
    child = subprocess.Popen([pathmirror(), *words, *source], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with ended_at_last(child):
        assert child.stdout.read(1)
        child.stdout.close()
        if words[:2] == ["log", "tail"]:
            # The command may have written everything before the reader closed; it notices that at the next entry.
            def has_ended():
                rest.set("more", 1)
                return child.poll() is not None

            wait_until(has_ended, "the command to end")
        # `help` is short enough to be written before the reader closes.
        assert child.wait(60) in (0, -signal.SIGPIPE)
        assert child.stderr.read() == b""


def test_a_question(serve, database_url):
    """A command that asks before a removal ends without an answer, and removes nothing."""
    rest = serve()
    rest.rest.set("x", 1)
    ours, theirs = pty.openpty()
    child = subprocess.Popen([pathmirror(), "namespace", "rm", "default", "--database-url", database_url], stdin=theirs, stderr=subprocess.PIPE)
    try:
        said = b""
        while b"Type its name" not in said:
            piece = os.read(child.stderr.fileno(), 4096)
            assert piece, said
            said += piece
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert b"interrupted." in child.stderr.read()
        assert rest.rest.value("x") == 1
    finally:
        child.kill()
        child.wait()
        os.close(ours)
        os.close(theirs)
