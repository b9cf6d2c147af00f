"""Bytes to a gateway: HTTP by hand, and WebSockets without the cost of a mask."""

import base64
import gzip
import json
import os
import socket
import struct
import time

SEGMENT = 16384
PATIENCE = 60.0
SILENT, CLOSED = "no answer in time", "closed"


class Target:
    """A gateway under attack. `administrator` is its credential, `address` the pretended address of attackers; `token` makes the token of a
    feed by its name and namespace."""

    def __init__(self, port: int, administrator: str, ns: str = "default", address: str | None = None, token=None):
        self.port, self.administrator, self.ns, self.address = port, administrator, ns, address
        self._token = token

    def token(self, feed: str, ns: str | None = None) -> str:
        """A token for consuming a feed."""
        return self._token(feed, ns or self.ns)

    def connect(self, patience: float = PATIENCE) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.port), patience)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain

    def head(self, method: str, target: str, headers: dict | None = None, address: str | None = None) -> bytes:
        lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1"]
        origin = address or self.address
        if origin:
            lines.append(f"X-Forwarded-For: {origin}")
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def url(self, path: str, query: str = "") -> str:
        return f"/{path}.json?ns={self.ns}" + (f"&{query}" if query else "")

    def request(self, method: str, target: str, body: bytes | None = None, headers: dict | None = None,
                patience: float = PATIENCE) -> str:
        """The status of one exchange; `closed` or SILENT where there was none."""
        try:
            with self.connect(patience) as plain:
                sent = {"Connection": "close", **(headers or {})}
                if body is not None:
                    sent["Content-Length"] = str(len(body))
                try:
                    plain.sendall(self.head(method, target, sent) + (body or b""))
                except ConnectionError:
                    # Refused before it was read: the answer exists nevertheless.
                    pass
                return status_of(read_to_end(plain))
        except TimeoutError:
            return SILENT
        except ConnectionError:
            return CLOSED

    def administer(self, method: str, path: str, value, query: str = "") -> bytes:
        """Creates data for a test; the request must succeed."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        target = path if path.startswith("/") else self.url(path)
        target += ("&" if "?" in target else "?") + f"auth={self.administrator}" + (f"&{query}" if query else "")
        with self.connect() as plain:
            plain.sendall(self.head(method, target, {"Connection": "close", "Content-Length": str(len(body))}) + body)
            answer = read_to_end(plain)
        if status_of(answer) not in ("200", "204"):
            raise RuntimeError(f"{method} {path}: {answer[:300]!r}")
        return answer.partition(b"\r\n\r\n")[2]


def read_to_end(plain: socket.socket) -> bytes:
    data = bytearray()
    try:
        while more := plain.recv(65536):
            data += more
    except ConnectionError:
        pass
    return bytes(data)


def status_of(answer: bytes) -> str:
    return answer.split(b" ", 2)[1].decode() if answer.startswith(b"HTTP/1.1 ") else CLOSED


def packed(data: bytes) -> bytes:
    return gzip.compress(data, 9)


def frame(payload: bytes, opcode: int = 1, declared: int | None = None) -> bytes:
    """One frame with a mask of zeros. `declared`: a length that differs from the payload's."""
    size = len(payload) if declared is None else declared
    head = bytes([0x80 | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + b"\0\0\0\0" + payload


def segments(text: bytes) -> bytes:
    """A message as SDKs send it: a count and its pieces. ASCII only."""
    if len(text) <= SEGMENT:
        return frame(text)
    pieces = [text[start:start + SEGMENT] for start in range(0, len(text), SEGMENT)]
    return frame(str(len(pieces)).encode()) + b"".join(frame(piece) for piece in pieces)


def request(number: int, action: str, body) -> bytes:
    """A realtime request as text; `body` may be text already."""
    inner = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    return b'{"t":"d","d":{"r":%d,"a":"%s","b":%s}}' % (number, action.encode(), inner)


class Socket:
    """A WebSocket whose client sends any bytes, and reads on request only."""

    def __init__(self, target: Target, patience: float = PATIENCE, address: str | None = None):
        self.plain = target.connect(patience)
        self.buffer, self.messages, self.pending = bytearray(), {}, b""
        self.plain.sendall(target.head("GET", f"/.ws?v=5&ns={target.ns}", {
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode()}, address))
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.status = status_of(head)
        self.buffer = bytearray(rest)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.plain.close()

    def send(self, data: bytes) -> bool:
        """Returns False if the server has closed."""
        try:
            self.plain.sendall(data)
            return True
        except ConnectionError:
            return False

    def _more(self):
        more = self.plain.recv(1 << 20)
        if not more:
            raise ConnectionError("closed")
        self.buffer += more

    def _frame(self) -> tuple[int, bytes]:
        while True:
            size, start = (self.buffer[1] if len(self.buffer) > 1 else 0), 2
            if size == 126 and len(self.buffer) >= 4:
                size, start = struct.unpack(">H", self.buffer[2:4])[0], 4
            elif size == 127 and len(self.buffer) >= 10:
                size, start = struct.unpack(">Q", self.buffer[2:10])[0], 10
            elif size >= 126:
                size = 1 << 62
            if len(self.buffer) >= 2 and len(self.buffer) >= start + size:
                payload = bytes(self.buffer[start:start + size])
                opcode = self.buffer[0] & 15
                del self.buffer[:start + size]
                return opcode, payload
            self._more()

    def answers(self, count: int, patience: float = PATIENCE) -> list[str]:
        """The statuses of `count` answers in the order of their arrival; an early end is the last one."""
        found, end, more = [], time.monotonic() + patience, 0
        try:
            while len(found) < count:
                self.plain.settimeout(max(0.01, end - time.monotonic()))
                opcode, payload = self._frame()
                if opcode == 8:
                    return found + [CLOSED]
                if opcode == 9:
                    self.send(frame(payload, 10))
                    continue
                if len(payload) <= 6 and payload.isdigit():
                    more, self.pending = int(payload), b""
                    continue
                # The first piece of a long message shows its kind.
                text = payload[:200] if not more or self.pending == b"" else b""
                self.pending = b"seen" if more else b""
                more = max(0, more - 1)
                # An answer, neither a push nor a control message.
                if b'"r":' in text and b'"s":"' in text:
                    found.append(text.split(b'"s":"', 1)[1].split(b'"', 1)[0].decode())
        except TimeoutError:
            return found + [SILENT]
        except ConnectionError:
            return found + [CLOSED]
        return found
