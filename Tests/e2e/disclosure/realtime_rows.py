"""The realtime operations of the table, for WebSockets and long polling: scripts of requests in one session."""

from dataclasses import dataclass

from oracle.hashes import node_hash

from .verdicts import BEYOND, BEYOND_SHOWN, COMPARES, READS, REFUSED, SAME, WRITES, Needs
from .worlds import KNOWN, PLACE, SECRET_PATH, VALUES

HASH = node_hash(KNOWN)
WRONG = node_hash("something else")
BY_KEY = {"i": ".key", "sp": "asked", "sin": True, "ep": "asked", "ein": True}
BY_RANK = {"i": "rank", "sp": 5, "sin": True}
BY_COLOUR = {"i": "colour", "sp": 5, "sin": True}
INCREMENT = {".sv": {"increment": 0}}


@dataclass
class Row:
    """`requests` as (action, body); `denied` are the indices of those that the gateway refuses for a caller without the right."""

    name: str
    needs: Needs
    requests: list[tuple[str, dict]]
    denied: tuple[int, ...] = (0,)

    def __repr__(self):
        return self.name

    @property
    def defers(self) -> bool:
        """Whether anything is left for the end of the session."""
        return any(action in ("o", "om", "oc") for action, _ in self.requests)


def one(name: str, needs: Needs, action: str, body: dict, path: str = SECRET_PATH) -> Row:
    return Row(name, needs, [(action, {"p": path, **body})], (0,))


def compound(value, places: list[str], digest: str) -> dict:
    """A compound hash of one range and the empty range after it."""
    return {"h": node_hash(value), "ch": {"hs": [digest, ""], "ps": places}}


def reads() -> list[Row]:
    # kQE7… is the version 2 hash of a leaf "hello". The answer may not reveal whether it matches.
    leaf = compound(KNOWN, ["/"], "kQE7uvpgdWqH+IH1/0AuDvIfiWI=")
    tree = compound(VALUES["asked"], ["asked"], "LmKmJmXugtGlEGoulMbz86myDNw=")
    return [
        one("q", READS, "q", {"h": ""}),
        one("q without a hash", READS, "q", {}),
        one("q, right hash", READS, "q", {"h": HASH}),
        one("q, wrong hash", READS, "q", {"h": WRONG}),
        one("q, compound hash of a leaf", READS, "q", leaf),
        one("q, compound hash of a tree", READS, "q", tree),
        one("q above", READS, "q", {"h": ""}, PLACE),
        one("q of a child", READS, "q", {"h": ""}, f"{SECRET_PATH}/asked"),
        one("q by key", READS, "q", {"q": BY_KEY, "t": 1, "h": ""}),
        one("q by key, right hash", READS, "q", {"q": BY_KEY, "t": 1, "h": node_hash({"asked": "tango-4711"})}),
        one("q by a declared index", READS, "q", {"q": BY_RANK, "t": 1, "h": ""}),
        one("q by priority, limited", READS, "q", {"q": {"l": 1, "vf": "r"}, "t": 1, "h": ""}),
        one("q by no index", READS, "q", {"q": {"i": "colour", "l": 1, "vf": "l"}, "t": 1, "h": ""}),
        one("l", READS, "l", {"h": ""}),
        one("g", READS, "g", {"q": {}}),
        one("g above", READS, "g", {"q": {}}, PLACE),
        one("g of a child", READS, "g", {"q": {}}, f"{SECRET_PATH}/asked"),
        one("g by key", READS, "g", {"q": BY_KEY}),
        one("g by a declared index", READS, "g", {"q": BY_RANK}),
        # The missing permission comes before the missing index.
        one("g by no index", REFUSED, "g", {"q": BY_COLOUR}),
        one("g of a malformed query", SAME, "g", {"q": {"l": -1, "vf": "x"}}),
        one("n of what was not listened to", SAME, "n", {}),
        Row("q, n, q", READS, [("q", {"p": SECRET_PATH, "h": ""}), ("n", {"p": SECRET_PATH}), ("q", {"p": SECRET_PATH, "h": HASH})],
            (0, 2)),
        Row("s", SAME, [("s", {"c": {"sdk.x": 1}})]),
        Row("echo", SAME, [("echo", {"d": KNOWN})]),
        one("an unknown action", SAME, "zz", {}),
    ]


def writes() -> list[Row]:
    return [
        one("p", WRITES, "p", {"d": "mine"}),
        one("p of null", WRITES, "p", {"d": None}),
        one("p below", WRITES, "p", {"d": 1}, f"{SECRET_PATH}/asked"),
        one("p of an increment", WRITES, "p", {"d": INCREMENT}),
        one("p with a priority's increment", WRITES, "p", {"d": {".value": 1, ".priority": INCREMENT}}),
        one("p of a bad value", SAME, "p", {"d": {"a/b": 1}}),
        one("p at the root", BEYOND, "p", {"d": {"side": {"here": True}}}, "/"),
        one("m", WRITES, "m", {"d": {"asked": 2}}),
        one("m below", WRITES, "m", {"d": {"asked/deep": 2, "b/c": None}}),
        one("m of an increment", WRITES, "m", {"d": {"secret": INCREMENT}}, PLACE),
        one("m here and there", BEYOND, "m", {"d": {"side/x": 1, "vault/place/secret/asked": 2}}, "/"),
        one("m with priorities here and there", BEYOND_SHOWN, "m",
            {"d": {"side/here/.priority": 1, "vault/place/secret/.priority": 2}}, "/"),
        # A caller with the right to write learns whether the write succeeded.
        one("p of a priority", COMPARES, "p", {"d": 3}, f"{SECRET_PATH}/.priority"),
        one("m of a priority", COMPARES, "m", {"d": {"secret/.priority": 3}}, PLACE),
        one("p, right hash", COMPARES, "p", {"d": "mine", "h": HASH}),
        one("p, hash of nothing", COMPARES, "p", {"d": "mine", "h": ""}),
        one("p of null, right hash", COMPARES, "p", {"d": None, "h": HASH}),
        one("p of a child, hash of nothing", COMPARES, "p", {"d": 1, "h": ""}, f"{SECRET_PATH}/asked"),
        one("m, right hash", COMPARES, "m", {"d": {"asked": 1}, "h": HASH}),
        one("m, hash of nothing", COMPARES, "m", {"d": {"asked": 1}, "h": ""}),
        one("p, wrong hash", WRITES, "p", {"d": "mine", "h": WRONG}),
        one("p, no hash at all", WRITES, "p", {"d": "mine", "h": "x"}),
        one("m, wrong hash", WRITES, "m", {"d": {"asked": 1}, "h": WRONG}),
        one("p at the root, wrong hash", BEYOND, "p", {"d": 1, "h": WRONG}, "/"),
        one("m at the root, wrong hash", BEYOND, "m", {"d": {"side/x": 1, "vault/place/secret": 2}, "h": WRONG}, "/"),
        # The gateway refuses twice: a caller without the right to write does not wait in the queue, either.
        Row("p, wrong and right hash", COMPARES,
            [("p", {"p": SECRET_PATH, "d": "mine", "h": WRONG}), ("p", {"p": SECRET_PATH, "d": "mine", "h": HASH})], (0, 1)),
        # A caller gets no event of a path that it may not listen to.
        Row("p beside a listen elsewhere", COMPARES,
            [("q", {"p": "hall", "h": ""}), ("p", {"p": SECRET_PATH, "d": "mine", "h": HASH})], (1,)),
        one("o", WRITES, "o", {"d": "mine"}),
        one("o of an increment", WRITES, "o", {"d": INCREMENT}),
        one("o of a priority", WRITES, "o", {"d": 3}, f"{SECRET_PATH}/.priority"),
        one("om", WRITES, "om", {"d": {"asked": 2, "b/c": None}}),
        one("om with a priority", WRITES, "om", {"d": {"secret/.priority": 3}}, PLACE),
        one("om here and there", BEYOND, "om", {"d": {"side/x": 1, "vault/place/secret/asked": 2}}, "/"),
        one("oc", SAME, "oc", {"d": None}),
        Row("o, oc", WRITES, [("o", {"p": SECRET_PATH, "d": 1}), ("oc", {"p": SECRET_PATH, "d": None})], (0,)),
    ]


ROWS = reads() + writes()
