"""The attacker's process: `python -m fairness.attacker` with a specification on the first line of standard input.

The process prints `ready` after its preparation, begins when a second line arrives, ends when standard input does, and prints the
results of its requests as one line of JSON."""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

FOLDER = Path(__file__).resolve().parents[1]


def line() -> str:
    """One line of standard input, read byte by byte: later bytes are for the code that polls the descriptor."""
    found = b""
    while (one := os.read(0, 1)) not in (b"", b"\n"):
        found += one
    return found.decode()


def be_nice():
    """Lowers the priority below gateways and victims. Sessions have a priority of their own if the kernel groups by session."""
    os.nice(10)
    try:
        Path("/proc/self/autogroup").write_text("10")
    except OSError:
        pass


def main():
    from .attacks import BY_NAME

    spec = SimpleNamespace(**json.loads(line()))
    attack = BY_NAME[spec.attack]
    be_nice()
    attack.arm(spec)
    print("ready", flush=True)
    if not line():
        return
    start = time.monotonic()
    counts = attack.run(spec)
    print(json.dumps({"seconds": round(time.monotonic() - start, 1), "counts": dict(counts)}), flush=True)


class Attacker:
    """The process, from the campaign's side."""

    def __init__(self, spec: dict, patience: float = 180):
        self.name = spec["attack"]
        self.child = subprocess.Popen([sys.executable, "-m", "fairness.attacker"], cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, start_new_session=True)
        try:
            self._tell(json.dumps(spec))
            self._expect("ready", patience)
        except BaseException:
            self.child.kill()
            raise

    def _tell(self, text: str):
        self.child.stdin.write(text + "\n")
        self.child.stdin.flush()

    def _expect(self, text: str, patience: float):
        ready, _, _ = select.select([self.child.stdout], [], [], patience)
        said = self.child.stdout.readline() if ready else "nothing in time"
        if said != text + "\n":
            raise RuntimeError(f"the attacker {self.name} said {said!r} instead of {text!r}")

    def go(self):
        self._tell("go")

    def finish(self, patience: float = 60) -> dict:
        """Ends the attack and returns its report. `seconds` is 0 if the process had ended before."""
        if (status := self.child.poll()) is not None:
            return {"seconds": 0, "counts": {f"exit status {status}": 1}}
        self.child.stdin.close()
        try:
            ready, _, _ = select.select([self.child.stdout], [], [], patience)
            said = self.child.stdout.readline() if ready else ""
            return json.loads(said) if said else {"seconds": 0, "counts": {"no report": 1}}
        finally:
            self.kill()

    def kill(self):
        self.child.kill()
        self.child.wait()


if __name__ == "__main__":
    main()
