"""Starts and controls the proxies."""

import json
import subprocess
import sys
import threading
from pathlib import Path


class Proxies:
    """The proxy program of one rig. Any thread may call."""

    def __init__(self, logs: Path):
        self._lock = threading.Lock()
        with open(logs / "proxies.err", "ab") as errors:
            self._child = subprocess.Popen([sys.executable, Path(__file__).with_name("proxy_server.py")], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=errors)

    def _do(self, what: str, name: str, **more) -> dict:
        with self._lock:
            self._child.stdin.write(json.dumps({"do": what, "name": name, **more}).encode() + b"\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        if not line:
            raise RuntimeError("the proxies ended")
        return json.loads(line)

    def open(self, name: str, to: int) -> int:
        """A proxy before a port of this machine; returns its own port."""
        return self._do("open", name, to=to)["port"]

    def set(self, name: str, up="pass", down="pass"):
        self._do("set", name, up=up, down=down)

    def end(self, name: str, how: str = "reset"):
        self._do("break", name, how=how)

    def refuse(self, name: str, on: bool):
        self._do("refuse", name, on=on)

    def arm(self, name: str, way: str, text: str | None, count: int, then: str, least: int = 1):
        self._do("arm", name, way=way, text=text, least=least, bytes=count, then=then)

    def lose_call(self, name: str, label: str, text: str | None, skip: int, lost: str, then: str = "reset"):
        """Of the calls with this text on PostgreSQL connections with this application name, `skip` pass; the connection ends before the
        next one (`lost` is "before"), or when its answer comes ("after")."""
        self._do("call", name, label=label, text=text, skip=skip, lost=lost, then=then)

    def keep_calls(self, name: str):
        """Removes the traps of `lose_call` that no call has met."""
        self._do("call", name, then=None)

    def disarm(self, name: str):
        for way in ("up", "down"):
            self._do("arm", name, way=way, then=None)

    def tripped(self, name: str) -> int:
        return self._do("look", name)["tripped"]

    def close(self):
        self._child.stdin.close()
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
