"""Thousands of client connections, in a process of their own (this very file): idle ones, or listeners."""

import queue
import selectors
import socket
import subprocess
import sys
import threading
import time


class Connections:
    """A helper process that holds `count` connections until the context ends.

    As listeners it tells, each time all of them together have had another event each, how many events each has had and
    when (monotonic nanoseconds): see `reached`.
    """

    def __init__(self, port: int, count: int, path: str | None = None):
        from . import process
        self._process = process
        self.count = count
        # Events that each listener had before those now counted; the caller's to set.
        self.seen = 0
        mode = ["listen", port, count, path] if path else ["idle", port, count]
        self._child = process.start([sys.executable, __file__, *mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    text=True)
        self._lines: queue.Queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        if self._line(60) != ["ready"]:
            raise process.Failed(f"{count} connections could not be opened")

    def __enter__(self) -> "Connections":
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        self._process.stop(self._child)

    def _read(self):
        for line in self._child.stdout:
            self._lines.put(line.split())
        self._lines.put(["ended"])

    def _line(self, patience: float) -> list[str] | None:
        try:
            return self._lines.get(timeout=patience)
        except queue.Empty:
            return None

    def reached(self, patience: float) -> tuple[int, int] | None:
        """The next report: (events a listener, time); nil when there is none in time."""
        line = self._line(patience)
        if line == ["ended"]:
            raise self._process.Failed("the listeners' process ended early")
        return (int(line[0]), int(line[1])) if line else None


def _open(port: int, count: int, request: bytes, is_complete) -> list[socket.socket]:
    """Connections that have each sent the request and read the beginning of its answer."""
    opened = []
    for first in range(0, count, 200):
        group = [socket.create_connection(("127.0.0.1", port)) for _ in range(min(200, count - first))]
        for connection in group:
            connection.sendall(request)
        for connection in group:
            answer = b""
            while not is_complete(answer):
                piece = connection.recv(65536)
                if not piece:
                    raise ConnectionError("the gateway closed a connection")
                answer += piece
            if not answer.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(f"refused: {answer[:100]!r}")
        opened += group
    return opened


def _idle(port: int, count: int):
    request = b"GET /.health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    kept = _open(port, count, request, lambda answer: b"}\n" in answer)
    print("ready", flush=True)
    sys.stdin.read()
    for connection in kept:
        connection.close()


def _listen(port: int, count: int, path: str):
    request = f"GET {path}.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode()
    streams = _open(port, count, request, lambda answer: b"event: put" in answer and answer.endswith(b"\n\n"))
    selector = selectors.EpollSelector()
    for stream in streams:
        stream.setblocking(False)
        selector.register(stream, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    total = told = 0
    cut = set()
    buffer = memoryview(bytearray(1 << 20))
    while True:
        for ready, _ in selector.select():
            if ready.fileobj is sys.stdin:
                return
            size = ready.fileobj.recv_into(buffer)
            if size == 0:
                sys.exit("the gateway closed a stream")
            # Events end with an empty line, whose two newlines may come apart.
            piece = (b"\n" if ready.fileobj in cut else b"") + bytes(buffer[:size])
            total += piece.count(b"\n\n")
            if piece.endswith(b"\n") and not piece.endswith(b"\n\n"):
                cut.add(ready.fileobj)
            else:
                cut.discard(ready.fileobj)
        if total // count > told:
            told = total // count
            print(told, time.monotonic_ns(), flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[0] == "idle":
        _idle(int(arguments[1]), int(arguments[2]))
    else:
        _listen(int(arguments[1]), int(arguments[2]), arguments[3])
