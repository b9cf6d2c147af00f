"""Webhook feeds whose receiver accepts every connection, reads, and never answers."""

import http.client
import json
import select
import socket

from ..attack import Attack

FEEDS, CONCURRENCY, KEYS = 17, 64, 200
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"


def prepare(tenant, short: bool) -> dict:
    port = tenant.free_port()
    for number in range(FEEDS):
        tenant.feed(f"hook{number}", path="/work/{key}", max_attempts=1_000, webhook={
            "url": f"http://127.0.0.1:{port}/{number}", "secrets": [SECRET], "concurrency": CONCURRENCY, "timeout": "1m"})
    return {"receiver": port}


def arm(spec):
    spec.server = socket.create_server(("127.0.0.1", spec.receiver), backlog=4_096)
    spec.server.setblocking(False)


def write(spec) -> str:
    """Writes the messages; returns the result."""
    body = json.dumps({f"k{number}": number for number in range(KEYS)})
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", spec.port, timeout=20)
        try:
            connection.request("PATCH", f"/work.json?ns={spec.ns}&auth={spec.secret}&print=silent", body)
            if (status := connection.getresponse().status) == 204:
                return f"write {status}"
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
    return "no write"


def run(spec) -> dict:
    written = write(spec)
    poll, sockets, accepted, received = select.epoll(), {}, 0, 0
    poll.register(0, select.EPOLLIN | select.EPOLLHUP)
    poll.register(spec.server, select.EPOLLIN)
    while True:
        for number, _ in poll.poll(1):
            if number == 0:
                return {written: 1, "connections": accepted, "requests": received}
            if number == spec.server.fileno():
                one, _ = spec.server.accept()
                one.setblocking(False)
                sockets[one.fileno()] = one
                poll.register(one, select.EPOLLIN)
                accepted += 1
                continue
            try:
                data = sockets[number].recv(65_536)
            except OSError:
                data = b""
            received += data.startswith(b"POST ")
            if not data:
                sockets.pop(number).close()


ATTACK = Attack("silent-receivers", f"{FEEDS} webhook feeds with concurrency {CONCURRENCY} to a server that never answers", prepare, run, arm,
                more_descriptors=FEEDS * CONCURRENCY + 200)
