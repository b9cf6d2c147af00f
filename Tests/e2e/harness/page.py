"""Runs a page of the documentation: the blocks in order, and the output of each compared with the output on the page."""

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .process import kill_all

# The parts of an output that differ between runs, and no others: times of the log with milliseconds, durations, the position in
# PostgreSQL's pipeline, the end of a mirror's random id, and the times in a token.
MASKS = [
    (re.compile(r"\b(iat|exp|auth_time)  \d{10}\b"), r"\1  <seconds>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "<time>"),
    (re.compile(r"\b\d+ (ms|s) behind"), "<n> s behind"),
    (re.compile(r"\bin \d+\.\d s, \d+ a second"), "in <n> s, <n> a second"),
    (re.compile(r"\(step \d+ of the pipeline\)"), "(step <n> of the pipeline)"),
    (re.compile(r"(?<=«)(\w+ \w+ \d+) [0-9a-f]{8}»"), r"\1 <id>»"),
]
# The languages of sample code and of sample files. A page shows these blocks, and the test does not run them.
SAMPLES = {"conf", "csharp", "go", "groovy", "html", "http", "ini", "java", "js", "json", "kotlin", "nginx", "python", "swift", "toml", "ts", "xml", "yaml"}
# A block of these commands only may run again: a person reads later than a test does.
READING = re.compile(r"(cat|head|sort|tail) [^|>&;]+"
                     r"|pathmirror (feed (status|dead ls)|mirror status|log ls|namespace ls)\b[^|>&;]*"
                     r"|psql [^|>&]*-A?t?c [\"']select [^|>&]*")


class PageError(AssertionError):
    """A page differs from the behaviour of the program."""


@dataclass
class Block:
    """A fenced block: a command (`sh`, `sql`) with the output that follows it, a file that the reader saves, or a sample."""
    line: int
    language: str
    text: str
    file: str | None = None
    output: str | None = None

    @property
    def runs(self) -> bool:
        return self.file is None and self.language in ("sh", "sql")

    @property
    def reads(self) -> bool:
        """Whether the block changes nothing, so that it may run again."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "sql":
            return self.text.lower().startswith("select ") and self.text.count(";") == 1
        return all(READING.fullmatch(line.strip()) for line in lines)


def blocks(page: str, runs: bool = True) -> list[Block]:
    """Returns the blocks of a page in order. A block that is neither run, nor a file, nor a sample, is an error.

    If the page can't be run (`runs` is false), `text` blocks may be anywhere.
    """
    found: list[Block] = []
    inside: Block | None = None
    before = ""  # The text between the previous block and this line.
    for number, line in enumerate(page.splitlines(), 1):
        if inside is None and (fence := re.match(r"^```(\w*)\s*$", line)):
            inside = Block(number, fence[1], "")
        elif inside is None:
            if line.startswith(("    ", "\t", "~~~")) or line.lstrip().startswith("```"):
                raise PageError(f"line {number}: a block that is not run")
            before += line + "\n"
        elif line == "```":
            _take(inside, before, found, runs)
            inside, before = None, ""
        else:
            inside.text += line + "\n"
    if inside:
        raise PageError(f"line {inside.line}: a block without an end")
    return found


def _take(block: Block, before: str, found: list[Block], runs: bool):
    named = re.search(r"Save this as `([\w./-]+)`:\s*\Z", before)
    if named:
        block.file = named[1]
        found.append(block)
    elif block.language in ("sh", "sql") or block.language in SAMPLES:
        found.append(block)
    elif block.language == "text" and found and not before.strip() and found[-1].runs and found[-1].output is None:
        found[-1].output = block.text
    elif block.language != "text" or runs:
        raise PageError(f"line {block.line}: a block {block.language!r} that is neither run, nor a file, nor a sample, "
                        "nor the output of the block right before it")


def masked(text: str) -> str:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def addresses(page: str, gateway: int, free_port: Callable[[], int]) -> dict[str, str]:
    """Returns the texts to replace so that a page uses ports of its own: `gateway` for 9000, and a free port for each other port.

    A port other than 9000 counts if the page has an address of this machine with it; its number is then replaced everywhere.
    """
    ports = sorted(set(re.findall(r"\b(?:127\.0\.0\.1|localhost):(\d{4,5})\b", page)) - {"9000"})
    return {f"{host}:9000": f"{host}:{gateway}" for host in ("127.0.0.1", "localhost")} | {port: str(free_port()) for port in ports}


def replacing(words: dict[str, str], text: str) -> str:
    """Replaces all words of a text in one pass. A word that ends in a digit is not replaced inside a longer number."""
    pattern = "|".join(rf"(?<!\d){re.escape(word)}(?!\d)" for word in words)
    return re.sub(pattern, lambda found: words[found[0]], text) if words else text


class Reader:
    """A reader who follows a page in one shell and one folder."""

    def __init__(self, folder: Path, environment: dict[str, str], replaced: dict[str, str], before_each: Callable[[], None], patience: float = 15.0):
        """`replaced` maps texts of the page to the texts that this run uses instead, such as addresses.

        `before_each` runs before each command, and waits for the work of the gateway that ends before a person types the next one.
        `patience` limits the seconds until a block that reads prints the output of the page, and until stopped programs end."""
        self.folder, self.environment, self.replaced, self.before_each, self.patience = folder, environment, replaced, before_each, patience
        self.state, self.place = folder / ".shell", folder / ".folder"
        self.state.write_text("")
        self.place.write_text(str(folder))

    def do(self, page: str) -> list[tuple[Block, str]]:
        """Runs every block and returns the output of each. Raises if an output differs from the page."""
        return [(block, self._check(block)) for block in blocks(page)]

    def _check(self, block: Block) -> str:
        text = replacing(self.replaced, block.text)
        if block.file:
            file = Path(self.place.read_text().strip()) / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            return ""
        if not block.runs:
            return ""
        self.before_each()
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return self._compare(block, text)
            except PageError:
                if not block.reads or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _compare(self, block: Block, text: str) -> str:
        printed = self.run(text, block.language, block.line)
        printed = replacing({there: here for here, there in self.replaced.items()}, printed)
        # A block without an output prints nothing.
        if masked(printed) != masked(block.output or ""):
            raise PageError(f"line {block.line} prints\n{printed}\nand the page says\n{block.output or 'nothing'}")
        return printed

    def run(self, text: str, language: str, line: int = 0) -> str:
        """Runs a block in a shell with the folder and the exported variables of the previous blocks. Returns its output, with errors."""
        if language == "sql":
            (self.folder / ".block.sql").write_text(text)
            text = f"psql -X -v ON_ERROR_STOP=1 -f {self.folder}/.block.sql\n"
        script = f"cd \"$(cat {self.place})\"\n. {self.state}\nset -e\n{text}\nexport -p > {self.state}\npwd > {self.place}\n"
        try:
            done = subprocess.run(["bash", "--norc", "-c", script], cwd=self.folder, env=self.environment, text=True, timeout=120,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            raise PageError(f"line {line}: a block still runs after two minutes:\n{text}") from None
        if done.returncode != 0:
            raise PageError(f"line {line}: a block exits with {done.returncode}:\n{text}\n{done.stdout}")
        return done.stdout

    def end(self) -> list[str]:
        """Waits for the programs that the page has stopped, ends those that it left running, and returns their command lines."""
        deadline = time.monotonic() + self.patience
        while (left := self._programs()) and time.monotonic() < deadline:
            time.sleep(0.05)
        kill_all(list(left))
        return list(left.values())

    def _programs(self) -> dict[int, str]:
        mark = f"HOME={self.environment['HOME']}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found
