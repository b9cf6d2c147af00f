"""Writes records of a namespace. Only the checks of feeds use their contents, which they read in the log."""

import http.client
import json

from harness.feeds import ADMIN

from .client import Client

KEYS = 24


class RecordWriter(Client):
    """Some writes a second: records are made, changed in part and removed, one or several at once, small and large."""

    pause = 0.12

    def __init__(self, name, doors, history, seed, namespace: str):
        super().__init__(name, doors, history, seed)
        self.namespace = namespace

    def step(self) -> bool:
        die = self.dice.random()
        if die < 0.55:
            return self.put(f"rec/{self.key()}", self.value())
        if die < 0.65:
            return self.put(f"rec/{self.key()}", None)
        if die < 0.8:
            return self.put(f"rec/{self.key()}/t", self.token())
        return self.put("rec", {self.key(): self.value() for _ in range(self.dice.randrange(2, 12))}, "PATCH")

    def key(self) -> str:
        """Few keys have most of the changes."""
        return f"k{int(KEYS * self.dice.random() ** 2)}"

    def value(self) -> dict:
        text = self.token()
        return {"n": self.count, "t": text if self.dice.random() < 0.9 else text + "x" * self.dice.randrange(20_000)}

    def put(self, path: str, value, method: str = "PUT") -> bool:
        rest = self._rests[self.gateway()]
        try:
            answer = rest.send(method, f"/{path}.json?ns={self.namespace}", json.dumps(value).encode(), ADMIN)
        except (OSError, http.client.HTTPException, ValueError):
            return False
        if answer.status not in (200, 503, 429):
            self.history.complain(f"{method} {path} of {self.namespace}: {answer.status} {answer.body[:200]!r}")
        return answer.status == 200
