"""One large message each: a writer without rights makes the gateway parse, inflate, nest or compare it."""

import json

from .attack import DENIED, REFUSED, Attack, realtime, rest
from .wire import CLOSED, PATIENCE, Socket, Target, packed, request, segments

GZIP = {"Content-Encoding": "gzip"}


def keys(count: int, ending: str = "", value: str = "1", stem: str = "k") -> bytes:
    """An object of many keys."""
    return ("{" + ",".join(f'"{stem}{number}{ending}":{value}' for number in range(count)) + "}").encode()


def priorities(count: int, depth: int = 0) -> bytes:
    """Nodes that one update creates and gives a priority: each priority must find its node among the others."""
    stem = "s/" * depth
    return ("{" + ",".join(f'"{stem}{number}/a":1,"{stem}{number}/.priority":1' for number in range(count)) + "}").encode()


def compound(ranges: int) -> bytes:
    """Hashes of many ranges: 44 bytes each."""
    places = ",".join(f'"p{number:07}"' for number in range(ranges))
    hashes = ",".join(['"YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="'] * ranges + ['""'])
    return f'{{"p":"hall","h":"x","ch":{{"hs":[{hashes}],"ps":[{places}]}}}}'.encode()


def put(path: str, value: bytes, **more: str) -> bytes:
    extra = "".join(f',"{name}":{text}' for name, text in more.items())
    return f'{{"p":"{path}","d":'.encode() + value + extra.encode() + b"}"


def nested(depth: int, closing: bool = True) -> bytes:
    return b'{"a":' * depth + b"1" + (b"}" * depth if closing else b"")


def paths(count: int, depth: int) -> bytes:
    """Deep keys that share all but their ends."""
    stem = "/".join(f"level{level}" for level in range(depth - 1))
    return ("{" + ",".join(f'"{stem}/k{number}":1' for number in range(count)) + "}").encode()


COMPARISON = "auth != null && data.child('a').val() === $k && root.child('b/c').exists()"
# Each pattern is compiled separately.
REGEX = "newData.isString() && newData.val().matches(/^(a|b|c*){1,9}[^x-z]+\\\\d{3,30}$/)"
CHAIN = " && ".join(["data.exists()"] * 400)


def rules_of(size: int, expression: str = COMPARISON, kind: str = ".write") -> bytes:
    """A document of nearly `size` bytes with the same expression at many paths."""
    node = '"node%07d":{"$k":{"' + kind + '":"' + expression.replace("%", "%%") + '"}}'
    count = (size - 12) // (len(node % 0) + 1)
    return ('{"rules":{' + ",".join(node % number for number in range(count)) + "}}").encode()


def upload_rules(target: Target, body) -> list[str]:
    """Checked only: the namespace keeps its rules."""
    return [target.request("PUT", f"/.settings/rules.json?ns={target.ns}&dryRun=true&auth={target.administrator}", body)]


def uploaded(name: str, make, **more) -> Attack:
    return Attack(name, upload_rules, frozenset({"200", "400", "413", "503"}), lambda _: make(), administers=True,
                  megabytes=1536, **more)


def children_in_the_hall(target: Target):
    target.administer("PUT", "hall", {f"c{number:05}": {"rank": number * 7919 % 60_000, "name": f"child {number}"}
                                      for number in range(60_000)}, "print=silent")


def fifty_queries(target: Target, _) -> list[str]:
    with Socket(target) as client:
        client.send(b"".join(segments(request(number + 1, "q", {
            "p": "hall", "q": {"i": "name", "l": 10 + number, "vf": "r"}, "t": number + 1, "h": ""})) for number in range(50)))
        return client.answers(50, 2 * PATIENCE)


def fifty_gets(target: Target, _) -> list[str]:
    """Over the same number of connections; the namespace's rules require an index."""
    return [target.request("GET", target.url("hall", f"orderBy=%22%24priority%22&limitToLast={10 + number}"))[:3]
            for number in range(50)]


def zeros() -> bytes:
    return packed(b"[" + b"0," * 16_500_000 + b"0]")


LISTENS = {"ok", "permission_denied", "too_big", "unavailable", "failure", CLOSED}

ATTACKS = [
    rest("a denied PATCH of 47 kB gzip, all priorities", "PATCH", "vault", lambda: packed(priorities(8_300, 25)), headers=GZIP, known=True),
    rest("a denied PATCH of 400,000 keys", "PATCH", "vault", lambda: keys(400_000), known=True),
    realtime("an om of 4 MB", "om", lambda: put("vault", keys(345_000)), known=True),
    realtime("an om of 4 MB, all priorities", "om", lambda: put("vault", priorities(120_000))),
    realtime("a p of 15 MB", "p", lambda: put("vault", keys(1_240_000)), known=True),
    realtime("a p of 15 MB with a hash", "p", lambda: put("vault", keys(1_240_000), h='"x"')),
    realtime("an m of 15 MB", "m", lambda: put("vault", keys(1_240_000))),
    realtime("an m of 4 MB, all priorities", "m", lambda: put("vault", priorities(120_000))),
    realtime("a compound hash of 5.6 MB", "q", lambda: compound(134_000), LISTENS, prepare=children_in_the_hall, known=True),
    realtime("a compound hash of 5.6 MB, denied", "q", lambda: compound(134_000).replace(b'"hall"', b'"vault"', 1), LISTENS),
    Attack("50 unindexed q on 60,000 children", fifty_queries, frozenset(LISTENS), prepare=children_in_the_hall, known=True),
    Attack("50 GETs by priority of 60,000 children", fifty_gets, frozenset({"200", "429", "503"}), prepare=children_in_the_hall),
    uploaded("rules of 5 MB", lambda: rules_of(5_000_000), known=True),
    uploaded("rules of 1 MB", lambda: rules_of(1_000_000)),
    uploaded("rules of 1 MB, all regular expressions", lambda: rules_of(1_000_000, REGEX, ".validate")),
    uploaded("rules of 1 MB, long expressions", lambda: rules_of(1_000_000, CHAIN)),
    rest("32 kB of gzip that unpack to 32 MB of zeros", "PUT", "vault", zeros, headers=GZIP, known=True),
    rest("250 kB of gzip that unpack to 250 MB of blanks", "PUT", "vault", lambda: packed(b" " * 250_000_000), headers=GZIP),
    rest("gzip of gzip", "PUT", "vault", lambda: packed(packed(b"0" * 100_000_000)), headers=GZIP),
    rest("a denied PUT of 100 MB", "PUT", "vault", lambda: b'"' + b"x" * 9_999_999 + b'"' + b" " * 90_000_000),
    rest("a denied PUT of 16 MB of arrays", "PUT", "vault", lambda: b"[" + b"[0]," * 4_000_000 + b"0]"),
    rest("a denied PUT of 4 million short texts", "PUT", "vault", lambda: b"[" + b'"",' * 4_000_000 + b"0]"),
    rest("a denied PATCH of 30,000 paths of 31 levels", "PATCH", "vault", lambda: paths(30_000, 31)),
    rest("a denied PATCH of 300,000 increments", "PATCH", "vault", lambda: keys(300_000, value='{".sv":{"increment":1}}')),
    rest("a PATCH of one key 500,000 times", "PATCH", "vault", lambda: b"{" + b",".join([b'"same":1'] * 500_000) + b"}"),
    rest("a PUT of one key 500,000 times", "PUT", "vault", lambda: b"{" + b",".join([b'"same":1'] * 500_000) + b"}"),
    rest("a PUT 2,000,000 deep", "PUT", "vault", lambda: b"[" * 2_000_000),
    rest("a PUT 2,000,000 deep, closed", "PUT", "vault", lambda: nested(2_000_000)),
    rest("a PUT of a number of 5 MB", "PUT", "vault", lambda: b"1" * 5_000_000),
    rest("a PUT of a fraction of 5 MB", "PUT", "vault", lambda: b"0." + b"1" * 5_000_000 + b"e-300"),
    rest("a PUT of 2 million escapes", "PUT", "vault", lambda: b'"' + b"\\u00e9" * 1_600_000 + b'"'),
    rest("a PUT of 300,000 priorities with values", "PUT", "vault", lambda: keys(300_000, value='{".value":1,".priority":2}')),
    realtime("a p 2,000,000 deep", "p", lambda: put("vault", nested(2_000_000))),
    realtime("brackets, 15 MB of them", "p", lambda: put("vault", b"[" * 15_000_000), DENIED),
    realtime("an echo of 15 MB", "echo", lambda: json.dumps({"d": "x" * 15_000_000}).encode(), DENIED | {"ok"}),
    realtime("an echo of 1,240,000 keys", "echo", lambda: b'{"d":' + keys(1_240_000) + b"}", DENIED | {"ok"}),
    realtime("an s of 1,240,000 counters", "s", lambda: b'{"c":' + keys(1_240_000) + b"}", DENIED | {"ok"}),
    realtime("an unknown action of 15 MB", "zz", lambda: b'{"c":' + keys(1_240_000) + b"}", DENIED | {"ok"}),
    realtime("a query of 10 MB", "q", lambda: json.dumps(
        {"p": "hall", "h": "", "t": 1, "q": {"i": "name", "sp": "x" * 5_000_000, "ep": "y" * 5_000_000, "sin": True}}).encode(),
        LISTENS),
    realtime("a query of 1,240,000 unknown keys", "g", lambda: b'{"p":"hall","q":' + keys(1_240_000) + b"}", LISTENS),
    realtime("an index of 200,000 levels", "q", lambda: json.dumps(
        {"p": "hall", "h": "", "t": 1, "q": {"i": "/".join(["a"] * 200_000), "l": 1, "vf": "l"}}).encode(), LISTENS),
    realtime("a hash of 10 MB", "q", lambda: json.dumps({"p": "hall", "h": "x" * 10_000_000}).encode(), LISTENS),
    realtime("a path of 200,000 levels", "p", lambda: put("/".join(["a"] * 200_000), b"1")),
    realtime("a path of 8 MB of slashes", "g", lambda: json.dumps({"p": "/" * 8_000_000, "q": {}}).encode(), LISTENS),
    realtime("a credential of 10 MB", "auth", lambda: json.dumps({"cred": "x" * 10_000_000}).encode(),
             {"invalid_token", "failure", "too_big", CLOSED}),
    realtime("a regular expression over 10 MB", "p", lambda: put("judged/one", b'"' + b"a" * 10_000_000 + b'"'), DENIED | {"ok"}),
]

# The same with rules that read data, the written value, or each of its parts before they refuse it.
for place in ("gate", "sieve", "cells"):
    ATTACKS += [
        rest(f"{place}: a PATCH of 47 kB gzip, all priorities", "PATCH", place, lambda: packed(priorities(8_300, 25)), headers=GZIP),
        rest(f"{place}: a PATCH of 400,000 keys", "PATCH", place, lambda: keys(400_000)),
        rest(f"{place}: a PATCH of 30,000 paths of 31 levels", "PATCH", place, lambda: paths(30_000, 31)),
        rest(f"{place}: a PATCH of 300,000 increments", "PATCH", place, lambda: keys(300_000, value='{".sv":{"increment":1}}')),
        rest(f"{place}: 32 kB of gzip that unpack to 32 MB of zeros", "PUT", place, zeros, headers=GZIP),
        rest(f"{place}: a PUT of 16 MB of arrays", "PUT", place, lambda: b"[" + b"[0]," * 4_000_000 + b"0]"),
        rest(f"{place}: a PUT of 4 million short texts", "PUT", place, lambda: b"[" + b'"",' * 4_000_000 + b"0]"),
        rest(f"{place}: a conditional PUT of 15 MB", "PUT", place, lambda: keys(1_240_000), headers={"if-match": "x"},
             expected=REFUSED | {"412"}),
        realtime(f"{place}: an om of 4 MB", "om", lambda place=place: put(place, keys(345_000))),
        realtime(f"{place}: an m of 4 MB, all priorities", "m", lambda place=place: put(place, priorities(120_000))),
        realtime(f"{place}: an m of 15 MB", "m", lambda place=place: put(place, keys(1_240_000))),
        realtime(f"{place}: a p of 15 MB with a hash", "p", lambda place=place: put(place, keys(1_240_000), h='"x"'),
                 DENIED | {"datastale"}),
    ]
