"""A stand-in for a gateway: it shows the requests of the proxy, and tests control its answers."""

import json
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class StandIn:
    """Serves on a port of its own. `hits` are the requests as they came: (method, raw path)."""

    def __init__(self, body_started: threading.Event):
        self.hits = []
        self.body_started = body_started
        self.next_event = threading.Event()
        self.stream_closed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"standin": self}))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def count(self, method: str, path: str) -> int:
        return self.hits.count((method, path))

    def stop(self):
        self.next_event.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    standin: StandIn

    def handle_one_request(self):
        """As the base class, with room for a longer request line than it allows."""
        try:
            self.raw_requestline = self.rfile.readline(1 << 18)
            if self.raw_requestline and self.parse_request():
                self.answer()
            else:
                self.close_connection = True
        except ConnectionError:
            self.close_connection = True

    def answer(self):
        self.standin.hits.append((self.command, self.path))
        name = urlsplit(self.path).path.strip("/").removesuffix(".json")
        if name == "die":
            self.connection.close()
            self.close_connection = True
        elif name == "stream":
            self._stream()
        elif name == "socket":
            self._socket()
        else:
            self._echo()

    def _echo(self):
        digest, size = self._read_body()
        seen = {"method": self.command, "path": self.path, "size": size, "sha256": digest, "port": self.standin.port,
                "headers": {key.lower(): value for key, value in self.headers.items()}}
        body = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _read_body(self):
        digest, size = sha256(), 0
        for piece in self._pieces():
            digest.update(piece)
            size += len(piece)
            self.standin.body_started.set()
        return digest.hexdigest(), size

    def _pieces(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            while length := int(self.rfile.readline(), 16):
                yield self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            piece = self.rfile.read1(min(left, 1 << 16))
            if not piece:
                raise ConnectionError("the body ended early")
            left -= len(piece)
            yield piece

    def _stream(self):
        """One event at once, the second when the test says so; then waits for the proxy to hang up."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: put\ndata: 1\n\n")
        self.wfile.flush()
        self.standin.next_event.wait(30)
        self.wfile.write(b"event: put\ndata: 2\n\n")
        self.wfile.flush()
        self.connection.recv(1)
        self.standin.stream_closed.set()
        self.close_connection = True

    def _socket(self):
        """Accepts the upgrade and echoes bytes; without an upgrade in the request it refuses."""
        self.close_connection = True
        if (self.headers.get("Upgrade"), self.headers.get("Connection", "").lower()) != ("websocket", "upgrade"):
            self.send_error(400)
            return
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.wfile.flush()
        while piece := self.rfile.read1(1 << 16):
            self.wfile.write(piece)

    def log_message(self, *_):
        pass
