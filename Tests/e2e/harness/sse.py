"""A listener over server-sent events that records the events and folds them into a value."""

import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass

from oracle.tree import assign, normal

from .rest import Rest
from .waiting import PATIENCE, Late


class EventID(int):
    """An event's sequence number, which remembers the whole id that it is the beginning of."""

    text: str

    @classmethod
    def read(cls, text: str) -> "EventID":
        number = cls(text.partition("-")[0])
        number.text = text
        return number


@dataclass(frozen=True)
class Event:
    """One event as sent; `id` is the sequence number, None where there was none."""

    kind: str
    id: EventID | None
    text: str

    @property
    def path(self) -> str:
        return json.loads(self.text)["path"]

    @property
    def data(self):
        return json.loads(self.text)["data"]

    @property
    def change(self) -> tuple:
        """Returns (kind, path, data), which most tests compare."""
        return (self.kind, self.path, self.data)


class Refused(Exception):
    """The server answered the request for a stream with something else."""

    def __init__(self, status: int, body: bytes):
        super().__init__(f"{status}: {body[:300]!r}")
        self.status, self.body = status, body


class Listener:
    """One stream. A thread reads it; `next` and `wait_for_value` wait with a deadline. Use as a context. It asks for ids unless `ids` is false."""

    def __init__(self, location: Rest, last_event_id: int | None = None, value=None,
                 headers: dict | None = None, ids: bool = True, **params):
        if ids:
            params = {"eventIds": "true", **params}
        text = getattr(last_event_id, "text", last_event_id)
        extra = {"Last-Event-ID": str(text)} if last_event_id is not None else {}
        self._connection = http.client.HTTPConnection("127.0.0.1", location.port, timeout=PATIENCE)
        self._connection.request("GET", location.url(**params), None, {
            **location.headers, "Accept": "text/event-stream", **extra, **(headers or {})})
        answer = self._connection.getresponse()
        self.headers = answer.headers
        if answer.status != 200 or not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
            body = answer.read()
            self._connection.close()
            raise Refused(answer.status, body)
        # Only the server or close() ends the stream from here on: silence is no error.
        self._socket = self._connection.sock or answer.fp.raw._sock
        self._socket.settimeout(None)
        self._answer = answer
        self.events: list[Event] = []
        self.keep_alives = 0
        # The id that a resumed stream continues from.
        self.value = value
        self.ended = False
        self.last_id = last_event_id
        self._taken = 0
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(PATIENCE)
        self._connection.close()

    def _read(self):
        fields: dict[str, str] = {}
        try:
            while line := self._answer.readline():
                text = line.decode().rstrip("\n")
                if text:
                    name, _, rest = text.partition(":")
                    fields[name] = rest.removeprefix(" ")
                    continue
                if fields:
                    self._take(fields)
                    fields = {}
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass
        with self._news:
            self.ended = True
            self._news.notify_all()

    def _take(self, fields: dict[str, str]):
        number = EventID.read(fields["id"]) if fields.get("id") else None
        event = Event(fields.get("event", "message"), number, fields.get("data", ""))
        with self._news:
            if number is not None:
                self.last_id = number
            if event.kind == "keep-alive":
                self.keep_alives += 1
            else:
                self.events.append(event)
            if event.kind in ("put", "patch"):
                keys = {"": event.data} if event.kind == "put" else event.data
                for key, data in keys.items():
                    self.value = assign(self.value, f"{event.path}/{key}", data)
            self._news.notify_all()

    def _wait(self, condition, what: str, patience: float):
        deadline = time.monotonic() + patience
        with self._news:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0 or (self.ended and not condition()):
                    raise Late(f"listener: no {what} (ended: {self.ended}); events: {self.events[-5:]}")
                self._news.wait(left)

    def next(self, patience: float = PATIENCE) -> Event:
        """The next event that is not a keep-alive, in order."""
        self._wait(lambda: len(self.events) > self._taken, "further event", patience)
        self._taken += 1
        return self.events[self._taken - 1]

    def wait_for_value(self, value, patience: float = PATIENCE):
        """Waits until the folded events make this value; array and object forms are the same here."""
        wanted = normal(value)
        self._wait(lambda: self.value == wanted, f"value {wanted!r:.300}", patience)

    def wait_for_keep_alive(self, count: int = 1, patience: float = PATIENCE):
        self._wait(lambda: self.keep_alives >= count, "keep-alive", patience)

    def wait_for_id(self, number: int, patience: float = PATIENCE):
        self._wait(lambda: self.last_id is not None and self.last_id >= number, f"id {number}", patience)

    def wait_for_end(self, patience: float = PATIENCE):
        """Waits until the server ends the stream."""
        with self._news:
            if not self._news.wait_for(lambda: self.ended, patience):
                raise Late("the server did not end the stream")
