"""Frames of WebSockets, segments of the realtime protocol, and requests of HTTP, by hand."""

import asyncio
import base64
import hashlib
import struct
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
SEGMENT = 16384
MAX_BODY = 300 * 1024 * 1024
_STATUS = {101: "Switching Protocols", 200: "OK", 204: "No Content", 307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized",
           404: "Not Found", 405: "Method Not Allowed", 412: "Precondition Failed", 500: "Internal Server Error", 503: "Service Unavailable"}


class Gone(Exception):
    """The other side has ended the connection, or broken the rules of WebSockets."""


# MARK: WebSockets

def frame(payload: bytes, opcode: int = TEXT, announced: int | None = None, first: int | None = None) -> bytes:
    """One frame without mask. `announced` is a length other than the true one, and `first` another first byte."""
    size = len(payload) if announced is None else announced
    head = bytes([0x80 | opcode if first is None else first])
    if size < 126:
        return head + bytes([size]) + payload
    if size < 65536:
        return head + b"\x7e" + struct.pack(">H", size) + payload
    return head + b"\x7f" + struct.pack(">Q", size) + payload


def accept_key(key: str) -> str:
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def segments(text: str, size: int = SEGMENT, always_counted: bool = False) -> list[str]:
    """The frames of a message: itself, or a count and pieces of at most `size` UTF-16 units, cut between characters."""
    if len(text) <= size // 2 or len(text.encode("utf-16-le")) // 2 <= size:
        return ["1", text] if always_counted else [text]
    pieces, start, units = [], 0, 0
    if len(text.encode("utf-16-le")) // 2 == len(text):
        pieces = [text[at:at + size] for at in range(0, len(text), size)]
    else:
        for index, character in enumerate(text):
            width = 2 if ord(character) > 0xFFFF else 1
            if units + width > size:
                pieces.append(text[start:index])
                start, units = index, 0
            units += width
        pieces.append(text[start:])
    return [str(len(pieces)), *pieces]


class FrameReader:
    """Reads the frames of a client, and puts messages together. `counted` receives the number of bytes that come."""

    def __init__(self, reader: asyncio.StreamReader, counted):
        self._reader, self._counted = reader, counted
        self._left = 0
        self._pieces: list[str] = []

    async def _exactly(self, size: int) -> bytes:
        try:
            data = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError, OSError) as failure:
            self._counted(len(getattr(failure, "partial", b"")))
            raise Gone("the connection ended") from None
        self._counted(size)
        return data

    async def _one(self) -> tuple[int, bool, bytes]:
        first, second = await self._exactly(2)
        if first & 0x70 or not second & 0x80:
            raise Gone("a frame has reserved bits or no mask")
        size = second & 0x7F
        if size == 126:
            size, = struct.unpack(">H", await self._exactly(2))
        elif size == 127:
            size, = struct.unpack(">Q", await self._exactly(8))
        if size > MAX_BODY:
            raise Gone("a frame is too large")
        mask = await self._exactly(4)
        payload = await self._exactly(size)
        stream = (mask * (size // 4 + 1))[:size]
        return first & 0x0F, bool(first & 0x80), (int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")

    async def frame(self) -> tuple[int, bytes]:
        """The next control frame, or the next whole text."""
        kind, parts = None, []
        while True:
            opcode, is_last, payload = await self._one()
            if opcode >= 8:
                return opcode, payload
            if (opcode == 0) != (kind is not None) or opcode == BINARY:
                raise Gone("frames are not in order")
            kind = kind or opcode
            parts.append(payload)
            if is_last:
                return kind, b"".join(parts)

    def message(self, text: str) -> str | None:
        """Takes the text of a frame; returns a message if it is whole now. A keep-alive is returned as it is."""
        if self._left:
            self._pieces.append(text)
            self._left -= 1
            if self._left:
                return None
            whole, self._pieces = "".join(self._pieces), []
            return whole
        if len(text) <= 6:
            try:
                count = int(text)
            except ValueError:
                return text
            if count > 0:
                self._left = count
                return None
            return "0"
        return text


# MARK: HTTP

@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    path: str = ""
    params: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        parts = urlsplit(self.target)
        self.path = parts.path
        self.params = dict(parse_qsl(parts.query, keep_blank_values=True))

    @property
    def keys(self) -> list[str]:
        """The decoded parts of the path; those of `/a/b.json` are a and b."""
        path = self.path[:-len(".json")] if self.path.endswith(".json") else self.path
        return [unquote(part) for part in path.split("/") if part]

    @property
    def bearer(self) -> str | None:
        value = self.headers.get("authorization", "")
        return value[7:] if value.startswith("Bearer ") else None


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection, None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        body = b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                body += await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readuntil(b"\r\n")
        elif int(headers.get("content-length", 0)):
            body = await reader.readexactly(min(int(headers["content-length"]), MAX_BODY))
        return Request(method, target, headers, body)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, OSError, ValueError):
        return None


def response(status: int, body: bytes = b"", headers: dict | None = None, kind: str = "application/json; charset=utf-8") -> bytes:
    lines = [f"HTTP/1.1 {status} {_STATUS.get(status, 'Status')}"]
    fields = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-cache", **(headers or {})}
    if status == 101:
        fields = headers or {}
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
