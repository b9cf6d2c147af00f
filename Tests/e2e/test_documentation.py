"""The documentation: every block of the pages runs against `pathmirror dev`, links lead to headings, and prose has one sentence a line."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from harness.binary import REPOSITORY, pathmirror
from harness.gateway import Gateway, start_dev
from harness.markdown import anchors, bad_lines, broken_links
from harness.page import MASKS, PageError, Reader, addresses, blocks, masked, replacing
from harness.ports import free_port
from harness.waiting import wait_until

DOCS = REPOSITORY / "docs"
PAGES = sorted(str(page.relative_to(DOCS)) for kind in ("start", "guides", "reference") for page in (DOCS / kind).glob("*.md"))
# The pages whose blocks can't be run here. The test checks the syntax of their `sh` blocks.
CANNOT_RUN = {
    "guides/backup.md": "creates servers, as a user other than root",
    "guides/capacity.md": "prints the sizes of the reader's database",
    "guides/client.md": "needs a Swift package; test_example_swift.py builds its code",
    "guides/bi-tools.md": "needs Metabase, Grafana and Superset; test_bi_tools.py runs its SQL",
    "guides/deployment.md": "needs Docker, systemd and root",
    "guides/disk-full.md": "needs a server with a full disk",
    "guides/high-availability.md": "needs three machines with Patroni",
    "guides/upgrade.md": "needs two versions of PostgreSQL",
    "reference/doctor.md": "needs a deployment",
    "reference/gateway.md": "needs a PostgreSQL of the reader",
    "start/install.md": "installs packages as root, and needs Docker",
}
# The pages that are not written for this test yet. Remove a page from here when it passes.
NOT_YET: set[str] = set()
# The runnable pages that do not run after other pages yet. Remove a page from here when it passes.
NOT_TOGETHER: set[str] = set()
RUN = [page for page in PAGES if page not in CANNOT_RUN and page not in NOT_YET and re.search(r"^```(sh|sql)$", (DOCS / page).read_text(), re.MULTILINE)]
# Every page of the repository, for links. Hidden folders have builds and environments.
MARKDOWN = sorted(page for page in REPOSITORY.rglob("*.md") if not any(part.startswith(".") for part in page.relative_to(REPOSITORY).parts))
# The pages that have one sentence a line and no line above 160 characters.
PROSE = [str(page.relative_to(REPOSITORY)) for page in MARKDOWN if page.is_relative_to(DOCS) or page.parent == REPOSITORY]
BEHIND = "select name from pathmirror.mirror_status where state = 'running' and seq < head"


@contextmanager
def reader_of(page: str, gateway: Gateway, folder: Path):
    """A person with a new shell in a folder in which `pathmirror dev` runs. Fails if the page leaves a program running."""
    socket = folder / ".pathmirror" / "run"

    def caught_up():
        with psycopg.connect(host=str(socket), user="pathmirror", dbname="pathmirror", autocommit=True) as connection:
            wait_until(lambda: not connection.execute(BEHIND).fetchall(), "the running mirrors to reach the head", 60)

    # A new shell has no variables of PostgreSQL or the program.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "PATHMIRROR_", "DBT_"))}
    program = folder / "bin" / "pathmirror"
    program.parent.mkdir()
    program.symlink_to(pathmirror())
    # As on a terminal, where curl shows no progress.
    (folder / ".curlrc").write_text("no-progress-meter\n")
    path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    reader = Reader(folder, {**clean, "PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8", "PSQLRC": "/dev/null"},
                    addresses(page, gateway.port, free_port), caught_up)
    try:
        yield reader
    finally:
        left = reader.end()
    assert left == [], left


@pytest.mark.parametrize("page", RUN)
def test_every_block_of_a_page_runs(page, scratch, logs):
    gateway = start_dev(scratch / ".pathmirror", logs)
    text = (DOCS / page).read_text()
    try:
        with reader_of(text, gateway, scratch) as reader:
            reader.do(text)
    finally:
        gateway.stop()


def test_pages_run_one_after_another(scratch, logs):
    """Pages share no namespace, table or role: all run on one `dev`, here in the reversed order."""
    gateway = start_dev(scratch / "data", logs)
    try:
        for number, page in enumerate(page for page in reversed(RUN) if page not in NOT_TOGETHER):
            folder = scratch / str(number)
            folder.mkdir()
            (folder / ".pathmirror").symlink_to(scratch / "data")
            text = (DOCS / page).read_text()
            with reader_of(text, gateway, folder) as reader:
                try:
                    reader.do(text)
                except PageError as error:
                    raise PageError(f"{page}: {error}") from None
    finally:
        gateway.stop()


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RUN and page not in NOT_YET])
def test_blocks_of_a_page_that_is_not_run_are_well_formed(page):
    for block in blocks((DOCS / page).read_text(), runs=False):
        if block.language == "sh":
            parsed = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True)
            assert parsed.returncode == 0 and not parsed.stderr, f"line {block.line}: {parsed.stderr}"


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_files_and_headings(page):
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PROSE)
def test_prose_has_one_sentence_a_line(page):
    assert bad_lines((REPOSITORY / page).read_text()) == []


def test_tables_name_pages():
    assert set(CANNOT_RUN) | NOT_YET | NOT_TOGETHER <= set(PAGES)


@pytest.fixture
def shell(scratch):
    return Reader(scratch, {**os.environ, "HOME": str(scratch)}, {}, lambda: None, 3)


GOOD = "```sh\nexport WORD=ada\nrm -rf sub; mkdir sub && cd sub\n```\n\nSave this as `a.txt`:\n\n```json\n{}\n```\n\n" \
    "```sh\necho $WORD; cat a.txt\n```\n\n```text\nada\n{}\n```\n\nLike this:\n\n```python\nprint()\n```\n"


@pytest.mark.parametrize("wrong, what", [
    (GOOD.replace("ada\n{}", "bob\n{}"), "the page says"), (GOOD.replace("ada\n{}", "ada"), "the page says"),
    (GOOD[:GOOD.index("```text")], "the page says\nnothing"),
    (GOOD.replace("echo", "false; echo"), "exits with 1"), (GOOD.replace("Save this", "See"), "exits with 1"),
    (GOOD.replace("```text", "And:\n\n```text"), "neither run"), (GOOD.replace("```python", "```cobol"), "neither run"),
    (GOOD.replace("```json", "```yaml x"), "not run"), (GOOD.replace("```python", "```"), "neither run"),
    (GOOD + "\n    echo indented\n", "not run"), (GOOD + "\n- in a list:\n  ```sh\n  echo\n  ```\n", "not run"), (GOOD + "```sh\necho", "without an end")])
def test_a_page_that_is_wrong_fails(shell, wrong, what):
    assert [printed for _, printed in shell.do(GOOD)] == ["", "", "ada\n{}\n", ""]
    shell.place.write_text(str(shell.folder))
    with pytest.raises(PageError, match=what):
        shell.do(wrong)


def test_a_block_that_reads_waits_for_what_it_shows(shell):
    shell.do("```sh\n(sleep 0.3; echo late > a.txt) > /dev/null 2>&1 &\ntouch a.txt\n```\n\n```sh\ncat a.txt\n```\n\n```text\nlate\n```\n")
    with pytest.raises(PageError, match="the page says"):
        shell.do("```sh\n(sleep 0.3; echo later > a.txt) > /dev/null 2>&1 &\n```\n\n```sh\necho; cat a.txt\n```\n\n```text\nlater\n```\n")


def test_programs_that_a_page_leaves_running_are_ended(shell):
    shell.do("```sh\nsleep 1000 > /dev/null 2>&1 &\n```\n")
    assert shell.end() == ["sleep 1000"]


def test_ports_of_a_page_are_replaced():
    page = "curl localhost:9000/8008 and a.localhost:9000, 127.0.0.1:8008, --port 8008, 18008"
    words = addresses(page, 18008, lambda: 20001)
    assert replacing(words, page) == "curl localhost:18008/20001 and a.localhost:18008, 127.0.0.1:20001, --port 20001, 18008"


def test_masks_are_narrow():
    """Masks replace the parts that differ between runs; a seq, a date of the data and a count stay."""
    said = "from entry 7 on, 2026-11-23T22:57:44.311Z; seq 7 of 8  3192 ms behind; 2 rows in 0.0 s, 111 a second; (step 1 of the pipeline); iat  1796066241  ("
    assert masked(said) == "from entry 7 on, <time>; seq 7 of 8  <n> s behind; 2 rows in <n> s, <n> a second; (step <n> of the pipeline); iat  <seconds>  ("
    for kept in ("2026-11-02 08:00:00+00", "2026-11-02T08:00:00+00:00", "3 rows as of seq 1", "12.50", "running  seq 8 of 8", "at 1796066241"):
        assert masked(kept) == kept
    assert len(MASKS) == 6


@pytest.mark.parametrize("good", [
    "One sentence.\nAnother one, e.g. This.", "- **Heading.** One sentence.", "| One. Two. |", "```text\nOne. Two.\n```", "1. One `a. B` sentence.",
    "One [link](a.md#B. C) of pathmirror 0.1.0.", "A long sentence " + "x" * 130 + "\nthat continues in the next line."])
def test_prose_that_is_fine(good):
    assert bad_lines(good) == []


@pytest.mark.parametrize("bad, what", [
    ("One. Two.", "two sentences"), ("Is it `code`? Yes.", "two sentences"), ("x" * 161, "161 characters"), ("A sentence\nthat goes on.", "breaks")])
def test_prose_that_is_not(bad, what):
    assert any(what in mistake for mistake in bad_lines(bad))


def test_anchors_are_those_of_github():
    assert anchors("# `a b`: c_d, [e](f)!\n## X\n## X\n```sh\n# no\n```\n") == {"a-b-c_d-e", "x", "x-1"}
