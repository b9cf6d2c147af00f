"""The programs of examples/swift, run with a terminal for their output."""

import fcntl
import functools
import os
import pty
import re
import subprocess
import threading
from pathlib import Path

from .binary import REPOSITORY
from .process import run
from .waiting import Late, wait_until

PACKAGE = REPOSITORY / "examples" / "swift"


@functools.cache
def built() -> Path:
    """Builds the programs and returns their folder. Several processes of one test run build once."""
    (PACKAGE / ".build").mkdir(exist_ok=True)
    with open(PACKAGE / ".build" / "tests.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        finished = run(["swift", "build", "--package-path", PACKAGE, "--disable-index-store", "-Xswiftc", "-gnone"], patience=1_500)
    assert finished.returncode == 0, finished.stdout[-3_000:] + finished.stderr[-3_000:]
    return PACKAGE / ".build" / "debug"


class App:
    """A running example. `output` has its output to the terminal."""

    def __init__(self, name: str, *arguments):
        here, there = pty.openpty()
        self.name, self.output = name, ""
        self.child = subprocess.Popen([built() / name, *map(str, arguments)], stdin=subprocess.PIPE, stdout=there, stderr=there,
                                      start_new_session=True, text=True)
        os.close(there)
        self._reader = threading.Thread(target=self._read, args=(here,), daemon=True)
        self._reader.start()

    def _read(self, terminal: int):
        try:
            while data := os.read(terminal, 65_536):
                self.output += data.decode(errors="replace").replace("\r\n", "\n")
        except OSError:
            # The program has ended.
            pass
        os.close(terminal)

    def type(self, line: str):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def count(self, pattern: str) -> int:
        """How many whole lines match from their beginning now."""
        return len([line for line in self.output.split("\n")[:-1] if re.match(pattern, line)])

    def shows(self, pattern: str, count: int = 1) -> list[str]:
        """Waits until so many lines match from their beginning, and returns them."""

        def look():
            # Looks at the process first and waits for the reader, so that `output` includes the last output.
            has_ended = self.child.poll() is not None and not self._reader.is_alive()
            lines = [line for line in self.output.split("\n")[:-1] if re.match(pattern, line)]
            if len(lines) < count and has_ended:
                raise Late(f"{self.name} ended with {self.child.returncode} before it showed {pattern!r}:\n{self.output}")
            return lines if len(lines) >= count else None

        try:
            return wait_until(look, f"{self.name} to show {pattern!r}", 40)
        except Late as late:
            raise Late(f"{late}\n{self.output}") from None

    def end(self):
        """Closes the input, as a user does after the last line."""
        self.child.stdin.close()
        assert self.child.wait(20) == 0, self.output

    def kill(self):
        self.child.kill()
        self.child.wait()
        self._reader.join()
