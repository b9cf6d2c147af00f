"""The context of a suite."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from .machine import Quiet
from .report import Measure, Plot, Report


@dataclass
class Context:
    quick: bool
    quiet: Quiet
    report: Report = field(default_factory=Report)
    # The number of namespaces for the suite `namespaces`, if given.
    namespaces: int | None = None
    # An earlier binary, for the suite `before`.
    before: str | None = None
    # The official JavaScript SDK as one file, for the suite `realtime`.
    js_sdk: str | None = None
    # The number of leaves of the largest tree for the suite `growth`, if given.
    leaves: int | None = None
    suite: str = ""
    _start: float = 0

    def begin(self, suite: str):
        self.suite, self._start = suite, time.monotonic()

    def withdraw(self):
        """Discards the measures of the present suite, because a failure makes them void."""
        self.report.withdraw(self.suite)

    def pick(self, full, quick):
        """A size or a time: the one for whole runs, or the one for quick runs."""
        return quick if self.quick else full

    def rounds(self, full: int, quick: int, until: float) -> Iterator[int]:
        """Numbers of rounds, at least one; none is begun later than `until` seconds (a fifth in quick runs) after the
        suite's beginning, so that a slow or busy machine gets fewer rounds instead of a longer run."""
        for number in range(self.pick(full, quick)):
            if number and time.monotonic() - self._start > self.pick(until, until / 5):
                return
            yield number

    def progress(self, text: str):
        print(f"bench: {self.suite}: {text}", file=sys.stderr, flush=True)

    def measure(self, text: str, rounds: list[float], **options):
        self.report.measures.append(Measure(self.suite, text, rounds, **options))

    def plot(self, title: str, x: str, y: str, lines: dict[str, list], **options):
        self.report.plots.append(Plot(self.suite, title, x, y, {name: [list(point) for point in points] for name, points in lines.items()},
                                      **options))

    def note(self, text: str):
        self.report.notes.append(f"{self.suite}: {text}")
