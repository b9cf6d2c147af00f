"""An update from one version to another under load, in one order of steps; then checks of all results.

    scripts/upgrade OLD                      the orders of docs/guides/upgrade.md
    scripts/upgrade OLD --order gateways-later --seed 7

OLD is the older version's binary. The clients are those of the fault campaign, without feeds if the older version has none. They write,
read, listen and use onDisconnect with two gateways of the older version, while this program migrates the database and replaces one
gateway after the other. Exit status: 0 no violation, 1 a violation, 2 wrong usage.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "faults"), str(HERE.parent / "e2e")]

from harness.binary import pathmirror  # noqa: E402
from harness.scratch import scratch_directory  # noqa: E402
from onslaught import Result  # noqa: E402
from plan import Fault, Round  # noqa: E402
from versions import Changeover, Pair, version  # noqa: E402

# The steps, and the seconds until the next one.
ORDERS = {
    # As deploy/rolling-update does it.
    "migrate-first": [("migrate", 6), ("replace-a", 12), ("replace-b", 6)],
    # The older gateways continue for longer than any lease, polling interval or cache lasts.
    "gateways-later": [("migrate", 30), ("replace-a", 30), ("replace-b", 10)],
    # A newer gateway that migrates when it starts.
    "newer-gateway-migrates": [("replace-a-migrating", 15), ("replace-b", 6)],
    # One gateway of the older version ends hard, and stands still, beside a newer one.
    "older-dies": [("migrate", 5), ("replace-a", 10), ("freeze-b", 8), ("kill-b", 8), ("replace-b", 6)],
    # All connections to the database are lost in between, as in a failover. Gateways of 0.1.0 take no writes after that.
    "connections-lost": [("migrate", 5), ("disconnect", 20), ("replace-a", 10), ("disconnect", 12), ("replace-b", 6)],
}
BY_DEFAULT = [order for order in ORDERS if order != "connections-lost"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="upgrade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the older version's binary")
    parser.add_argument("--seed", type=int, help="the dice of the clients; random and printed if not given")
    parser.add_argument("--order", help=f"these orders, by commas: {', '.join(ORDERS)}; all but the last if not given")
    parser.add_argument("--keep", help="where the history and logs of a failed update go; a new directory if not given")
    options = parser.parse_args()
    options.old = options.old.resolve()
    if not options.old.is_file():
        parser.error(f"there is no program at {options.old}")
    return options


def plan(number: int, order: str, seed: int) -> Round:
    faults, at = [], 6.0
    for kind, wait in ORDERS[order]:
        faults.append(Fault(len(faults), kind, at, 0.0, None))
        at += wait
    # The last step has no successor until that time has passed.
    faults.append(Fault(len(faults), "look", at, 0.0, None))
    return Round(number, seed, False, False, tuple(faults))


def update(order: str, seed: int, options, root: Path) -> Result:
    begun, changeover = time.monotonic(), None
    with scratch_directory("upgrade") as place:
        logs = place / "logs"
        logs.mkdir()
        pair = Pair(place, logs, options.old)
        try:
            pair.start()
            pair.refuses(pair.new, "run 'pathmirror migrate up'")
            changeover = Changeover(pair, plan(0, order, seed), lambda text: print(text, flush=True))
            result = changeover.run()
            pair.refuses(pair.old, "use a newer pathmirror")
        except Exception as error:  # noqa: BLE001
            result = changeover.result if changeover else Result()
            result.violations.append(f"the rig failed: {type(error).__name__}: {error}")
        finally:
            pair.close()
        figures = result.figures
        print(f"  {figures.get('operations', 0)} operations, {figures.get('acknowledged', 0)} acknowledged, {figures.get('unknown', 0)} unknown, "
              f"{figures.get('entries', 0)} entries, {figures.get('events of streams', 0)} events, "
              f"{figures.get('onDisconnect requests', 0)} onDisconnect requests, "
              f"{figures.get('streams that the older version refused', 0)} streams refused by the older version, {result.checks} checks, "
              f"writes of a gateway stood still for {max(result.gaps.values(), default=0):.1f} s at most, "
              f"{len(result.violations)} violations, {time.monotonic() - begun:.0f} s", flush=True)
        for text in result.violations:
            print(f"    VIOLATION {text}")
        if result.violations:
            target = root / order
            shutil.copytree(logs, target / "logs", dirs_exist_ok=True)
            if changeover:
                changeover.keep(target)
            (target / "violations").write_text("\n".join(result.violations) + "\n")
        return result


def main() -> int:
    options = parse()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    orders = options.order.split(",") if options.order else BY_DEFAULT
    if unknown := set(orders) - set(ORDERS):
        print(f"upgrade: no such order: {', '.join(sorted(unknown))}; there are {', '.join(ORDERS)}", file=sys.stderr)
        return 2
    print(f"upgrade: seed {seed}, from {version(options.old)} to {version(Path(pathmirror()))}", flush=True)
    root = Path(options.keep or tempfile.mkdtemp(prefix="pathmirror-upgrade-"))
    root.mkdir(parents=True, exist_ok=True)
    violations = 0
    for order in orders:
        print(f"{order}: {', '.join(kind for kind, _ in ORDERS[order])}", flush=True)
        violations += len(update(order, seed, options, root).violations)
    if violations:
        print(f"FAILED: {violations} violations, see {root}; again with --seed {seed}")
        return 1
    if not any(root.iterdir()):
        root.rmdir()
    print("No violation.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
