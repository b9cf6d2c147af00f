"""The Swift client library: the cost of events and a cache for one app, beside the official JavaScript SDK in Node if that is available."""

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from harness import machine, process
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong
from harness.report import typical

NAME = "realtime"
PACKAGE = machine.REPOSITORY / "Benchmarks" / "realtime"
# The number of children of one update, and the number of updates; and updates of one child each.
BURST, BURSTS, SINGLES = 1_000, 20, 500


class Client:
    """One app, in a process of its own. Use as a context."""

    def __init__(self, *arguments):
        self._arguments = arguments

    def __enter__(self) -> "Client":
        self._child = process.start(self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        process.stop(self._child)

    def until(self, count: int) -> dict:
        """The app's use of resources after this number of events."""
        self._child.stdin.write(f"{count}\n")
        self._child.stdin.flush()
        return self.seen()

    def say(self, text: str):
        self._child.stdin.write(f"{text}\n")
        self._child.stdin.flush()

    def seen(self) -> dict:
        line = self._child.stdout.readline()
        if not line:
            raise Wrong("the client ended")
        return json.loads(line)


def built() -> Path:
    process.run(["swift", "build", "-c", "release", "--package-path", PACKAGE], patience=1_800)
    return PACKAGE / ".build" / "release" / "realtime"


def fill(gateway: Gateway, children: int):
    gateway.request("DELETE", "/bench.json")
    for start in range(0, children, 10_000):
        gateway.request("PATCH", "/bench.json", json.dumps(
            {f"k{number:06}": {"n": number, "text": "x" * 50} for number in range(start, min(children, start + 10_000))}))


def follow(gateway: Gateway, client: Client, kind: str, children: int) -> tuple[dict, dict, dict]:
    """The app's use of resources after the load, after the large updates, and after the small ones."""
    count = children if kind == "child" else 1
    loaded = client.until(count)
    for burst in range(BURSTS):
        gateway.request("PATCH", "/bench.json", json.dumps(
            {f"k{number * 7 % children:06}/n": burst * BURST + number + children for number in range(BURST)}))
    count += BURSTS * (BURST if kind == "child" else 1)
    bursts = client.until(count)
    for number in range(SINGLES):
        gateway.request("PUT", f"/bench/k{number % children:06}/n.json", str(10**7 + number))
    return loaded, bursts, client.until(count + SINGLES)


def spent(before: dict, after: dict) -> int:
    return after["processor_micros"] - before["processor_micros"]


def run(context: Context):
    program = built()
    with Gateway() as gateway, tempfile.TemporaryDirectory() as folder:
        url = f"{gateway.url}?ns=default"
        for kind, children in (("child", 10_000), ("child", context.pick(100_000, 20_000)), ("value", 10_000)):
            compare(context, gateway, program, folder, url, kind, children)
        cold(context, gateway, program, folder, url)
        away(context, gateway, program, folder, url)
    if not context.js_sdk:
        context.note("the JavaScript SDK was left out: --js-sdk FILE names a bundle of it (README.md)")
    context.note("the library is built as in a user's app, with none of the project's flags; processor time is the client process's own")


def compare(context: Context, gateway: Gateway, program: Path, folder: str, url: str, kind: str, children: int):
    sides: dict[str, list] = {"ours": [], "js": []}
    for number in context.rounds(3, 1, until=600):
        for side, found in sides.items():
            if side == "js" and not context.js_sdk:
                continue
            context.progress(f"a {kind} listener at {children:,} children, {side}, round {number + 1}")
            fill(gateway, children)
            context.quiet.wait()
            words = [program, url, folder] if side == "ours" else [machine.program("node"), PACKAGE / "realtime.cjs", context.js_sdk, url]
            with Client(*words, "listen", "bench", kind) as client:
                found.append(follow(gateway, client, kind, children))
    ours, theirs = sides["ours"], sides["js"]
    single = typical([spent(bursts, end) / SINGLES for _, bursts, end in ours])
    label = f"a {kind} listener at {children:,} children"
    if not theirs:
        context.measure(f"{label}: processor time to load", [loaded["processor_micros"] / 1e3 for loaded, _, _ in ours], unit=" ms",
                        absolute=f"{single} µs for each single change")
        return
    pairs = list(zip(ours, theirs))
    context.measure(f"{label}, processor time to load: JavaScript SDK / ours", [b[0]["processor_micros"] / a[0]["processor_micros"] for a, b in pairs],
                    aim=2)
    context.measure(f"  changes, {BURST:,} in an update: JavaScript SDK / ours", [spent(*b[:2]) / spent(*a[:2]) for a, b in pairs], aim=1.5)
    context.measure("  changes, one in an update: JavaScript SDK / ours", [spent(*b[1:]) / spent(*a[1:]) for a, b in pairs], aim=2,
                    absolute=f"{single} µs each")
    context.measure("  memory of the process: JavaScript SDK / ours", [b[2]["resident"] / a[2]["resident"] for a, b in pairs], aim=2)


def cold(context: Context, gateway: Gateway, program: Path, folder: str, url: str):
    """An app that starts without a connection, and has 100,000 leaves on disk."""
    records = context.pick(50_000, 10_000)
    fill(gateway, records)
    times, bytes_per_leaf = [], []
    for number in context.rounds(3, 1, until=700):
        context.progress(f"a cold start with {records * 2:,} leaves on disk, round {number + 1}")
        place = Path(folder) / f"cold{number}"
        with Client(program, url, place, "load", "bench") as client:
            client.seen()
        with Client(program, url, place, "cold", "bench") as client:
            found = client.seen()
        if found["events"] != records:
            raise Wrong(f"{found['events']} of {records} records were on disk")
        times.append(found["micros"] / 1e3)
        bytes_per_leaf.append(found["resident"] / (records * 2))
    context.measure(f"from the start of an app to its first event from disk, {records * 2:,} leaves", times, unit=" ms")
    context.measure("  memory of the process, a leaf", bytes_per_leaf, unit=" bytes")


# The number of changes while an app is away, and of absences; with this number of entries elsewhere, hashes are less work than the log.
MISSED, ABSENCES, ELSEWHERE = 10, 5, 7_000


def counters(gateway: Gateway) -> tuple[int, int, float]:
    """Bytes that the gateway has received and sent, and its processor time in milliseconds."""
    text = gateway.request("GET", "/.metrics").decode()
    values = {name: int(float(re.search(rf"^pathmirror_{name} (\S+)", text, re.MULTILINE)[1]))
              for name in ("received_bytes_total", "sent_bytes_total")}
    fields = Path(f"/proc/{gateway.pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return values["received_bytes_total"], values["sent_bytes_total"], ticks * 1_000 / os.sysconf("SC_CLK_TCK")


def absence(gateway: Gateway, client: Client, count: int, elsewhere: int, round: int) -> tuple[int, int, float, float]:
    """The cost of the return of a client that was away: bytes to and from the gateway, both processor times in ms."""
    before = client.until(count)
    client.say("offline")
    for number in range(MISSED):
        gateway.request("PUT", f"/bench/k{number * 997:06}/n.json", str(10**8 + round * MISSED + number))
    for start in range(elsewhere):
        gateway.request("PUT", "/elsewhere.json", str(start))
    time.sleep(0.5)
    # Excludes the cost of the requests for the counters.
    idle, start = counters(gateway), counters(gateway)
    client.say("online")
    after = client.until(count + MISSED)
    time.sleep(0.5)
    end = counters(gateway)
    return (end[0] - 2 * start[0] + idle[0], end[1] - 2 * start[1] + idle[1], end[2] - start[2], spent(before, after) / 1e3)


def away(context: Context, gateway: Gateway, program: Path, folder: str, url: str):
    """A client that was away, with a large value that nearly equals the gateway's: resumed by the log, and by hashes."""
    records = context.pick(50_000, 10_000)
    costs = {}
    for how, elsewhere in (("log", 0), ("hashes", ELSEWHERE)):
        context.progress(f"{MISSED} changes of {records * 2:,} leaves while away, by {how}")
        fill(gateway, records)
        with Client(program, url, Path(folder) / how, "listen", "bench", "child") as client:
            costs[how] = [absence(gateway, client, records + MISSED * round, elsewhere, round) for round in range(ABSENCES)]
    label = f"{MISSED} changes of {records * 2:,} leaves while away"
    for index, name in enumerate(("bytes to the gateway", "bytes from the gateway", "processor time of the gateway, ms", "processor time of the client, ms")):
        log, hashes = (statistics.median([one[index] for one in costs[how]]) for how in ("log", "hashes"))
        context.measure(f"{label}, {name}: by hashes", [one[index] for one in costs["hashes"]])
        context.measure("  by the log", [one[index] for one in costs["log"]], absolute=f"{hashes / max(log, 0.1):.0f} times less")
