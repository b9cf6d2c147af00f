"""The observations of a caller for a script of requests: by WebSocket, and by long polling."""

import time

from harness.waiting import PATIENCE, Late
from harness.websocket import Closed
from harness.websocket_client import RealtimeClient
from harness.websocket_polling import PollingClient


class BySocket:
    """One session over a WebSocket. It keeps all messages in the order of their arrival."""

    def __init__(self, world):
        self.client = RealtimeClient(world.gateway.port, world.ns).greet()

    def log_in(self, caller):
        caller.log_in(self.client)

    def run(self, requests) -> list:
        seen = []
        numbers = [self.client.ask(action, body) for action, body in requests]
        try:
            missing = set(numbers)
            while missing:
                seen.append(self.client.message())
                missing.discard(seen[-1]["d"].get("r"))
            # Pushes may follow; they come before the answer to this request.
            last = self.client.ask("s", {"c": {}})
            while seen[-1]["d"].get("r") != last:
                seen.append(self.client.message())
        except Closed as closed:
            seen.append({"closed": closed.code})
        return numbered(seen, numbers)

    def close(self):
        self.client.socket.close()


class Logins:
    """A polling client's requests by the names that callers log in with."""

    def __init__(self, session: "ByPolling"):
        self.session = session

    def ok(self, action: str, body: dict):
        answer = self.session.request(action, body)
        assert answer["s"] == "ok", answer


class ByPolling:
    """One session over long polling."""

    def __init__(self, world):
        self.client, self.number = PollingClient(world.gateway.port, world.ns), 0

    def request(self, action: str, body: dict) -> dict:
        self.number += 1
        return self.client.request(self.number, action, body)

    def log_in(self, caller):
        caller.log_in(Logins(self))

    def run(self, requests) -> list:
        before = len(self.client.messages)
        numbers = []
        for action, body in requests:
            self.request(action, body)
            numbers.append(self.number)
        last = self.number + 1
        self.request("s", {"c": {}})
        deadline = time.monotonic() + PATIENCE
        while self.client.messages[-1].get("d", {}).get("r") != last:
            if time.monotonic() > deadline:
                raise Late("the answer to the last request came, and something after it")
            self.client.poll()
        return numbered(self.client.messages[before:] + ([{"closed": True}] if self.client.closed else []), numbers)

    def close(self):
        self.client.get(f"disconn=t&id={self.client.id}&pw={self.client.password}")


def numbered(messages: list, numbers: list[int]) -> list:
    """The messages with requests numbered from 0, without the answer to the barrier."""
    seen = []
    for message in messages:
        data = message.get("d")
        if isinstance(data, dict) and "r" in data:
            if data["r"] not in numbers:
                continue
            message = {"r": numbers.index(data["r"]), **data["b"]}
        seen.append(message)
    return seen
