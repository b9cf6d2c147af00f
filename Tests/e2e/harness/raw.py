"""HTTP by hand over a socket, for requests that a well-behaved client never sends."""

import http.client
import io
import socket
from contextlib import contextmanager


@contextmanager
def raw_connection(port: int, patience: float = 20, receive_buffer: int | None = None):
    """A plain TCP connection to the server."""
    with socket.socket() as plain:
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(patience)
        plain.connect(("127.0.0.1", port))
        yield plain


class Responses:
    """Reads one response after another from a socket, in the order they come."""

    def __init__(self, plain: socket.socket):
        self._file = plain.makefile("rb")

    def line(self) -> bytes:
        """The next line as it is."""
        return self._file.readline()

    def next(self, method: str = "GET"):
        """(status, headers, body) of the next response; interim 1xx ones included."""
        line = self._file.readline()
        if not line:
            raise ConnectionError("the server closed the connection")
        version, status = line.split()[:2]
        assert version == b"HTTP/1.1", line
        headers = http.client.parse_headers(self._file)
        status = int(status)
        if method == "HEAD" or status < 200 or status in (204, 304):
            return status, headers, b""
        if headers.get("Transfer-Encoding", "").lower() == "chunked":
            return status, headers, self._chunks()
        return status, headers, self._file.read(int(headers["Content-Length"]))

    def _chunks(self) -> bytes:
        body = io.BytesIO()
        while True:
            size = int(self._file.readline().split(b";")[0], 16)
            body.write(self._file.read(size))
            self._file.readline()
            if size == 0:
                return body.getvalue()


class Unread:
    """Connections whose responses are not read. Use as a context."""

    def __init__(self, port: int, target: str, headers: dict, count: int):
        self.sockets = []
        for _ in range(count):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", port))
            lines = [f"GET {target} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
            connection.sendall("\r\n".join(lines).encode())
            self.sockets.append(connection)

    def statuses(self) -> list[int]:
        """The status of each response, of which nothing else is read."""
        found = []
        for connection in self.sockets:
            connection.settimeout(20)
            found.append(int(connection.recv(12).split()[1]))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.sockets:
            connection.close()


def closed_by_server(plain: socket.socket) -> bool:
    """Reads to the end: true when the server closed, false when the socket's time ran out."""
    try:
        while plain.recv(65536):
            pass
        return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def answer_or_close(plain: socket.socket) -> int | None:
    """Returns the status that the server sends before it closes, or None if it only closes."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            more = plain.recv(65536)
            if not more:
                break
            data += more
    except ConnectionError:
        pass
    return int(data.split(b" ")[1]) if data.startswith(b"HTTP/1.1 ") else None
