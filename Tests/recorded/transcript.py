"""The text of one play: all sent and received bytes with their parties, in the order of the play."""

import hashlib

from names import Names

# A line beyond this is written as its beginning, its length and its digest.
LONGEST_LINE = 4000


def visible(data: bytes) -> str:
    """Bytes as one unambiguous line: every byte but printable UTF-8 is escaped, the backslash too."""
    text = data.decode("utf-8", "surrogateescape")
    parts = []
    for character in text:
        code = ord(character)
        if character == "\\":
            parts.append("\\\\")
        elif 0xDC80 <= code <= 0xDCFF:
            parts.append(f"\\x{code - 0xDC00:02x}")
        elif code < 0x20 or code == 0x7F:
            parts.append({10: "\\n", 13: "\\r", 9: "\\t"}.get(code, f"\\x{code:02x}"))
        elif not character.isprintable() and character != " ":
            parts.append(f"\\u{{{code:x}}}")
        else:
            parts.append(character)
    return "".join(parts)


def lines_of(data: bytes) -> list[str]:
    """The visible lines of some bytes; each but the last ends with its `\\n`."""
    *whole, last = data.split(b"\n")
    found = [visible(line + b"\n") for line in whole] + ([visible(last)] if last else [])
    return [_bounded(line) for line in found]


def _bounded(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]} … {len(line)} characters in all, SHA-256 {hashlib.sha256(line.encode()).hexdigest()}"


class Transcript:
    """Lines of `who > sent`, `who < came`, `who ! what happened` and `# notes`."""

    def __init__(self, names: Names):
        self.names = names
        self.lines: list[str] = []

    def note(self, text: str):
        self.lines.append(f"# {self._named(text)}")

    def event(self, who: str, text: str):
        self.lines.append(f"{who} ! {self._named(text)}")

    def sent(self, who: str, data: bytes):
        self._add(who, ">", data)

    def came(self, who: str, data: bytes):
        self._add(who, "<", data)

    def _add(self, who: str, arrow: str, data: bytes):
        self.lines += [f"{who} {arrow} {line}" for line in lines_of(self.names.apply(data))]

    def _named(self, text: str) -> str:
        return visible(self.names.apply(text.encode()))

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)
