"""Failovers of a PostgreSQL under Patroni, while clients work with gateways; then checks of all results.

    make campaign NAME=ha                                       50 failovers, about three quarters of an hour
    make campaign NAME=ha ARGS='--seed 7 --failovers 5'
    make campaign NAME=ha ARGS='--seed 7 --rounds 1 --only network'

The same seed makes the same faults in the same order. Exit status: 0 no violation, 1 a violation, or fewer failovers than
requested in the time; 2 wrong usage.
"""

import argparse
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "faults"), str(HERE.parent / "e2e")]

from ensemble import Ensemble  # noqa: E402
from failovers import FAILOVERS, KINDS, Failovers, Standstill, make  # noqa: E402
from harness.binary import pathmirror  # noqa: E402
from harness.scratch import scratch_directory  # noqa: E402
from nodes import TIMES, version  # noqa: E402
from onslaught import Result  # noqa: E402
from plan import Round  # noqa: E402


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ha", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="the dice; random and printed if not given")
    parser.add_argument("--failovers", type=int, default=50)
    parser.add_argument("--per-round", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=90, help="no round is begun after this")
    parser.add_argument("--rounds", help="only these rounds of the plan: 3, or 2-5, counted from 0")
    parser.add_argument("--only", help=f"only these kinds, by commas: {', '.join(KINDS)}")
    parser.add_argument("--ttl", type=int, default=TIMES["ttl"], help="Patroni's ttl, in seconds")
    parser.add_argument("--patroni", default="/usr/bin/patroni", help="Patroni's program")
    parser.add_argument("--not-strict", action="store_true", help="without synchronous_mode_strict")
    parser.add_argument("--keep", help="where the history and logs of a failed round go; a new directory if not given")
    return parser.parse_args()


def one_round(plan: Round, root: Path, options) -> tuple[Result, list[Standstill]]:
    def say(text: str):
        print(text, flush=True)

    begun, round_ = time.monotonic(), None
    with scratch_directory("ha") as place:
        logs = place / "logs"
        logs.mkdir()
        rig = Ensemble(place, logs, options.patroni, not options.not_strict, {"ttl": options.ttl})
        try:
            rig.start()
            round_ = Failovers(rig, plan, say)
            result = round_.run()
        except Exception as error:  # noqa: BLE001
            result = round_.result if round_ else Result()
            result.violations.append(f"the rig failed: {type(error).__name__}: {error}")
        finally:
            rig.close()
        say(f"  round {plan.number}: {sum(result.faults.values())} faults, {result.figures.get('operations', 0)} operations, "
            f"{result.figures.get('acknowledged', 0)} acknowledged, {result.figures.get('unknown', 0)} unknown, {result.checks} checks, "
            f"{len(result.violations)} violations, {time.monotonic() - begun:.0f} s")
        for text in result.violations:
            say(f"    VIOLATION {text}")
        if result.violations:
            target = root / f"round-{plan.number}"
            shutil.copytree(logs, target / "logs", dirs_exist_ok=True)
            if round_:
                round_.keep(target)
            (target / "violations").write_text("\n".join(result.violations) + "\n")
        return result, round_.standstills if round_ else []


def report(results: list[Result], standstills: list[Standstill]):
    print(f"\n{'what happened':16} {'times':>5}  for how long a gateway's writes stood still: least, median, nine tenths, most")
    for kind in KINDS:
        seconds = sorted(one.seconds for one in standstills if one.kind == kind)
        times = sum(result.faults.get(kind, 0) for result in results)
        if seconds:
            print(f"{kind:16} {times:5}  {seconds[0]:5.1f} {statistics.median(seconds):5.1f} {seconds[int(0.9 * (len(seconds) - 1))]:5.1f} "
                  f"{seconds[-1]:5.1f} s   of {' '.join(f'{one:.1f}' for one in seconds)}")
    figures: dict[str, int] = {}
    for result in results:
        for name, count in result.figures.items():
            figures[name] = figures.get(name, 0) + count
    print("\n" + "\n".join(f"{name:50} {count}" for name, count in figures.items()))


def main() -> int:
    options = parse()
    options.patroni = Path(options.patroni).absolute()
    # A terminated test run stops its servers as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    kinds = tuple(options.only.split(",")) if options.only else KINDS
    if unknown := set(kinds) - set(KINDS):
        sys.exit(f"ha: no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    rounds = make(seed, options.failovers, options.per_round, kinds)
    if options.rounds:
        first, _, last = options.rounds.partition("-")
        rounds = rounds[int(first):int(last or first) + 1]
    print(f"ha: seed {seed}, {len(rounds)} rounds, ttl {options.ttl} s, {version(options.patroni)}, {pathmirror()}", flush=True)
    begun, results, standstills = time.monotonic(), [], []
    root = Path(options.keep or tempfile.mkdtemp(prefix="pathmirror-ha-"))
    root.mkdir(parents=True, exist_ok=True)
    for plan in rounds:
        if time.monotonic() - begun > options.minutes * 60:
            break
        print(f"round {plan.number}, at {time.monotonic() - begun:.0f} s", flush=True)
        result, stood = one_round(plan, root, options)
        results.append(result)
        standstills += stood
        report(results, standstills)
    done = sum(count for result in results for kind, count in result.faults.items() if kind in FAILOVERS)
    wanted = sum(fault.kind in FAILOVERS for plan in rounds for fault in plan.faults)
    violations = sum(len(result.violations) for result in results)
    print(f"\nseed {seed}: {done} failovers, {sum(result.checks for result in results)} checks, {violations} violations, "
          f"{(time.monotonic() - begun) / 60:.1f} minutes")
    if violations:
        print(f"FAILED: see {root}; again with --seed {seed} --rounds N")
        return 1
    if done < wanted:
        print(f"FAILED: {done} of {wanted} failovers in {options.minutes:g} minutes")
        return 1
    if not any(root.iterdir()):
        root.rmdir()
    print("No violation.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
