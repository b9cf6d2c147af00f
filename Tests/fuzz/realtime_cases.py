"""Messages of realtime clients, with the frames of a WebSocket around them, and the requests of polling clients."""

import base64
import json
import struct

from dice import Dice, mutated
from harness.websocket import BINARY, CLOSE, PING, PONG, TEXT, frame
from http_cases import NAMESPACES, VALUES, token

HASHES = ["", "x", "2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "2jmj7l5rSw0yVb/vlWAYkK/YBwk"]
QUERIES = [{"sp": 1, "sn": "k", "sin": True, "l": 2, "vf": "r", "i": "x/y"}, {"ep": "z", "i": ".key", "l": 3, "vf": "l"}, {"l": 0}, {"i": ".value"},
           {"sp": None, "ep": {"a": 1}}, {}, {"l": -1, "i": ".priority"}]


def place(dice: Dice) -> str:
    return "/" + "/".join(dice.word() for _ in range(dice.randint(0, 3)))


def body(dice: Dice, action: str) -> dict:
    """The body of an action."""
    match action:
        case "q" | "n" | "g":
            found = {"p": place(dice), "h": dice.choice(HASHES)}
            if dice.chance(40):
                found |= {"q": dice.choice(QUERIES), "t": dice.randint(1, 5)}
            if dice.chance(15):
                found["ch"] = {"ps": [dice.word() for _ in range(dice.randint(0, 4))], "hs": [dice.choice(HASHES) for _ in range(dice.randint(0, 5))]}
            return found
        case "p" | "o":
            return {"p": place(dice), "d": value(dice)} | ({"h": dice.choice(HASHES)} if dice.chance(30) else {})
        case "m" | "om":
            return {"p": place(dice), "d": {f"{dice.word()}/{dice.word()}": value(dice) for _ in range(dice.randint(0, 5))}}
        case "auth" | "gauth":
            return {"cred": dice.choice([token(dice), "owner", "", "x.y.z"])} | ({"authvar": {"uid": "u"}} if dice.chance(20) else {})
        case _:
            return {"p": place(dice), "c": {"sdk.js.9": 1}, "d": value(dice)}


def value(dice: Dice):
    text = dice.choice(VALUES)
    try:
        return json.loads(text)
    except ValueError:
        return text


def message(dice: Dice) -> bytes:
    """One message, in most cases valid."""
    if dice.chance(10):
        return dice.choice([b"0", b"", b'{"t":"c","d":{"t":"p","d":{}}}', b'{"t":"c","d":{"t":"n","d":{}}}', b'{"t":"c","d":{"t":"a","d":{}}}', b"3", b"-1"])
    action = dice.choice(["q", "q", "q", "n", "g", "p", "p", "p", "m", "m", "o", "om", "oc", "auth", "gauth", "unauth", "s", "appcheck", "echo", "zz"])
    whole = {"t": "d", "d": {"r": dice.randint(1, 9), "a": action, "b": body(dice, action)}}
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=dice.chance(30)).encode("utf-8", "surrogatepass")
    if dice.chance(20):
        text = mutated(dice, text, TOKENS, [text, b'{"t":"d","d":{"r":1}}'])
    return text


TOKENS = [b"{", b"}", b"[", b"]", b"\"", b":", b",", b'"t":', b'"d":', b'"a":', b'"b":', b'"r":', b'"p":"/"', b'"q":', b"null", b"1e99", b"-1", b"true", b"\\",
          b"\\u0000", b"\\ud800", b"[MAX_NAME]", b'{".sv":"timestamp"}', b'".priority":', b"[" * 100, b"\xff"]


def segments(dice: Dice, text: bytes) -> list[bytes]:
    """A message in announced pieces, some of which may be missing or too many."""
    count = dice.randint(1, 5)
    size = max(1, len(text) // count + 1)
    cut = [text[start:start + size] for start in range(0, len(text), size)]
    announced = len(cut) + (dice.choice([-1, 1, 999_990]) if dice.chance(15) else 0)
    return [b"%d" % announced, *cut]


def frames(dice: Dice) -> bytes:
    """The bytes of a client after the handshake."""
    data = b""
    for _ in range(dice.choice([1, 2, 3, 5, 10])):
        text = message(dice)
        for part in segments(dice, text) if dice.chance(15) else [text]:
            data += framed(dice, part)
        if dice.chance(10):
            data += dice.choice([frame(b"x", PING), frame(b"", PONG), frame(b"p" * 126, PING), frame(b"\x00", BINARY), frame(b"", 3), frame(b"x", 11)])
    if dice.chance(30):
        code = dice.choice([1000, 1001, 1005, 999, 1006, 4999, 65535])
        data += dice.choice([frame(struct.pack(">H", code) + b"bye", CLOSE), frame(b"", CLOSE), frame(b"\x03", CLOSE), frame(b"\x03\xe8\xff", CLOSE)])
    if dice.chance(15):
        data = mutated(dice, data, [b"\x81\xfe", b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x89\x80", b"\x01\x80", b"\x80\x80", b"\xf1"], [data])
    return data


def framed(dice: Dice, text: bytes) -> bytes:
    """One message's frame, or several; seldom one that is not allowed."""
    mask = dice.randbytes(4) if dice.chance(98) else None
    if dice.chance(15) and len(text) > 2:
        middle = dice.randrange(len(text))
        between = frame(b"", PING) if dice.chance(30) else b""
        return frame(text[:middle], TEXT, fin=False, mask=mask) + between + frame(text[middle:], 0, mask=mask)
    return frame(text, BINARY if dice.chance(2) else TEXT, mask=mask)


def handshake(dice: Dice, extra: str = "") -> bytes:
    key = base64.b64encode(dice.randbytes(16)).decode()
    return (f"GET /.ws?v=5&ns={dice.choice(NAMESPACES)}{extra} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode()


def poll(dice: Dice, session: str, password: str, first: int) -> tuple[str, int]:
    """The query of one request of a polling session, and the number of the next piece."""
    query, number = f"id={session}&pw={password}", first
    for index in range(dice.choice([0, 1, 1, 2, 3])):
        encoded = base64.urlsafe_b64encode(message(dice)[:3000]).decode().replace("=", ".")
        total = 1 if dice.chance(85) else dice.choice([2, 3, 999_999, 0, -1])
        shown = number if dice.chance(90) else dice.choice([0, number + 2, 99_999, 9223372036854775807, -5])
        query += f"&seg{index}={shown}&ts{index}={total}&d{index}={encoded}"
        number += 1
    if dice.chance(10):
        query += dice.choice(["&dframe=t", "&disconn=t", "&start=t", "&ns=fuzz-a", "&v=5", "&seg0=0", "&ts0=1", "&s=x", "&ser=1", "&cb=<"])
    text = mutated(dice, query.encode(), [b"&", b"=", b"%00", b"&seg0=", b"&ts0=", b"&d0="], [query.encode()]) if dice.chance(20) else query.encode()
    return text.decode("latin-1").replace(" ", "+").replace("\r", "%0d").replace("\n", "%0a"), number
