"""An etcd of one member, which answers a put when its write-ahead log is synced: the peer of durable writes over HTTP."""

import http.client
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from . import machine, process
from .processor import Meter


class Etcd:
    """On a data directory that is removed at the end. Use as a context."""

    def __init__(self):
        self.root = Path(tempfile.mkdtemp(prefix="pathmirror-etcd-"))
        self.port = machine.free_port()
        self._child: subprocess.Popen | None = None

    def __enter__(self) -> "Etcd":
        peer = f"http://127.0.0.1:{machine.free_port()}"
        self._child = process.start(
            [machine.program("etcd"), "--data-dir", self.root / "data", "--name", "bench", "--listen-client-urls", self.url,
             "--advertise-client-urls", self.url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"bench={peer}", "--log-level", "error",
             # A run must not end at the limit of the database's size.
             "--quota-backend-bytes", 8 << 30],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while not self._is_healthy():
            if self._child.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise process.Failed("etcd did not get ready")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        if self._child:
            process.stop(self._child)
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def meter(self) -> Meter:
        return Meter(self._child.pid)

    def post(self, path: str, message: dict) -> dict:
        """One request; anything but 200 is a failure."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", path, json.dumps(message))
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise process.Failed(f"etcd answered {path} with {answer.status}: {content[:200]!r}")
        return json.loads(content)

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return b'"true"' in connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
