"""One child process with its output in files, which ends when the tests do."""

import ctypes
import os
import re
import signal
import subprocess
from pathlib import Path

from .waiting import PATIENCE, Late, wait_until

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# Every process of this run, newest last: the report of a failed test shows the end of their output.
started: list["Process"] = []


def _end_with_parent():
    # Should pytest itself be killed, its servers go too.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _environment(changes: dict | None) -> dict:
    """The environment of programs, without the variables of the tests, which would make a gateway print warnings."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("PATHMIRROR_")}, **(changes or {})}


class Process:
    """A running program. `out` and `err` are the files that its output goes to."""

    def __init__(self, argv, name: str, logs: Path, env: dict | None = None, user: str | None = None):
        self.name = name
        self.argv = [str(word) for word in argv]
        serial = len(started)
        self.out = logs / f"{serial:03d}-{name}.out"
        self.err = logs / f"{serial:03d}-{name}.err"
        identity = {"user": user, "group": user if user != "nobody" else "nogroup", "extra_groups": []} if user else {}
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.child = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=_environment(env),
                start_new_session=True, preexec_fn=_end_with_parent, cwd="/", **identity)
        started.append(self)

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def running(self) -> bool:
        return self.child.poll() is None

    def stdout(self) -> str:
        return self.out.read_text(errors="replace")

    def stderr(self) -> str:
        return self.err.read_text(errors="replace")

    def wait_for_output(self, pattern: str, patience: float = PATIENCE) -> re.Match:
        """Waits until a line of standard output matches."""

        def look():
            # Looks at the process first, so that the file includes the last output of a process that has ended.
            has_ended = not self.running
            found = re.search(pattern, self.stdout(), re.MULTILINE)
            if found:
                return found
            if has_ended:
                raise Late(f"{self.name} ended with {self.child.returncode} before it printed {pattern!r}:\n{self.tail()}")
            return None

        return wait_until(look, f"{self.name} to print {pattern!r}", patience)

    def wait(self, patience: float = PATIENCE) -> int:
        """Waits for the end and returns the exit status (negative: the signal)."""
        try:
            return self.child.wait(patience)
        except subprocess.TimeoutExpired:
            raise Late(f"{self.name} still runs after {patience:g} s:\n{self.tail()}") from None

    def send(self, number: int):
        if self.running:
            os.kill(self.pid, number)

    def freeze(self):
        """Stops the process and returns once all of its threads have stopped. `send(signal.SIGCONT)` continues it."""
        self.send(signal.SIGSTOP)
        wait_until(lambda: all(self._state(task) in "TZX" for task in Path(f"/proc/{self.pid}/task").iterdir()), "all threads to stop", 10, 0.005)

    @staticmethod
    def _state(task: Path) -> str:
        try:
            return (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return "X"

    def stop(self, number: int = signal.SIGTERM, patience: float = PATIENCE) -> int:
        """Sends a signal and waits for the end. A program that does not end is killed, and the test fails."""
        self.send(number)
        try:
            return self.wait(patience)
        except Late:
            self.kill()
            raise

    def kill(self):
        """Kills this process with SIGKILL, without its children."""
        self.send(signal.SIGKILL)
        self.child.wait()

    def tail(self, lines: int = 40) -> str:
        """The end of both outputs, for a report."""
        parts = []
        for label, text in (("stdout", self.stdout()), ("stderr", self.stderr())):
            if text.strip():
                parts.append(f"--- {self.name} {label}\n" + "\n".join(text.splitlines()[-lines:]))
        return "\n".join(parts) or f"--- {self.name}: no output"


def run(argv, patience: float = 120, stdin: bytes | None = None, env: dict | None = None) -> subprocess.CompletedProcess:
    """Runs a command to its end; the output as text."""
    finished = subprocess.run([str(word) for word in argv], input=stdin, capture_output=True, timeout=patience,
                              env=_environment(env))
    finished.stdout = finished.stdout.decode()
    finished.stderr = finished.stderr.decode()
    return finished


def alive(pid: int) -> bool:
    """Whether this process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def resident_bytes(pid: int) -> int:
    """The memory that a process has in RAM now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def peak_resident_bytes(pid: int) -> int:
    """The most memory that a process has had in RAM."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def kill_all(pids: list[int]):
    """kill -9 of processes known by id; those already gone are fine."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
