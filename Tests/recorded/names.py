"""Names for values that differ in every run: dates, ids, ports. All other bytes of a transcript stay unchanged.

A pattern fixes the length and the alphabet of its matches, so that a change of either is a difference. Ids are numbered in the order of
their first appearance: the same id has the same name throughout a play."""

import re
from collections.abc import Callable

_DAY = rb"20[2-9]\d-[01]\d-[0-3]\d"
_CLOCK = rb"[0-2]\d:[0-5]\d:[0-6]\d"

# The order matters: an earlier match may be a part of a later one.
_PATTERNS: list[tuple[str, re.Pattern[bytes]]] = [
    ("date", re.compile(rb"(?<=Date: )[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d " + _CLOCK + rb"(?= GMT)")),
    ("time", re.compile(_DAY + rb"T" + _CLOCK + rb"\.\d{3}(?=Z)")),
    ("time in seconds", re.compile(_DAY + rb"T" + _CLOCK + rb"(?=Z)")),
    ("SQL time", re.compile(_DAY + rb"[ T]" + _CLOCK + rb"(\.\d{1,6})?(?=\+00)")),
    ("token", re.compile(rb"(?<![0-9A-Za-z_-])eyJ[0-9A-Za-z_-]+\.eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*")),
    ("seal", re.compile(rb"(?<=\nid: )(?P<keep>\d+-)(?P<value>[0-9A-Za-z_-]{24})(?=\n)")),
    ("seconds", re.compile(rb'(?P<keep>\b(?:iat|exp|expires|expiresAt|auth_time)(?:":|  ))1[7-9]\d{8}(?![\d.])')),
    ("speed", re.compile(rb"(?<= in )\d+\.\d s, \d+ a second")),
    ("figure", re.compile(rb'(?<![a-z])(?P<keep>milliseconds(?:=|":"?))\d+(?:\.\d+)?')),
    ("session id", re.compile(rb"""(?<=\('start',')[0-9a-f]{32}(?=')|(?<="s":")[0-9a-f]{32,40}(?=")""")),
    ("password", re.compile(rb"(?<=\('start',')(?P<keep>[^']*',')(?P<value>[0-9a-f]{32})(?='\))")),
    ("push id", re.compile(rb"(?<![0-9A-Za-z_-])-[O-R][0-9A-Za-z_-]{18}(?![0-9A-Za-z_-])")),
    ("uuid", re.compile(rb"(?<![0-9a-f])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-f])")),
    # After the ids: the digits of an id may look like a time.
    ("ms", re.compile(rb"(?<![\d.])1[7-9]\d{11}(?![\d.])")),
]
_NUMBERED = {"token", "seal", "password", "session id", "push id", "uuid"}


class Names:
    """The names of one play for varying values."""

    def __init__(self):
        self._known: dict[bytes, bytes] = {}
        self._counts: dict[str, int] = {}
        self._pattern: re.Pattern[bytes] | None = None

    def learn(self, value: str | bytes, name: str):
        """Replaces this exact text by `<name>` from now on."""
        data = value.encode() if isinstance(value, str) else value
        if data and data not in self._known:
            self._known[data] = f"<{name}>".encode()
            # The longest first: one may be the beginning of another.
            longest = sorted(self._known, key=len, reverse=True)
            self._pattern = re.compile(b"|".join(re.escape(one) for one in longest))

    def number(self, kind: str) -> str:
        """A new name of this kind: `push id 3`."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"{kind} {self._counts[kind]}"

    def apply(self, data: bytes) -> bytes:
        """The bytes with names instead of varying values."""
        data = self._replace_known(data)
        for kind, pattern in _PATTERNS:
            data = pattern.sub(self._named(kind), data)
        return data

    def _replace_known(self, data: bytes) -> bytes:
        if self._pattern is None:
            return data
        return self._pattern.sub(lambda match: self._known[match[0]], data)

    def _named(self, kind: str) -> Callable[[re.Match[bytes]], bytes]:
        def name(match: re.Match[bytes]) -> bytes:
            groups = match.groupdict()
            kept, value = groups.get("keep") or b"", groups.get("value") or match[0]
            if kind not in _NUMBERED:
                return kept + f"<{kind}>".encode()
            if value not in self._known:
                self.learn(value, self.number(kind))
            return kept + self._known[value]

        return name
