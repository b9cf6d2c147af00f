"""One HTTP server for webhooks of several feeds, that breaks HTTP in many ways and records the messages that it has really processed.

A message counts as processed only if the server has read its whole request and has answered with success."""

import base64
import collections
import hashlib
import hmac
import json
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

from .feeds import FeedNotes

# Two requests may cross on a connection: a client that has checked for unsolicited bytes at the last moment cannot know of bytes that
# were sent a moment later. The limit in seconds for a request that crosses such bytes; later requests are errors of the client.
CROSSING = 0.25
SUCCESS = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
BODIES = [b"", b"{}", b'{"failed":[]}', b'{"failed":null}', b'{"other":1}']
# Invalid lists of ids: the whole request has failed. `%s` is an id of the request.
MALFORMED = [b'{"failed":"%s"}', b'{"failed":{"%s":true}}', b'{"failed":[1,2]}', b'{"failed":7}', b'{"failed":true}', b'{"failed":[{"id":"%s"}]}',
             b'{"failed":["no such id"]}', b'{"failed":["%s"', b'{"failed":["%s"]', b'\xef\xbb\xbf{"failed":["%s"]}', b'{"failed":["%s",null]}']
TWICE = "one answer more than there were requests"


@dataclass
class Hook:
    """A feed's webhook: received and processed messages, and the number of answers by way."""

    notes: FeedNotes
    batch: int
    secrets: list[str]
    wrong: list[str] = field(default_factory=list)
    answers: collections.Counter = field(default_factory=collections.Counter)


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    begun: float

    @property
    def messages(self) -> list[dict]:
        said = json.loads(self.body)
        return said["messages"] if "messages" in said else [said]


class HostileServer:
    """Serves all hooks at one port. `calm`: every request is answered 200 at once, as long as it is set."""

    def __init__(self, seed: int, timeout: float):
        self.timeout, self.calm = timeout, False
        self.hooks: dict[str, Hook] = {}
        # Until this moment no request is answered.
        self.silent_until = 0.0
        # Requests on connections with waiting unsolicited bytes: a client that checks sends none.
        self.trapped = 0
        # Made with a seed for each connection.
        self.dice = random.Random
        self._seeds = random.Random(seed)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closing = threading.Event()
        self._door = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def add(self, notes: FeedNotes, batch: int, secrets: list[str]) -> str:
        """A hook for a feed; returns its URL."""
        path = f"/{notes.namespace}/{notes.name}"
        self.hooks[path] = Hook(notes, batch, secrets)
        return f"http://127.0.0.1:{self.port}{path}"

    def reset_all(self):
        """Resets every connection."""
        with self._lock:
            for connection in self._open:
                try:
                    # The thread that reads sees the end, and closes.
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self._closing.set()
        self._door.close()
        self.reset_all()

    def _accept(self):
        while not self._closing.is_set():
            try:
                connection, _ = self._door.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
                seed = self._seeds.getrandbits(32)
            threading.Thread(target=self._serve, args=(connection, self.dice(seed)), daemon=True).start()

    def _serve(self, connection: socket.socket, dice: random.Random):
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Conversation(self, connection, dice).run()
        except (OSError, ValueError, KeyError):
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()


class Conversation:
    """One connection: requests, answers, and unsolicited bytes."""

    def __init__(self, server: HostileServer, connection: socket.socket, dice: random.Random):
        self.server, self.connection, self.dice = server, connection, dice
        self.buffer = b""
        # When bytes were sent that belong to no request of this connection: not before `unsolicited`, and not after `sent`. Threads may
        # wait for each other for some tenths of a second in between.
        self.unsolicited: float | None = None
        self.sent = 0.0

    def run(self):
        while self._wait():
            request = self._read()
            if request is None or not self._answer(request):
                return

    # Reading

    def _wait(self) -> bool:
        """Waits for the next request, and does the usual things of servers to idle connections. False: the connection has ended."""
        if self.buffer:
            return True
        self.connection.settimeout(self.dice.uniform(0.001, 0.2))
        try:
            self.buffer += self.connection.recv(65536)
            return bool(self.buffer)
        except TimeoutError:
            pass
        finally:
            self.connection.settimeout(20)
        die = 1.0 if self.server.calm else self.dice.random()
        if die < 0.25:
            self._unasked(self.dice.choice([SUCCESS, SUCCESS, b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", b"\r\n", b"x"]))
        elif die < 0.35:
            # A server that gives up an idle connection may say so before it closes.
            self.connection.sendall(self.dice.choice([b"HTTP/1.1 408 Request Timeout", b"HTTP/1.1 400 Bad Request"])
                                    + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            return False
        elif die < 0.4:
            return False
        self.buffer += self.connection.recv(65536)
        return bool(self.buffer)

    def _unasked(self, data: bytes):
        self.unsolicited = time.monotonic()
        self.connection.sendall(data)
        self.sent = time.monotonic()

    def _read(self) -> Request | None:
        begun = time.monotonic()
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                return None
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        size = int(headers["content-length"])
        while len(self.buffer) < size:
            if not self._more():
                return None
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return Request(line.split()[1], headers, body, begun)

    def _more(self) -> bool:
        data = self.connection.recv(65536)
        self.buffer += data
        return bool(data)

    # Answering

    def _answer(self, request: Request) -> bool:
        """Answers in some way; returns whether the connection stays."""
        hook = self.server.hooks[request.path.partition("?")[0]]
        messages = request.messages
        # A request that crossed unsolicited bytes was sent before them, or soon after. This thread may read it after the client has sent
        # its next request.
        crossed = self.unsolicited is not None and request.begun - self.sent < CROSSING
        asked = self.unsolicited if crossed else request.begun
        hook.notes.gave("webhook", messages, asked)
        if not is_signed(request, hook.secrets):
            hook.wrong.append(f"{hook.notes.name}: a request without a signature that holds: {request.headers}"[:300])
        if self.unsolicited is not None:
            return self._answer_late(request, hook, crossed)
        if (wait := self.server.silent_until - time.monotonic()) > 0:
            time.sleep(min(wait, 2 * self.server.timeout))
        if self.server.calm:
            return self._processed(hook, messages, "calm", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        way = self.dice.choices(WAYS, WEIGHTS)[0]
        return getattr(self, f"_{way}")(hook, messages)

    def _answer_late(self, request: Request, hook: Hook, crossed: bool) -> bool:
        """The client may take bytes that were sent before for the answer."""
        if crossed:
            # The client has one answer too many from here on, and may send its next request before it can notice. Dated before the bytes
            # are sent: this thread may continue long after the client.
            since, self.unsolicited = self.unsolicited, time.monotonic()
            self._processed(hook, request.messages, "crossed", SUCCESS, since)
            self.sent = time.monotonic()
            return True
        with self.server._lock:
            self.server.trapped += 1
        # The message is not processed, so that a loss would show.
        return self._fails(hook, "trapped", b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", stays=False)

    def _processed(self, hook: Hook, messages: list[dict], how: str, answer: bytes, at: float | None = None) -> bool:
        """Answers with success. `at`: the client may have had such an answer since then."""
        hook.answers[how] += 1
        # Recorded before sending: the fate of the answer is unknown afterwards.
        hook.notes.says([message["id"] for message in messages], at)
        self.connection.sendall(answer)
        return True

    def _fails(self, hook: Hook, how: str, answer: bytes, stays: bool = True) -> bool:
        hook.answers[how] += 1
        self.connection.sendall(answer)
        return stays

    # The ways. Each takes the hook and the messages of the request, and returns whether the connection stays.

    def _succeeds(self, hook, messages) -> bool:
        body = self.dice.choice(BODIES)
        status = b"204 No Content" if not body and self.dice.random() < 0.3 else b"200 OK"
        length = b"" if status.startswith(b"204") else b"Content-Length: %d\r\n" % len(body)
        return self._processed(hook, messages, "succeeds", b"HTTP/1.1 %s\r\n%s\r\n%s" % (status, length, body))

    def _succeeds_slowly(self, hook, messages) -> bool:
        """Byte by byte, soon enough or too late."""
        hook.answers["succeeds slowly"] += 1
        hook.notes.says([message["id"] for message in messages])
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n    "
        pause = self.server.timeout * self.dice.choice([0.2, 0.6, 1.3]) / len(answer)
        for byte in answer:
            self.connection.sendall(bytes([byte]))
            time.sleep(pause)
        return True

    def _succeeds_after_others(self, hook, messages) -> bool:
        first = self.dice.choice([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"])
        return self._processed(hook, messages, "succeeds after others", first + SUCCESS)

    def _succeeds_twice(self, hook, messages) -> bool:
        """Two answers to one request: at once, or the second a moment later."""
        if self.dice.random() < 0.3:
            self.unsolicited = time.monotonic()
            self._processed(hook, messages, TWICE, SUCCESS + SUCCESS)
            self.sent = time.monotonic()
            return True
        self._processed(hook, messages, TWICE, SUCCESS)
        time.sleep(self.dice.choice([0.0, 0.005, 0.03]))
        self._unasked(SUCCESS)
        return True

    def _names_failed(self, hook, messages) -> bool:
        if hook.batch == 1:
            return self._refuses(hook, messages)
        first = self.dice.randrange(len(messages))
        failed = messages[first]
        line = (lambda message: "") if hook.notes.strict else (lambda message: message["key"])
        hook.answers["names one as failed"] += 1
        hook.notes.says([message["id"] for index, message in enumerate(messages)
                         if index < first or (index > first and line(message) != line(failed))])
        body = json.dumps({"failed": [failed["id"]]}).encode()
        self.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return True

    def _names_nonsense(self, hook, messages) -> bool:
        if hook.batch == 1:
            return self._refuses(hook, messages)
        text = self.dice.choice(MALFORMED)
        id = self.dice.choice(messages)["id"].encode()
        body = text.replace(b"%s", id)
        return self._fails(hook, f"names {text.decode(errors='replace')}", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    def _refuses(self, hook, messages) -> bool:
        status = self.dice.choice([b"500 Oops", b"502 Bad Gateway", b"404 Not Found", b"400 Bad Request", b"408 Request Timeout",
                                   b"302 Found\r\nLocation: /elsewhere"])
        return self._fails(hook, "refuses", b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)

    def _is_gone(self, hook, messages) -> bool:
        return self._fails(hook, "is gone", b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")

    def _redirects(self, hook, messages) -> bool:
        """Redirects to itself, with an answer of its own, or to a port without a listener."""
        port = self.server.port if self.dice.random() < 0.8 else 1
        location = b"http://127.0.0.1:%d/%s/%s?again" % (port, hook.notes.namespace.encode(), hook.notes.name.encode())
        status = self.dice.choice([b"307 Temporary Redirect", b"308 Permanent Redirect"])
        return self._fails(hook, "redirects", b"HTTP/1.1 %s\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, location))

    def _resets(self, hook, messages) -> bool:
        hook.answers["resets"] += 1
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def _answers_in_part(self, hook, messages) -> bool:
        """Ends the head or the body too early, and the connection with it. No message of the request was processed."""
        if hook.batch == 1 or self.dice.random() < 0.4:
            return self._fails(hook, "half a head", SUCCESS[:self.dice.randrange(1, len(SUCCESS) - 3)], stays=False)
        return self._fails(hook, "half a body", b'HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{"failed":["', stays=False)

    def _never_answers(self, hook, messages) -> bool:
        hook.answers["never answers"] += 1
        self.server._closing.wait(1.5 * self.server.timeout)
        return False

    def _speaks_otherwise(self, hook, messages) -> bool:
        return self._fails(hook, "speaks otherwise", self.dice.choice([b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x03\x00\x02\x02\x28", b"200 OK\r\n\r\n"]),
                           stays=False)


WAYS, WEIGHTS = zip(*{
    "succeeds": 40, "succeeds_slowly": 4, "succeeds_after_others": 3, "succeeds_twice": 10, "names_failed": 8, "names_nonsense": 8,
    "refuses": 8, "is_gone": 1, "redirects": 4, "resets": 4, "answers_in_part": 4, "never_answers": 3, "speaks_otherwise": 3}.items())


def is_signed(request: Request, secrets: list[str]) -> bool:
    """Whether one of the signatures is of one of the secrets."""
    text = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    signatures = request.headers["webhook-signature"].split()
    return any("v1," + base64.b64encode(hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), text, hashlib.sha256)).decode() in signatures
               for secret in secrets)
