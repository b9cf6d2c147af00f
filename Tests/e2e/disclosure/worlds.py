"""Worlds that are alike except for a part that most callers may not read, one namespace each, and the means to distinguish them."""

import json

from harness.gateway import SECRET
from harness.issuer import legacy
from oracle.hashes import node_hash

# Only readers may read `vault`, and only writers may write it. Administrators may do both.
RULES = {"rules": {
    "vault": {".read": "auth.role === 'reader'", ".write": "auth.role === 'writer'",
              "$place": {"secret": {".indexOn": ["rank", ".value"]}}},
    "side": {".read": "auth.role === 'sibling'", ".write": "auth.role === 'sibling'"},
    "hall": {".read": True, ".write": True},
}}

PLACE = "vault/place"
SECRET_PATH = f"{PLACE}/secret"

# The value that a caller guesses correctly. Only the first world has it.
KNOWN = "tango-4711"

# The value at SECRET_PATH in each world.
VALUES = {
    "known": KNOWN,
    "other": "uniform-0815",
    "none": None,
    "number": 4711,
    "asked": {"asked": "tango-4711", "zulu": 1},
    "not asked": {"other": "tango-4711", "zulu": 1},
    # More than 2,000 rows take another code path of the gateway.
    "large": {f"key{number:05}": number for number in range(2100)},
    "priority": {".value": KNOWN, ".priority": 7},
    "low rank": {"one": {"rank": 1}, "two": {"rank": 2}},
    "high rank": {"one": {"rank": 8}, "two": {"rank": 9}},
}

# Texts that only a reader may get: parts of the values, and their tags.
MARKS = ["tango", "uniform", "4711", "0815", "zulu", "key00001", *(node_hash(value) for value in VALUES.values() if value)]


class Caller:
    """A client with a credential, and its rights in `vault`."""

    def __init__(self, name: str, role: str | None = None, reads: bool = False, writes: bool = False,
                 administers: bool = False, acts: bool = False):
        self.name, self.role = name, role
        self.reads, self.writes, self.administers, self.acts = reads, writes, administers, acts

    def __repr__(self):
        return self.name

    @property
    def credential(self) -> str | None:
        if self.administers or self.acts:
            return SECRET
        if self.name == "anonymous":
            return None
        return legacy(self.name, SECRET, d={"uid": self.name} | ({"role": self.role} if self.role else {}))

    @property
    def params(self) -> dict:
        """The parameters of a REST request of this caller."""
        if self.acts:
            return {"auth": SECRET, "auth_variable_override": json.dumps({"uid": "stranger"})}
        return {"auth": self.credential} if self.credential else {}

    def log_in(self, client):
        """Logs a realtime client in; the answer is the same in all worlds."""
        if self.acts:
            client.ok("gauth", {"cred": SECRET, "authvar": {"uid": "stranger"}})
        elif self.administers:
            client.ok("gauth", {"cred": SECRET})
        elif self.credential:
            client.ok("auth", {"cred": self.credential})


ADMINISTRATOR = Caller("administrator", reads=True, writes=True, administers=True)
CALLERS = [
    Caller("anonymous"),
    Caller("stranger"),
    Caller("sibling", role="sibling"),
    Caller("acting", acts=True),
    Caller("reader", role="reader", reads=True),
    Caller("writer", role="writer", writes=True),
    ADMINISTRATOR,
]


class World:
    """A namespace with one of the values. `restore` reverts the writes of callers."""

    def __init__(self, gateway, name: str, ns: str):
        self.gateway, self.name, self.ns = gateway, name, ns
        self.rest = gateway.rest.at(ns=ns, auth=SECRET)
        self.tree = {"side": {"here": True}, "hall": {"here": True}, "vault": {"here": True}}
        if VALUES[name] is not None:
            self.tree["vault"]["place"] = {"secret": VALUES[name]}
        # Another value was stored before.
        self.rest.set("", {"vault": {"place": {"secret": f"before {name}"}}})
        self.base = self.reset()

    def reset(self) -> int:
        response = self.rest.put("", self.tree, print="silent")
        assert response.status == 204, response.body
        return response.seq

    def head(self) -> int:
        """The seq of the newest entry."""
        response = self.rest.get("side/here")
        assert response.status == 200, response.body
        return response.seq

    def intact(self) -> bool:
        """Whether the parts that callers may not write are unchanged."""
        now = [self.rest.value(part, format="export") for part in ("vault", "side")]
        return now == [self.tree["vault"], self.tree["side"]]

    def restore(self) -> bool:
        """Whether a caller has written; reverts the write."""
        if self.head() == self.base:
            return False
        self.base = self.reset()
        return True


def make_worlds(gateway) -> dict[str, World]:
    return {name: World(gateway, name, f"world{number}") for number, name in enumerate(VALUES)}


NAMESPACES = ",".join(f"world{number}" for number in range(len(VALUES)))


def plain(text: str, world: World) -> str:
    """The observed text without the name of the world."""
    return text.replace(world.ns, "WORLD")
