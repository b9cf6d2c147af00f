"""Runs public suites against gateways that it starts, and reports the passed, failed and skipped tests."""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from gateways import Gateways  # noqa: E402
from outcome import Outcome, table  # noqa: E402
from sources import Source, SourceError  # noqa: E402
from suites import SUITES, TAGS, Missing, Suite, remember  # noqa: E402


def arguments(words) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="Tests/public/run", description=__doc__)
    parser.add_argument("--source", action="append", default=[], metavar="OWNER/REPOSITORY=PATH",
                        help="a checkout, or a bare repository whose HEAD is used; OWNER/REPOSITORY@VERSION=PATH for a suite of that version, "
                             "whose tag is used of a bare repository; may be given several times")
    parser.add_argument("--only", action="append", default=[], metavar="SUITE", help="runs these suites alone; it is an error if one can't run")
    parser.add_argument("--list", action="store_true", help="prints the requirements of each suite, and runs nothing")
    parser.add_argument("--work", type=Path, help="a directory for copies and builds that is kept; without it a temporary one is used")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes the outcomes to a file")
    return parser.parse_args(words)


def listing() -> str:
    lines = []
    for suite in SUITES:
        lines += [suite.name, f"    {suite.what}", f"    source    --source {suite.repository}=PATH, of github.com/{suite.repository.partition('@')[0]}; tried at {suite.tried}"]
        lines += [f"    {kind:<9} {', '.join(needs)}" for kind, needs in (("tools", suite.tools), ("packages", suite.packages)) if needs]
        lines += [f"    known     {name}: {reason}" for name, reason in suite.known.items()]
    return "\n".join(lines)


def run_suite(suite: Suite, sources: dict[str, Source], work: Path) -> Outcome:
    """The outcome of one suite. A reason that prevents it is part of the outcome, and never a pass."""
    outcome = Outcome(suite.name, suite.known)
    source = sources.get(suite.repository)
    if source is None:
        return outcome.did_not_run(f"no --source {suite.repository}=PATH")
    try:
        suite.check()
        directory = work / suite.name
        directory.mkdir(parents=True, exist_ok=True)
        with Gateways(directory, latency=suite.latency) as gateways:
            suite.run(source, directory, gateways, outcome)
    except Missing as missing:
        return outcome.did_not_run(str(missing))
    except (SourceError, OSError, AssertionError, ValueError, RuntimeError) as error:
        return outcome.broke(f"{type(error).__name__}: {error}")
    return outcome.finish()


def main(words) -> int:
    options = arguments(words)
    if options.list:
        print(listing())
        return 0
    known = {suite.name for suite in SUITES}
    if wrong := [name for name in options.only if name not in known]:
        print(f"There is no suite {', '.join(wrong)}. --list shows them.", file=sys.stderr)
        return 2
    sources = {}
    for pair in options.source:
        name, equals, path = pair.partition("=")
        if not equals or name not in {suite.repository for suite in SUITES}:
            print(f"--source {pair}: no suite uses the repository {name}. --list shows them.", file=sys.stderr)
            return 2
        repository, _, version = name.partition("@")
        sources[name] = Source(Path(path).resolve(), TAGS[repository].format(version) if version else "HEAD")
        remember(name, sources[name].path)
    chosen = [suite for suite in SUITES if not options.only or suite.name in options.only]

    outcomes = []
    with tempfile.TemporaryDirectory(prefix="pathmirror-public-") as temporary:
        os.chmod(temporary, 0o755)
        work = options.work.resolve() if options.work else Path(temporary)
        for suite in chosen:
            outcome = run_suite(suite, sources, work)
            print(outcome.lines(), flush=True)
            outcomes.append(outcome)
    print(table(outcomes))
    if options.json:
        options.json.write_text(json.dumps([outcome.record() for outcome in outcomes], indent=2) + "\n")
    ran = [outcome for outcome in outcomes if outcome.state == "ran"]
    if any(outcome.failed for outcome in ran) or any(outcome.state == "broken" for outcome in outcomes):
        return 1
    # A run without tests is no success, and neither is a requested suite that did not run.
    return 2 if not ran or (options.only and len(ran) < len(chosen)) else 0


if __name__ == "__main__":
    # Gateways and suites end with this script.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
