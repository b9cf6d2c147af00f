"""docs/guides/mirrors.md: every block of it runs, in order, as a reader would do it against `pathmirror dev`."""

import os
import sys
from pathlib import Path

import psycopg
import pytest
from harness.binary import REPOSITORY, pathmirror
from harness.gateway import start_dev
from harness.page import MASKS, PageError, Reader, masked
from harness.waiting import wait_until

PAGE = REPOSITORY / "docs" / "guides" / "mirrors.md"
BEHIND = "select name from pathmirror.mirror_status where state = 'running' and seq < head"


@pytest.fixture
def reader(scratch, logs):
    gateway = start_dev(scratch / ".pathmirror", logs)
    socket = scratch / ".pathmirror" / "run"

    def caught_up():
        with psycopg.connect(host=str(socket), user="pathmirror", dbname="pathmirror", autocommit=True) as connection:
            wait_until(lambda: not connection.execute(BEHIND).fetchall(), "the mirrors that run to catch up", 60)

    # A new shell has none of PostgreSQL's variables and none of the program's.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "PATHMIRROR_", "DBT_"))}
    program = scratch / "bin" / "pathmirror"
    program.parent.mkdir()
    program.symlink_to(pathmirror())
    path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    try:
        yield Reader(scratch, {**clean, "PATH": path, "HOME": str(scratch), "LC_ALL": "C.UTF-8", "PSQLRC": "/dev/null"},
                     {"127.0.0.1:9000": f"127.0.0.1:{gateway.port}"}, caught_up)
    finally:
        gateway.stop()


def test_the_page(reader):
    done = reader.do(PAGE.read_text())
    assert {block.language for block, _ in done if not block.file} == {"sh", "sql"}
    # Nobody reads a page of masks.
    assert sum(block.output is not None for block, _ in done) > len(done) / 2


@pytest.fixture
def shell(scratch):
    return Reader(scratch, dict(os.environ), {}, lambda: None)


GOOD = "```sh\nexport WORD=ada\n```\n\nSave this as `sub/a.txt`:\n\n```json\n{}\n```\n\n```sh\necho $WORD; cat sub/a.txt\n```\n\n```text\nada\n{}\n```\n"


@pytest.mark.parametrize("wrong, what", [
    (GOOD.replace("ada\n{}", "bob\n{}"), "the page says"), (GOOD.replace("ada\n{}", "ada"), "the page says"),
    (GOOD[:GOOD.index("```text")], "the page says\nnothing"),
    (GOOD.replace("echo", "false; echo"), "exits with 1"), (GOOD.replace("Save this", "See"), "neither run"),
    (GOOD.replace("```text", "And:\n\n```text"), "neither run"), (GOOD.replace("```json", "```yaml x"), "not run"),
    (GOOD + "\n    echo indented\n", "not run"), (GOOD + "\n- in a list:\n  ```sh\n  echo\n  ```\n", "not run"), (GOOD + "```sh\necho", "without an end")])
def test_a_page_that_is_wrong_fails(shell, wrong, what):
    assert [printed for _, printed in shell.do(GOOD)] == ["", "", "ada\n{}\n"]
    with pytest.raises(PageError, match=what):
        shell.do(wrong)


def test_masks_are_narrow():
    """They take what differs by run; a seq, a date of the data and a count stay."""
    said = "from entry 7 on, 2026-11-23T22:57:44.311Z; seq 7 of 8  3192 ms behind; 2 rows in 0.0 s, 111 a second; (step 1 of the pipeline)"
    assert masked(said) == "from entry 7 on, <time>; seq 7 of 8  <n> s behind; 2 rows in <n> s, <n> a second; (step <n> of the pipeline)"
    for kept in ("2026-11-02 08:00:00+00", "2026-11-02T08:00:00+00:00", "3 rows as of seq 1", "12.50", "running  seq 8 of 8"):
        assert masked(kept) == kept
    assert len(MASKS) == 5
