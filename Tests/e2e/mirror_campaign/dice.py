"""Random definitions and writes: hostile keys and values, types that change, records that come and go."""

import random

from oracle.mirror import FILTERS

COMMON = ["a", "b", "items", "0", "1"]
ODD = ["2", "10", "007", "-1", "é", "e\u0301", "a b", "a!", "😀", "ı", "９", "\u200d", "'\"\\", "k" * 700, "9223372036854775807",
       "9223372036854775808", "~", "%2F", "2026-01-31", "2024-02-29", "2026-02-30"]
LEAVES = [True, False, 0, -1, 1, 7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 1.5, -2.25, 0.1, 1e16, 1e21, 1e300, 5e-324, -1e-7, 1_700_000_000_000,
          1_700_000_000_000.25, -62_135_596_800_000, -62_135_596_800_001, 253_402_300_799_999, 253_402_300_800_000, "", "x", "é", "e\u0301", "nul\0", "12", "12.50",
          "012.5", "-", "2026-01-31", "2026-02-30", "2026-01-31T23:59:58Z", "1999-12-31 12:30", "0E0E0E0E-1111-2222-3333-444444444444", 'quote"back\\slash',
          "\\N", "{a,b}", "NULL", "null", "line\nend\ttab\r", "\u2028\ufeff", "😀" * 40, "long " * 1500, "\uffff", "\x01"]
TYPES = ["text", "bigint", "double precision", "numeric", "boolean", "timestamptz", "date", "jsonb", "text[]", "uuid"]
DEFAULTS = {"text": "none", "bigint": 7, "double precision": 0.5, "numeric": "1.25", "boolean": True, "timestamptz": "2020-01-01",
            "date": "2020-01-01", "uuid": "00000000-0000-0000-0000-000000000001"}
PATTERNS = ["/a/{k}", "/{j}/{k}", "/{k}/a", "/a/{k}/b", "/a/{j}/items/{k}", "/{i}/{j}/{k}", "/b/{j}/{k}", "/{k}", "/e\u0301/{k}"]
# For each mirror: its histories, its part of the tree, whether every record makes a row, and its database.
MIRRORS = {
    "plain": {"path": "/a/{k}"},
    "children": {"path": "/a/{j}/items/{k}", "keys": {"k": "bigint"}},
    "days": {"path": "/{j}/{k}", "keys": {"k": "date"}},
    "anywhere": {},
    "elsewhere": {"target": True},
    "kept": {"path": "/a/{k}", "history": True},
    "kept_children": {"path": "/a/{j}/items/{k}", "history": True},
    "changes": {"keeps": "changes"},
    "other_changes": {"keeps": "changes", "target": True},
    "soft": {"deleted": "soft", "all": True},
    "soft_part": {"deleted": "soft", "history": True},
}


class Dice(random.Random):
    def key(self) -> str:
        return self.choice(COMMON if self.random() < 0.75 else ODD)

    def path(self, least: int, most: int) -> str:
        return "/".join(self.key() for _ in range(self.randrange(least, most + 1)))

    def value(self, depth: int):
        kind = self.randrange(9)
        if kind == 0:
            node = {self.key(): self.random() < 0.8 for _ in range(3)}
        elif kind == 1:
            node = [self.choice(["a", "b", "nul\0", "e\u0301"]) for _ in range(self.randrange(1, 4))]
        elif kind == 2 and depth > 0:
            node = [self.value(depth - 1) for _ in range(self.randrange(1, 4))]
        elif kind == 3 and self.random() < 0.1:
            node = self.choice(LEAVES)
            for _ in range(20):
                node = {self.key(): node}
        elif depth == 0 or kind == 4:
            node = self.choice(LEAVES)
        else:
            node = {self.key(): self.value(depth - 1) for _ in range(self.randrange(1, 5))}
        if self.random() < 0.1 and not isinstance(node, list):
            priority = self.choice([1, "p", 2.5])
            node = {**node, ".priority": priority} if isinstance(node, dict) else {".value": node, ".priority": priority}
        return node

    def column(self, may_skip: bool) -> dict:
        kind = self.choice(TYPES)
        key = self.key()
        path = self.choice([".", f"{self.key()}/{self.key()}", ".priority", f"{self.key()}/.priority", key, key, key, "a", "b"])
        column = {"type": kind, "path": path}
        if kind in DEFAULTS and self.random() < 0.3:
            column["default"] = DEFAULTS[kind]
            if self.random() < 0.5:
                column["not null"] = "default"
        elif may_skip and self.random() < 0.12:
            column["not null"] = self.choice(["skip", "error"])
        return column

    def definition(self, name: str, path: str | None, other: str) -> dict:
        """A definition of one of MIRRORS, at `path` if the path may not change."""
        wanted = MIRRORS[name]
        is_part = not wanted.get("all")
        definition = {"name": name, "path": path or wanted.get("path") or self.choice(PATTERNS),
                      "columns": {f"c{n}": self.column(is_part) for n in range(self.randrange(1, 6))}}
        for member in ("history", "keeps", "deleted", "keys"):
            if member in wanted:
                definition[member] = wanted[member]
        if is_part and self.random() < 0.35:
            definition["filter"] = self.choice(list(FILTERS))
        if self.random() < 0.5:
            definition["rest"] = "rest"
        if self.random() < 0.3 and "keeps" not in definition:
            definition["indexes"] = ["_seq"]
        if wanted.get("target"):
            definition["target"] = other
        return definition

    def write(self) -> tuple[str, str, object]:
        """The method, path and value of a write."""
        kind = self.randrange(10)
        # Writes of the whole tree are rare, or the tree stays small.
        least = 0 if self.random() < 0.005 else 1 if self.random() < 0.04 else 2
        if kind == 0:
            return "DELETE", self.path(max(1, least), 4), None
        if kind == 1:
            return "PUT", f"{self.path(1, 4)}/.priority", self.choice([None, 1, "p"])
        if kind < 5:
            changes = {}
            for _ in range(self.randrange(1, 6)):
                path = self.path(1 if self.random() < 0.1 else 2, 4)
                if not any((path + "/").startswith(other + "/") or (other + "/").startswith(path + "/") for other in changes):
                    changes[path] = None if self.random() < 0.25 else self.value(2)
            return "PATCH", "", changes
        path = self.path(least, 5)
        return "PUT", path, self.value(max(0, 4 - path.count("/")))
