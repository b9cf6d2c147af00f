"""HTTP by hand."""

import time

from wires.wire import PATIENCE, Wire


class HTTP(Wire):
    """A kept-alive connection. It sends requests as written, and reads exactly one answer for each."""

    def __init__(self, transcript, who: str, port: int, host: str, receive_buffer: int | None = None):
        super().__init__(transcript, who, port, receive_buffer)
        self.host = host
        # The last answer's.
        self.type = b""
        self.status = 0

    def request(self, method: str, target: str, body: bytes | str | None = None, headers: dict | None = None,
                version: str = "1.1") -> bytes:
        """The bytes of a request; a header of None is left out."""
        data = body.encode() if isinstance(body, str) else body
        fields = {"Host": self.host, **({"Content-Length": str(len(data))} if data is not None else {}), **(headers or {})}
        lines = [f"{method} {target} HTTP/{version}", *(f"{name}: {value}" for name, value in fields.items() if value is not None)]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + (data or b"")

    def ask(self, method: str, target: str, body: bytes | str | None = None, headers: dict | None = None, **more) -> bytes:
        """One exchange; the body of the answer."""
        self.send(self.request(method, target, body, headers, **more))
        return self.answer(method)

    def answer(self, method: str = "GET") -> bytes:
        """Reads one answer, interim ones before it included; its body."""
        deadline = time.monotonic() + PATIENCE
        while True:
            head = self.take_through(b"\r\n\r\n", deadline)
            self.transcript.came(self.who, head)
            if not head.endswith(b"\r\n\r\n"):
                self.transcript.event(self.who, "closed by the server")
                return b""
            status = self.status = int(head.split(b" ", 2)[1])
            if status >= 200 or status == 101:
                break
        fields = {name.strip().lower(): value.strip() for name, _, value in
                  (line.partition(b":") for line in head.split(b"\r\n")[1:])}
        self.type = fields.get(b"content-type", b"")
        body = b""
        if method != "HEAD" and status not in (101, 204, 304):
            if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
                body = self._chunks(deadline)
            elif b"content-length" in fields:
                body = self.take(int(fields[b"content-length"]), deadline)
            elif self.type.startswith(b"text/event-stream"):
                return b""
            else:
                while self.more(deadline):
                    pass
                body = bytes(self.buffer)
                self.buffer.clear()
            self.transcript.came(self.who, body)
        if fields.get(b"connection", b"").lower() == b"close":
            self.rest()
        return body

    def _chunks(self, deadline: float) -> bytes:
        """A body with its framing."""
        body = b""
        while True:
            line = self.take_through(b"\r\n", deadline)
            size = int(line.split(b";")[0] or b"0", 16)
            body += line + self.take(size, deadline) + self.take_through(b"\r\n", deadline)
            if size == 0:
                return body


class Events(HTTP):
    """A stream of server-sent events, each read when the play expects it."""

    def open(self, target: str, headers: dict | None = None) -> "Events":
        self.send(self.request("GET", target, None, {"Accept": "text/event-stream", **(headers or {})}))
        self.answer()
        self.isStream = self.type.startswith(b"text/event-stream")
        return self

    def expect(self, count: int = 1) -> list[bytes]:
        """The next events, whole; none if the request was refused."""
        if not self.isStream:
            return []
        deadline = time.monotonic() + PATIENCE
        events = []
        for _ in range(count):
            event = self.take_through(b"\n\n", deadline)
            self.transcript.came(self.who, event)
            if not event.endswith(b"\n\n"):
                self.transcript.event(self.who, "closed by the server")
                break
            events.append(event)
        return events

    def pass_over(self, until: bytes) -> bytes:
        """Reads events without recording them, until one contains these bytes; that one is recorded."""
        deadline = time.monotonic() + PATIENCE
        while True:
            event = self.take_through(b"\n\n", deadline)
            if until in event or not event:
                self.transcript.event(self.who, "any number of events are left out")
                self.transcript.came(self.who, event)
                return event

    @staticmethod
    def id(event: bytes) -> str:
        """The id of an event."""
        return event.partition(b"\nid: ")[2].partition(b"\n")[0].decode()
