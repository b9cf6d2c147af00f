"""One TCP connection of a play."""

import socket
import time

from transcript import Transcript

# The longest time for an answer on a busy machine. A play without a missing answer never waits this long.
PATIENCE = 20.0


class Missing(Exception):
    """The bytes that the play waits for did not arrive. The transcript records this, and the play ends."""


class Wire:
    """A connection whose bytes are recorded on request."""

    def __init__(self, transcript: Transcript, who: str, port: int, receive_buffer: int | None = None):
        self.transcript, self.who, self.port = transcript, who, port
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(("127.0.0.1", port))
        self.buffer = bytearray()
        self.ended = False

    def send(self, data: bytes):
        self.transcript.sent(self.who, data)
        self.write(data)

    def write(self, data: bytes):
        """Sends without recording."""
        try:
            self.socket.sendall(data)
        except OSError:
            # The server has closed; the play reads the bytes before the end.
            pass

    def more(self, deadline: float) -> bool:
        """Waits for further bytes; false at the end of the connection."""
        if self.ended:
            return False
        left = deadline - time.monotonic()
        if left <= 0:
            self.missing("more bytes")
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            self.missing("more bytes")
        except ConnectionError:
            data = b""
        if not data:
            self.ended = True
            return False
        self.buffer += data
        return True

    def missing(self, what: str):
        """Records missing bytes together with the received ones, and ends the play."""
        if self.buffer:
            self.transcript.came(self.who, bytes(self.buffer))
            self.buffer.clear()
        self.transcript.event(self.who, f"waited in vain for {what}")
        raise Missing(f"{self.who}: {what}")

    def take(self, count: int, deadline: float) -> bytes:
        """Exactly so many bytes; fewer at the end of the connection."""
        while len(self.buffer) < count and self.more(deadline):
            pass
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def take_through(self, mark: bytes, deadline: float) -> bytes:
        """Everything up to the mark and the mark; everything at the end of the connection."""
        while mark not in self.buffer and self.more(deadline):
            pass
        place = self.buffer.find(mark)
        return self.take(len(self.buffer) if place < 0 else place + len(mark), deadline)

    def rest(self, patience: float = PATIENCE):
        """Everything until the server closes."""
        deadline = time.monotonic() + patience
        while self.more(deadline):
            pass
        if self.buffer:
            self.transcript.came(self.who, bytes(self.buffer))
            self.buffer.clear()
        self.transcript.event(self.who, "closed by the server")

    def close(self):
        self.socket.close()
