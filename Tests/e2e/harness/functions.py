"""Database functions under functions-framework, the runtime of Cloud Functions: one process for each function."""

import contextlib
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path

from .endpoint import SECRET
from .ports import free_port
from .process import Process
from .waiting import PATIENCE, wait_until

SOURCE = Path(__file__).resolve().parent.parent / "functions" / "main.py"
KINDS = ("created", "updated", "deleted", "written")


class Function:
    """A function of `functions/main.py`, on a port that it keeps over restarts. Use as a context."""

    def __init__(self, name: str, scratch: Path, logs: Path):
        self.name, self.logs, self.port = name, logs, free_port()
        self.file = scratch / f"events-{name}"
        self.file.touch()

    def __enter__(self) -> "Function":
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        words = ["--source", SOURCE, "--target", self.name, "--signature-type", "cloudevent", "--host", "127.0.0.1", "--port", self.port]
        # The sources of the tests stay as they are.
        variables = {"EVENTS": str(self.file), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = Process([sys.executable, "-m", "functions_framework", *words], f"function-{self.name}", self.logs, variables)
        wait_until(self._answers, f"the function {self.name} to answer", 60)

    def _answers(self) -> bool:
        assert self.process.running, self.process.tail()
        try:
            urllib.request.urlopen(self.url, timeout=5)
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def kill(self):
        """Kills the process as a crash does, with the workers that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.child.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def definition(self, path: str = "/rooms/{room}/messages/{message}", **more) -> dict:
        """The definition of the feed that calls this function."""
        events = {} if self.name == "written" else {"events": self.name}
        return {"path": path, **events, **more, "webhook": {"url": self.url, "secrets": [SECRET], "format": "firebase"}}

    @property
    def events(self) -> list[dict]:
        """The events in the order of their coming; repeated ones, too."""
        # A killed process may leave a part of a line.
        lines = self.file.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def wait_for(self, count: int, patience: float = PATIENCE) -> list[dict]:
        """Waits until so many different events have come, and returns each once, in the order of their first coming."""
        def look():
            found = {event["id"]: event for event in reversed(self.events)}
            return len(found) >= count and list(reversed(found.values()))

        return wait_until(look, f"{count} events of the function {self.name}", patience)
