"""One attack after the other: quiet values, the attack, and a verdict for each figure."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from harness.cluster import Cluster

from .attack import MIB, Attack
from .attacker import Attacker
from .victim import METRICS, Victim
from .world import VICTIM, Sampler, Tenant, database_bytes, gateways, make_victim, total

QUIET = 10.0


def specification(attack: Attack, tenant: Tenant, port: int, more: dict) -> dict:
    return {"attack": attack.name, "ns": tenant.ns, "secret": tenant.secret, "port": port, **more}


def measure(attack: Attack, postgres: Cluster, logs: Path, seconds: float, quiet_seconds: float | None = None, short: bool = False) -> dict:
    """Runs one attack. Returns the victim's figures (milliseconds), the gateways' use, and the attacker's results."""
    with ExitStack() as stack:
        start = stack.enter_context(gateways(postgres, logs, [VICTIM, attack.name]))
        servers = [start()]
        # The first gateway works all feeds: it is alone while they are created.
        spec, tenant = make_victim(servers[0]), Tenant(servers[0], attack.name)
        more = attack.prepare(tenant, short)
        servers += [start() for _ in range(attack.gateways - 1)]
        port = servers[attack.through].port
        before = total(servers)
        attacker = Attacker(specification(attack, tenant, port, more))
        stack.callback(attacker.kill)
        victim = Victim({**spec, "port": port})
        stack.callback(victim.close)
        # The first seconds fill caches, and do not count.
        time.sleep(1 if short else 2)
        victim.mark()
        time.sleep(quiet_seconds or min(seconds, QUIET))
        quiet = victim.report()
        before["disk"] = database_bytes(servers[0])
        with Sampler(servers, attacker.kill) as sampler:
            victim.mark()
            attacker.go()
            time.sleep(seconds)
            attacked = victim.report()
        report = attacker.finish()
        time.sleep(1 if short else 3)
        after = {**total(servers), "disk": database_bytes(servers[0])}
        # An attack without effect proves nothing.
        ended = [server.process.name for server in servers if not server.process.running] + ["attacker"] * (not report["seconds"])
        return {"attack": attack.name, "quiet": quiet, "attacked": attacked, "before": before, "during": {**sampler.most, "disk": after["disk"]}, "after": after,
                "attacker": report, "ended": ended}


def bound(quiet_p99: float) -> float:
    """The aim for a p99 under attack, in milliseconds."""
    return 3 * quiet_p99 + 20


def rows(attack: Attack, found: dict) -> Iterator[dict]:
    """A line for each metric of the victim, and one for each resource of the gateways, with verdicts."""
    use = {"before": found["before"], "during": found["during"], "after": found["after"], "attacker": found["attacker"], "ended": found["ended"]}
    for metric in METRICS:
        quiet, attacked = found["quiet"][metric], found["attacked"][metric]
        aim = bound(quiet["p99"]) if quiet["p99"] is not None else None
        holds = bool(aim and attacked["p99"] is not None and attacked["p99"] <= aim and not attacked["errors"] and not found["ended"])
        yield {"attack": attack.name, "metric": metric, "quiet_p50": quiet["p50"], "quiet_p99": quiet["p99"], "attack_p50": attacked["p50"],
               "attack_p99": attacked["p99"], "attack_worst": attacked["worst"], "aim": aim and round(aim, 1), "count": attacked["count"],
               "open": attacked["open"], "refused": attacked["refused"], "errors": attacked["errors"], "examples": attacked["examples"],
               "holds": holds, **use}
    for name, allowed in allowances(attack).items():
        grown = found["during"][name] - found["before"][name]
        yield {"attack": attack.name, "metric": name, "grown": grown, "aim": allowed, "holds": grown <= allowed and not found["ended"], **use}


def allowances(attack: Attack) -> dict:
    """The growth that the gateways may have during an attack."""
    return {"rss": attack.more_bytes, "threads": attack.more_threads, "fds": attack.connections + attack.more_descriptors,
            "disk": attack.more_disk}


HEAD = (f"{'attack':20} {'metric':8} {'quiet p50':>9} {'p99':>8} {'attack p50':>10} {'p99':>9} {'worst':>9} {'aim':>8} {'refused':>7} "
        f"{'errors':>6}  verdict")


def line(row: dict) -> str:
    """A row of the table."""
    verdict = "holds" if row["holds"] else "EXCEEDED"
    if "grown" in row:
        unit, part = ("MiB", MIB) if row["metric"] in ("rss", "disk") else ("", 1)
        figures = " → ".join(f"{row[when][row['metric']] / part:.0f}" for when in ("before", "during", "after"))
        return f"{row['attack']:20} {row['metric']:8} {figures} {unit}; at most {row['aim'] / part:.0f} more  {verdict}"

    def number(name: str, width: int) -> str:
        return f"{row[name]:{width}.1f}" if row[name] is not None else " " * (width - 1) + "–"

    return (f"{row['attack']:20} {row['metric']:8} {number('quiet_p50', 9)} {number('quiet_p99', 8)} {number('attack_p50', 10)} "
            f"{number('attack_p99', 9)} {number('attack_worst', 9)} {number('aim', 8)} {row['refused']:7} {row['errors']:6}  {verdict}")


def achieved(found: dict) -> str:
    """The attacker's results as text."""
    seconds, counts = found["attacker"]["seconds"], found["attacker"]["counts"]
    text = ", ".join(f"{count:,} × {what}" for what, count in sorted(counts.items()))
    return f"{found['attack']}: in {seconds:g} s the attacker had {text or 'no answer'}" + (f"; ENDED: {found['ended']}" if found["ended"] else "")


def run(attacks: list[Attack], postgres: Cluster, logs: Path, seconds: float, out) -> bool:
    """Runs attacks one after the other. Writes a line of JSON for each figure, and the table. True if every figure holds."""
    table, holds = [HEAD], True
    for attack in attacks:
        found = measure(attack, postgres, logs, seconds)
        for row in rows(attack, found):
            print(json.dumps(row), file=out, flush=True)
            table.append(line(row))
            holds = holds and row["holds"]
        table += [achieved(found), ""]
    print("\n".join(table), file=out, flush=True)
    return holds
