"""Random changes of bytes. One seed makes one sequence, so that every case can be repeated by its number."""

import random

# Bytes that are significant to parsers.
TURNS = b"\"\\{}[]:,./#$-+eE0123456789 \t\r\n%&=?;\x00\x1f\x7f\x80\xbf\xc0\xed\xf4\xff"


class Dice(random.Random):
    """The random choices of one case."""

    def chance(self, percent: float) -> bool:
        return self.random() * 100 < percent

    def word(self) -> str:
        """A short key or value."""
        return self.choice(["a", "b", "c", "10", "2", "-1", "é", "😀", "key", "x" * 60, "[MIN_NAME]", ".priority", ""])

    def number(self) -> str:
        """A number's text, seldom a harmless one."""
        return self.choice(["0", "1", "2", "-1", "1e9", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
                            "18446744073709551616", "99999999999999999999999", "0x10", "+5", "1.5", "007", "-0", " 3", "NaN", ""])


def mutated(dice: Dice, data: bytes, tokens: list[bytes], others: list[bytes], changes: int | None = None) -> bytes:
    """The bytes after a few random changes, such as `make campaign NAME=fuzz` makes them, too."""
    text = bytearray(data)
    for _ in range(dice.randint(1, 4) if changes is None else changes):
        place = dice.randint(0, len(text))
        match dice.randrange(10):
            case 0 if place < len(text):
                text[place] ^= 1 << dice.randrange(8)
            case 1 if place < len(text):
                text[place] = dice.choice(TURNS)
            case 2:
                text.insert(place, dice.choice(TURNS))
            case 3 | 4:
                text[place:place] = dice.choice(tokens)
            case 5:
                del text[place:place + dice.randint(1, 8)]
            case 6:
                piece = text[place:place + dice.randint(1, 32)]
                where = dice.randint(0, len(text))
                text[where:where] = piece
            case 7:
                text[place:place] = text[place:place + dice.randint(1, 8)] * dice.randint(1, 60)
            case 8:
                other = dice.choice(others)
                text[place:] = other[dice.randint(0, len(other)):]
            case 9:
                del text[place:]
    return bytes(text)


def pieces(dice: Dice, data: bytes) -> list[bytes]:
    """The bytes as they might come over a network: whole, in a few pieces, or the beginning one by one."""
    if not data or dice.chance(50):
        return [data]
    if dice.chance(20):
        count = min(len(data), dice.randint(1, 40))
        return [data[index:index + 1] for index in range(count)] + [data[count:]]
    cuts = sorted({0, len(data), *(dice.randint(0, len(data)) for _ in range(dice.randint(1, 5)))})
    return [data[start:end] for start, end in zip(cuts, cuts[1:])]
