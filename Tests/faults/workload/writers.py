"""Clients over REST, each with its own kind of work."""

from .client import ASK, Client
from .history import OK, UNKNOWN, Operation

REGISTERS = [f"r{number}" for number in range(6)]
RECORDS = 40
LEAVES = 2300


class Registers(Client):
    """Writes, strong reads and compare-and-set of few shared registers."""

    def step(self) -> bool:
        key, gateway, die = self.dice.choice(REGISTERS), self.gateway(), self.dice.random()
        path = f"reg/{key}"
        if die < 0.4:
            return self.read(key, path, gateway)[0]
        if die < 0.7:
            token = self.token()
            return self.write(Operation(self.name, "write", key, token, gateway=gateway), "PUT", path, token)
        came, value, tag = self.read(key, path, gateway)
        if not came:
            return False
        token = self.token()
        operation = Operation(self.name, "cas", key, token, value, gateway)
        return self.write(operation, "PUT", path, token, {"if-match": tag or "null_etag"})


class FanOut(Client):
    """Updates of several paths at once, with a counter and a mark; reads that must find all or nothing of each."""

    def step(self) -> bool:
        gateway = self.gateway()
        if self.dice.random() < 0.3:
            return self.look(gateway)
        token = self.token()
        place = f"f{self.dice.randrange(8)}"
        update = {f"fan/{branch}/{place}": token for branch in "abc"}
        update[f"marks/{token}"] = True
        update["count/marked"] = {".sv": {"increment": 1}}
        return self.write(Operation(self.name, "update", "fan", token, gateway=gateway), "PATCH", "", update)

    def look(self, gateway: str) -> bool:
        operation = Operation(self.name, "read", "fan", gateway=gateway)
        response = self.request(operation, "GET", "fan")
        if response is None:
            return False
        self.history.end(operation, OK, response.seq)
        tree = response.json() or {}
        if not tree.get("a") == tree.get("b") == tree.get("c"):
            self.history.complain(f"an update is seen in part at {gateway}: {tree}")
        return True


class Increments(Client):
    """Adds by server value, without a mark; and records of a mirror."""

    def step(self) -> bool:
        gateway = self.gateway()
        if self.dice.random() < 0.5:
            return self.write(Operation(self.name, "increment", "plain", gateway=gateway), "PUT", "count/plain",
                              {".sv": {"increment": 1}})
        token = self.token()
        record = f"rec/i{self.dice.randrange(RECORDS)}"
        value = {"n": self.count, "t": token} if self.dice.random() < 0.8 else None
        return self.write(Operation(self.name, "set", "rec", value and token, gateway=gateway), "PUT", record, value)


class Large(Client):
    """Values of more than 2,000 rows, which go through COPY: each read finds one of them, whole."""

    pause = 1.2

    def step(self) -> bool:
        gateway = self.gateway()
        if self.dice.random() < 0.5:
            token = self.token()
            value = {f"l{number:04}": token for number in range(LEAVES)}
            return self.write(Operation(self.name, "write", "large", token, gateway=gateway), "PUT", "large", value)
        operation = Operation(self.name, "read", "large", gateway=gateway)
        response = self.request(operation, "GET", "large", headers=ASK)
        if response is None:
            return False
        tree = response.json()
        found = set(tree.values()) if tree else {None}
        if len(found) != 1 or (tree and len(tree) != LEAVES):
            self.history.complain(f"a large value is seen in part at {gateway}: {len(tree)} leaves of {sorted(found)[:4]}")
            self.history.end(operation, UNKNOWN)
            return False
        self.history.end(operation, OK, response.seq, found.pop())
        return True
