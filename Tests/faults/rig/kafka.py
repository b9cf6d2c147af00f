"""Starts and controls the program of Kafka brokers."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path


class Kafka:
    """The brokers of one rig. Any thread may call."""

    def __init__(self, logs: Path):
        self._lock = threading.Lock()
        # By topic, the values of all records so far, in order within a partition.
        self._records: dict[str, list[str]] = {}
        with open(logs / "kafka.err", "ab") as errors:
            self._child = subprocess.Popen([sys.executable, Path(__file__).with_name("kafka_server.py")], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=errors)
        self.brokers: str = self._answer()["brokers"]

    def _answer(self) -> dict:
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError("the Kafka brokers ended")
        return json.loads(line)

    def do(self, what: str, **more) -> dict:
        with self._lock:
            self._child.stdin.write(json.dumps({"do": what, **more}).encode() + b"\n")
            self._child.stdin.flush()
            return self._answer()

    def messages(self, topic: str) -> list[dict]:
        """The values of all records of a topic that the reader has received."""
        records = self.do("read")["records"]
        with self._lock:
            for name, _, value in records:
                self._records.setdefault(name, []).append(value)
            return [json.loads(value) for value in self._records.get(topic, [])]

    def all_messages(self, topic: str, quiet: float = 1.5, patience: float = 20) -> list[dict]:
        """All values, once the reader has received none for some time: it retries a broker that was down with pauses."""
        deadline, found = time.monotonic() + patience, self.messages(topic)
        changed = time.monotonic()
        while time.monotonic() < min(deadline, changed + quiet):
            time.sleep(0.1)
            if len(more := self.messages(topic)) != len(found):
                found, changed = more, time.monotonic()
        return found

    def close(self):
        self._child.stdin.close()
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
