"""Faults on gateways, connections, PostgreSQL, its disk and the clocks, while clients work; then checks of all results.

    make campaign NAME=faults                                          320 faults, in half an hour at most
    make campaign NAME=faults ARGS='--seed 7 --minutes 5 --faults 40'
    make campaign NAME=faults ARGS='--seed 7 --rounds 3 --only power-cut,link-cut-after-commit'
    make campaign NAME=faults ARGS='--feeds --faults 1000 --minutes 45'

The same seed makes the same faults in the same order. Exit status: 0 no violation, 1 a violation, or fewer faults than
requested in the time; 2 wrong usage.
"""

import argparse
import collections
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from harness.binary import pathmirror  # noqa: E402
from harness.scratch import scratch_directory  # noqa: E402
from feed_onslaught import FeedOnslaught  # noqa: E402
from feed_plan import FEED_KINDS, SHORT_FEEDS, make_feeds  # noqa: E402
from onslaught import Onslaught, Result  # noqa: E402
from plan import KINDS, Round, make  # noqa: E402
from rig.feed_rig import FeedRig  # noqa: E402
from rig.rig import Rig  # noqa: E402
from rig.server import build_library  # noqa: E402
from workload.feed_field import NAMESPACES, YOUNG  # noqa: E402

# A minute that has each kind of short fault once.
SHORT = ["gateway-kill", "gateway-freeze-past-lease", "link-reset", "link-stall", "link-cut-in-message", "link-cut-in-copy",
         "link-cut-after-commit", "link-stall-after-commit", "door-reset", "door-cut-in-answer", "backends-terminated",
         "postgres-kill", "power-cut", "power-cut-asynchronous", "disk-full", "head-held", "clock-postgres", "clock-gateway"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="the dice; random and printed if not given")
    parser.add_argument("--minutes", type=float, default=30, help="no round is begun after this")
    # A twentieth of them waits for a message that does not come: more than 300 strike.
    parser.add_argument("--faults", type=int, default=320)
    parser.add_argument("--feeds", action="store_true", help="feeds of every kind, with hostile receivers, instead of the commit path")
    parser.add_argument("--per-round", type=int, help="20, or 100 with --feeds")
    parser.add_argument("--rounds", help="only these rounds of the plan: 3, or 2-5, counted from 0")
    parser.add_argument("--only", help="only these kinds, by commas")
    parser.add_argument("--short", action="store_true", help="one round of about a minute, as in `make test`")
    parser.add_argument("--without-disk", action="store_true", help="PostgreSQL on an ordinary disk: no power cuts")
    parser.add_argument("--setting", action="append", default=[], help="NAME=VALUE for PostgreSQL, for trying the checks")
    parser.add_argument("--option", action="append", default=[], help="a word more on the gateways' command line")
    parser.add_argument("--keep", help="where the history and logs of a failed round go; a new directory if not given")
    parser.add_argument("--plan", action="store_true", help="print the plan and end")
    return parser.parse_args()


def rounds_of(options) -> list[Round]:
    if options.feeds:
        return selected(options, feed_rounds_of(options))
    options.per_round = options.per_round or 20
    kinds = set(KINDS)
    if options.only:
        kinds = set(options.only.split(","))
        if unknown := kinds - set(KINDS) - {"copy-put-back"}:
            sys.exit(f"faults: no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if options.short:
        kinds, options.faults, options.per_round = set(SHORT), len(SHORT) + 2, len(SHORT) + 2
    if options.without_disk:
        kinds -= {name for name in kinds if name.startswith(("power-", "disk-"))}
    put_back = 0 if options.short else 3 if not options.only else int("copy-put-back" in kinds)
    rounds = make(options.seed, options.faults, options.per_round, kinds=sorted(kinds - {"copy-put-back"}), put_back=put_back,
                  clocks=options.short or bool(options.only), evenly=options.short or bool(options.only))
    return selected(options, rounds)


def feed_rounds_of(options) -> list[Round]:
    kinds = set(FEED_KINDS)
    if options.only:
        kinds = set(options.only.split(","))
        if unknown := kinds - set(FEED_KINDS):
            sys.exit(f"faults: no such kind: {', '.join(sorted(unknown))}; with --feeds there are {', '.join(FEED_KINDS)}")
    if options.short:
        kinds, options.faults = set(SHORT_FEEDS), len(SHORT_FEEDS)
    if options.without_disk:
        kinds -= {name for name in kinds if name.startswith("power-")}
    return make_feeds(options.seed, options.faults, options.per_round or 100, kinds=sorted(kinds), evenly=options.short or bool(options.only))


def selected(options, rounds: list[Round]) -> list[Round]:
    if options.rounds:
        first, _, last = options.rounds.partition("-")
        rounds = rounds[int(first):int(last or first) + 1]
    return rounds


def one_round(plan: Round, root: Path, libraries: dict[str, Path], template: Path, settings: dict, options, kept: list[Path]) -> Result:
    def say(text: str):
        print(text, flush=True)

    begun = time.monotonic()
    with scratch_directory("faults") as place:
        logs = place / "logs"
        logs.mkdir()
        if options.feeds:
            rig, kind = FeedRig(place, logs, libraries.get("lossy"), template, (*NAMESPACES, *YOUNG), options.option), FeedOnslaught
        else:
            clock = libraries["clock"] if plan.clock else None
            rig, kind = Rig(place, logs, libraries.get("lossy"), template, clock=clock, settings=settings, options=options.option), Onslaught
        onslaught = None
        try:
            rig.start()
            onslaught = kind(rig, plan, say)
            result = onslaught.run()
        except Exception as error:  # noqa: BLE001
            result = onslaught.result if onslaught else Result()
            result.violations.append(f"the rig failed: {type(error).__name__}: {error}")
        finally:
            rig.close()
        seconds = time.monotonic() - begun
        did = f"{result.figures.get('messages given by feeds', 0)} messages" if options.feeds else (
            f"{result.figures.get('operations', 0)} operations, {result.figures.get('unknown', 0)} unknown")
        say(f"  round {plan.number}: {sum(result.faults.values())} faults, {did}, {result.checks} checks, "
            f"{len(result.violations)} violations, {seconds:.0f} s")
        for text in result.violations:
            say(f"    VIOLATION {text}")
        if result.violations:
            target = root / f"round-{plan.number}"
            shutil.copytree(logs, target / "logs", dirs_exist_ok=True)
            if onslaught:
                onslaught.keep(target)
            (target / "violations").write_text("\n".join(result.violations) + "\n")
            kept.append(target)
    return result


def report(results: list[Result], seed: int, seconds: float) -> None:
    faults, figures, gaps = collections.Counter(), collections.Counter(), {}
    for result in results:
        faults.update(result.faults)
        figures.update(result.figures)
        for kind, gap in result.gaps.items():
            gaps[kind] = max(gaps.get(kind, 0.0), gap)
    print(f"\n{'fault':26} {'times':>5}  longest time without writes where it should not matter, or afterwards")
    for kind, count in sorted(faults.items()):
        print(f"{kind:26} {count:5}  {gaps.get(kind, 0.0):5.1f} s")
    print(f"{'all':26} {sum(faults.values()):5}")
    print("\n" + "\n".join(f"{name:26} {count}" for name, count in figures.items()))
    print(f"{'checks':26} {sum(result.checks for result in results)}")
    print(f"{'violations':26} {sum(len(result.violations) for result in results)}")
    print(f"seed {seed}, {len(results)} rounds, {seconds / 60:.1f} minutes")


def main() -> int:
    options = parse()
    # A terminated test run stops its servers as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.seed is None:
        options.seed = random.randrange(10**6)
    rounds = rounds_of(options)
    print(f"faults: seed {options.seed}, {sum(len(plan.faults) for plan in rounds)} faults in {len(rounds)} rounds, {pathmirror()}", flush=True)
    if options.plan:
        for plan in rounds:
            for fault in plan.faults:
                print(f"round {plan.number}  {fault.at:6.1f} s  #{fault.number:03} {fault} for {fault.lasts} s")
        return 0
    settings = dict(word.split("=", 1) for word in options.setting)
    begun, results, kept = time.monotonic(), [], []
    root = Path(options.keep or tempfile.mkdtemp(prefix="pathmirror-faults-"))
    root.mkdir(parents=True, exist_ok=True)
    with scratch_directory("faults-tools") as tools:
        libraries = {name: build_library(name, tools) for name in ("clock", *([] if options.without_disk else ["lossy"]))}
        for plan in rounds:
            if time.monotonic() - begun > options.minutes * 60:
                break
            print(f"round {plan.number}" + (" with clocks" if plan.clock else "") + f", at {time.monotonic() - begun:.0f} s")
            results.append(one_round(plan, root, libraries, tools / "template", settings, options, kept))
    report(results, options.seed, time.monotonic() - begun)
    wanted, done = sum(len(plan.faults) for plan in rounds), sum(sum(result.faults.values()) for result in results)
    if not kept and not options.keep:
        os.rmdir(root)
    if any(result.violations for result in results):
        print(f"FAILED: see {', '.join(map(str, kept))}; again with --seed {options.seed} --rounds N")
        return 1
    if done < wanted:
        print(f"FAILED: {done} of {wanted} faults in {options.minutes:g} minutes")
        return 1
    print("No violation.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
