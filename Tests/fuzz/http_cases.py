"""Requests of REST clients, streams and operations: valid ones, and mutated ones."""

import base64
import gzip
import json
import zlib
from dataclasses import dataclass, field

from dice import Dice, mutated

NAMESPACES = ["fuzz-a", "fuzz-b", "fuzz-c"]
OWNER = ("Authorization", "Bearer owner")

VALUES = [
    "null", "true", "1.5e-7", '"text"', '{"a":1}', "[1,null,{\"x\":[true]}]", '{".value":1,".priority":"p"}', '{".sv":"timestamp"}',
    '{"n":{".sv":{"increment":-2.5}}}', '{"😀":"é","10":{"b":"\\u0000\\ud83d\\ude00"}}', "{" * 40, "[" * 200,
    "{\"a\":" * 33 + "1" + "}" * 33, json.dumps({f"k{number}": number for number in range(300)}), '"' + "x" * 20_000 + '"',
]
UPDATES = ['{"a/b":1,"c":{"d":2}}', '{"/a//b/":null,"p/.priority":1}', "null", '{"a":1,"a/b":2}', '{"a/b/c/d":{".sv":{"increment":1}}}',
           json.dumps({f"k{number}/v": number for number in range(300)})]
RULES = [
    '{"rules":{".read":true,".write":true}}', '{"rules":{".read":"auth != null",".write":"newData.val() != data.val()"}}',
    '{"rules":{".read":true,".write":true,"a":{".indexOn":["b","c/d"],"$k":{".validate":"newData.hasChildren([\'x\']) || $k.matches(/^k[0-9]*$/)"}}}}',
    '{"rules":{".read":"query.limitToFirst <= 10 || root.child(\'a\').exists()",".write":"now > 0"}}',
]
QUERIES = [
    "orderBy=%22$key%22&startAt=%22a%22&limitToFirst=3", 'orderBy="height"&equalTo=5&print=pretty', 'orderBy="$value"&endBefore=1.5&limitToLast=2',
    'orderBy="$priority"&startAt=true,%22a%22', "shallow=true", "timeout=3s", "print=silent", "callback=cb&download=a.json", "format=export",
    "writeSizeLimit=tiny", "auth=", "auth=owner", "access_token=x.y.z", "auth_variable_override=%7B%22uid%22:%22u%22%7D",
    "x-http-method-override=PATCH", "%zz=1&&=&a=b=c",
]


@dataclass
class Request:
    """A request before it is bytes."""

    method: str
    target: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    chunked: bool = False

    def head(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n"


def token(dice: Dice) -> str:
    """An unsigned token, as development accepts them, or something like it."""
    parts = [{"alg": dice.choice(["none", "HS256", "RS256"]), "typ": "JWT"},
             {"sub": dice.word(), "uid": "u", "iat": 1, "exp": 9999999999, "claims": {"admin": dice.choice([True, 1, "x"])}}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def path(dice: Dice) -> str:
    return "/".join(dice.choice(["a", "b", "10", "k1", "%F0%9F%98%80", "x" * 30, "a%2Fb", ".priority", "%00", "-"])
                    for _ in range(dice.randint(0, 4)))


def rest(dice: Dice) -> Request:
    """One request that a client might send."""
    method = dice.choice(["GET", "GET", "GET", "PUT", "PUT", "POST", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS"])
    query = [f"ns={dice.choice(NAMESPACES)}"]
    if dice.chance(40):
        query.append(dice.choice(QUERIES))
    request = Request(method, f"/{path(dice)}.json?{'&'.join(query)}", [("Host", "localhost")])
    if method in ("PUT", "POST", "PATCH"):
        request.body = dice.choice(UPDATES if method == "PATCH" else VALUES).encode()
        pack(dice, request)
    extras = [OWNER, ("Authorization", f"Bearer {token(dice)}"), ("X-Firebase-ETag", "true"), ("if-match", "null_etag"), ("if-match", dice.word()),
              ("if-none-match", "*"), ("Accept-Encoding", "gzip"), ("X-HTTP-Method-Override", dice.choice(["PATCH", "PUT", "BREW"])),
              ("X-Pathmirror-Min-Seq", dice.choice(["0", "1", "x", "-1"])), ("Origin", "http://localhost"), ("Connection", "close"),
              ("X-Forwarded-For", "10.0.0.1, ::1"), ("Access-Control-Request-Method", "PUT"), ("Expect", "100-continue"), ("Range", "bytes=0-3"),
              ("Upgrade", "h2c")]
    for extra in dice.sample(extras, dice.choice([0, 0, 1, 1, 2, 3])):
        request.headers.append(extra)
    if method == "GET" and dice.chance(15):
        request.headers.append(("Accept", "text/event-stream"))
        if dice.chance(50):
            request.headers.append(("Last-Event-ID", dice.number()))
    return request


def pack(dice: Dice, request: Request):
    """Encodes a body, in most cases correctly."""
    if dice.chance(20):
        encoding = dice.choice(["gzip", "deflate", "x-gzip", "identity", "br"])
        if encoding == "deflate":
            request.body = zlib.compress(request.body)
        elif encoding.endswith("gzip"):
            request.body = gzip.compress(request.body, mtime=0)
            if dice.chance(30):
                request.body += gzip.compress(b"", mtime=0) * dice.randint(1, 20)
        if dice.chance(30):
            request.body = mutated(dice, request.body, [b"\x1f\x8b\x08", b"\x00\x00\xff\xff"], [b"\x1f\x8b"])
        request.headers.append(("Content-Encoding", encoding))
    request.chunked = dice.chance(30)


def operation(dice: Dice) -> Request:
    """A request to another endpoint than the data."""
    namespace = dice.choice(NAMESPACES)
    target = dice.choice([
        "/.health/live", "/.health/ready", "/.metrics", f"/.settings/rules.json?ns={namespace}", f"/.settings/rules.json?ns={namespace}",
        f"/.lp?start=t&cb=1&v=5&ns={namespace}", "/.lp?id=x&pw=y&seg0=0&ts0=1&d0=e30.", "/.lp?disconn=t&id=x&pw=y", f"/.ws?v=5&ns={namespace}",
        "/.oauth2/token", "/.settings/functionTriggers.json", "/.settings/x", "/.nothing", "/", "*", "http://localhost/a.json", "//", "/a"])
    request = Request(dice.choice(["GET", "GET", "PUT", "POST", "HEAD"]), target, [("Host", "localhost"), OWNER])
    if request.method in ("PUT", "POST"):
        request.body = dice.choice(RULES).encode()
        pack(dice, request)
    return request


def chunks(dice: Dice, body: bytes, is_valid: bool) -> bytes:
    """A chunked body. One that is not valid has sizes, extensions, line ends or trailers that are wrong or odd."""
    text, start = b"", 0
    while start < len(body):
        size = dice.randint(1, max(1, len(body) // dice.randint(1, 5)))
        piece = body[start:start + size]
        start += size
        line = b"%x" % len(piece)
        if not is_valid and dice.chance(25):
            line = dice.choice([line + b";a=b", line + b";\x00", line + b";a\nb", b"0" * 20 + line, line + b" ", b"-" + line, b"0x" + line,
                                b"ffffffffffffffff", b"", line + b";" + b"x" * 5000])
        text += line + b"\r\n" + piece + (b"\r\n" if is_valid or dice.chance(95) else dice.choice([b"\n", b"", b"\r"]))
    end = b"0\r\n\r\n"
    if not is_valid and dice.chance(20):
        end = dice.choice([b"0\r\nX-Trailer: 1\r\n\r\n", b"0\r\n", b"0\n\n", b"", b"0\r\nContent-Length: 3\r\n\r\n", b"0;x\r\n\r\n"])
    return text + end


def serialized(dice: Dice, request: Request, is_valid: bool) -> bytes:
    """The request's bytes. Unless it is to stay valid, its framing and headers may be wrong."""
    request.headers = list(request.headers)
    if request.chunked:
        request.headers.append(("Transfer-Encoding", "chunked"))
        body = chunks(dice, request.body, is_valid)
    else:
        body = request.body
        if body or request.method in ("PUT", "POST", "PATCH"):
            request.headers.append(("Content-Length", str(len(body))))
    if not is_valid and dice.chance(40):
        spoil(dice, request)
    return request.head() + body


def spoil(dice: Dice, request: Request):
    """One wrong or odd thing about a request's head."""
    place = dice.randint(0, len(request.headers))
    match dice.randrange(8):
        case 0:
            request.headers.insert(place, ("Content-Length", dice.number()))
        case 1:
            request.headers.insert(place, ("Transfer-Encoding", dice.choice(["chunked", "gzip, chunked", "identity", "chunked, chunked", "x"])))
        case 2:
            request.headers.insert(place, (dice.choice(["X-A", "X\tB", "", "X-\x00", "é", "Host", ":"]), dice.choice(["", "\x00", "a\r\n b", "é" * 50])))
        case 3:
            request.headers.insert(place, ("X-Long", "y" * dice.choice([100, 8_000, 70_000])))
        case 4:
            del request.headers[:place]
        case 5:
            request.method = dice.choice(["", "get", "BREW", "PRI", "CONNECT", "TRACE", "G" * 300, "PUT\x00"])
        case 6:
            request.target = dice.choice(["", "a", "/%", "/%zz.json", "/" + "a/" * 2000, "/a.json?" + "x=1&" * 2000, "/\x7f", "/é.json", "/a b.json"])
        case 7:
            request.headers = request.headers * dice.randint(2, 40)


TOKENS = [b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\x00", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Connection: close\r\n",
          b"Connection: keep-alive\r\n", b"Upgrade: websocket\r\n", b"Expect: 100-continue\r\n", b" HTTP/1.0", b" HTTP/1.1\r\n", b"HTTP/2.0", b"GET ",
          b"PUT ", b"%00", b"%2e%2e", b"..", b"?ns=", b"&auth=", b".json", b"0\r\n\r\n", b"ffffffff\r\n", b"{", b"}", b"\"", b"\x16\x03\x01", b": ",
          b"Accept: text/event-stream\r\n", b"if-match: x\r\n", b"Content-Encoding: gzip\r\n"]


def conversation(dice: Dice) -> tuple[bytes, bool]:
    """The bytes of one connection, and whether all of its requests are valid HTTP."""
    is_valid = dice.chance(15)
    requests = [operation(dice) if dice.chance(20) else rest(dice) for _ in range(dice.choice([1, 1, 1, 2, 3, 8]))]
    texts = [serialized(dice, request, is_valid) for request in requests]
    data = b"".join(texts)
    if not is_valid and dice.chance(50):
        data = mutated(dice, data, TOKENS, texts)
    return data, is_valid
