"""Sixteen clients that count with compare-and-set, on one key and on many, against etcd's transactions."""

import base64
import json
from dataclasses import dataclass
from statistics import median

from harness import process
from harness.clients import client
from harness.context import Context
from harness.etcd import Etcd
from harness.gateway import Gateway
from harness.report import figure, typical
from harness.wrong import Wrong

NAME = "compareset"
TITLE = "Compare-and-set"
TEXT = """Sixteen clients select one of 1, 10 or 1,000 counters at random, read it, and increment it by compare-and-set.
A refusal contains the present value, and the client tries again until it succeeds.
The gateway uses entity tags (`if-match`), and etcd uses transactions that compare a revision.
The same program sends both over HTTP.
At the end the sum of the counters must have grown by exactly the number of acknowledged increments.
With one key pipelining gains nothing, because each success waits for the sync of the previous one."""

CLIENTS = 16
COUNTS = (1, 10, 1_000)


@dataclass(frozen=True)
class Counted:
    per_second: float
    # Refused attempts for each success.
    wasted: float
    # Milliseconds from the read to the success.
    p50: float


def run(context: Context):
    seconds = context.pick(3, 1)
    with Gateway() as gateway, Etcd() as etcd:
        ours: dict[int, list[Counted]] = {count: [] for count in COUNTS}
        theirs: dict[int, list[Counted]] = {count: [] for count in COUNTS}
        gateway.request("PUT", "/counter.json", json.dumps({f"k{number}": 0 for number in range(max(COUNTS))}))
        for number in range(max(COUNTS)):
            etcd.post("/v3/kv/put", {"key": encoded(f"/counter/{number}"), "value": encoded("0")})
        for number in context.rounds(3, 1, until=60):
            for keys in COUNTS:
                context.progress(f"{keys:,} keys, round {number + 1}")
                for kind, server, found in (("gateway", gateway, ours), ("etcd", etcd, theirs)):
                    gateway.checkpoint()
                    context.quiet.wait()
                    found[keys].append(count(kind, server.port, keys, seconds, number))
    for keys in COUNTS:
        pairs = list(zip(ours[keys], theirs[keys]))
        context.measure(f"successes a second, {CLIENTS} clients, {keys:,} key{'s' if keys > 1 else ''} / etcd transactions",
                        [a.per_second / b.per_second for a, b in pairs], aim=2.0,
                        absolute=f"{typical([a.per_second for a, _ in pairs])} against {typical([b.per_second for _, b in pairs])} a second, p50 "
                        f"{typical([a.p50 for a, _ in pairs])} against {typical([b.p50 for _, b in pairs])} ms; refused for each success "
                        f"{figure(median(a.wasted for a, _ in pairs))} against {figure(median(b.wasted for _, b in pairs))}")
    context.plot("Successful compare-and-sets a second by keys", "keys", "successes a second",
                 {name: [(keys, median(each.per_second for each in side[keys])) for keys in COUNTS]
                  for name, side in (("Pathmirror, if-match", ours), ("etcd, transactions", theirs))}, log_y=True)
    context.note("the counters grew by exactly the number of acknowledged increments, on both sides, in every round")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def count(kind: str, port: int, keys: int, seconds: int, seed: int) -> Counted:
    result = json.loads(process.run([client("compareset"), kind, port, CLIENTS, keys, seconds, seed], seconds + 60))
    if result["answered"] != result["counted"]:
        raise Wrong(f"{kind}: {result['answered']} compare-and-sets were acknowledged, and the counters became larger by {result['counted']}")
    return Counted(result["set"] / result["micros"] * 1e6, result["refused"] / result["set"], result["p50"] / 1e3)
