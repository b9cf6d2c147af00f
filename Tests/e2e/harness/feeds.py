"""A client for durable feeds: definitions, pulling, acknowledging, dead letters, streams."""

import http.client
import json
import socket
import threading
import time
import uuid

from .gateway import SECRET
from .rest import Response, Rest, query_string
from .waiting import PATIENCE, wait_until

OWNER = {"Authorization": "Bearer owner"}
ADMIN = {"Authorization": f"Bearer {SECRET}"}
# A deadline that no test reaches, and a backoff that no test waits for.
PATIENT = {"ack_deadline": "10m", "backoff": {"first": "1ms", "max": "5ms"}}


class Feed:
    """One feed by name, through one gateway; it need not exist. Answers other than 200 fail the test, except those of `call`."""

    def __init__(self, rest: Rest, name: str = "orders", ns: str = "default", headers: dict | None = None):
        self.rest, self.name, self.ns = rest, name, ns
        self.headers = OWNER if headers is None else headers

    def through(self, rest: Rest) -> "Feed":
        """Returns the feed through another gateway."""
        return Feed(rest, self.name, self.ns, self.headers)

    def named(self, name: str) -> "Feed":
        return Feed(self.rest, name, self.ns, self.headers)

    def by(self, headers: dict) -> "Feed":
        """Returns the feed with other credentials."""
        return Feed(self.rest, self.name, self.ns, headers)

    def target(self, what: str = "", **params) -> str:
        return f"/.feeds/{self.name}{what and '/'}{what}?{query_string({'ns': self.ns, **params})}"

    def call(self, method: str, what: str = "", body=None, headers: dict | None = None, **params) -> Response:
        """Sends a request and returns its answer, of any status. `body` is bytes as they are sent, or a value."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return self.rest.send(method, self.target(what, **params), data, {**self.headers, **(headers or {})})

    def ask(self, method: str, what: str = "", body=None, status: int = 200, **params):
        """Sends a request, and repeats it as clients do while no gateway works the feed, such as right after a change."""
        end = time.monotonic() + PATIENCE
        while (answer := self.call(method, what, body, **params)).status == 503 and time.monotonic() < end:
            assert answer.headers["Retry-After"], "a 503 says when to come again"
            time.sleep(0.05)
        assert answer.status == status, f"{method} {self.target(what)}: {answer.status} {answer.body[:300]!r}"
        return answer.json()

    # MARK: the definition

    def apply(self, path: str = "/orders/{order_id}", status: int = 200, **definition) -> dict:
        return self.ask("PUT", body={"path": path, **definition}, status=status)

    def make(self, path: str = "/orders/{order_id}", **definition) -> "Feed":
        """Creates the feed, which must not exist."""
        made = self.apply(path, 201, **definition)
        assert made["created"] is True, made
        return self

    def definition(self) -> dict:
        return self.ask("GET")

    def remove(self):
        assert self.ask("DELETE")["removed"] is True

    def status(self) -> dict:
        return self.ask("GET", "status")

    # MARK: messages

    def pull(self, max: int | None = None, wait: str | None = None, consumer: str | None = None) -> list[dict]:
        return self.ask("POST", "pull", given(max=max, wait=wait, consumer=consumer))["messages"]

    def next(self, count: int = 1, consumer: str | None = None, patience: float = PATIENCE) -> list[dict]:
        """Waits until `count` messages are free, and pulls exactly those.

        A pull gets no message of a key that a consumer holds, so all messages must exist before the first pull."""
        if count > 1:
            self.wait_for_free(count, patience)
        found: list[dict] = []

        def enough():
            found.extend(self.pull(count - len(found), "500ms", consumer))
            return len(found) >= count

        wait_until(enough, f"{count} messages of {self.name}", patience, 0)
        return found

    def wait_for_free(self, count: int, patience: float = PATIENCE):
        """Waits until `count` messages were read from the log and no consumer holds them."""
        begin = time.monotonic()

        def are_there():
            status = self.status()
            # The figures may be as old as a fifth of a second.
            return status["pending_messages"] - status["held_messages"] >= count and time.monotonic() > begin + 0.3

        wait_until(are_there, f"{count} messages of {self.name} to be there", patience, 0.03)

    def one(self, consumer: str | None = None, patience: float = PATIENCE) -> dict:
        return self.next(1, consumer, patience)[0]

    def settle(self, what: str, messages, **members) -> dict:
        """Sends `ack`, `nack` or `extend` for messages or ids, and returns the result of each."""
        ids = [message if isinstance(message, str) else message["id"] for message in messages]
        return self.ask("POST", what, given(ids=ids, **members))["results"]

    def ack(self, messages, **members):
        """Acknowledges; all of them must have been held."""
        results = self.settle("ack", messages, **members)
        assert set(results.values()) <= {"done"}, results

    def nack(self, messages, **members):
        results = self.settle("nack", messages, **members)
        assert set(results.values()) <= {"done"}, results

    def take(self, count: int = 1, consumer: str | None = None, patience: float = PATIENCE) -> list[dict]:
        """Pulls `count` messages and acknowledges them.

        Right after a change of the feed the acknowledgement may be too late, because the gateway restarts the feed. It then delivers the
        same messages again."""
        messages = self.next(count, consumer, patience)
        left = {id for id, result in self.settle("ack", messages).items() if result != "done"}
        while left:
            left -= {id for id, result in self.settle("ack", self.next(len(left), consumer, patience)).items() if result == "done"}
        return messages

    def drained(self):
        """Waits until the feed has read to the head and has nothing left to deliver."""
        wait_until(
            lambda: (status := self.status())["lag_entries"] == 0 and status["pending_messages"] == 0,
            f"{self.name} to be drained", 30)

    def has_nothing_else(self, path: str = "orders", but: tuple | list = ()) -> bool:
        """Checks that the next message to deliver is one that this function writes, so that no earlier entry is left to deliver.

        `but`: messages that may be delivered again, because they were acknowledged while the feed was changed."""
        key = f"sentinel-{uuid.uuid4().hex[:8]}"
        self.rest.set(f"{path}/{key}", {"total": 1_000_000})
        known = {message["id"] for message in but}
        while (found := self.take()[0])["key"].split("/")[-1] != key:
            assert found["id"] in known, f"this was left to deliver: {found}"
        return True

    # MARK: dead letters

    def dead(self, **params) -> list[dict]:
        return self.ask("GET", "dead", **params)["dead"]

    def retry_dead(self, **which) -> int:
        return self.ask("POST", "dead/retry", which)["count"]

    def drop_dead(self, **which) -> int:
        return self.ask("POST", "dead/drop", which)["count"]


def given(**members) -> dict:
    """Returns the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def told(messages: list[dict]) -> list[tuple]:
    """Returns (key, event, value) of each message, which most tests compare."""
    return [(message["key"], message["event"], message.get("value")) for message in messages]


class FeedStream:
    """A feed's event stream, read by a thread. Use as a context."""

    def __init__(self, feed: Feed, last_event_id: str | None = None, **params):
        self.messages: list[dict] = []
        self.ids: list[str] = []
        self.comments = 0
        self.ended = False
        self._news = threading.Condition()
        extra = {"Last-Event-ID": last_event_id} if last_event_id else {}
        self._connection = http.client.HTTPConnection("127.0.0.1", feed.rest.port, timeout=PATIENCE)
        self._connection.request("GET", feed.target("stream", **params), None,
                                 {**feed.headers, "Accept": "text/event-stream", **extra})
        answer = self._connection.getresponse()
        if answer.status != 200:
            body = answer.read()
            self._connection.close()
            raise AssertionError(f"the stream was refused: {answer.status} {body[:300]!r}")
        assert answer.headers["Content-Type"].startswith("text/event-stream"), answer.headers["Content-Type"]
        self._socket = self._connection.sock or answer.fp.raw._sock
        self._socket.settimeout(None)
        self._answer = answer
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
                if text.startswith(":"):
                    self._note_comment()
                elif text:
                    name, _, rest = text.partition(":")
                    fields[name] = rest.removeprefix(" ")
                elif fields:
                    self._take(fields)
                    fields = {}
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass
        with self._news:
            self.ended = True
            self._news.notify_all()

    def _note_comment(self):
        with self._news:
            self.comments += 1
            self._news.notify_all()

    def _take(self, fields: dict[str, str]):
        if fields.get("event") != "message":
            return
        message = json.loads(fields["data"])
        # The id of an event names one delivery of the message.
        assert fields["id"].startswith(message["id"] + "@"), fields
        with self._news:
            self.messages.append(message)
            self.ids.append(fields["id"])
            self._news.notify_all()

    def wait_for(self, condition, what: str, patience: float = PATIENCE):
        with self._news:
            assert self._news.wait_for(condition, patience), \
                f"the stream had no {what} (ended: {self.ended}); it had {len(self.messages)} messages: {self.messages[-3:]}"

    def wait_for_count(self, count: int, patience: float = PATIENCE) -> list[dict]:
        self.wait_for(lambda: len(self.messages) >= count, f"{count} messages", patience)
        return self.messages[:count]

    def wait_for_end(self, patience: float = PATIENCE):
        self.wait_for(lambda: self.ended, "end", patience)
