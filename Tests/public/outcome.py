"""The outcome of a suite: counts of its tests, or the reason for not running."""

import fnmatch

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Outcome:
    """The results of one suite, test by test. Only `finish` after at least one executed test makes it a suite that ran."""

    def __init__(self, suite: str, known: dict[str, str] | None = None):
        self.suite, self.known = suite, known or {}
        self.tests: dict[str, tuple[str, str]] = {}
        self.state, self.reason = "not run", "it was not started"
        self.incomplete: str | None = None

    def add(self, name: str, result: str, text: str = ""):
        """One test. Of a test that is reported twice (by another attempt, or in two files) the worse result counts."""
        assert result in (PASSED, FAILED, SKIPPED), result
        rank = {SKIPPED: 0, PASSED: 1, FAILED: 2}
        if name not in self.tests or rank[result] > rank[self.tests[name][0]]:
            self.tests[name] = (result, text)

    def stopped(self, reason: str):
        """The suite ended before all its tests did."""
        self.incomplete = self.incomplete or reason

    def did_not_run(self, reason: str) -> "Outcome":
        self.state, self.reason = "not run", reason
        return self

    def broke(self, reason: str) -> "Outcome":
        self.state, self.reason = "broken", reason
        return self

    def finish(self) -> "Outcome":
        if self.incomplete:
            return self.broke(self.incomplete)
        if not any(result != SKIPPED for result, _ in self.tests.values()):
            return self.broke("it executed no test")
        self.state, self.reason = "ran", ""
        return self

    def _named(self, wanted: str) -> list[str]:
        return [name for name, (result, _) in self.tests.items() if result == wanted]

    def reason_for(self, test: str) -> str | None:
        """The reason of a known failure."""
        return next((reason for pattern, reason in self.known.items() if fnmatch.fnmatchcase(test, pattern)), None)

    @property
    def passed(self) -> list[str]:
        return self._named(PASSED)

    @property
    def skipped(self) -> list[str]:
        return self._named(SKIPPED)

    @property
    def failed(self) -> list[str]:
        """Failures that are not known."""
        return [name for name in self._named(FAILED) if self.reason_for(name) is None]

    @property
    def known_failures(self) -> list[str]:
        return [name for name in self._named(FAILED) if self.reason_for(name) is not None]

    @property
    def unneeded(self) -> list[str]:
        """Known failures that did not fail."""
        return [pattern for pattern in self.known
                if not any(fnmatch.fnmatchcase(name, pattern) for name in self._named(FAILED))]

    def lines(self) -> str:
        """The suite's report."""
        if self.state == "not run":
            return f"== {self.suite}: not run: {self.reason}"
        head = f"== {self.suite}: " + (f"BROKEN: {self.reason}; " if self.state == "broken" else "")
        head += f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.known_failures)} known, {len(self.skipped)} skipped"
        lines = [head]
        for name in self.failed:
            lines += [f"   FAILED {name}"] + [f"          {line}" for line in self.tests[name][1].splitlines()[:6]]
        lines += [f"   known  {name}: {self.reason_for(name)}" for name in self.known_failures]
        if self.state == "ran":
            lines += [f"   note   {pattern} is listed as a known failure, and did not fail" for pattern in self.unneeded]
        return "\n".join(lines)

    def record(self) -> dict:
        return {"suite": self.suite, "state": self.state, "reason": self.reason, "passed": len(self.passed), "failed": self.failed,
                "known": {name: self.reason_for(name) for name in self.known_failures}, "skipped": len(self.skipped)}


def table(outcomes: list[Outcome]) -> str:
    """One line a suite, and the totals of the suites that ran."""
    rows = [("suite", "passed", "failed", "known", "skipped", "")]
    for outcome in outcomes:
        if outcome.state == "not run":
            rows.append((outcome.suite, "-", "-", "-", "-", f"not run: {outcome.reason}"))
        else:
            first = outcome.reason.partition("\n")[0]
            counts = [str(len(names)) for names in (outcome.passed, outcome.failed, outcome.known_failures, outcome.skipped)]
            rows.append((outcome.suite, *counts, f"BROKEN: {first}" if outcome.state == "broken" else ""))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join([row[0].ljust(widths[0]), *(row[column].rjust(widths[column]) for column in range(1, 5)), row[5]]).rstrip() for row in rows]
    ran = [outcome for outcome in outcomes if outcome.state == "ran"]
    lines.append(f"{len(ran)} of {len(outcomes)} suites ran.")
    return "\n".join(["", *lines])
