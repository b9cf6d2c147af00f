"""Output of commands on a terminal: tables that fit and lines with progress; neither appears elsewhere."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata

import psycopg
import pytest
from harness import cli
from harness.binary import pathmirror


class Terminal:
    """A command on a terminal of its own; its results may go to a file."""

    def __init__(self, *words, columns: int = 80, output: str | None = None, **environment):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = {**{name: value for name, value in os.environ.items() if name not in ("COLUMNS", "TERM")}, "TERM": "xterm", **environment}
        result = open(output, "wb") if output else theirs
        self.child = subprocess.Popen([pathmirror(), *map(str, words)], stdin=theirs, stdout=result, stderr=theirs, env=env,
                                      preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
        os.close(theirs)
        if output:
            result.close()
        self.descriptor, self.seen = ours, ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        os.close(self.descriptor)

    def read(self, seconds: float) -> bool:
        """Whether the command still runs."""
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return True
        try:
            self.seen += os.read(self.descriptor, 65536).decode(errors="replace")
        except OSError:
            return False
        return True

    def wait_for(self, pattern: str):
        deadline = time.monotonic() + 60
        while not re.search(pattern, self.seen):
            assert time.monotonic() < deadline and self.read(1), self.seen

    def end(self) -> int:
        deadline = time.monotonic() + 120
        while self.read(1):
            assert time.monotonic() < deadline, self.seen
        return self.child.wait(60)

    def type(self, text: str):
        os.write(self.descriptor, text.encode())

    @property
    def lines(self) -> list[str]:
        """The lines that remain on the screen."""
        return [line.split("\r\x1b[K")[-1] for line in self.seen.replace("\r\n", "\n").split("\n") if line]


def columns(text: str) -> int:
    return sum(0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


FEEDS = [{"name": "orders", "path": "/orders/{id}"}, {"name": "names", "path": "/\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57/{id}"},
         {"name": "faces", "path": "/\U0001f600e\u0301/u\u0308ber/a/very/long/path/that/no/narrow/terminal/shows/{id}"}]


@pytest.fixture
def fed(serve, database_url, scratch):
    gateway = serve()
    (scratch / "feeds.json").write_text(json.dumps({"feeds": FEEDS}))
    cli.succeeds("feed", "apply", scratch / "feeds.json", "--database-url", database_url)
    for number in range(12):
        gateway.rest.set(f"orders/o{number}", {"\u6f22\u5b57": "x" * 200})
    return database_url


LISTS = [["feed", "ls"], ["feed", "status"], ["namespace", "ls"], ["database", "ls"], ["retention", "ls"], ["log", "ls"], ["log", "ls", "--last", "3"],
         ["log", "blame", "/orders"], ["migrate", "status"], ["doctor"], ["help"], ["help", "log"]]


@pytest.mark.parametrize("width", [40, 80, 132])
@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_lists_fit(fed, words, width):
    source = [] if words[0] == "help" else ["--database-url", fed]
    with Terminal(*words, *source, columns=width) as terminal:
        terminal.end()
        said = [line for line in terminal.lines if not line.startswith("pathmirror: ")]
        assert len(said) > 1
        assert all(columns(line) <= width for line in said), said


def test_columns_align_whatever_is_in_them(fed):
    with Terminal("feed", "ls", "--database-url", fed, columns=50) as terminal:
        assert terminal.end() == 0
        title, *rows = terminal.lines
        start = columns(title[:title.index("PATH")])
        assert len(rows) == 3
        assert all(columns(row[:row.index("/")]) == start for row in rows)
        assert any(row.endswith("\u2026") for row in rows)


def test_elsewhere_nothing_is_cut(fed):
    listed = cli.succeeds("feed", "ls", "--database-url", fed)
    assert all(feed["path"] in listed for feed in FEEDS) and "NAMESPACE" not in listed
    assert "\x1b" not in listed


def test_the_environment_says_how_wide_a_terminal_is(fed):
    with Terminal("feed", "ls", "--database-url", fed, columns=200, COLUMNS="30") as terminal:
        assert terminal.end() == 0
        assert max(columns(line) for line in terminal.lines) <= 30


def test_what_is_written_while_a_plan_waits_for_its_answer_stays(fed):
    """A restore or an undo refuses a plan that is out of date."""
    def write(path):
        with psycopg.connect(fed) as connection:
            return connection.execute("select pathmirror.set('default', %s, '1')", (path,)).fetchone()[0]

    for late, words in (("/orders/o1/late", ["replay", "tree", "--at", "2", "--into", "default", "--replace"]), ("/orders/o2/late", ["log", "undo", "3"])):
        with Terminal(*words, "--database-url", fed, columns=200) as terminal:
            terminal.wait_for(r"Execute this plan\? \[y/N\] ")
            written = write(late)
            terminal.type("y\n")
            assert terminal.end() == 1
            assert "Nothing was changed." in terminal.seen and str(written) in terminal.seen
        with psycopg.connect(fed) as connection:
            assert connection.execute("select head, pathmirror.get('default', %s) from pathmirror.namespace", (late,)).fetchone() == (written, 1)
    with Terminal("log", "undo", "4", "--database-url", fed) as terminal:
        terminal.wait_for(r"Execute this plan\? \[y/N\] ")
        # Another output than the terminal.
        write("/elsewhere")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert "clean" in cli.succeeds("log", "verify", "--database-url", fed)


def test_how_long_something_takes(fed):
    """A statement without a measure of progress; Ctrl-C on the terminal stops it."""
    with psycopg.connect(fed) as holder:
        holder.execute("lock table pathmirror.node in share row exclusive mode")
        with Terminal("namespace", "rm", "default", "--confirm", "default", "--database-url", fed) as terminal:
            terminal.wait_for(r"\x1b\[Kdefault: removing 12 rows, \d+ s")
            terminal.type("\x03")
            assert terminal.end() == 130
            assert terminal.lines[-1] == "pathmirror: interrupted. Nothing was changed.", terminal.seen
    assert len(cli.objects(cli.succeeds("namespace", "ls", "--json", "--database-url", fed))) == 1


@pytest.fixture
def mirrored_orders(fed, scratch):
    (scratch / "mirror.json").write_text(json.dumps({"name": "orders", "path": "/orders/{id}", "columns": {"total": "bigint"}}))
    cli.succeeds("mirror", "apply", scratch / "mirror.json", "--yes", "--database-url", fed)
    return fed


def test_the_work_on_mirrors_is_told(mirrored_orders):
    """A command that waits for a lock in the database shows the duration."""
    commands = [(["mirror", "drop", "orders", "--yes"], "orders: dropping mirror.orders", "mirror_cursor"),
                (["mirror", "errors", "orders", "--retry"], "orders: converting records again", "mirror_cursor"),
                (["mirror", "infer", "/"], "infer: reading /", "node")]
    for words, said, table in commands:
        with psycopg.connect(mirrored_orders) as holder:
            holder.execute(f"lock table pathmirror.{table} in access exclusive mode")
            with Terminal(*words, "--database-url", mirrored_orders) as terminal:
                terminal.wait_for(rf"\x1b\[K{re.escape(said)}, \d+ s")
                terminal.type("\x03")
                assert terminal.end() == 130, terminal.seen


def test_how_far_a_search_of_the_log_is(mirrored_orders):
    with psycopg.connect(mirrored_orders, autocommit=True) as connection:
        for _ in range(8):
            connection.execute("select count(pathmirror.set('default', '/long', to_jsonb(repeat('x', 20000)))) from generate_series(1, 500)")
    with Terminal("log", "ls", "--path", "/elsewhere", "--database-url", mirrored_orders) as terminal:
        assert terminal.end() == 0
        assert re.search(r"\x1b\[Klog ls: \d+ entries read, \d+ a second, \d+ %, \d+ s left", terminal.seen), terminal.seen
        assert terminal.lines[-1] == ""
    # Other outputs show no progress.
    assert cli.command("log", "ls", "--path", "/elsewhere", "--database-url", mirrored_orders).stderr == ""


def test_titles_and_numbers(mirrored_orders):
    gateway_url = ("--database-url", mirrored_orders)
    for words, titles in [(["log", "ls"], r"SEQ  COMMITTED +OPERATION +BY +PATH"), (["log", "blame", "/orders"], r"  SEQ  COMMITTED +BY"),
                          (["mirror", "ls"], "NAMESPACE +NAME")]:
        with Terminal(*words, *gateway_url, columns=132) as terminal:
            assert terminal.end() == 0
            title, *rows = terminal.lines
            assert re.match(titles, title) and rows and not any("COMMITTED" in row for row in rows)
    assert "ROWS" in title and rows[0].index("12  ") + 2 == title.index("ROWS") + 4, (title, rows)
    with Terminal("log", "tail", "--last", "2", *gateway_url, columns=132) as terminal:
        terminal.wait_for("COMMITTED(.|\n)*orders/o11")
        terminal.type("\x03")
        assert terminal.end() == 0


def test_who_is_waited_for_is_told_once_where_there_is_no_terminal(fed, scratch):
    """A terminal that cannot replace lines, and a file, get no escape sequences."""
    for environment in ({"TERM": "dumb"}, {"TERM": "xterm"}):
        with Terminal("export", "--database-url", fed, output=scratch / "out.json", **environment) as terminal:
            assert terminal.end() == 0
            assert ("\x1b" in terminal.seen) is False
            assert len(json.loads((scratch / "out.json").read_text())["orders"]) == 12
            # The terminal shows the end of the work.
            assert bool(terminal.seen) == (environment["TERM"] == "xterm")


def test_results_that_can_not_be_written(fed):
    """A command reports a full disk or a closed descriptor as a failure, and no connection gets the descriptor's number."""
    for redirection, reason in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        for words in ("log ls", "log ls --json", "feed ls", "log show 1", "namespace ls", "version"):
            source = "" if words == "version" else f"--database-url '{fed}'"
            done = subprocess.run(["bash", "-c", f"{pathmirror()} {words} {source} {redirection}"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1, words
            assert done.stderr == f"pathmirror: standard output can't be written: {reason}.\n"
    cli.verify("--database-url", fed)
