"""Clients that write, read and listen through the proxy, and then report failed, lost and missing events."""

import contextlib
import http.client
import itertools
import json
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass

from harness.rest import Rest
from harness.sse import Listener, Refused
from harness.waiting import Late, wait_until
from harness.websocket import Closed, Rejected
from harness.websocket_client import RealtimeClient


@dataclass(frozen=True)
class Outcome:
    """One request: `result` is its status, or the name of a connection error."""

    method: str
    result: int | str
    seconds: float


class Load:
    """Runs while it is entered; `settle` ends it and compares. Each writer puts, patches, pushes and removes in turn."""

    WRITERS, READERS = 4, 2

    def __init__(self, rest: Rest, secret: str):
        self.rest, self.secret = rest.at(f"load/{uuid.uuid4().hex}"), secret
        self.outcomes: list[Outcome] = []
        # The texts of answers other than 200 to a read.
        self.unread: list[str] = []
        # Names with an acknowledged write, with a requested removal, and with an acknowledged removal.
        self.written: set[str] = set()
        self.removing: set[str] = set()
        self.removed: set[str] = set()
        self.heard: set[str] = set()
        self.reconnects = 0
        self.realtime_writes = 0
        # The id from which the stream resumes.
        self._last: int | None = None
        self._stop = threading.Event()
        jobs = [*[(self._write, number) for number in range(self.WRITERS)], *[(self._read,)] * self.READERS,
                (self._listen,), (self._speak,)]
        self._threads = [threading.Thread(target=job, args=words, daemon=True) for job, *words in jobs]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self.written) > 20, "the first writes")
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

    def run_for(self, seconds: float):
        self._stop.wait(seconds)

    # Clients

    def _ask(self, method: str, path: str, value=None):
        begin = time.monotonic()
        body = None if method in ("GET", "DELETE") else json.dumps(value).encode()
        try:
            response = self.rest.send(method, self.rest.url(path), body)
            result = response.status
        except (OSError, http.client.HTTPException) as error:
            response, result = None, type(error).__name__
            time.sleep(0.1)
        self.outcomes.append(Outcome(method, result, time.monotonic() - begin))
        if method == "GET" and response is not None and result != 200:
            self.unread.append(response.body.decode(errors="replace"))
        return response if result == 200 else None

    def _write(self, number: int):
        for turn in itertools.count():
            if self._stop.is_set():
                return
            put, patched = f"w{number}-{turn}", f"p{number}-{turn}"
            if self._ask("PUT", put, turn):
                self.written.add(put)
            if self._ask("PATCH", "", {patched: turn}):
                self.written.add(patched)
            if posted := self._ask("POST", "", turn):
                self.written.add(posted.json()["name"])
            if turn % 3 == 0:
                self.removing.add(put)
                if self._ask("DELETE", put):
                    self.removed.add(put)
            self._stop.wait(0.01)

    def _read(self):
        while not self._stop.is_set():
            self._ask("GET", "w0-1")
            self._stop.wait(0.01)

    def _listen(self):
        """An event stream that resumes after each cut."""
        while not self._stop.is_set():
            try:
                with Listener(self.rest, last_event_id=self._last) as listener:
                    while not self._stop.is_set() and not listener.ended:
                        self._stop.wait(0.05)
                    self._hear(listener)
            except (OSError, Refused, http.client.HTTPException):
                self._stop.wait(0.2)
            self.reconnects += not self._stop.is_set()

    def _hear(self, listener: Listener):
        for event in list(listener.events):
            if event.kind in ("put", "patch"):
                place = event.path.strip("/")
                self.heard |= {place} if place else set(event.data or {})
                self._last = event.id

    def _speak(self):
        """A realtime client that writes, and reconnects after each cut."""
        for turn in itertools.count():
            if self._stop.is_set():
                return
            try:
                with RealtimeClient(self.rest.port) as client:
                    client.ok("auth", {"cred": self.secret})
                    while not self._stop.is_set():
                        name = f"r{turn}-{client.number}"
                        if client.call("p", {"p": f"/{self.rest.base}/{name}", "d": turn})["s"] == "ok":
                            self.written.add(name)
                            self.realtime_writes += 1
                        self._stop.wait(0.05)
            except (OSError, Closed, Rejected, Late, AssertionError):
                self.reconnects += not self._stop.is_set()
                self._stop.wait(0.2)

    # Afterwards

    def settle(self) -> "Load":
        self.__exit__()
        with Listener(self.rest, last_event_id=self._last) as listener, contextlib.suppress(Late):
            wait_until(lambda: self._hear(listener) or not self.unheard, "the last writes to be heard", 10)
        stored = set(self.rest.value(shallow="true") or {})
        self.lost = self.written - self.removing - stored
        self.undead = self.removed & stored
        return self

    @property
    def unheard(self) -> set[str]:
        return self.written - self.removing - self.heard

    @property
    def failures(self) -> Counter:
        return Counter((one.method, one.result) for one in self.outcomes if one.result != 200)

    def failed(self, *methods: str) -> int:
        return sum(count for (method, _), count in self.failures.items() if method in methods)

    def report(self) -> str:
        failures = ", ".join(f"{count} {method} {result}" for (method, result), count in sorted(self.failures.items(), key=str))
        slowest = max(one.seconds for one in self.outcomes)
        return (f"{len(self.outcomes)} requests, {sum(self.failures.values())} failed ({failures or 'none'}), slowest {slowest:.1f} s; "
                f"{len(self.written)} writes acknowledged ({self.realtime_writes} by socket), {len(self.lost)} lost, "
                f"{len(self.unheard)} not heard; {self.reconnects} reconnects")
