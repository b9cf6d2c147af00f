"""Reads beside the same server's constant answers of the same size: the cost of finding and encoding a value."""

import json

from harness.context import Context
from harness.gateway import Gateway
from harness.load import Load, wrk
from harness.report import typical

NAME = "reads"
TITLE = "Reads"
TEXT = """GETs by 64 keep-alive connections, compared with constant answers of the same server.
The constants are `/.health/live` (18 bytes; some hundred bytes more cost HTTP the same) and `/.openapi.json`, compared with a string of exactly its size.
The size is 65 kB instead of the 100 kB of the aim, because no constant of 100 kB exists.
No client writes during this race, so the gateway encodes the value once and keeps the text; another gateway keeps no texts.
The query returns the 20 highest of 100,000 children by a declared index, and is compared with the GET of a value as large as its answer."""

CHILDREN = 100_000
RULES = {"rules": {".read": True, ".write": True, "people": {".indexOn": "height"}}}
QUERY = "/people.json?orderBy=%22height%22&limitToLast=20"
LARGE = "/.openapi.json"


def run(context: Context):
    with Gateway() as gateway, Gateway(tune="answer-cache=0B") as forgetful:
        size = len(gateway.request("GET", LARGE))
        context.progress(f"a node of {CHILDREN:,} children")
        people = {f"p{number}": {"name": f"person {number}", "height": number * 7919 % 1_000_003} for number in range(CHILDREN)}
        gateway.request("PUT", "/.settings/rules.json?auth=owner", json.dumps(RULES))
        gateway.request("PUT", "/people.json?print=silent", json.dumps(people))
        found = gateway.request("GET", QUERY)
        if len(json.loads(found)) != 20:
            raise AssertionError("the query returns wrong children")
        for name, length in (("small", 198), ("large", size - 2), ("asFound", len(found) - 2)):
            gateway.request("PUT", f"/{name}.json?print=silent", json.dumps("x" * length))
        forgetful.request("PUT", "/large.json?print=silent", json.dumps("x" * (size - 2)))
        compare(context, gateway, forgetful, size, len(found))


def compare(context: Context, gateway: Gateway, forgetful: Gateway, size: int, found: int):
    seconds = context.pick(3, 1)

    def load(target: str, of: Gateway = gateway) -> Load:
        context.quiet.wait()
        return wrk(of, target, seconds)

    small, large, anew, queries = [], [], [], []
    for target in ("/small.json", "/large.json", QUERY):
        load(target)
    for number in context.rounds(4, 1, until=90):
        context.progress(f"round {number + 1}")
        small.append((load("/small.json"), load("/.health/live")))
        large.append((load("/large.json"), load(LARGE)))
        anew.append((load("/large.json", of=forgetful), load(LARGE, of=forgetful)))
        queries.append((load(QUERY), load("/asFound.json")))
    for text, pairs, aim in (("GETs of 200 bytes / of a constant", small, 0.85), (f"GETs of {size:,} bytes / of a constant of that size", large, 0.9),
                             ("the same, written out for each GET", anew, None),
                             (f"queries of 20 of {CHILDREN:,} children / GETs of a string as large as the answer, {found:,} bytes", queries, None)):
        context.measure(text, [a.per_second / b.per_second for a, b in pairs], aim=aim,
                        absolute=f"{typical([a.per_second for a, _ in pairs])} against {typical([b.per_second for _, b in pairs])} a second, p50 "
                        f"{typical([a.latency for a, _ in pairs])} against {typical([b.latency for _, b in pairs])} ms")
        context.measure("  processor time: the other's / the GET's", [b.cost / a.cost for a, b in pairs],
                        absolute=f"{typical([b.cost for _, b in pairs])} against {typical([a.cost for a, _ in pairs])} µs, load generator included")
