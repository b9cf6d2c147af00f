"""Writes at a fixed rate, and a hundred subscribers, each of which must get its own events: all of them, once, in order."""

import json

from harness import process
from harness.clients import client
from harness.context import Context
from harness.gateway import Gateway
from harness.report import typical
from harness.wrong import Wrong

NAME = "mixed"
TITLE = "Writes and subscribers together"
TEXT = """16 realtime WebSockets offer 17,000 writes of 200 bytes a second to 100 paths, in an open loop.
Each write is due at a fixed time, and all times count from that time (no coordinated omission).
Each path has one subscriber by server-sent events, which gives 17,000 events a second.
The aims are the best published figures for a log server on two processors.
A missing, repeated or reordered event, or an answer that is not `ok`, voids the race.
The plot shows the round with the median p50.
The process that writes, subscribes and checks uses a part of the same two processors."""

OFFERED = 17_000
RATES = (1_000, 4_000, 8_000, 12_000, OFFERED)
WRITERS, SUBSCRIBERS, LENGTH = 16, 100, 200


def run(context: Context):
    seconds = context.pick(10, 3)
    with Gateway() as gateway:
        def offer(rate: int, seconds: int, name: str) -> dict:
            gateway.checkpoint()
            context.quiet.wait()
            return offered(gateway.port, rate, seconds, name)

        offer(RATES[1], 2, "warm")
        rounds = []
        for number in context.rounds(3, 1, until=70):
            context.progress(f"{OFFERED:,} writes a second, round {number + 1}")
            rounds.append(offer(OFFERED, seconds, f"round{number}"))
        ladder = {}
        for rate in RATES[:-1]:
            context.progress(f"{rate:,} writes a second")
            ladder[rate] = offer(rate, context.pick(5, 2), f"rate{rate}")
    ladder[OFFERED] = sorted(rounds, key=lambda each: each["event50"])[len(rounds) // 2]
    for text, name, bound in (("from a write being due to its event, p50", "event50", 2.8), ("  99th percentile", "event99", 22.6),
                              ("from a write being due to its answer, p50", "answer50", None), ("  99th percentile", "answer99", None),
                              ("how late the generator itself was, 99th percentile", "late99", None)):
        context.measure(text if text.startswith(" ") else f"{OFFERED:,} writes a second offered: {text}", [each[name] / 1e3 for each in rounds], unit=" ms",
                        at_most=bound, absolute="" if text.startswith(" ") else
                        f"all was done {typical([each['micros'] / 1e6 - seconds for each in rounds])} s after the last write was due")
    context.plot("From a write being due to its event by writes offered", "writes a second", "milliseconds",
                 {label: [(rate, ladder[rate][name] / 1e3) for rate in RATES]
                  for label, name in (("p50", "event50"), ("p99", "event99"), ("p99.9", "event999"))}, log_x=False, log_y=True)
    context.note("every event arrived once and in order, in every round, and every answer was ok")


def offered(port: int, rate: int, seconds: float, name: str, patience: float = 10) -> dict:
    result = json.loads(process.run(
        [client("mixed"), port, f"/mixed/{name}", WRITERS, SUBSCRIBERS, rate, seconds, LENGTH, patience], seconds + 120))
    if result["ok"] != result["writes"] or result["events"] != result["writes"] or result["outOfOrder"]:
        raise Wrong(f"of {result['writes']} writes {result['ok']} were answered with ok, {result['events']} events came, "
                    f"{result['outOfOrder']} of them out of order")
    return result
