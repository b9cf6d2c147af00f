"""`/.log`: whole answers, and streams of it that are read line by line."""

import http.client
import json
import socket

from .gateway import SECRET
from .rest import Response, Rest, query_string
from .waiting import PATIENCE

ADMIN = {"Authorization": f"Bearer {SECRET}"}


def target(**params) -> str:
    named = {name.rstrip("_"): value for name, value in params.items()}
    return "/.log" + (f"?{query_string(named)}" if named else "")


def ask(rest: Rest, method: str = "GET", headers: dict | None = None, **params) -> Response:
    """One whole answer."""
    return rest.send(method, target(**params), None, {**ADMIN, **(headers or {})})


class LogStream:
    """One stream. Reads when it is asked to, so a test that doesn't ask is a slow client. Use as a context."""

    def __init__(self, port: int, headers: dict | None = None, buffer: int | None = None, **params):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        if buffer:
            self.connection.sock = socket.socket()
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            self.connection.sock.settimeout(PATIENCE)
            self.connection.sock.connect(("127.0.0.1", port))
        self.connection.request("GET", target(**params), None, {**ADMIN, **(headers or {})})
        self.answer = self.connection.getresponse()
        self.status, self.headers = self.answer.status, self.answer.headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.answer.close()
        self.connection.close()

    def raw(self) -> str | None:
        """The next line, whatever it is; None at the end."""
        line = self.answer.readline()
        return line.decode().rstrip("\n") if line.endswith(b"\n") else None

    def next(self) -> dict | None:
        """The next entry's line; None at the end."""
        while (line := self.raw()) == "":
            pass
        return None if line is None else json.loads(line)

    def rest(self) -> list[dict]:
        """All lines up to the end."""
        return list(iter(self.next, None))

    def event(self) -> dict | None:
        """The next event with its fields, comments left out; None at the end."""
        fields = {}
        while (line := self.raw()) is not None:
            if line == "":
                if fields:
                    return fields
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
        return None
