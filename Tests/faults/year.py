"""A campaign, not part of `make test`: a year of 1,000 writes a second on a log that gateways shorten by themselves, with a clock that runs
as fast as the writes come. One entry stands for a thousand: the log's partitions begin with a thousandth of a million entries, and the
gateway examines those of more than a thousand in steps before it drops them. The campaign fails if a size grows steadily, the log is not
shortened, there are too many partitions, or data is lost.

    PATHMIRROR_BINARY=.build/release/pathmirror python Tests/faults/year.py --days 365"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "e2e")]

import psycopg  # noqa: E402
from harness import cli  # noqa: E402
from harness.gateway import SECRET, Gateway, start_serve  # noqa: E402
from harness.scratch import scratch_directory  # noqa: E402
from harness.waiting import wait_until  # noqa: E402
from rig.server import Clock, Server, build_library  # noqa: E402

DAY = 86_400
# One entry of the campaign stands for this number of the year: its clock advances by a second for each.
SCALE = 1_000
PARTITION = 1_000_000 // SCALE
KEEP_DAYS, MONTH_DAYS = 30, 30
# By default a snapshot is taken when a quarter of the time that is kept has passed: so much more stays at most.
MOST_DAYS = KEEP_DAYS * 5 / 4
MESSAGES_A_DAY = 200
MIRROR = {"name": "messages", "path": "/messages/{day}/{id}", "table": "mirror.messages", "columns": {"text": "text", "at": "bigint"}}
CLIENTS = Path(__file__).resolve().parents[2] / "Benchmarks" / "clients"
# The largest number of partitions for the kept time, once those of the log's beginning are dropped, and of snapshots.
MOST_PARTITIONS, MOST_SNAPSHOTS = 110, 8
CATALOGS = ("pg_class", "pg_attribute", "pg_type", "pg_depend", "pg_shdepend", "pg_index", "pg_constraint", "pg_inherits", "pg_statistic",
            "pg_attrdef", "pg_trigger", "pg_proc")


class Database:
    """Queries the database."""

    def __init__(self, url: str):
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)

    def one(self, query: str, *values):
        return self.connection.execute(query, values).fetchone()[0]

    def head(self) -> int:
        return self.one("select head from pathmirror.namespace where name = 'default'")

    def partitions(self) -> int:
        return self.one("select count(*) from pg_class where relnamespace = 'pathmirror'::regnamespace and relkind = 'r' and relname ~ '^log_[0-9]+_'")

    def scale(self):
        """Divides the size limits of the functions that shorten the log by a thousand."""
        for function in ("drop_log", "look_through_log"):
            text = self.one("select pg_get_functiondef(%s::regprocedure)", f"pathmirror.{function}(bigint)")
            assert "1000000" in text
            self.connection.execute(text.replace("1000000", str(PARTITION)).replace("50000", "5000"))

    def sizes(self) -> dict[str, int]:
        """Bytes of each table but the log's own partitions, and of the catalogs that have a row for each table."""
        found = dict(self.connection.execute(
            "select oid::regclass::text, pg_total_relation_size(oid) from pg_class where relnamespace in ('pathmirror'::regnamespace, "
            "'mirror'::regnamespace) and relkind = 'r' and relname !~ '^log_[0-9]+_'").fetchall())
        found |= {name: self.one("select pg_total_relation_size(%s::regclass)", name) for name in CATALOGS}
        found["write-ahead log"] = self.one("select sum(size)::bigint from pg_ls_waldir()")
        return found


class FastClock(threading.Thread):
    """Advances the clock by a second for each entry of the log, and creates partitions ahead of it."""

    def __init__(self, clock: Clock, url: str):
        super().__init__(daemon=True)
        self.clock, self.database, self.head = clock, Database(url), 0
        self.namespace = self.database.one("select id from pathmirror.namespace where name = 'default'")
        self.stop, self.failure = threading.Event(), None
        self.prepare()

    def prepare(self):
        self.ahead = self.database.one("select pathmirror.ensure_log_partition(%s, %s, %s)", self.namespace, self.head + 200 * PARTITION, PARTITION)

    def run(self):
        try:
            while not self.stop.wait(0.02):
                self.head = self.database.head()
                self.clock.step(self.head)
                if self.ahead < self.head + 100 * PARTITION:
                    self.prepare()
        except Exception as failure:  # On any failure the clock stops.
            self.failure = failure


def ask(gateway: Gateway, method: str, path: str, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
    connection.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {SECRET}"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status == 200, (answer.status, content[:300])
    return json.loads(content)


def one_day(gateway: Gateway, day: int):
    """New messages, and the removal of those of a month ago, in one update."""
    changes: dict = {f"{day}/m{number}": {"text": f"message {number} of day {day}", "at": day * DAY + number} for number in range(MESSAGES_A_DAY)}
    if day >= MONTH_DAYS:
        changes[f"{day - MONTH_DAYS}"] = None
    ask(gateway, "PATCH", "/messages.json", changes)


def latency(gateway: Gateway) -> float:
    """The median of the milliseconds of a PUT beside the other work."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
    times = []
    for number in range(100):
        start = time.monotonic()
        connection.request("PUT", "/probe.json", str(number), {"Authorization": f"Bearer {SECRET}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        times.append(1_000 * (time.monotonic() - start))
    connection.close()
    return statistics.median(times)


def a_year(options, gateway: Gateway, database: Database, clock: FastClock, writers: Path) -> list[dict]:
    months, day, begun, first = [], 0, time.monotonic(), database.head()
    load = None
    try:
        while (today := (clock.head - first) // DAY) < options.days:
            if load is None or load.poll() is not None:
                ended_well(load)
                load = subprocess.Popen([writers, str(gateway.port), "8", "16", "30", "10000", "200", str(day + 1)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while day < today:
                one_day(gateway, day)
                day += 1
                if day % MONTH_DAYS == 0:
                    months.append(looked_at(gateway, database, clock, day, begun))
            assert clock.failure is None, clock.failure
            time.sleep(0.05)
        load.wait()
        ended_well(load)
    finally:
        if load and load.poll() is None:
            load.kill()
    while day < options.days:
        one_day(gateway, day)
        day += 1
    return months


def ended_well(load: subprocess.Popen | None):
    if load:
        out, errors = load.communicate()
        assert load.returncode == 0 and json.loads(out)["wrong"] == 0, (out, errors)


def looked_at(gateway: Gateway, database: Database, clock: FastClock, day: int, begun: float) -> dict:
    oldest = database.one("select extract(epoch from clock_timestamp() - min(committed_at)) / 86400 from "
                          "(select committed_at from pathmirror.log order by namespace_id, seq limit 1) as first")
    month = {"day": day, "sizes": database.sizes(), "partitions": database.partitions(), "oldest": float(oldest), "put": latency(gateway),
             "snapshots": database.one("select count(*) from pathmirror.snapshot"), "gateway": resident(gateway)}
    sizes = month["sizes"]
    print(f"day {day:4}, {time.monotonic() - begun:5.0f} s: {clock.head:,} entries, the oldest {oldest:.1f} days; {month['partitions']:,} partitions, "
          f"{month['snapshots']} snapshots; tables {sum(sizes.values()) / 1e6:.0f} MB; largest "
          + ", ".join(f"{name} {size / 1e6:.1f}" for name, size in sorted(sizes.items(), key=lambda each: -each[1])[:6])
          + f"; a PUT {month['put']:.1f} ms; gateway {month['gateway'] / 1e6:.0f} MB", flush=True)
    return month


def resident(gateway: Gateway) -> int:
    return int(Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(months: list[dict]) -> list[str]:
    """The sizes that were larger in the last quarter of the months than in the quarter before the middle."""
    if len(months) < 8:
        return []
    quarter = len(months) // 4
    early, late = months[len(months) // 2 - quarter:len(months) // 2], months[-quarter:]
    found = []
    if max(month["sizes"]["write-ahead log"] for month in months) > 1.2e9:
        found.append("the write-ahead log is larger than max_wal_size")
    for name in sorted({name for month in months for name in month["sizes"]} - {"write-ahead log"}):
        before, after = (max(month["sizes"].get(name, 0) for month in some) for some in (early, late))
        if after > 1.25 * before + (1 << 20):
            found.append(f"{name}: {before / 1e6:.1f} MB, and {after / 1e6:.1f} MB later")
    before, after = (max(month["gateway"] for month in some) for some in (early, late))
    if after > 1.25 * before + (16 << 20):
        found.append(f"the gateway's memory: {before / 1e6:.0f} MB, and {after / 1e6:.0f} MB later")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365, help="below 240 nothing is said of growth")
    options = parser.parse_args()
    with scratch_directory("year") as root:
        logs = root / "logs"
        logs.mkdir()
        writers = root / "writers"
        subprocess.run([os.environ.get("CC") or "cc", "-O2", "-pthread", "-o", writers, CLIENTS / "writers.c"], check=True)
        clock = Clock(build_library("clock", root), root / "clock")
        server = Server(root, logs, None, clock, {
            "shared_buffers": "256MB", "max_wal_size": "1GB", "min_wal_size": "80MB", "autovacuum_naptime": "1s", "max_connections": 100})
        gateway = None
        try:
            server.start()
            with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
                connection.execute("create database pm")
            # All programs that are started from now on have the same clock.
            os.environ.update(clock.environment)
            gateway = start_serve(server.url(), root, logs, "--retention-interval", "200ms", "--log-level", "warning")
            return the_year_is_over(options, gateway, Database(server.url()), clock, writers, root)
        finally:
            if gateway:
                print(gateway.process.stderr()[-3000:], file=sys.stderr)
                gateway.sweep()
            server.stop("immediate")


def the_year_is_over(options, gateway: Gateway, database: Database, clock: Clock, writers: Path, root: Path) -> int:
    source = ("--database-url", database.url)
    ask(gateway, "PUT", "/messages/first/m.json", {"text": "the first", "at": 0})
    definition = root / "mirror.json"
    definition.write_text(json.dumps(MIRROR))
    cli.succeeds("mirror", "apply", definition, "--yes", *source)
    cli.succeeds("retention", "set", "--all", "--keep", f"{KEEP_DAYS}d", "--yes", *source)
    database.scale()
    fast = FastClock(clock, database.url)
    fast.start()
    months = a_year(options, gateway, database, fast, writers)
    fast.stop.set()
    fast.join()
    assert fast.failure is None, fast.failure
    violations = grown(months)

    wait_until(lambda: database.one("select seq = head from pathmirror.mirror_status where name = 'messages'"), "the mirror to be at the head", 60)
    rows, wanted = database.one("select count(*) from mirror.messages"), 1 + MESSAGES_A_DAY * min(MONTH_DAYS, options.days)
    if rows != wanted:
        violations.append(f"the mirror has {rows:,} of {wanted:,} rows")
    for month in months[3:]:
        if month["partitions"] > MOST_PARTITIONS or month["snapshots"] > MOST_SNAPSHOTS:
            violations.append(f"day {month['day']}: {month['partitions']} partitions, {month['snapshots']} snapshots")
        if month["oldest"] > MOST_DAYS + 2 or month["oldest"] < KEEP_DAYS - 1:
            violations.append(f"day {month['day']}: the oldest entry was of {month['oldest']:.1f} days before")
    if database.one("select bool_or(message is not null) from pathmirror.retention_run"):
        violations.append(f"shortening fails at the end: {database.one('select message from pathmirror.retention_run')}")
    print(f"{gateway.process.stderr().count('was not shortened')} times a lock was not to be had at once, or the like")
    if database.one("select count(*) from pg_class where relnamespace = 'pathmirror'::regnamespace and relkind = 'r' and relname ~ '^log_[0-9]+_' "
                    "and split_part(relname, '_', 3)::bigint > %s", fast.ahead):
        violations.append("the clock was too slow: a gateway has made partitions")
    print(cli.succeeds("log", "verify", *source, patience=1_800))
    print(cli.command("doctor", *source).stdout)
    for violation in violations:
        print(f"VIOLATION: {violation}")
    print("FAILED" if violations else "No violation.")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
