"""Many connections in one thread: an epoll client that costs an attacker as little as Python allows."""

import errno
import select
import socket
import sys
import time
from collections import Counter

CLOSED = "closed"


def request(method: str, target: str, token: str, body: bytes | None = None) -> bytes:
    """The bytes of one request, with a bearer token."""
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    return (f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{length}\r\n").encode() + (body or b"")


class Link:
    """One connection. It sends a request, and calls `answered(status)` when the whole answer has arrived."""

    __slots__ = ("crowd", "socket", "out", "data", "status", "left", "chunked", "reads")

    def __init__(self, crowd: "Crowd", payload: bytes, reads: bool = True):
        self.crowd, self.reads = crowd, reads
        self.socket = socket.socket()
        if not reads:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        failure = self.socket.connect_ex(("127.0.0.1", crowd.port))
        if failure not in (0, errno.EINPROGRESS):
            self.socket.close()
            raise OSError(failure, "connect")
        self._expect(payload)
        crowd.links[self.socket.fileno()] = self
        crowd.poll.register(self.socket, select.EPOLLOUT | select.EPOLLIN)

    def _expect(self, payload: bytes):
        self.out, self.data, self.status, self.left, self.chunked = payload, b"", None, 0, False

    def ask(self, payload: bytes):
        """Sends the next request on the same connection."""
        self._expect(payload)
        self._send()
        if self.out:
            self.crowd.poll.modify(self.socket, select.EPOLLOUT | select.EPOLLIN)

    def close(self):
        number = self.socket.fileno()
        if number >= 0:
            self.crowd.links.pop(number, None)
            self.socket.close()

    def _send(self):
        try:
            self.out = self.out[self.socket.send(self.out):]
        except BlockingIOError:
            pass

    def happened(self, events: int):
        """Handles the events of epoll. Raises OSError if the connection has ended."""
        if self.out and events & select.EPOLLOUT:
            self._send()
            if not self.out:
                self.crowd.poll.modify(self.socket, select.EPOLLIN if self.reads else 0)
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            if not self.reads and not events & (select.EPOLLHUP | select.EPOLLERR):
                return
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError("closed")
            self._received(data)

    def _received(self, data: bytes):
        if self.status is None:
            self.data += data
            head, blank, data = self.data.partition(b"\r\n\r\n")
            if not blank:
                return
            self.data = b""
            self.status = head[9:12].decode()
            lower = head.lower()
            self.chunked = b"\r\ntransfer-encoding: chunked" in lower
            at = lower.find(b"\r\ncontent-length: ")
            self.left = int(lower[at + 18:].split(b"\r\n", 1)[0]) if at >= 0 else 0
            self.crowd.began(self)
        if self.chunked:
            # Only the end of the answer matters: no attack sends data that looks like it.
            self.data = (self.data + data)[-5:]
            if self.data == b"0\r\n\r\n":
                self.crowd.answered(self)
            return
        self.left -= len(data)
        if self.left <= 0:
            self.crowd.answered(self)


class Crowd:
    """Connections to one port. Subclasses define the action after each answer. Ends when standard input does."""

    def __init__(self, port: int):
        self.port, self.poll, self.links = port, select.epoll(), {}
        self.counts: Counter[str] = Counter()
        self.poll.register(0, select.EPOLLIN | select.EPOLLHUP)
        self.over = False

    def open(self, payload: bytes, reads: bool = True) -> Link | None:
        try:
            return Link(self, payload, reads)
        except OSError:
            self.counts["no connection"] += 1
            return None

    def began(self, link: Link):
        """The head of an answer has arrived."""

    def answered(self, link: Link):
        """A whole answer has arrived."""
        self.counts[link.status] += 1

    def ended(self, link: Link):
        """The connection is gone."""
        self.counts[CLOSED] += 1

    def turn(self, seconds: float = 0.1):
        """Handles pending events, and waits at most this long for the next one."""
        for number, events in self.poll.poll(seconds, 1_024):
            if number == 0:
                self.over = True
                continue
            link = self.links.get(number)
            if link is None:
                continue
            try:
                link.happened(events)
            except OSError:
                link.close()
                self.ended(link)

    def run(self):
        while not self.over:
            self.turn()

    def result(self) -> dict:
        """The results of the requests, and the number of those without an end yet."""
        return {**self.counts, "open": len(self.links)}

    def close(self):
        for link in list(self.links.values()):
            link.close()
        self.poll.close()


class Repeaters(Crowd):
    """`count` connections, each of which sends the same request again as soon as it is answered."""

    def __init__(self, port: int, count: int, payload: bytes):
        super().__init__(port)
        self.count, self.payload = count, payload

    def answered(self, link: Link):
        super().answered(link)
        try:
            link.ask(self.payload)
        except OSError:
            link.close()
            self.ended(link)

    def run(self):
        while not self.over:
            # Connections that the gateway has closed are replaced at once.
            for _ in range(min(200, self.count - len(self.links))):
                self.open(self.payload)
            self.turn(0.1 if len(self.links) >= self.count else 0)


class Holders(Crowd):
    """`count` answers that are kept open: one that ends is requested again. With `reads` false no byte of them is read."""

    def __init__(self, port: int, count: int, payload: bytes, reads: bool = True):
        super().__init__(port)
        self.count, self.payload, self.reads = count, payload, reads

    def began(self, link: Link):
        if link.status == "200":
            self.counts["200"] += 1

    def answered(self, link: Link):
        if link.status != "200":
            self.counts[link.status] += 1
        link.close()

    def run(self):
        while not self.over:
            for _ in range(min(200, self.count - len(self.links))):
                self.open(self.payload, self.reads)
            self.turn(0.1 if len(self.links) >= self.count else 0)


class Queue(Crowd):
    """Sends a list of requests once each over a few connections, as preparation. Every answer must be 200 or 201."""

    def __init__(self, port: int, connections: int, payloads: list[bytes]):
        super().__init__(port)
        self.waiting, self.unanswered = payloads[::-1], len(payloads)
        for _ in range(min(connections, len(payloads))):
            self.open(self.waiting.pop())

    def answered(self, link: Link):
        super().answered(link)
        self.unanswered -= 1
        if self.waiting:
            link.ask(self.waiting.pop())
        else:
            link.close()

    def finish(self, patience: float = 120) -> Counter:
        end = time.monotonic() + patience
        while self.unanswered and not self.over and not self.counts[CLOSED]:
            self.turn()
            if time.monotonic() > end:
                break
        self.close()
        if self.unanswered and not self.over:
            print(f"preparation: {self.unanswered} requests without an answer, {dict(self.counts)}", file=sys.stderr)
        return self.counts
