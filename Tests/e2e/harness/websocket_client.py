"""A realtime client that receives one message at a time, so that a test sees the messages and their order."""

import json
import time
from collections import deque

from .waiting import PATIENCE, Late
from .websocket import TEXT, WebSocket

SEGMENT = 16384


def compact(message) -> str:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)


def cut(text: str, size: int = SEGMENT) -> list[str]:
    """Pieces of at most `size` UTF-16 units, as SDKs cut: between any two units, be it in the middle of a character."""
    units = text.encode("utf-16-be")
    # A half of a pair becomes U+FFFD on its way to UTF-8, as it does in browsers.
    return [units[start:start + 2 * size].decode("utf-16-be", "replace") for start in range(0, len(units), 2 * size)]


class RealtimeClient:
    """One session. It numbers requests from 1; `pushes` holds the pushes that the test has not read yet."""

    def __init__(self, port: int, ns: str | None = None, ls: str | None = None, headers: dict | None = None,
                 extra: str = "", receive_buffer: int | None = None, address: str = "127.0.0.1"):
        target = "/.ws?v=5" + (f"&ls={ls}" if ls else "") + extra + (f"&ns={ns}" if ns else "")
        self.socket = WebSocket(port, target, headers, receive_buffer, address)
        self.number = 0
        self.pushes: deque[dict] = deque()
        self.answers: dict[int, dict] = {}
        self.frames: list[str] = []
        self.greeted = False

    def greet(self) -> "RealtimeClient":
        """Completes the handshake and takes the hello."""
        self.socket.opened()
        self.hello = self.message()
        assert self.hello["t"] == "c" and self.hello["d"]["t"] == "h", self.hello
        self.session = self.hello["d"]["d"]["s"]
        self.greeted = True
        return self

    def __enter__(self):
        return self if self.greeted else self.greet()

    def __exit__(self, *_):
        self.socket.plain.close()

    # Messages

    def send(self, message):
        """Sends one message, in segments where it is long."""
        text = message if isinstance(message, str) else compact(message)
        if len(text.encode("utf-16-be")) // 2 <= SEGMENT:
            return self.socket.send(text.encode())
        pieces = cut(text)
        self.socket.send(str(len(pieces)).encode())
        for piece in pieces:
            self.socket.send(piece.encode())

    def message(self, patience: float = PATIENCE) -> dict:
        """The next message, put together from its segments; `frames` then holds the texts of its frames."""
        deadline = time.monotonic() + patience

        def text() -> str:
            opcode, payload = self.socket.receive(deadline - time.monotonic())
            assert opcode == TEXT, opcode
            return payload.decode()

        first = text()
        self.frames = [first]
        if len(first) > 6 or not first.isdigit():
            return json.loads(first)
        self.frames += [text() for _ in range(int(first))]
        assert all(len(piece.encode("utf-16-be")) // 2 <= SEGMENT for piece in self.frames)
        return json.loads("".join(self.frames[1:]))

    def _take(self, patience: float):
        message = self.message(patience)
        assert message["t"] == "d", message
        data = message["d"]
        if "r" in data:
            self.answers[data["r"]] = data["b"]
        else:
            self.pushes.append(data)

    # Requests

    def ask(self, action: str, body: dict | None = None) -> int:
        """Sends a request and returns its number."""
        self.number += 1
        self.send({"t": "d", "d": {"r": self.number, "a": action, "b": {} if body is None else body}})
        return self.number

    def answer(self, number: int, patience: float = PATIENCE) -> dict:
        """Waits for the answer to a request. Pushes before the answer are then in `pushes`."""
        deadline = time.monotonic() + patience
        while number not in self.answers:
            self._take(deadline - time.monotonic())
        return self.answers.pop(number)

    def call(self, action: str, body: dict | None = None) -> dict:
        return self.answer(self.ask(action, body))

    def ok(self, action: str, body: dict | None = None):
        """A request that must succeed; returns its data."""
        answer = self.call(action, body)
        assert answer["s"] == "ok", (action, body, answer)
        return answer["d"]

    def listen(self, path: str, query: dict | None = None, tag: int | None = None, hash: str = "", **more) -> dict | None:
        """Listens, and returns the push that came before the answer; None if there was none."""
        before = len(self.pushes)
        self.ok("q", listening(path, query, tag) | {"h": hash} | more)
        own = [push for push in list(self.pushes)[before:]]
        assert len(own) <= 1, own
        return self.pushes.pop() if own else None

    def put(self, path: str, value, **more):
        return self.ok("p", {"p": path, "d": value, **more})

    def push(self, patience: float = PATIENCE) -> dict:
        """The next push."""
        deadline = time.monotonic() + patience
        while not self.pushes:
            self._take(deadline - time.monotonic())
        return self.pushes.popleft()

    def pushed(self) -> list[dict]:
        """Returns the pushes so far: those before the answer to a request that changes nothing."""
        self.ok("s", {"c": {}})
        found = list(self.pushes)
        self.pushes.clear()
        return found

    def push_until(self, condition, patience: float = PATIENCE) -> dict:
        """Skips pushes until one fits."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            push = self.push(deadline - time.monotonic())
            if condition(push):
                return push
        raise Late("no such push")


def listening(path: str, query: dict | None = None, tag: int | None = None) -> dict:
    """The body of `q` and `n`."""
    return {"p": path} | ({"q": query} if query is not None else {}) | ({"t": tag} if tag is not None else {})


def push(action: str, path: str, data, tag: int | None = None) -> dict:
    """A push as the server writes it."""
    return {"a": action, "b": {"p": path, "d": data} | ({"t": tag} if tag is not None else {})}


def datum(path: str, data, tag: int | None = None) -> dict:
    return push("d", path, data, tag)


def merge(path: str, data, tag: int | None = None) -> dict:
    return push("m", path, data, tag)


class Holder:
    """The value that a client holds of one listen, strictly by the rules of the SDKs: it ignores pushes that it should not get."""

    def __init__(self, path: str, tag: int | None = None):
        self.path, self.tag = path.strip("/"), tag
        self.value, self.complete = None, False

    def take(self, message: dict | None):
        from oracle.export import assign, child

        if message is None:
            self.complete = True
            return
        body = message["b"]
        assert body.get("t") == self.tag, message
        below = body["p"].strip("/")
        assert below == self.path or below.startswith(self.path + "/") or self.path == "", message
        below = below[len(self.path):].strip("/")
        if message["a"] == "d" and not below:
            self.value, self.complete = body["d"], True
            return
        assert self.complete, f"a change before the data: {message}"
        changes = {below: body["d"]} if message["a"] == "d" else {f"{below}/{key}": data for key, data in body["d"].items()}
        for place, data in changes.items():
            keys = [key for key in place.split("/") if key]
            if self.tag is not None and len(keys) > 1:
                assert child(self.value, keys[0]) is not None, f"a deep change to a child that the client has not: {message}"
            self.value = assign(self.value, keys, data)
