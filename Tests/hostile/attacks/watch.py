"""A separate process that continuously requests the gateway's health on several connections, and writes to a permitted path.

    python watch.py PORT CONNECTIONS TARGET CREDENTIAL [FEED TOKEN]

With a feed of the writer's records, the process consumes that as well, and counts its acknowledgements.

The process answers a line on standard input with the worst latencies since the last line, as JSON; a request in flight counts once it
has its answer. The process ends with its standard input.
"""

import json
import os
import select
import socket
import subprocess
import sys
import time

PAUSE = 0.004


class Asker:
    """One keep-alive connection with one request at a time."""

    def __init__(self, kind: str, port: int, make):
        self.kind, self.port, self.make = kind, port, make
        self.count, self.failed = 0, []
        self.worst, self.began, self.due, self.buffer = 0.0, None, 0.0, b""
        self.plain = None

    def send(self):
        if self.plain is None:
            self.plain = socket.create_connection(("127.0.0.1", self.port), 30)
            self.plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = time.monotonic()
        self.plain.sendall(self.make(self.count))

    def receive(self):
        more = self.plain.recv(65536)
        if not more:
            self.failed.append("closed")
            self.plain.close()
            self.plain, self.began, self.buffer = None, None, b""
            return
        self.buffer += more
        head, blank, body = self.buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if len(body) < int(fields.get(b"content-length", b"0")):
            return
        now = time.monotonic()
        self.worst = max(self.worst, now - self.began)
        self.count += 1
        status = head.split(b" ", 2)[1]
        if status not in (b"200", b"204"):
            self.failed.append(status.decode())
        self.began, self.due, self.buffer = None, now + PAUSE, b""
        self.answered(body)

    def answered(self, body: bytes):
        """Parses answers for the subclasses that need it."""


class Consumer(Asker):
    """Pulls and acknowledges by turns. Only acknowledgements count: no message is left, and none comes late."""

    def __init__(self, port: int, feed: str, token: str):
        super().__init__("consumer", port, self.next)
        self.feed, self.token, self.ids, self.done = feed, token, [], 0

    def next(self, _) -> bytes:
        what, said = ("ack", {"ids": self.ids}) if self.ids else ("pull", {"max": 100})
        body = json.dumps({**said, "consumer": "honest"}).encode()
        return (f"POST /.feeds/{self.feed}/{what}?ns=default HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def answered(self, body: bytes):
        found = json.loads(body)
        if self.ids:
            results = set(found.get("results", {}).values())
            if results != {"done"}:
                self.failed.append(f"acknowledgement: {sorted(results)}")
            self.ids = []
            self.done += 1
        else:
            self.ids = [message["id"] for message in found.get("messages", [])]
        self.count = self.done


def run(port: int, connections: int, target: str, credential: str, *feed: str):
    def health(_) -> bytes:
        return b"GET /.health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    def write(number: int) -> bytes:
        body = str(number).encode()
        return (f"PUT {target}&auth={credential}&print=silent HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    askers = [Asker("health", port, health) for _ in range(connections)] + [Asker("writer", port, write)]
    askers += [Consumer(port, *feed)] if feed else []
    while True:
        now = time.monotonic()
        for asker in askers:
            if asker.began is None and asker.due <= now:
                try:
                    asker.send()
                except OSError as error:
                    asker.failed.append(repr(error))
                    asker.plain, asker.began, asker.due = None, None, now + 0.1
        waiting = {asker.plain: asker for asker in askers if asker.began is not None}
        ready, _, _ = select.select([*waiting, 0], [], [], PAUSE / 2)
        for one in ready:
            if one == 0:
                if not os.read(0, 65536):
                    return
                report(askers)
                continue
            try:
                waiting[one].receive()
            except OSError as error:
                waiting[one].failed.append(repr(error))
                waiting[one].plain, waiting[one].began = None, None


def report(askers: list[Asker]):
    now = time.monotonic()
    found = {}
    for kind in dict.fromkeys(asker.kind for asker in askers):
        own = [asker for asker in askers if asker.kind == kind]
        found[kind] = {"worst": max(max(asker.worst, now - asker.began if asker.began else 0) for asker in own) * 1e3,
                       "count": min(asker.count for asker in own), "failed": [text for asker in own for text in asker.failed]}
        for asker in own:
            asker.worst, asker.failed = 0.0, []
    print(json.dumps(found), flush=True)


class Watch:
    """The process. `since` returns its observations since the last call."""

    def __init__(self, port: int, target: str, credential: str, connections: int = 8, feed: tuple[str, ...] = ()):
        self.child = subprocess.Popen([sys.executable, __file__, str(port), str(connections), target, credential, *feed],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self.settle()
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait(30)

    def since(self) -> dict:
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"the watch ended with {self.child.wait()}")
        return json.loads(line)

    def settle(self, patience: float = 150) -> dict:
        """Waits until every connection has a new answer; returns the observations since the last call."""
        first = self.since()
        end = time.monotonic() + patience
        counts = {kind: one["count"] for kind, one in first.items()}
        while True:
            time.sleep(0.01)
            next_ = self.since()
            for kind, one in first.items():
                one["worst"] = max(one["worst"], next_[kind]["worst"])
                one["failed"] += next_[kind]["failed"]
            # Twice on every connection: the request in flight, and one that began after this call.
            if all(next_[kind]["count"] >= count + 2 for kind, count in counts.items()):
                for kind, one in first.items():
                    one["count"] = next_[kind]["count"]
                return first
            if time.monotonic() > end:
                raise RuntimeError(f"the gateway has stopped answering: {first}")


if __name__ == "__main__":
    try:
        run(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
    except KeyboardInterrupt:
        pass
