"""`/.log`: whole answers, and streams of events that are read as they come."""

import collections
import http.client
import json
import socket

from .gateway import SECRET
from .rest import Response, Rest, query_string
from .waiting import PATIENCE

ADMIN = {"Authorization": f"Bearer {SECRET}"}


def after(seq: int) -> str:
    """The offset after an entry, whichever batch it came in."""
    return f"{seq:019}_{0:010}_{0:010}_"


def target(**params) -> str:
    return "/.log" + (f"?{query_string(params)}" if params else "")


def ask(rest: Rest, method: str = "GET", headers: dict | None = None, **params) -> Response:
    """One whole answer."""
    return rest.send(method, target(**params), None, {**ADMIN, **(headers or {})})


def ask_all(rest: Rest, headers: dict | None = None, offset: str = "-1", **params) -> list[Response]:
    """Returns the answers from an offset to the end of the log."""
    answers = []
    while True:
        answers.append(answer := ask(rest, headers=headers, offset=offset, **params))
        assert answer.status == 200, answer.body
        if answer.headers["Stream-Up-To-Date"] == "true":
            return answers
        assert answer.headers["Stream-Next-Offset"] > offset
        offset = answer.headers["Stream-Next-Offset"]


def read_all(rest: Rest, headers: dict | None = None, offset: str = "-1", **params) -> list[dict]:
    """Returns the lines from an offset to the end of the log."""
    return [line for answer in ask_all(rest, headers, offset, **params) for line in answer.json()]


class LogStream:
    """One stream of events. It reads on request only, so a test that does not read is a slow client. Use as a context."""

    def __init__(self, port: int, headers: dict | None = None, buffer: int | None = None, offset: str = "-1", **params):
        self.lines = collections.deque()
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        if buffer:
            self.connection.sock = socket.socket()
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            self.connection.sock.settimeout(PATIENCE)
            self.connection.sock.connect(("127.0.0.1", port))
        self.connection.request("GET", target(offset=offset, live="sse", **params), None, {**ADMIN, **(headers or {})})
        self.answer = self.connection.getresponse()
        self.status, self.headers = self.answer.status, self.answer.headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.answer.close()
        self.connection.close()

    def raw(self) -> str | None:
        """The next line of text, of any kind; None at the end."""
        line = self.answer.readline()
        return line.decode().rstrip("\n") if line.endswith(b"\n") else None

    def event(self) -> tuple[str, object] | None:
        """The next event and its data, comments left out; None at the end."""
        fields = {}
        while (line := self.raw()) is not None:
            if line == "":
                if fields:
                    return fields["event"], json.loads(fields["data"])
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
        return None

    def next(self) -> dict | None:
        """The next line of the log; None at the end."""
        while not self.lines:
            if (event := self.event()) is None:
                return None
            if event[0] == "data":
                self.lines.extend(event[1])
        return self.lines.popleft()
