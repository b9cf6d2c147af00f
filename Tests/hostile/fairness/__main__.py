"""`python -m fairness`: measures tenants while another one attacks; scripts/fairness runs it."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from .attacks import ATTACKS, BY_NAME


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fairness", description="Latencies of a tenant, quiet and while another tenant attacks.")
    parser.add_argument("--only", action="append", choices=sorted(BY_NAME), help="this attack only; may be repeated")
    parser.add_argument("--seconds", type=float, default=20, help="length of each attack (20)")
    parser.add_argument("--binary", type=Path, help="the gateway; else PATHMIRROR_BINARY, else the release build")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="all attacks at once for so long, and whether resources stay flat")
    parser.add_argument("--csv", type=Path, default=Path("fairness-soak.csv"), help="where --soak writes its samples (fairness-soak.csv)")
    parser.add_argument("--list", action="store_true", help="the attacks with a description")
    chosen = parser.parse_args()
    if chosen.list:
        for attack in ATTACKS:
            print(f"{attack.name:20} {attack.summary}")
        return 0
    if chosen.binary:
        os.environ["PATHMIRROR_BINARY"] = str(chosen.binary.resolve())
    from . import campaign, soak, world

    attacks = [attack for attack in ATTACKS if not chosen.only or attack.name in chosen.only]
    with tempfile.TemporaryDirectory(prefix="pathmirror-fairness-") as logs, world.cluster(Path(logs)) as postgres:
        if chosen.soak:
            return 0 if soak.run(attacks, postgres, Path(logs), chosen.soak * 60, chosen.csv, sys.stdout) else 1
        return 0 if campaign.run(attacks, postgres, Path(logs), chosen.seconds, sys.stdout) else 1


if __name__ == "__main__":
    sys.exit(main())
