"""All attacks at once beside well-behaved tenants, for a chosen time: memory, threads, descriptors and disk must stay flat."""

import csv
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

from harness import cli, sql
from harness.cluster import Cluster

from .attack import MIB, Attack
from .attacker import Attacker
from .campaign import achieved, specification
from .victim import METRICS, Victim
from .world import VICTIM, Tenant, database_bytes, gateways, make_victim, usage

EVERY = 10.0
# Operations of each kind in a second are few, so that an hour's writes do not fill a partition of the log.
PERIOD = 0.25
VICTIMS = (VICTIM, f"{VICTIM}-too")
# The logs of all namespaces are kept short, so that the disk can be flat.
KEEP, RETENTION = "2000 entries", ("--retention-interval", "10s")
# The first part of the time, which is not judged: windows fill, caches warm up, PostgreSQL's tables reach their size.
WARM = 0.25
# By figure: the excess of the second half's median over 110 % of the first half's.
SLACK = {"rss": 64 * MIB, "threads": 8, "fds": 200, "disk": 64 * MIB}


def tables(url: str) -> dict[str, int]:
    """Bytes of each table of the schema, with its indexes; the log's partitions count together."""
    found = sql.rows(url, "SELECT CASE WHEN relname ~ '^log' THEN 'log' ELSE relname END, sum(pg_total_relation_size(oid))::bigint FROM pg_class "
                     "WHERE relnamespace = 'pathmirror'::regnamespace AND relkind = 'r' GROUP BY 1")
    return dict(found)


def verdicts(samples: list[dict], gateways_: int) -> list[str]:
    """The figures that are not flat: the median of the second half against that of the first half without its beginning."""
    half, faults = len(samples) // 2, []
    first, second = samples[int(len(samples) * WARM):half], samples[half:]
    figures = [f"{name}{number}" for number in range(gateways_) for name in ("rss", "threads", "fds")] + ["disk"]
    for figure in figures:
        before, after = (statistics.median(sample[figure] for sample in part) for part in (first, second))
        if after > before * 1.1 + SLACK[figure.rstrip("0123456789")]:
            faults.append(f"{figure} is not flat: {before:,.0f} in the first half, {after:,.0f} in the second")
    return faults


def run(attacks: list[Attack], postgres: Cluster, logs: Path, seconds: float, file: Path, out) -> bool:
    """Runs the soak. Writes a line of samples every ten seconds to `file`. True if every figure is flat and every tenant was served."""
    with ExitStack() as stack:
        start = stack.enter_context(gateways(postgres, logs, [*VICTIMS, *(attack.name for attack in attacks)], RETENTION))
        servers = [start()]
        url = servers[0].database_url
        cli.succeeds("retention", "set", "--all", "--keep", KEEP, "--yes", "--database-url", url)
        specs = [make_victim(servers[0], ns) for ns in VICTIMS]
        tenants = {attack.name: Tenant(servers[0], attack.name) for attack in attacks}
        prepared = {attack.name: attack.prepare(tenants[attack.name], False) for attack in attacks}
        servers.append(start())
        attackers = []
        for attack in attacks:
            attackers.append(Attacker(specification(attack, tenants[attack.name], servers[attack.through].port, prepared[attack.name])))
            stack.callback(attackers[-1].kill)
        victims = [Victim({**spec, "port": server.port, "period": PERIOD}) for spec, server in zip(specs, servers, strict=True)]
        for victim in victims:
            stack.callback(victim.close)
            victim.mark()
        names = sorted(tables(url))
        columns = ["second", *(f"{name}{number}" for number in range(len(servers)) for name in ("rss", "threads", "fds")), "disk",
                   *(f"{metric}{number} p99" for number in range(len(victims)) for metric in METRICS), "refused", "errors",
                   *(f"table {name}" for name in names), "table others"]
        samples, begin = [], time.monotonic()
        for attacker in attackers:
            attacker.go()
        with open(file, "w", newline="") as text:
            writer = csv.DictWriter(text, columns)
            writer.writeheader()
            while time.monotonic() - begin < seconds and all(server.process.running for server in servers):
                time.sleep(EVERY)
                samples.append(sample(time.monotonic() - begin, servers, victims, url, names))
                writer.writerow(samples[-1])
                text.flush()
        unfinished = []
        for attacker in attackers:
            found = attacker.finish()
            unfinished += [attacker.name] * (not found["seconds"])
            print(achieved({"attack": attacker.name, "attacker": found, "ended": []}), file=out, flush=True)
        faults = [f"these attackers ended early: {', '.join(unfinished)}"] if unfinished else []
        faults += [f"{server.process.name} ended:\n{server.process.tail()}" for server in servers if not server.process.running]
        faults += verdicts(samples, len(servers)) if len(samples) >= 4 else ["too few samples to judge: a soak takes a minute at least"]
        errors = sum(one["errors"] for one in samples)
        faults += [f"well-behaved tenants had {errors} errors"] if errors else []
        for number in range(len(victims)):
            for metric in METRICS:
                values = [one[f"{metric}{number} p99"] for one in samples if one[f"{metric}{number} p99"] is not None]
                if values:
                    print(f"{VICTIMS[number]:12} {metric:8} median of the p99 of {EVERY:g} s: {statistics.median(values):9.1f} ms; "
                          f"worst: {max(values):9.1f} ms", file=out)
        print("\n".join(faults) or "flat", file=out, flush=True)
        return not faults


def sample(second: float, servers, victims, url: str, names: list[str]) -> dict:
    """One line of the file."""
    line = {"second": round(second), "refused": 0, "errors": 0}
    for number, server in enumerate(servers):
        line |= {f"{name}{number}": value for name, value in usage(server).items()}
    for number, victim in enumerate(victims):
        found = victim.report()
        victim.mark()
        line |= {f"{metric}{number} p99": seen["p99"] for metric, seen in found.items()}
        line["refused"] += sum(seen["refused"] for seen in found.values())
        line["errors"] += sum(seen["errors"] for seen in found.values())
    sizes = tables(url)
    line["disk"] = database_bytes(servers[0])
    line |= {f"table {name}": sizes.pop(name, 0) for name in names}
    return {**line, "table others": sum(sizes.values())}
