"""Random trees from a seed, full of the values that orders and parsers get wrong."""

import random

_KEYS = ["a", "B", "_", "Z", "z", "aa", "0", "1", "2", "7", "07", "10", "-1", "-5", "2147483647", "2147483648", "é", "key with space",
         "\uff5e", "\U0001f600", "~", "-Nabc", "日本", "'quote\"", "a+b&c=d?", "%41"]
_STRINGS = ["", "a", "b", "aa", "Z", "10", "9", "é", "\uff5e", "\U0001f600", "true", 'quote"back\\slash', "line\nbreak\ttab", "\u2028", "nul\0inside"]
_NUMBERS = [0, 1, -1, 2, 10, 1.5, -2.25, 0.1, 1e21, -1e-7, 2**53, -(2**53), 2**63 - 1, -(2**63), 1.7976931348623157e308, 5e-324]


class Trees:
    """A seeded generator. The seed is part of a failing test's message: print it."""

    def __init__(self, seed: int):
        self.seed = seed
        self.dice = random.Random(seed)

    def leaf(self):
        kind = self.dice.randrange(4)
        if kind == 0:
            return self.dice.choice([True, False])
        if kind == 1:
            return self.dice.choice(_STRINGS)
        return self.dice.choice(_NUMBERS) if kind == 2 else self.dice.randrange(-20, 20)

    def key(self) -> str:
        return self.dice.choice(_KEYS) if self.dice.random() < 0.7 else f"k{self.dice.randrange(1000)}"

    def tree(self, depth: int = 3, width: int = 5):
        """A value in normal form, never null."""
        if depth == 0 or self.dice.random() < 0.3:
            return self.leaf()
        return {self.key(): self.tree(depth - 1, width) for _ in range(self.dice.randrange(1, width + 1))}

    def prioritised(self, depth: int = 3, width: int = 5):
        """A value in export form: priorities here and there."""
        node = self.leaf() if depth == 0 or self.dice.random() < 0.3 else {
            self.key(): self.prioritised(depth - 1, width) for _ in range(self.dice.randrange(1, width + 1))}
        if self.dice.random() < 0.6:
            return node
        priority = self.dice.choice([self.dice.randrange(-5, 5), 2.5, "p", "q", "10", ""])
        return {**node, ".priority": priority} if isinstance(node, dict) else {".value": node, ".priority": priority}
