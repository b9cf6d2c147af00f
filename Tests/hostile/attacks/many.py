"""Many small messages: floods of requests, listens, logins, and unfinished connections."""

import base64
import json

from .attack import DENIED, REFUSED, Attack
from .wire import CLOSED, PATIENCE, Socket, Target, frame, read_to_end, request, segments, status_of

ANY = DENIED | {"ok", "invalid_token", "expired_token"}
HALF_SENT = 200
HELD = frozenset({"held", CLOSED, "503", "413", "429"})


def flood(name: str, make, count: int, expected=ANY, patience: float = 2 * PATIENCE, **more) -> Attack:
    """Many realtime requests on one connection, all sent before an answer is read; `make(number)` is (action, body)."""

    def build(target: Target) -> bytes:
        return b"".join(segments(request(number + 1, *make(number))) for number in range(count))

    def send(target: Target, data) -> list[str]:
        with Socket(target, patience) as client:
            # In pieces, because the gateway stops reading from a client that does not read.
            answers = []
            sent = client.send(data)
            answers = client.answers(count, patience)
            return answers if sent else answers or [CLOSED]

    return Attack(name, send, frozenset(expected), build, **more)


def listens_and_unauths(target: Target, _) -> list[str]:
    """10,000 listens, then 5 kB of messages, each of which makes the gateway judge all listens again."""
    with Socket(target, 2 * PATIENCE) as client:
        client.send(b"".join(segments(request(number + 1, "q", {"p": f"hall/x{number}", "h": ""})) for number in range(10_000)))
        found = set(client.answers(10_000, 2 * PATIENCE))
        if CLOSED not in found:
            client.send(b"".join(segments(request(20_000 + number, "unauth", {})) for number in range(120)))
            found |= set(client.answers(120, 2 * PATIENCE))
        return sorted(found)


def half_sent(make, finish=None):
    """Opens many connections with an unfinished message on each, and keeps them during a health check."""

    def send(target: Target, addresses) -> list[str]:
        clients, found = [], set()
        try:
            for number in range(HALF_SENT):
                address = addresses[number % len(addresses)] if addresses and target.address else None
                try:
                    clients.append(make(target, address))
                except ConnectionError:
                    found.add(CLOSED)
            # The states of all connections after the last one.
            found |= {outcome(client.plain if isinstance(client, Socket) else client) for client in clients}
            return sorted(found)
        finally:
            for client in clients:
                (client.plain if isinstance(client, Socket) else client).close()

    return send


def outcome(plain) -> str:
    """Whether the server has sent something to a client with an unfinished message, without waiting for it."""
    plain.setblocking(False)
    try:
        answer = plain.recv(4096)
    except BlockingIOError:
        return "held"
    except ConnectionError:
        return CLOSED
    if answer.startswith(b"HTTP/"):
        return status_of(answer)
    # A greeting or a ping, unless it is the end.
    return "held" if answer and answer[0] != 0x88 else CLOSED


def half_a_message(pieces: int):
    def make(target: Target, address):
        client = Socket(target, address=address)
        # 900 pieces announced, some sent. A gateway without room for them closes.
        client.send(frame(b"900") + frame(b"x" * 16384) * pieces)
        return client

    return make


def half_a_frame(target: Target, address):
    client = Socket(target, address=address)
    client.send(frame(b"x" * 1_000_000, declared=15_000_000))
    return client


def half_a_body(megabytes: int):
    def make(target: Target, address):
        plain = target.connect()
        plain.sendall(target.head("PUT", target.url("gate"), {"Transfer-Encoding": "chunked"}, address))
        plain.sendall((b"100000\r\n" + b" " * 0x100000 + b"\r\n") * megabytes)
        return plain

    return make


def half_a_packed_body(target: Target, address):
    plain = target.connect()
    plain.sendall(target.head("PUT", target.url("vault"), {"Content-Length": "100000000", "Content-Encoding": "gzip"}, address))
    plain.sendall(b"\x1f\x8b" + bytes(1_000_000))
    return plain


def half_a_header(target: Target, address):
    plain = target.connect()
    plain.sendall(target.head("GET", target.url("hall"), {f"X-{number}": "x" * 700 for number in range(90)}, address)[:-2])
    return plain


def declared_lengths(target: Target, _) -> list[str]:
    """Frames with an announced size beyond all limits."""
    found = set()
    for length in (16 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        with Socket(target) as client:
            client.send(frame(b"{}", declared=length))
            # An unfinished frame has no effect; an impossible length ends the connection.
            client.send(segments(request(1, "s", {"c": {}})))
            found |= set(client.answers(1, 0.2))
    return sorted(found)


def counts_of_segments(target: Target, _) -> list[str]:
    found = set()
    for count in (b"999999", b"-1", b"1001", b"99999", b"1e5", b"0x10", b"00002"):
        with Socket(target) as client:
            client.send(frame(count) + frame(b"x") * 50)
            found |= set(client.answers(1, 0.2))
    return sorted(found)


def polling_pieces(target: Target, _) -> list[str]:
    """Long-polling sessions with messages whose last piece never comes."""
    found, piece = set(), base64.urlsafe_b64encode(b"x" * 1380).decode()
    with target.connect() as plain:
        file = plain.makefile("rb")

        def get(query: str) -> bytes:
            plain.sendall(target.head("GET", f"/.lp?{query}&ns={target.ns}"))
            status, size = file.readline().split(b" ")[1].decode(), 0
            while (line := file.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            found.add(status)
            return file.read(size)

        for _ in range(150):
            answer = get("start=t&ser=1&cb=1&v=5")
            parts = answer.split(b"'start','", 1)[1].split(b"'")
            login = f"id={parts[0].decode()}&pw={parts[2].decode()}"
            # The server holds the answer to each until the next one comes, so they go out together.
            plain_2 = target.connect()
            plain_2.sendall(b"".join(target.head("GET", f"/.lp?{login}&ns={target.ns}&ser={2 + number}&seg0={number}&ts0=9000&d0={piece}")
                                     for number in range(8)))
            plain_2.close()
    return sorted(found)


def resumptions(target: Target, _) -> list[str]:
    """Many streams that all request the whole log."""
    streams, found = [], set()
    try:
        for number in range(200):
            plain = target.connect()
            plain.sendall(target.head("GET", target.url("hall"), {"Accept": "text/event-stream", "Last-Event-ID": str(1 + number % 3)}))
            streams.append(plain)
        for plain in streams:
            found.add(status_of(plain.recv(4096)))
    finally:
        for plain in streams:
            plain.close()
    return sorted(found)


def write_history(target: Target):
    for number in range(60):
        target.administer("PUT", "hall", {f"c{child}": {"text": f"{number} {child} " + "x" * 50} for child in range(300)},
                          "print=silent")


def tokens(number: int) -> tuple:
    """16 kB that look like a token each."""
    part = base64.urlsafe_b64encode(json.dumps({"v": 0, "iat": number, "d": {"uid": "x" * 8000}}).encode()).decode().rstrip("=")
    return "auth", {"cred": f"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.{part}.{'A' * 43}"}


def bad_logins(target: Target, _) -> list[str]:
    """REST requests, each with a credential of 15 kB, on one connection."""
    head = target.head("GET", target.url("vault", "auth=" + tokens(1)[1]["cred"]))
    with target.connect() as plain:
        plain.sendall(head * 500 + target.head("GET", target.url("vault"), {"Connection": "close"}))
        answers = read_to_end(plain)
    return sorted({answer[:3].decode() for answer in answers.split(b"HTTP/1.1 ")[1:]})


def pipeline(method: str, path: str, count: int, query: str = "", headers: dict | None = None, body: bytes = b""):
    """Many requests on one connection before an answer is read."""

    def send(target: Target, _) -> list[str]:
        given = {**(headers or {}), **({"Content-Length": str(len(body))} if body else {})}
        one = target.head(method, target.url(path, query), given) + body
        with target.connect() as plain:
            try:
                plain.sendall(one * count + target.head("GET", "/.health/live", {"Connection": "close"}))
            except ConnectionError:
                return [CLOSED]
            answers = read_to_end(plain)
        return sorted({answer[:3].decode() for answer in answers.split(b"HTTP/1.1 ")[1:]}) or [CLOSED]

    return send


def assertions(target: Target, _) -> list[str]:
    """Requests for access tokens of service accounts, each with a well-formed assertion of 4 kB and a forged signature."""

    def part(value: dict) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = part({"iss": "server@service-account.pathmirror", "iat": 1, "exp": 2, "scope": "x" * 2_500})
    assertion = f"{part({'alg': 'RS256', 'kid': 'a1' * 20})}.{claims}.{'A' * 342}"
    body = f"grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion={assertion}".encode()
    one = target.head("POST", "/.oauth2/token", {"Content-Length": str(len(body))}) + body
    with target.connect() as plain:
        plain.sendall(one * 3_000 + target.head("GET", "/.health/live", {"Connection": "close"}))
        answers = read_to_end(plain)
    return sorted({answer[:3].decode() for answer in answers.split(b"HTTP/1.1 ")[1:]})


def held(name: str, make, **more) -> Attack:
    return Attack(name, half_sent(make), HELD, **more)


MANY = [f"198.51.{number}.7" for number in range(HALF_SENT)]

ATTACKS = [
    Attack("unauth with 10,000 listens", listens_and_unauths, frozenset(ANY), known=True),
    flood("10,000 distinct listens", lambda number: (
        "q", {"p": f"hall/c{number}", "q": {"i": f"i{number}", "l": 1, "vf": "l"}, "t": number, "h": ""}), 10_000),
    flood("9,000 distinct queries of one place", lambda number: (
        "q", {"p": "hall", "q": {"i": ".key", "sp": f"c{number}", "ep": f"c{number}"}, "t": number, "h": ""}), 9_000),
    flood("9,000 oc", lambda number: ("oc", {"p": f"vault/x{number}", "d": None}), 9_000),
    flood("2,000 o", lambda number: ("o", {"p": f"judged/x{number}", "d": "ab"}), 2_000),
    flood("2,000 om here and there", lambda number: ("om", {"p": "judged", "d": {f"a{number}": "ab", f"c{number}": "b"}}), 2_000),
    flood("9,000 denied p", lambda number: ("p", {"p": f"vault/x{number}", "d": number, "h": "x"}), 9_000),
    flood("9,000 s", lambda number: ("s", {"c": {}}), 9_000),
    flood("9,000 n", lambda number: ("n", {"p": f"hall/x{number}"}), 9_000),
    flood("9,000 denied g", lambda number: ("g", {"p": f"vault/x{number}", "q": {}}), 9_000),
    flood("1,000 bad logins of 11 kB", tokens, 1_000),
    Attack("3,000 forged assertions in a pipeline", assertions, frozenset({"200", "400"})),
    Attack("500 REST requests with bad logins of 11 kB", bad_logins, frozenset(REFUSED | {"414", "431", "200"})),
    Attack("3,000 denied PUTs in a pipeline", pipeline("PUT", "vault", 3_000, body=b"1"), frozenset(REFUSED | {"200"})),
    Attack("3,000 denied conditional DELETEs in a pipeline", pipeline("DELETE", "", 3_000, headers={"if-match": "x"}),
           frozenset(REFUSED | {"200"})),
    Attack("3,000 GETs without index in a pipeline", pipeline("GET", "hall", 3_000, "orderBy=%22name%22&limitToFirst=1"),
           frozenset(REFUSED | {"200"})),
    Attack("frames that declare more than there is", declared_lengths, frozenset(ANY | {"no answer in time"})),
    Attack("counts of segments that are none", counts_of_segments, frozenset(ANY | {"no answer in time"})),
    Attack("polling pieces never completed", polling_pieces, frozenset({"200", "503", "429", "400"})),
    Attack("200 resumptions", resumptions, frozenset({"200", "503", "429"}), prepare=write_history),
    held("200 half-sent messages of 1 MB, one address", half_a_message(60)),
    Attack("200 half-sent messages of 1 MB, many addresses", half_sent(half_a_message(60)), HELD, lambda _: MANY),
    # More than the limit for an address, or for all of them together.
    held("200 half-sent messages of 7 MB, one address", half_a_message(420)),
    Attack("200 half-sent messages of 7 MB, many addresses", half_sent(half_a_message(420)), HELD, lambda _: MANY, megabytes=1400),
    held("200 half-sent frames of 15 MB", half_a_frame),
    held("200 half-sent chunked bodies of 1 MB, one address", half_a_body(1)),
    held("200 half-sent chunked bodies of 7 MB, one address", half_a_body(7)),
    Attack("200 half-sent chunked bodies of 7 MB, many addresses", half_sent(half_a_body(7)), HELD, lambda _: MANY, megabytes=1400),
    held("200 half-sent packed bodies", half_a_packed_body),
    held("200 half-sent headers of 63 kB", half_a_header),
]
