"""One client over REST: each request becomes an operation of the history."""

import http.client
import random
import threading

from harness.rest import Response, Rest

from .history import OK, REFUSED, UNKNOWN, History, Operation

# Beyond the 10 s that a gateway waits for a seq, or for a lost database.
PATIENCE = 14.0
ASK = {"X-Firebase-ETag": "true"}


class Client(threading.Thread):
    """Works until a test stops it. `doors` are the ports of the gateways, by name; dice choose its work."""

    pause = 0.01

    def __init__(self, name: str, doors: dict[str, int], history: History, seed: int, home: str | None = None):
        super().__init__(daemon=True, name=name)
        self.doors, self.history, self.home = doors, history, home
        self.dice = random.Random(seed)
        self.stopped = threading.Event()
        self.count = 0
        self._rests = {name: Rest(port, patience=PATIENCE) for name, port in doors.items()}

    def run(self):
        try:
            while not self.stopped.is_set():
                good = self.step()
                self.stopped.wait(self.pause if good else 0.1)
        except Exception as error:  # noqa: BLE001 - a client that ends early would be a check that cannot fail
            self.history.complain(f"{self.name} ended: {type(error).__name__}: {error}")

    def step(self) -> bool:
        raise NotImplementedError

    def stop(self):
        self.stopped.set()

    # Requests

    def gateway(self) -> str:
        """A gateway: mostly the client's own, so that its connection is kept; at times another."""
        if self.home is None or self.dice.random() < 0.15:
            return self.dice.choice(list(self.doors))
        return self.home

    def token(self) -> str:
        """A unique value, over all clients."""
        self.count += 1
        return f"{self.name}n{self.count}"

    def request(self, operation: Operation, method: str, path: str, value=None, headers: dict | None = None) -> Response | None:
        """Sends a request; returns None if its effect is unknown. Ends the operation unless a response came."""
        self.history.begin(operation)
        strong = {"X-Pathmirror-Min-Seq": str(self.history.seq)}
        rest = self._rests[operation.gateway]
        try:
            if method == "GET":
                response = rest.get(path, {**strong, **(headers or {})})
            else:
                call = {"PUT": rest.put, "PATCH": rest.patch, "POST": rest.post}[method]
                response = call(path, value, headers={**strong, **(headers or {})})
        except (OSError, http.client.HTTPException, ValueError):
            self.history.end(operation, UNKNOWN)
            return None
        if response.status == 503:
            operation.note = response.body[:120].decode(errors="replace")
            self.history.end(operation, UNKNOWN)
            return None
        return response

    def read(self, key: str, path: str, gateway: str) -> tuple[bool, object, str | None]:
        """A strong read: (whether an answer came, value, ETag)."""
        operation = Operation(self.name, "read", key, gateway=gateway)
        response = self.request(operation, "GET", path, headers=ASK)
        if response is None:
            return False, None, None
        if response.status != 200:
            self.history.complain(f"GET {path}: {response.status} {response.body[:200]!r}")
            self.history.end(operation, UNKNOWN)
            return False, None, None
        value = response.json()
        self.history.end(operation, OK, response.seq, value)
        return True, value, response.etag

    def write(self, operation: Operation, method: str, path: str, value, headers: dict | None = None) -> bool:
        """A write. Its only definite answers are 200 and, with a precondition, 412."""
        response = self.request(operation, method, path, value, headers)
        if response is None:
            return False
        if response.status == 200:
            self.history.end(operation, OK, response.seq)
            return True
        if response.status == 412:
            self.history.end(operation, REFUSED, response.seq, response.json())
            return True
        self.history.complain(f"{method} {path}: {response.status} {response.body[:200]!r}")
        self.history.end(operation, UNKNOWN)
        return False
