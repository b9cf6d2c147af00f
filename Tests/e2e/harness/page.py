"""A page of the documentation as a program: its blocks run in order, and what they print is what the page says."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# What differs from run to run, and nothing else: times of the log with their milliseconds, how long something took, where PostgreSQL's pipeline stood, and the end of a
# mirror's random id.
MASKS = [
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "<time>"),
    (re.compile(r"\b\d+ (ms|s) behind"), "<n> s behind"),
    (re.compile(r"\bin \d+\.\d s, \d+ a second"), "in <n> s, <n> a second"),
    (re.compile(r"\(step \d+ of the pipeline\)"), "(step <n> of the pipeline)"),
    (re.compile(r"(?<=«)(\w+ \w+ \d+) [0-9a-f]{8}»"), r"\1 <id>»"),
]


class PageError(AssertionError):
    """A page is not what the program does."""


@dataclass
class Block:
    """A fenced block: a command (`sh`, `sql`) with the output that follows it, or a file that the reader saves."""
    line: int
    language: str
    text: str
    file: str | None = None
    output: str | None = None


def blocks(page: str) -> list[Block]:
    """The blocks of a page in order. One that would be shown and not run is an error."""
    found: list[Block] = []
    inside: Block | None = None
    before = ""  # What stands between the block before and here.
    for number, line in enumerate(page.splitlines(), 1):
        if inside is None and (fence := re.match(r"^```(\w*)\s*$", line)):
            inside = Block(number, fence[1], "")
        elif inside is None:
            if line.startswith(("    ", "\t", "~~~")) or line.lstrip().startswith("```"):
                raise PageError(f"line {number}: a block that is not run")
            before += line + "\n"
        elif line == "```":
            _take(inside, before, found)
            inside, before = None, ""
        else:
            inside.text += line + "\n"
    if inside:
        raise PageError(f"line {inside.line}: a block without an end")
    return found


def _take(block: Block, before: str, found: list[Block]):
    named = re.search(r"Save this as `([\w./-]+)`:\s*\Z", before)
    if named:
        block.file = named[1]
        found.append(block)
    elif block.language in ("sh", "sql"):
        found.append(block)
    elif block.language == "text" and found and not before.strip() and found[-1].file is None and found[-1].output is None:
        found[-1].output = block.text
    else:
        raise PageError(f"line {block.line}: a block {block.language!r} that is neither run, nor a file, nor the output of the block right before it")


def masked(text: str) -> str:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


class Reader:
    """Somebody who does what a page says, in one shell and one folder."""

    def __init__(self, folder: Path, environment: dict[str, str], replaced: dict[str, str], before_each: Callable[[], None]):
        """`replaced`: the addresses that are others here; `before_each` waits for what a person is slower than."""
        self.folder, self.environment, self.replaced, self.before_each = folder, environment, replaced, before_each
        self.state = folder / ".shell"
        self.state.write_text("")

    def do(self, page: str) -> list[tuple[Block, str]]:
        """Runs every block; returns what each printed. Ends with an error where that is not what the page says."""
        return [(block, self._check(block)) for block in blocks(page)]

    def _check(self, block: Block) -> str:
        text = block.text
        for here, there in self.replaced.items():
            text = text.replace(here, there)
        if block.file:
            place = self.folder / block.file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            return ""
        self.before_each()
        printed = self.run(text, block.language)
        for here, there in self.replaced.items():
            printed = printed.replace(there, here)
        # A block without an output says that it prints nothing.
        if masked(printed) != masked(block.output or ""):
            raise PageError(f"line {block.line} prints\n{printed}\nand the page says\n{block.output or 'nothing'}")
        return printed

    def run(self, text: str, language: str) -> str:
        """A block in a shell that has the exported variables of those before; what it prints, errors in their places."""
        if language == "sql":
            (self.folder / ".block.sql").write_text(text)
            text = "psql -X -v ON_ERROR_STOP=1 -f .block.sql\n"
        script = f". {self.state}\nset -e\n{text}\nexport -p > {self.state}\n"
        done = subprocess.run(["bash", "--norc", "-c", script], cwd=self.folder, env=self.environment, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise PageError(f"a block exits with {done.returncode}:\n{text}\n{done.stdout}")
        return done.stdout
