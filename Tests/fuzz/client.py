"""Executes one case: a connection, the bytes that are sent over it in pieces, and the valid answers."""

import json
import re
import socket
import struct

import http_cases
import realtime_cases
from dice import Dice, pieces

# The test notes a server that takes longer than this to end a connection after its client has closed, and does not wait for it.
PATIENCE = 5.0
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) [^\r\n]*\r\n")
CLOSE_CODES = {1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 1012, 1013}


class Wrong(Exception):
    """A forbidden answer."""


class Client:
    """Cases of one seed, by number."""

    def __init__(self, port: int, seed: int):
        self.port, self.seed = port, seed

    def run(self, number: int) -> str:
        """Runs a case, and returns its result in a word. Raises `Wrong`."""
        dice = Dice(f"{self.seed}:{number}")
        kind = dice.choice([self._http, self._http, self._web_socket, self._polling])
        try:
            return f"{kind.__name__.strip('_')} {kind(dice)}"
        except ConnectionError:
            return f"{kind.__name__.strip('_')} cut"
        except TimeoutError:
            return f"{kind.__name__.strip('_')} slow"

    def _connect(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain

    # HTTP

    def _http(self, dice: Dice) -> str:
        data, is_valid = http_cases.conversation(dice)
        with self._connect() as plain:
            self._send(plain, dice, data)
            received = self._finish(plain, dice)
        if not received:
            return "nothing"
        found = STATUS.match(received)
        if not found:
            raise Wrong(f"no HTTP: {received[:200]!r}")
        status = int(found[1])
        if status == 500:
            raise Wrong(f"a failure of the server's own: {received[:500]!r}")
        if is_valid and status in (408, 413, 431):
            raise Wrong(f"{status} for requests that are right")
        return str(status)

    @staticmethod
    def _send(plain: socket.socket, dice: Dice, data: bytes):
        for piece in pieces(dice, data):
            plain.sendall(piece)

    @staticmethod
    def _finish(plain: socket.socket, dice: Dice) -> bytes:
        """Ends the connection in one of the ways of clients, and returns the received bytes."""
        way = dice.randrange(10)
        if way == 0:
            return b""
        if way == 1:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        if way == 2:
            return plain.recv(1024)
        plain.shutdown(socket.SHUT_WR)
        received = b""
        while more := plain.recv(1 << 16):
            received = (received + more)[:1 << 16]
        return received

    # WebSocket

    def _web_socket(self, dice: Dice, extra: str = "") -> str:
        opening = realtime_cases.handshake(dice, extra)
        if dice.chance(10):
            opening = http_cases.mutated(dice, opening, http_cases.TOKENS, [opening])
        data = realtime_cases.frames(dice)
        with self._connect() as plain:
            if dice.chance(40):
                self._send(plain, dice, opening + data)
                received = b""
            else:
                plain.sendall(opening)
                received = plain.recv(1 << 16)
                self._send(plain, dice, data)
            received += self._finish(plain, dice)
        if not received:
            return "nothing"
        head, _, rest = received.partition(b"\r\n\r\n")
        found = STATUS.match(head + b"\r\n")
        if not found:
            raise Wrong(f"no HTTP: {received[:200]!r}")
        if found[1] == b"500":
            raise Wrong(f"a failure of the server's own: {received[:500]!r}")
        return self._frames(rest) if found[1] == b"101" else found[1].decode()

    @staticmethod
    def _frames(data: bytes) -> str:
        """Checks that the server's bytes are valid frames; the last may be cut."""
        outcome = "opened"
        while len(data) >= 2:
            opcode, size, start = data[0] & 0x0F, data[1], 2
            if data[0] & 0xF0 != 0x80 or opcode not in (1, 8, 9, 10) or size & 0x80:
                raise Wrong(f"a frame that begins {data[:2].hex()}")
            if size >= 126:
                start = 4 if size == 126 else 10
                size = int.from_bytes(data[2:start], "big")
            if len(data) < start + size:
                break
            payload, data = data[start:start + size], data[start + size:]
            if opcode == 8:
                code = int.from_bytes(payload[:2], "big")
                # The server returns codes of applications unchanged.
                if payload and code not in CLOSE_CODES and not 3000 <= code <= 4999:
                    raise Wrong(f"a close with {code}")
                outcome = f"closed {code}"
            elif opcode == 1:
                text = payload.decode()
                if size < 16384 and text.startswith("{") and text.endswith("}"):
                    try:
                        json.loads(text)
                    except ValueError:
                        raise Wrong(f"a message that is no JSON: {text[:200]!r}") from None
        return outcome

    # Long polling

    def _polling(self, dice: Dice) -> str:
        namespace = dice.choice(http_cases.NAMESPACES)
        script = self._get(f"start=t&cb=1&v=5&ns={namespace}")
        found = re.search(rb"pLPCommand\('start','([0-9a-zA-Z]+)','([0-9a-zA-Z]+)'\)", script)
        if not found:
            raise Wrong(f"no session: {script[:300]!r}")
        session, password, number = found[1].decode(), found[2].decode(), 0
        for _ in range(dice.randint(1, 4)):
            query, number = realtime_cases.poll(dice, session, password, number)
            # The server holds a poll until there is a message; the test does not wait for it.
            script = self._get(query, patience=0.1 if dice.chance(70) else 0.5)
            if b"'close'" in script:
                return "closed"
        if dice.chance(25):
            return "upgrade " + self._web_socket(dice, f"&s={session}")
        if dice.chance(50):
            self._get(f"disconn=t&id={session}&pw={password}")
        return "open"

    def _get(self, query: str, patience: float = PATIENCE) -> bytes:
        """The body of a poll's answer; empty when none came in time."""
        with self._connect() as plain:
            plain.sendall(f"GET /.lp?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1"))
            plain.settimeout(patience)
            received = b""
            try:
                while more := plain.recv(1 << 16):
                    received += more
            except TimeoutError:
                return b""
        if received and not STATUS.match(received):
            raise Wrong(f"no HTTP: {received[:200]!r}")
        if received.startswith(b"HTTP/1.1 500"):
            raise Wrong(f"a failure of the server's own: {received[:500]!r}")
        return received.partition(b"\r\n\r\n")[2]
