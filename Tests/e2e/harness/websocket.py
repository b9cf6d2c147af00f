"""WebSocket frames by hand over a socket: valid ones, and ones that no client sends."""

import base64
import hashlib
import os
import socket
import struct
import time

from .waiting import PATIENCE, Late

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Closed(Exception):
    """The server ended the connection. `code`: of its close frame, None without one."""

    def __init__(self, code: int | None):
        super().__init__(f"closed by the server ({code})")
        self.code = code


class Rejected(Exception):
    """The server did not switch protocols."""

    def __init__(self, status: int, body: bytes):
        super().__init__(f"{status}: {body[:300]!r}")
        self.status, self.body = status, body


def frame(payload: bytes, opcode: int = TEXT, fin: bool = True, mask: bytes | None = b"\x37\xfa\x21\x3d") -> bytes:
    """One frame; `mask` None leaves it unmasked, which servers must refuse."""
    size = len(payload)
    head = bytes([(0x80 if fin else 0) | opcode])
    flag = 0x80 if mask else 0
    if size < 126:
        head += bytes([flag | size])
    elif size < 65536:
        head += bytes([flag | 126]) + struct.pack(">H", size)
    else:
        head += bytes([flag | 127]) + struct.pack(">Q", size)
    if not mask:
        return head + payload
    stream = (mask * (size // 4 + 1))[:size]
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")
    return head + mask + masked


class WebSocket:
    """One connection. Reads only when asked to, so a test decides how slow the client is."""

    def __init__(self, port: int, target: str, headers: dict | None = None, receive_buffer: int | None = None,
                 address: str = "127.0.0.1"):
        self.plain = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        if receive_buffer:
            self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.plain.settimeout(PATIENCE)
        self.plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.plain.connect((address, port))
        self._key = base64.b64encode(os.urandom(16)).decode()
        asked = {"Host": f"{address}:{port}", "Upgrade": "websocket", "Connection": "Upgrade",
                 "Sec-WebSocket-Key": self._key, "Sec-WebSocket-Version": "13", **(headers or {})}
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in asked.items() if value is not None)]
        self._buffer = bytearray()
        self.plain.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self._upgraded = False

    def opened(self) -> "WebSocket":
        """Reads the server's answer to the handshake."""
        deadline = time.monotonic() + PATIENCE
        while b"\r\n\r\n" not in self._buffer:
            self._more(deadline)
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if self.status != 101:
            self.plain.settimeout(2)
            try:
                while more := self.plain.recv(65536):
                    rest += more
                    if len(rest) >= int(self.headers.get("content-length", 1 << 30)):
                        break
            except OSError:
                pass
            self.plain.close()
            raise Rejected(self.status, rest)
        expected = hashlib.sha1((self._key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        assert self.headers["sec-websocket-accept"] == base64.b64encode(expected).decode()
        assert self.headers["upgrade"].lower() == "websocket" and "upgrade" in self.headers["connection"].lower()
        assert "sec-websocket-protocol" not in self.headers and "sec-websocket-extensions" not in self.headers
        self._buffer = bytearray(rest)
        self._upgraded = True
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.plain.close()

    def _more(self, deadline: float):
        left = deadline - time.monotonic()
        if left <= 0:
            raise Late("the server sent nothing more in time")
        self.plain.settimeout(left)
        try:
            more = self.plain.recv(1 << 18)
        except TimeoutError:
            raise Late("the server sent nothing more in time") from None
        except ConnectionError:
            raise Closed(None) from None
        if not more:
            raise Closed(None)
        self._buffer += more

    def receive(self, patience: float = PATIENCE) -> tuple[int, bytes]:
        """The next frame as (opcode, payload). Pings are answered and passed over; a close frame raises."""
        deadline = time.monotonic() + patience
        while True:
            parsed = self._parse()
            if parsed is None:
                self._more(deadline)
                continue
            opcode, payload = parsed
            if opcode == PING:
                self.send(payload, PONG)
                continue
            if opcode == CLOSE:
                raise Closed(struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else None)
            return opcode, payload

    def _parse(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        assert buffer[0] & 0xF0 == 0x80, f"not one whole frame without extensions: {buffer[0]:#x}"
        assert not buffer[1] & 0x80, "servers don't mask"
        size, start = buffer[1], 2
        if size == 126:
            if len(buffer) < 4:
                return None
            size, start = struct.unpack(">H", buffer[2:4])[0], 4
            assert size >= 126
        elif size == 127:
            if len(buffer) < 10:
                return None
            size, start = struct.unpack(">Q", buffer[2:10])[0], 10
            assert size >= 65536
        if len(buffer) < start + size:
            return None
        payload = bytes(buffer[start:start + size])
        opcode = buffer[0] & 0x0F
        del buffer[:start + size]
        return opcode, payload

    def send(self, payload: bytes, opcode: int = TEXT, **options):
        self.write(frame(payload, opcode, **options))

    def write(self, data: bytes):
        """Sends bytes unchanged."""
        self.plain.settimeout(PATIENCE)
        self.plain.sendall(data)

    def wait_for_close(self, patience: float = PATIENCE) -> int | None:
        """Reads until the server ends the connection; the code of its close frame."""
        deadline = time.monotonic() + patience
        while True:
            try:
                self.receive(deadline - time.monotonic())
            except Closed as closed:
                return closed.code

    def close(self):
        """Closes with a close frame, as a browser does."""
        try:
            self.send(struct.pack(">H", 1000), CLOSE)
        except OSError:
            pass
        self.plain.close()

    def drop(self):
        """Ends the TCP connection without a close frame."""
        self.plain.close()

    def reset(self):
        """Resets the TCP connection."""
        self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.plain.close()
