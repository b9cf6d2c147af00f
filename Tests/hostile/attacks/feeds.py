"""Requests to durable feeds and to the log: too large, too many, malformed, with other feeds' tokens, and from readers that do not read."""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor

from .attack import Attack
from .large import children_in_the_hall, nested
from .wire import CLOSED, PATIENCE, SILENT, Target, packed, read_to_end, status_of

# Attackers may use the feed PREY, but not HONEST.
PREY, HONEST = "prey", "honest"
BAD = frozenset({"400"})
# A body that is too large may be refused before it is completely sent.
TOO_LARGE = frozenset({"413", "400", CLOSED})
BUSY = frozenset({"200", "429", "503"})
FEEDS = 1_100
WAITS = 1_500
STREAMS = 60
# Messages that wait for pulls, and seconds without reads.
ENOUGH, PAUSE = 5_000, 2.0


def bearer(token: str) -> dict:
    return {"Authorization": f"Bearer {token}"}


def ask(target: Target, method: str, what: str, body: bytes | None = None, token: str | None = None, feed: str = PREY, **headers) -> str:
    """One exchange, with the token of the prey unless another is named."""
    path = f"/.feeds/{feed}{'/' if what else ''}{what}"
    return target.request(method, f"{path}{'&' if '?' in path else '?'}ns={target.ns}", body,
                          {**bearer(target.token(PREY) if token is None else token), **headers})


def administer(target: Target, method: str, feed: str, definition: dict | None = None) -> str:
    return ask(target, method, "", definition and json.dumps(definition).encode(), target.administrator, feed)


def make_prey(target: Target, path: str = "/judged/{key}", **more):
    if (status := administer(target, "PUT", PREY, {"path": path, **more})) not in ("200", "201"):
        raise RuntimeError(f"the feed was not made: {status}")


def make_large_prey(target: Target):
    """A feed that has 60,000 messages to give."""
    children_in_the_hall(target)
    make_prey(target, "/hall/{key}", start="snapshot", include=["value", "record"], record_depth=2)
    end = time.monotonic() + PATIENCE
    while json.loads(target.administer("GET", f"/.feeds/{PREY}/status?ns={target.ns}", b""))["pending_messages"] < ENOUGH:
        if time.monotonic() > end:
            raise RuntimeError("the feed has no messages")
        time.sleep(0.05)


def on_prey(name: str, send, expected, prepare=make_prey, **more) -> Attack:
    """An attack with the token of the prey; the feed is removed afterwards."""

    def all_of_it(target: Target, payload) -> list[str]:
        try:
            return send(target, payload)
        finally:
            administer(target, "DELETE", PREY)

    return Attack(name, all_of_it, frozenset(expected), more.pop("make", lambda target: None), prepare, **more)


def body_of(name: str, what: str, make, expected=BAD, **headers) -> Attack:
    """One body, sent with the token of the prey."""
    return on_prey(name, lambda target, body: [ask(target, "POST", what, body, **headers)], expected, make=lambda target: make())


def definition_of(name: str, make, expected=BAD) -> Attack:
    """One definition by an administrator. The gateway does not keep it."""
    return on_prey(name, lambda target, body: [ask(target, "PUT", "", body, target.administrator)], expected,
                   prepare=lambda target: None, make=lambda target: make(), administers=True, megabytes=1024)


def defined(**members) -> bytes:
    return json.dumps({"path": "/judged/{key}", **members}).encode()


# MARK: many

def thousands_of_feeds(target: Target, _) -> list[str]:
    """Creates the maximum number of feeds and more, and removes all of them."""
    names = [f"f{number}" for number in range(FEEDS)]
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda name: administer(target, "PUT", name, {"path": "/work/{key}"}), names))
        removed = list(pool.map(lambda name: administer(target, "DELETE", name), names))
    refused = made.count("409")
    return sorted({*made, *removed, "all were made" if refused < FEEDS - 1_000 else "some were refused"})


def waiting_pulls(target: Target, _) -> list[str]:
    """Pulls that wait in vain: more than the limit, and then their ends."""
    body = b'{"wait":"60s","consumer":"c%d"}'
    pulls, found = [], set()
    try:
        for number in range(WAITS):
            plain = target.connect()
            sent = body % number
            plain.sendall(target.head("POST", f"/.feeds/{PREY}/pull?ns={target.ns}", {
                **bearer(target.token(PREY)), "Content-Length": str(len(sent))}) + sent)
            pulls.append(plain)
        # Refusals come at once and in order: the last pull is refused.
        found.add(status_of(pulls[-1].recv(4096)))
        for plain in pulls:
            plain.setblocking(False)
            try:
                found.add(status_of(plain.recv(4096)))
            except BlockingIOError:
                found.add("held")
    except TimeoutError:
        found.add(SILENT)
    except ConnectionError:
        found.add(CLOSED)
    finally:
        for plain in pulls:
            plain.close()
    return sorted(found)


def unread(method: str, what: str, count: int, each: int = 1, body: bytes = b"", log: bool = False):
    """Connections that request much and read none of it for a while."""

    def send(target: Target, _) -> list[str]:
        found, readers = set(), []
        path = f"/.log?ns={target.ns}&{what}" if log else f"/.feeds/{PREY}/{what}{'&' if '?' in what else '?'}ns={target.ns}"
        head = target.head(method, path, {**bearer(target.token(PREY)), **({"Content-Length": str(len(body))} if body else {})})
        try:
            for _ in range(count):
                plain = target.connect()
                plain.sendall((head + body) * each)
                readers.append(plain)
            time.sleep(PAUSE)
            # A small part of the answer of each.
            for plain in readers:
                try:
                    found.add(status_of(plain.recv(4096)))
                except TimeoutError:
                    found.add(SILENT)
                except ConnectionError:
                    found.add(CLOSED)
        finally:
            for plain in readers:
                plain.close()
        return sorted(found)

    return send


def pipeline(method: str, what: str, count: int, body: bytes):
    """Many requests on one connection before an answer is read."""

    def send(target: Target, _) -> list[str]:
        one = target.head(method, f"/.feeds/{PREY}/{what}?ns={target.ns}", {
            **bearer(target.token(PREY)), "Content-Length": str(len(body))}) + body
        with target.connect(2 * PATIENCE) as plain:
            try:
                plain.sendall(one * count + target.head("GET", "/.health/live", {"Connection": "close"}))
            except ConnectionError:
                return [CLOSED]
            answers = read_to_end(plain)
        return sorted({answer[:3].decode() for answer in answers.split(b"HTTP/1.1 ")[1:]}) or [CLOSED]

    return send


def storm(target: Target, _) -> list[str]:
    """Moves a feed back and forth while consumers pull it, and retries and drops its dead letters."""
    requests = [("POST", "seek", b'{"to":"beginning"}'), ("POST", "seek", b'{"to":"snapshot"}'), ("POST", "pull", b'{"max":1000}'),
                ("POST", "dead/retry", b'{"all":true}'), ("POST", "dead/drop", b'{"all":true}'), ("GET", "status", None)]
    with ThreadPoolExecutor(12) as pool:
        return sorted(set(pool.map(lambda number: ask(target, *requests[number % len(requests)]), range(360))))


# MARK: wrong tokens

EVERYTHING = [
    ("GET", "", None), ("PUT", "", b'{"path":"/{all}"}'), ("DELETE", "", None), ("POST", "pull", b"{}"), ("POST", "ack", b'{"ids":["default:1:0"]}'),
    ("POST", "nack", b'{"ids":["default:1:0"]}'), ("POST", "extend", b'{"ids":["default:1:0"],"delay":"1ms"}'), ("GET", "stream", None),
    ("POST", "seek", b'{"to":"beginning"}'), ("GET", "dead", None), ("POST", "dead/retry", b'{"all":true}'),
    ("POST", "dead/drop", b'{"all":true}'), ("GET", "status", None)]


def others_tokens(target: Target, _) -> list[str]:
    """All requests to the honest feed, with tokens that are not for it."""
    tokens = [target.token(PREY), target.token("hones"), target.token(HONEST + "x"), target.token(HONEST, "other"), target.token(""),
              target.token(HONEST)[:-2], target.token(HONEST) + "A", "", "guess", "A" * 8_000]
    found = {ask(target, *request, token=token, feed=HONEST) for token in tokens for request in EVERYTHING}
    own = target.token(HONEST)
    # With its own token: the feed's definition, and all other requests, are not for it.
    found |= {ask(target, method, "", b'{"path":"/{all}"}', own, HONEST) for method in ("PUT", "DELETE")}
    found |= {target.request("GET", f"/{path}ns={target.ns}", None, bearer(own)) for path in (
        ".feeds?", ".json?", "work.json?", ".settings/rules.json?", ".log?offset=-1&path=/vault&", ".log?offset=-1&path=/&")}
    return sorted(found)


def malformed_ids(target: Target, _) -> list[str]:
    dice = random.Random(7)
    ids = ["", ":", "::", "default:1", "default:1:", "default:-1:0", "default:1:-1", "default:99999999999999999999:0", "default:1:99999999999999999999",
           "default:1:s", "default:1:ss0", "default:01:0", "default:1:0:0", "other:1:0", "default:٣:0", "default:1:\U0001f600", "\u0000" * 40,
           *("".join(chr(dice.randrange(1, 0xd7ff)) for _ in range(dice.randrange(60))) for _ in range(300))]
    found = {ask(target, "POST", what, json.dumps({"ids": ids, **more}).encode())
             for what, more in (("ack", {}), ("nack", {}), ("extend", {"delay": "5ms"}), ("dead/retry", {}), ("dead/drop", {}))}
    return sorted(found | {ask(target, "POST", "ack", json.dumps({"ids": [id]}).encode()) for id in ids[:20]})


def malformed_places(target: Target, _) -> list[str]:
    """Invalid cursors of the log, and of feeds' streams and dead letters."""
    values = ["", "x", "-1", "-0", "1e3", "0x10", "%00", "%F0%9F%98%80", "9" * 40, "-" + "9" * 40, "1-", "-1-1", "1_0", "..", "9" * 8_000, "%25" * 1_000]
    found = set()
    for value in values:
        for query in (f"offset={value}", f"offset={value}&live=long-poll", f"offset={value}&live=sse", f"offset=-1&live={value}",
                      f"offset=-1&cursor={value}", f"path={value}", f"{value}={value}"):
            found.add(ask_log(target, query))
        found.add(target.request("GET", f"/.feeds/{PREY}/dead?ns={target.ns}&after={value}", None, bearer(target.token(PREY))))
        found.add(target.request("GET", f"/.feeds/{PREY}/dead?ns={target.ns}&limit={value}", None, bearer(target.token(PREY))))
    return sorted(found)


def ask_log(target: Target, query: str) -> str:
    """The status of an answer that need not end."""
    try:
        with target.connect() as plain:
            plain.sendall(target.head("GET", f"/.log?ns={target.ns}&{query}", {**bearer(target.token(PREY)), "Connection": "close"}))
            return status_of(plain.recv(4096))
    except TimeoutError:
        return SILENT
    except ConnectionError:
        return CLOSED


def long_texts_for_a_filter(target: Target, _) -> list[str]:
    """A writer makes a feed's filter work on texts that take a backtracking matcher for ever."""
    text = json.dumps("a" * 4_000 + "c" * 4_000).encode()
    return sorted({target.request("PUT", target.url(f"judged/t{number}"), text) for number in range(60)})


REGEX = "newData.isString() && newData.val().matches(/^(a|aa|a*)+(b|c*)+$/)"

ATTACKS = [
    definition_of("a definition of 1 MiB and more", lambda: defined(filter="a" * 1_100_000), TOO_LARGE),
    definition_of("a definition 150,000 deep", lambda: b'{"path":' + nested(150_000) + b"}"),
    definition_of("a filter of 900 kB of brackets", lambda: defined(filter="(" * 450_000 + "true" + ")" * 450_000)),
    definition_of("a filter of 900 kB of negations", lambda: defined(filter="!" * 900_000 + "true")),
    definition_of("a filter of 55,000 comparisons", lambda: defined(filter=" && ".join(["data.exists()"] * 55_000)), {"200", "201", "400"}),
    definition_of("a filter of 60,000 children", lambda: defined(filter="data" + ".child('a')" * 60_000 + ".exists()"), {"200", "201", "400"}),
    definition_of("a filter of a regular expression of 640 kB", lambda: defined(filter=f"newData.val().matches(/{'(a|b)*' * 80_000}/)")),
    definition_of("a filter of large repetitions", lambda: defined(filter="newData.val().matches(/((a{1,1000}){1,1000}){1,1000}/)")),
    definition_of("a path of 80,000 captures", lambda: json.dumps({"path": "".join(f"/{{k{number}}}" for number in range(80_000))}).encode()),
    definition_of("80,000 events", lambda: defined(events=["created"] * 80_000), {"200", "201", "400"}),
    definition_of("60,000 unknown members", lambda: defined(**{f"m{number}": 1 for number in range(60_000)})),
    definition_of("numbers of 500 kB", lambda: b'{"path":"/a/{b}","max_attempts":' + b"9" * 500_000 + b"}"),
    definition_of("a webhook of 30,000 secrets", lambda: defined(webhook={"url": "https://a.example/", "secrets": ["env:PATHMIRROR_SINK_X"] * 30_000})),
    Attack("1,100 feeds", thousands_of_feeds, frozenset({"200", "201", "404", "409", "503", "some were refused"}), administers=True, megabytes=1024),
    on_prey("1,500 pulls that wait", waiting_pulls, {"held", "429"}),
    on_prey("60 streams that are not read", unread("GET", "stream?max=1000", STREAMS), BUSY, make_large_prey),
    on_prey("60 readers of pulls that do not read", unread("POST", "pull", STREAMS, 40, b'{"max":1000}'), BUSY, make_large_prey),
    on_prey("200 readers of the log that do not read", unread("GET", "offset=-1&live=sse&path=/hall", 200, log=True), BUSY, make_large_prey),
    on_prey("40 acknowledgements of 1,000 ids in a pipeline", pipeline("POST", "ack", 40, json.dumps(
        {"ids": [f"default:{number}:0" for number in range(1_000)]}).encode()), {"200"}),
    on_prey("5,000 pulls of nothing in a pipeline", pipeline("POST", "pull", 5_000, b"{}"), BUSY),
    on_prey("a storm of seeks and retries", storm, BUSY, make_large_prey),
    on_prey("tokens of other feeds", others_tokens, {"401"}),
    on_prey("ids that are none", malformed_ids, {"200", "400"}),
    on_prey("places that are none", malformed_places, {"200", "204", "400", "401", "410", "414", "431"}),
    on_prey("long texts for a filter", long_texts_for_a_filter, {"200"}, lambda target: make_prey(target, filter=REGEX)),
    body_of("an id of 1 MB", "ack", lambda: json.dumps({"ids": ["x" * 1_000_000]}).encode()),
    body_of("an id of 2 MB", "ack", lambda: json.dumps({"ids": ["x" * 2_000_000]}).encode(), TOO_LARGE),
    body_of("a million ids", "ack", lambda: json.dumps({"ids": [f"default:{number}:0" for number in range(1_000_000)]}).encode(), TOO_LARGE),
    body_of("300,000 ids", "nack", lambda: b'{"ids":[' + b'"",' * 300_000 + b'""]}'),
    body_of("a body of brackets", "ack", lambda: b"[" * 1_000_000),
    body_of("an acknowledgement 150,000 deep", "ack", lambda: b'{"ids":' + nested(150_000) + b"}"),
    body_of("a reason of 900 kB", "nack", lambda: json.dumps({"ids": [], "reason": "x" * 900_000}).encode()),
    body_of("a consumer of 900 kB", "pull", lambda: json.dumps({"consumer": "x" * 900_000}).encode()),
    body_of("a delay of 500 kB of digits", "extend", lambda: b'{"ids":[],"delay":"' + b"9" * 500_000 + b's"}'),
    body_of("a key of 900 kB", "dead/retry", lambda: json.dumps({"key": "x" * 900_000}).encode()),
    body_of("32 kB of gzip that unpack to 32 MB", "pull", lambda: packed(b" " * 32_000_000 + b"{}"), TOO_LARGE, **{"Content-Encoding": "gzip"}),
]
