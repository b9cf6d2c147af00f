"""A webhook endpoint on this machine, which records the deliveries and gives the answers that the test chooses."""

import json
import socket
import struct
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .waiting import PATIENCE, wait_until

# Made for tests, and used nowhere else.
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
OTHER_SECRET = "whsec_TWZLUTlyOEdLWXFyVHdqVVBEOElMUFpJbzJMYUxhU3c="
# The options of a gateway that delivers to this endpoint.
OPTIONS = ["--webhook-allow", "127.0.0.1"]


@dataclass
class Delivery:
    path: str
    headers: dict[str, str]
    body: bytes
    time: float

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def messages(self) -> list[dict]:
        said = json.loads(self.body)
        return said["messages"] if "messages" in said else [said]


@dataclass
class Answer:
    status: int = 200
    headers: dict | None = None
    body: bytes = b""
    # "reset": the connection is cut without an answer; "silent": no answer until the endpoint ends.
    instead: str = ""


class Endpoint:
    """Answers each delivery with the result of `answer(delivery)`, or 200. Use as a context."""

    def __init__(self, answer=None, host: str = "127.0.0.1"):
        self.answer = answer or (lambda delivery: Answer())
        self.deliveries: list[Delivery] = []
        self._lock = threading.Lock()
        self._ending = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                delivery = Delivery(self.path, headers, body, time.monotonic())
                with endpoint._lock:
                    endpoint.deliveries.append(delivery)
                    answer = endpoint.answer(delivery)
                if answer.instead == "silent":
                    endpoint._ending.wait()
                if answer.instead:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in (answer.headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def do_GET(self):
                with endpoint._lock:
                    endpoint.deliveries.append(Delivery(f"GET {self.path}", {}, b"", time.monotonic()))
                self.send_error(405)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def shutdown_request(self, request):
                # Closes without a shutdown, so that the peer sees a reset.
                self.close_request(request)

            def handle_error(self, *_):
                # Gateways are killed while they have a connection here, which is no error.
                pass

        self._server = Server((host, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def url(self, path: str = "/hook") -> str:
        return f"http://{self._server.server_address[0]}:{self.port}{path}"

    def hook(self, path: str = "/hook", **more) -> dict:
        """The member `webhook` of a definition."""
        return {"url": self.url(path), "secrets": [SECRET], **more}

    @property
    def messages(self) -> list[dict]:
        """All messages that came, in the order of their coming; repeated ones, too."""
        with self._lock:
            return [message for delivery in self.deliveries for message in delivery.messages]

    def wait_for(self, count: int, patience: float = PATIENCE) -> list[Delivery]:
        """Waits until so many deliveries have come."""
        return wait_until(lambda: len(self.deliveries) >= count and self.deliveries[:], f"{count} deliveries", patience)

    def wait_for_keys(self, keys, patience: float = PATIENCE):
        """Waits until each of the keys has come."""
        wanted = set(keys)
        wait_until(lambda: wanted <= {message["key"] for message in self.messages}, f"{len(wanted)} keys", patience)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def in_turn(*answers: Answer):
    """One answer after the other, and then 200."""
    left = list(answers)
    return lambda delivery: left.pop(0) if left else Answer()
