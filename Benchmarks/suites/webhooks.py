"""From a write to its webhook; and nine endpoints beside one that is poisoned."""

import json
import subprocess
import sys
import time

from harness import machine, process
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong
from harness.queues import OWNER, work
from harness.report import typical

NAME = "webhooks"
FEEDS = 10
RATE = 200
SECRET = "whsec_" + "c2VjcmV0" * 4
# The endpoint is on this machine, which webhooks reach only with this option.
OPTIONS = ["--webhook-allow", "127.0.0.1"]


class Endpoint:
    """clients/endpoint.py in a process of its own. Use as a context."""

    def __enter__(self) -> "Endpoint":
        self._child = process.start([sys.executable, machine.REPOSITORY / "Benchmarks" / "clients" / "endpoint.py"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._child.stdout.readline())
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        process.stop(self._child)

    def times(self) -> dict[str, list[float]]:
        """Milliseconds by path since the last call."""
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        return json.loads(self._child.stdout.readline())


def run(context: Context):
    with Gateway(options=OPTIONS) as gateway, Endpoint() as endpoint:
        seconds = context.pick(6, 3)
        middles, highs, clean, poisoned = [], [], [], []
        for number in context.rounds(3, 1, until=90):
            context.progress(f"one webhook, round {number + 1}")
            define(gateway, endpoint, ["ok"])
            times = deliver(gateway, endpoint, context, seconds)
            middles.append(part(times, 0.5))
            highs.append(part(times, 0.99))
            context.progress(f"{FEEDS} webhooks, round {number + 1}")
            define(gateway, endpoint, ["ok"] * FEEDS)
            clean.append(part(deliver(gateway, endpoint, context, seconds, leave_out=0), 0.99))
            context.progress(f"{FEEDS} webhooks, one of them poisoned, round {number + 1}")
            define(gateway, endpoint, [("slow", "refused")[number % 2]] + ["ok"] * (FEEDS - 1))
            poisoned.append(part(deliver(gateway, endpoint, context, seconds, leave_out=0), 0.99))
        context.measure(f"from a write to its webhook at {RATE} a second, p50", middles, unit=" ms", absolute=f"p99 {typical(highs)} ms")
        context.measure("nine webhooks beside one whose endpoint is slow or refuses / beside a good one, p99 of the nine (lower is better)",
                        [bad / good for bad, good in zip(poisoned, clean)], absolute=f"{typical(poisoned)} against {typical(clean)} ms")


def define(gateway: Gateway, endpoint: Endpoint, kinds: list[str]):
    """Creates this number of feeds of the same path, the first of the first kind."""
    for entry in json.loads(gateway.request("GET", "/.feeds", headers=OWNER))["feeds"]:
        gateway.request("DELETE", f"/.feeds/{entry['name']}", headers=OWNER)
    for number, kind in enumerate(kinds):
        gateway.request("PUT", f"/.feeds/hook{number}", json.dumps({
            "path": "/bench/{key}", "max_attempts": 3, "backoff": {"first": "100ms", "max": "1s"},
            "webhook": {"url": f"http://127.0.0.1:{endpoint.port}/{kind}/{number}", "secrets": [SECRET]}}), headers=OWNER)
    endpoint.times()


def deliver(gateway: Gateway, endpoint: Endpoint, context: Context, seconds: int, leave_out: int | None = None) -> list[float]:
    """Writes at the rate, and waits until all feeds but the excluded one have delivered all writes; returns the milliseconds."""
    gateway.checkpoint()
    context.quiet.wait()
    written = work("feed", gateway.port, "-", producers=1, rate=RATE, seconds=seconds).produced
    found: dict[str, list[float]] = {}
    end = time.monotonic() + 30
    while True:
        for path, times in endpoint.times().items():
            found.setdefault(path, []).extend(times)
        counted = {path: times for path, times in found.items() if path.startswith("/ok/") and path != f"/ok/{leave_out}"}
        if counted and all(len(times) >= written for times in counted.values()):
            return [time for times in counted.values() for time in times]
        if time.monotonic() > end:
            raise Wrong(f"of {written} messages the endpoints had {({path: len(times) for path, times in counted.items()})}")
        time.sleep(0.2)


def part(times: list[float], share: float) -> float:
    return sorted(times)[int((len(times) - 1) * share)]
