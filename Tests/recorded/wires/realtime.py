"""The realtime protocol over a WebSocket: frames with their heads."""

import json
import struct
import time

from harness.websocket import CLOSE, PING, PONG, TEXT, frame
from wires.http import HTTP
from wires.wire import PATIENCE

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
SEGMENT = 16384


def compact(message) -> str:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)


class Realtime(HTTP):
    """One client. It records each frame's head in hex, and its payload."""

    def open(self, target: str = "/.ws?v=5", headers: dict | None = None, greeted: bool = True) -> "Realtime":
        self.number = 0
        self.session = ""
        self.send(self.request("GET", target, None, {
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": KEY, "Sec-WebSocket-Version": "13", **(headers or {})}))
        self.answer()
        self.isUpgraded = self.status == 101
        if greeted and self.isUpgraded:
            hello = self.message()
            if isinstance(hello, dict) and isinstance(hello.get("d", {}).get("d"), dict):
                self.session = hello["d"]["d"].get("s", "")
        return self

    def text(self, text: str | bytes, opcode: int = TEXT, **options):
        """Sends one frame."""
        payload = text.encode() if isinstance(text, str) else text
        self.transcript.sent(self.who, payload if opcode == TEXT and not options else f"[{opcode} {options}] ".encode() + payload)
        self.write(frame(payload, opcode, **options))

    def say(self, message):
        """Sends one message, in segments if it is long."""
        text = compact(message)
        if len(text) <= SEGMENT:
            return self.text(text)
        pieces = [text[start:start + SEGMENT] for start in range(0, len(text), SEGMENT)]
        self.text(str(len(pieces)))
        for piece in pieces:
            self.text(piece)

    def ask(self, action: str, body) -> int:
        """Sends a request and waits for nothing."""
        self.number += 1
        self.say({"t": "d", "d": {"r": self.number, "a": action, "b": body}})
        return self.number

    def frame(self) -> tuple[int, bytes]:
        """The next frame, recorded: (opcode, payload); (-1, b"") at the end of the connection."""
        if not self.isUpgraded:
            return -1, b""
        head, payload = self._read()
        self._write_down(head, payload)
        return (head[0] & 0x0F if head else -1), payload

    def _read(self) -> tuple[bytes, bytes]:
        """The head and the payload of the next frame; both empty at the end of the connection."""
        deadline = time.monotonic() + PATIENCE
        head = self.take(2, deadline)
        if len(head) < 2:
            return b"", head
        size = head[1] & 0x7F
        if size >= 126:
            more = self.take(2 if size == 126 else 8, deadline)
            size = int.from_bytes(more, "big")
            head += more
        return head, self.take(size, deadline)

    def _write_down(self, head: bytes, payload: bytes):
        self.transcript.came(self.who, (f"[{head.hex(' ')}] ".encode() if head else b"") + payload)
        if not head:
            self.transcript.event(self.who, "closed by the server")

    def message(self):
        """The next message, put together from its segments."""
        opcode, payload = self.frame()
        if opcode != TEXT:
            return None
        if payload.isdigit() and len(payload) < 6:
            payload = b"".join(self.frame()[1] for _ in range(int(payload)))
        try:
            return json.loads(payload)
        except ValueError:
            return None

    def expect(self, count: int = 1):
        """The next messages, of any kind."""
        for _ in range(count):
            self.message()

    def until(self, number: int):
        """Everything up to the answer to a request, and that answer's body."""
        while True:
            message = self.message()
            if message is None:
                return None
            data = message.get("d")
            if message.get("t") == "d" and isinstance(data, dict) and data.get("r") == number:
                return data["b"]

    def call(self, action: str, body):
        """Records a request, the messages before its answer, and the answer."""
        return self.until(self.ask(action, body))

    def gather(self, isLast, rank):
        """Messages up to one for which `isLast` holds, recorded in the order of `rank`, because their order of arrival is not fixed."""
        found = []
        while True:
            head, payload = self._read()
            message = json.loads(payload) if head else None
            found.append((rank(message) if message else (), head, payload))
            if message is None or isLast(message):
                break
        self.transcript.event(self.who, f"{len(found)} messages, put in order")
        for _, head, payload in sorted(found, key=lambda one: one[0]):
            self._write_down(head, payload)

    def expect_in_any_order(self, count: int):
        """`count` messages of several listens, in order."""
        found = sorted(self._read() for _ in range(count))
        self.transcript.event(self.who, f"{count} messages, put in order")
        for head, payload in found:
            self._write_down(head, payload)

    def call_in_any_order(self, action: str, body):
        """Records a request; the messages before its answer are of several listens in any order."""
        number = self.ask(action, body)
        self.gather(lambda message: message["d"].get("r") == number, lambda message: (message["d"].get("r", 0), message["d"].get("b", {}).get("t") or 0))

    def ping(self):
        """A keep-alive of the protocol and its answer: earlier messages on this connection have arrived then."""
        self.say({"t": "c", "d": {"t": "p", "d": {}}})
        while True:
            message = self.message()
            if message is None or message.get("t") == "c":
                return

    def leave(self, code: int = 1000):
        """Closes with a close frame, and reads to the end."""
        self.text(struct.pack(">H", code), CLOSE)
        while self.frame()[0] not in (-1, CLOSE):
            pass
        self.close()


__all__ = ["CLOSE", "PING", "PONG", "TEXT", "Realtime", "compact", "frame"]
