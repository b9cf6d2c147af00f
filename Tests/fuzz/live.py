"""Throws wrong HTTP, WebSocket and long-polling bytes at a gateway, without effect on well-behaved clients.

    make campaign NAME=fuzz-live                                  ten minutes under AddressSanitizer
    make campaign NAME=fuzz-live ARGS='--seconds 60 --seed 7'     the cases of one seed, in the order of their numbers
    make campaign NAME=fuzz-live ARGS='--seed 7 --cases 100-200'  some of them again

Exit status: 0 no finding, 1 a finding (printed last, with the numbers of the latest cases), 2 wrong usage.
"""

import argparse
import collections
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "e2e"))

from client import Client, Wrong  # noqa: E402
from harness.gateway import Gateway, start_dev  # noqa: E402
from harness.process import peak_resident_bytes  # noqa: E402
from harness.rest import Rest  # noqa: E402
from harness.scratch import scratch_directory  # noqa: E402
from http_cases import NAMESPACES  # noqa: E402
from witness import Witness  # noqa: E402

# Memory errors, and traps, end the process with a trace and a status of their own.
SANITIZER = "exitcode=99:detect_leaks=0:strict_string_checks=1:detect_stack_use_after_return=1:handle_sigill=2:handle_sigtrap=2"
# Texts of a sanitizer or the Swift runtime before the end.
ALARMS = ("AddressSanitizer", "runtime error:", "Fatal error", "SUMMARY:", "Crash")
# Far more than the cases need: a gateway with more leaks memory.
MOST_BYTES = 3 << 30


class Run:
    """All cases of one run, taken by several threads."""

    def __init__(self, gateway: Gateway, seed: int, cases: range | None, seconds: float):
        self.gateway, self.client, self.witness = gateway, Client(gateway.port, seed), Witness(gateway.port)
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.finding: str | None = None
        self.peak = 0
        self.latest: collections.deque[int] = collections.deque(maxlen=16)
        self._numbers = iter(cases if cases else range(1 << 62))
        self._lock = threading.Lock()
        self._end = float("inf") if cases else time.monotonic() + seconds

    def run(self, threads: int):
        self.witness.start()
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for worker in workers:
            worker.start()
        shown = tidied = time.monotonic()
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.2)
            now = time.monotonic()
            if not self.gateway.process.running:
                self._note(f"the gateway ended with {self.gateway.process.child.returncode}")
            elif (peak := self._measure()) > MOST_BYTES:
                self._note(f"the gateway took {peak >> 20} MiB")
            if self.witness.wrong:
                self._note(f"a client that behaves: {self.witness.wrong}")
            if now - tidied > 5:
                tidied = now
                self._tidy()
            if now - shown > 60:
                shown = now
                self.show()
        if not self.finding:
            self.witness.finish()
            if self.witness.wrong:
                self._note(f"a client that behaves: {self.witness.wrong}")

    def show(self):
        total = sum(self.outcomes.values())
        common = ", ".join(f"{name} {count}" for name, count in self.outcomes.most_common(12))
        print(f"{total} cases; {self.witness.writes} writes and {self.witness.probes} health checks beside them, the slowest of these took "
              f"{self.witness.slowest * 1000:.0f} ms\n    {common}", flush=True)

    def _measure(self) -> int:
        try:
            self.peak = max(self.peak, peak_resident_bytes(self.gateway.process.pid))
        except (OSError, IndexError):
            pass  # The process has just ended, which the next check sees.
        return self.peak

    def _note(self, text: str):
        self.finding = self.finding or text

    def _work(self):
        while not self.finding and time.monotonic() < self._end:
            with self._lock:
                number = next(self._numbers, None)
                if number is None:
                    return
                self.latest.append(number)
            try:
                outcome = self.client.run(number)
            except Wrong as wrong:
                self._note(f"case {number}: {wrong}")
                return
            with self._lock:
                self.outcomes[outcome] += 1

    def _tidy(self):
        """Reverts changes of data and rules by cases, because rules could refuse all later requests."""
        for namespace in NAMESPACES:
            rest = Rest(self.gateway.port, "", {"ns": namespace}, {"Host": "localhost", "Authorization": "Bearer owner"})
            try:
                rest.send("PUT", f"/.settings/rules.json?ns={namespace}", b'{"rules":{".read":true,".write":true}}')
                rest.delete()
            except OSError as error:
                self._note(f"an administrator's request failed: {error}")
            rest.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzzes a gateway over its sockets.")
    parser.add_argument("--seconds", type=float, default=600, help="how long to run (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="repeats a run's cases")
    parser.add_argument("--cases", metavar="A-B", help="only the cases with these numbers")
    parser.add_argument("--threads", type=int, default=6, help="connections at a time (%(default)s)")
    options = parser.parse_args()
    if options.cases:
        first, _, last = options.cases.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            parser.error("--cases takes two numbers, such as 100-200")
        options.cases = range(int(first), int(last or first) + 1)
    return options


def main() -> int:
    options = arguments()
    # A terminated run still stops the gateway and removes its data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {options.seed}", flush=True)
    with scratch_directory("fuzz") as scratch:
        environment = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", SANITIZER)}
        gateway = start_dev(scratch / "data", scratch, None, "--log-level", "warning", tune="idle-timeout=5s", env=environment, patience=120)
        try:
            run = Run(gateway, options.seed, options.cases, options.seconds)
            run.run(options.threads)
            run.show()
            finding = run.finding or ending(gateway)
        finally:
            gateway.sweep()
        if finding:
            print(f"{finding}\nseed {options.seed}, the latest cases: {sorted(run.latest)}\n{gateway.process.tail(200)}", file=sys.stderr)
            return 1
        print(f"nothing found; the gateway took {run.peak >> 20} MiB at most")
        return 0


def ending(gateway: Gateway) -> str | None:
    """Stops the gateway; returns the error of its exit status or of its output."""
    status = gateway.process.stop(patience=60)
    if status != 0:
        return f"the gateway stopped with {status}"
    said = gateway.process.stderr() + gateway.process.stdout()
    return next((f"the gateway said: {line}" for line in said.splitlines() if any(alarm in line for alarm in ALARMS)), None)


if __name__ == "__main__":
    sys.exit(main())
