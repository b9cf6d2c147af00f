"""Random writes from a seed, full of what followers get wrong, and ways to execute them: by WebSocket, REST or directly."""

import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from urllib.parse import quote

from harness.rest import Rest
from harness.websocket_client import RealtimeClient

from .database import Namespace
from .tree import Node, at, dump, split_path
from .wire import segments

NUMBERS = [0, 1, -1, 2, 10, 255, 2**31 - 1, 2**31, -2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -2**63, 9.3e18, 1.8446744073709552e19,
           1e21, 1e300, -1e300, 1e-300, 5e-324, 1.7976931348623157e308, -0.0, 0.1, -2.25, 1.5, 123456.789, 4.35]
STRINGS = ["", "a", "Z", "10", "true", "null", "é", "e\u0301", "日本語", "\uff5e", "\U0001f600", "👩‍👩‍👧 family", 'quote"back\\slash', "line\nbreak\ttab", "\u2028", "\ufeff",
           "nul\0inside", "/a/b", ".value", "[MAX_NAME]", "\uffff", "\u007f", "’", "0x10", "1e5"]
PLAIN_KEYS = ["name", "total", "items", "state", "a", "b", "lines", "note"]
ODD_KEYS = ["0", "1", "2", "3", "7", "07", "007", "10", "-1", "-5", "2147483647", "2147483648", "-2147483648", "-2147483649", "9999999999", "A", "_", "~", " ",
            "key with space", "!first", "-Nabc", "é", "日本", "\uff5e", "\U0001f600", "'quote\"", "back\\slash", "a+b&c=d?", "%41", "a:b", "a,b", "(", ")", "\u2028", "\u0080",
            "true", "null", "constructor", "__proto__", "\ue000"]
COLLECTIONS = ["orders", "users", "rooms", "stock"]


@dataclass(frozen=True)
class Operation:
    """One write. `kind` is `put` or `merge`; `what` names what it is an example of."""

    kind: str
    path: str
    data: object
    what: str


class Writes:
    """A seeded generator; the seed is part of a failing test's message. It knows what exists, from its own copy of the tree, and all
    its writes are valid. Server times differ between its copy and a server, and nothing else does."""

    def __init__(self, seed: int, width: int = 60, long_strings: bool = True, odd: bool = True, timestamps: bool = True):
        self.seed, self.dice = seed, random.Random(seed)
        self.width, self.long_strings, self.odd, self.timestamps = width, long_strings, odd, timestamps
        self.copy = Namespace("copy")
        self.copy.keeps_writes = False
        self.counts: Counter[str] = Counter()
        self._made = 0

    # MARK: values

    def _key(self) -> str:
        if self.odd and self.dice.random() < 0.25:
            return self.dice.choice(ODD_KEYS)
        return self.dice.choice(PLAIN_KEYS) if self.dice.random() < 0.6 else f"k{self.dice.randrange(self.width)}"

    def _leaf(self):
        kind = self.dice.randrange(5)
        if kind == 0:
            return self.dice.choice([True, False])
        if kind == 1:
            return self.dice.choice(STRINGS)
        if kind == 2:
            return self.dice.choice(NUMBERS)
        return self.dice.randrange(-1000, 1000) if kind == 3 else f"value {self._made}"

    def _priority(self):
        return self.dice.choice([self.dice.randrange(-5, 6), 2.5, -0.0, 2**53 + 1, 1e-300, "p", "q", "10", "", "é\"\\"])

    def _value(self, depth: int = 3):
        """A value in export form, never null."""
        if depth == 0 or self.dice.random() < 0.4:
            made = self._leaf()
        else:
            made = {self._key(): self._value(depth - 1) for _ in range(self.dice.randrange(1, 5))}
        if self.dice.random() < 0.12:
            priority = self._priority()
            return {**made, ".priority": priority} if isinstance(made, dict) else {".value": made, ".priority": priority}
        return made

    # MARK: paths

    def _record(self) -> str:
        return f"{self.dice.choice(COLLECTIONS)}/k{self.dice.randrange(self.width)}"

    def _somewhere(self) -> str:
        """A path at or below a record, which may exist or not."""
        return "/".join([self._record(), *(self._key() for _ in range(self.dice.choice([0, 0, 1, 1, 2])))])

    def _existing(self) -> str | None:
        """A path that exists, below the root."""
        node, path = self.copy.root, []
        while node is not None and node.children and (not path or self.dice.random() < 0.7):
            _, key = node.ordered()[self.dice.randrange(len(node.children))]
            path.append(key)
            node = node.children[key]
        return "/".join(path) or None

    # MARK: kinds of writes

    def _set(self):
        return "put", self._somewhere(), self._value()

    def _update(self):
        return "merge", self._somewhere(), {key: None if self.dice.random() < 0.2 else self._value(1)
                                            for key in {self._key() for _ in range(self.dice.randrange(1, 5))}}

    def _multi_path(self):
        paths: list[str] = []
        for _ in range(self.dice.randrange(2, 6)):
            path = self._somewhere()
            if not any(path == one or path.startswith(one + "/") or one.startswith(path + "/") for one in paths):
                paths.append(path)
        return "merge", "", {path: None if self.dice.random() < 0.25 else self._value(2) for path in paths}

    def _delete(self):
        path = self._existing() or self._somewhere()
        if "/" not in path and self.dice.random() < 0.97:
            # A collection as a whole goes rarely.
            path = self._record()
        return "put", path, None

    def _set_priority(self):
        path = self._existing()
        if path is None:
            return self._set()
        return "put", f"{path}/.priority", None if self.dice.random() < 0.3 else self._priority()

    def _server_values(self):
        increment = {".sv": {"increment": self.dice.choice([1, -1, 5, 0.5, 2**53, 1e-300])}}
        kind = self.dice.randrange(4) if self.timestamps else 0
        if kind == 0:
            return "put", f"{self._record()}/total", increment
        if kind == 1:
            return "put", f"{self._record()}/at", {".sv": "timestamp"}
        if kind == 2:
            return "merge", self._record(), {"total": increment, "at": {".sv": "timestamp"}, "name": "counted"}
        return "put", self._record(), {"total": increment, "at": {".value": {".sv": "timestamp"}, ".priority": {".sv": "timestamp"}}}

    def _array(self):
        return "put", f"{self._record()}/items", [self.dice.choice([None, self._leaf(), {"name": self._leaf()}]) for _ in range(self.dice.randrange(1, 7))]

    def _odd(self):
        kind = self.dice.randrange(5)
        if kind == 0:
            path = split_path(self._record())
            return "put", "/".join((*path, *(["d"] * (32 - len(path))))), self._leaf()
        if kind == 1:
            return "put", f"{self._record()}/{'é' * 384}", self._leaf()
        if kind == 2:
            return "put", f"{self._record()}/{'k' * 768}", self._leaf()
        if kind == 3 and self.long_strings:
            return "put", f"{self._record()}/note", self.dice.choice(["😀", "x", "日", 'y"']) * self.dice.randrange(5_000, 60_000)
        return "put", self._record(), dict.fromkeys(ODD_KEYS, self._made)

    def _wide(self):
        return "put", self.dice.choice(COLLECTIONS) if self.dice.random() < 0.05 else self._record(), {f"k{number}": self._value(2) for number in range(self.dice.randrange(self.width))}

    def next(self) -> Operation:
        """The next write. Executes it on the generator's own copy."""
        choices = [("set", 34, self._set), ("update", 18, self._update), ("multi_path", 14, self._multi_path), ("delete", 10, self._delete),
                   ("priority", 9, self._set_priority), ("server_value", 10, self._server_values), ("array", 4, self._array)]
        if self.odd:
            choices += [("odd", 2, self._odd), ("wide", 1, self._wide)]
        what, _, make = self.dice.choices(choices, [weight for _, weight, _ in choices])[0]
        kind, path, data = make()
        self._made += 1
        self.counts[what] += 1
        operation = Operation(kind, path, data, what)
        apply_to(self.copy, operation)
        return operation

    def take(self, count: int):
        for _ in range(count):
            yield self.next()

    def node(self, path: str) -> Node | None:
        """What is at a path in the generator's copy."""
        return at(self.copy.root, split_path(path))


def apply_to(namespace: Namespace, operation: Operation):
    """Executes a write on a namespace in this process."""
    (namespace.put if operation.kind == "put" else namespace.merge)(split_path(operation.path), operation.data)


class Direct:
    """Executes writes on a stand-in without a connection."""

    def __init__(self, standin, ns: str | None = None):
        self._standin, self._ns = standin, ns

    def apply(self, operation: Operation):
        (self._standin.put if operation.kind == "put" else self._standin.merge)(operation.path, operation.data, self._ns)

    def flush(self):
        pass


class BySocket:
    """Executes writes by a WebSocket session, `depth` of them in flight; each must succeed."""

    def __init__(self, port: int, ns: str, credential: str | None = None, depth: int = 20):
        self.client = RealtimeClient(port, ns=ns).greet()
        if credential is not None:
            self.client.ok("gauth", {"cred": credential})
        self._depth = depth
        self._asked: list[tuple[int, Operation]] = []

    def apply(self, operation: Operation):
        self.client.number += 1
        message = {"t": "d", "d": {"r": self.client.number, "a": "p" if operation.kind == "put" else "m", "b": {
            "p": f"/{operation.path}", "d": operation.data}}}
        # Cut between characters: a client that cuts within a surrogate pair, as SDKs do, loses the character.
        for piece in segments(dump(message)):
            self.client.socket.send(piece.encode())
        self._asked.append((self.client.number, operation))
        if len(self._asked) >= self._depth:
            self._settle(1)

    def _settle(self, count: int):
        for number, operation in self._asked[:count]:
            answer = self.client.answer(number)
            assert answer["s"] == "ok", f"{operation}: {answer}"
        del self._asked[:count]

    def flush(self):
        """Waits for all answers."""
        self._settle(len(self._asked))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.socket.plain.close()


class ByRest:
    """Executes writes by REST; each must succeed. A write at `.priority` goes by PUT as well."""

    def __init__(self, port: int, ns: str, credential: str | None = None):
        headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
        self._rest = Rest(port, params={"ns": ns, "print": "silent"}, headers=headers)
        self._ns = ns

    def apply(self, operation: Operation):
        method = "PATCH" if operation.kind == "merge" else "DELETE" if operation.data is None else "PUT"
        body = None if method == "DELETE" else json.dumps(operation.data, ensure_ascii=False).encode()
        path = "/".join(quote(key, safe="") for key in split_path(operation.path))
        answer = self._rest.send(method, f"/{path}.json?ns={self._ns}&print=silent", body)
        assert answer.status in (200, 204), f"{operation}: {answer.status} {answer.body[:300]!r}"

    def flush(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._rest.close()


class Mixed:
    """Executes each write by one of several writers, from a seed. Writers of different kinds wait for each other, so the order is the generator's."""

    def __init__(self, seed: int, *writers):
        self._dice, self._writers = random.Random(seed), writers
        self._last = writers[0]

    def apply(self, operation: Operation):
        chosen = self._dice.choice(self._writers)
        if chosen is not self._last:
            self._last.flush()
        self._last = chosen
        chosen.apply(operation)

    def flush(self):
        self._last.flush()


def run(writes: Writes, writer, count: int, rate: float | None = None, stop=None) -> list[Operation]:
    """Executes so many writes, at most `rate` a second, until `stop` (an event) is set. Returns what was executed."""
    begin, done = time.monotonic(), []
    for number in range(count):
        if stop is not None and stop.is_set():
            break
        if rate is not None:
            ahead = number / rate - (time.monotonic() - begin)
            if ahead > 0.002:
                time.sleep(ahead)
        operation = writes.next()
        writer.apply(operation)
        done.append(operation)
    writer.flush()
    return done
