"""A namespace that follows another gateway's: from the upstream's messages over the log to a mirror, against one client that writes directly."""

import json
import time

from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong, writers, wrk
from harness.relay import Relay
from harness.report import figure, typical
from suites.puts import KEYS, LENGTH

NAME = "follow"
# One client: a WebSocket with so many unanswered writes.
IN_FLIGHT = 64
RATE = 1_000
# So many that nearly every write is a row of its own, with its own time.
OBJECTS = 5_000_000
OPEN = '{"rules": {".read": true, ".write": true}}'
LEAVES = {"name": "bench", "path": "/bench/{key}", "columns": {"text": {"type": "text", "path": "."}}}
RECORDS = {"name": "bench", "path": "/bench/{key}", "columns": {
    "active": "boolean", "age": "bigint", "email": "text", "name": "text", "updated": "bigint"}}
HEAD = "select head from pathmirror.namespace where name = 'default'"
WAIT = "select pathmirror.wait_for('default', {seq}, '300 s')"
STATUS = "select state || ' ' || coalesce(message, '') from pathmirror.follow_status"
RESYNCS = "select count(*) from pathmirror.log_entry where namespace = 'default' and op = 'resync'"
# For each record the times, in milliseconds, of the commits that wrote it.
WRITTEN = """
select json_object_agg(path, at) from (
    select log.path, extract(epoch from pg_xact_commit_timestamp(log.xmin)) * 1000 as at, count(*) over (partition by log.path) as times
    from pathmirror.log where namespace_id = pathmirror.namespace_id('default') and log.seq > {after}) as entry where times = 1"""
MIRRORED = """
select json_object_agg('/bench/' || key, extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000) from mirror.bench where _seq > {after}"""


def run(context: Context):
    throughput(context)
    lag(context)


class Pair:
    """A gateway as the upstream, and one whose namespace follows it through a relay into a mirror. Use as a context."""

    def __init__(self, definition: dict):
        self.definition, self.upstream, self.follower = definition, Gateway(), Gateway()

    def __enter__(self) -> "Pair":
        try:
            self.upstream.__enter__()
            self.follower.__enter__()
            self.relay = Relay(self.upstream.port)
            for gateway in (self.upstream, self.follower):
                gateway.sql("alter system set track_commit_timestamp = on")
                gateway.restart()
            self.upstream.request("PUT", "/bench/first.json", '"first"')
            mirrored(self.follower, self.definition)
            self.follower.command("follow", "add", "default", "--upstream", f"http://127.0.0.1:{self.relay.port}/?ns=default",
                                  "--credentials", "owner", "--keep-rules")
            self.wait_for(1, 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if hasattr(self, "relay"):
            self.relay.__exit__()
        self.follower.__exit__()
        self.upstream.__exit__()

    def heads(self) -> tuple[int, int]:
        return int(self.upstream.sql(HEAD)), int(self.follower.sql(HEAD))

    def wait_for(self, seq: int, patience: float = 300):
        """Waits until the follower's log has come to a seq, and the mirror, too."""
        end = time.monotonic() + patience
        while int(self.follower.sql(HEAD)) < seq:
            if time.monotonic() > end:
                raise Wrong(f"the follower is at {self.follower.sql(HEAD)} instead of {seq}: {self.follower.sql(STATUS)}")
            time.sleep(0.02)
        self.follower.sql(WAIT.format(seq=seq), patience=patience)

    def check(self):
        """Each write of the upstream was one entry, without a gap, and both have the same tree."""
        resyncs = int(self.follower.sql(RESYNCS))
        if resyncs != 1:
            raise Wrong(f"{resyncs} resync entries instead of that of the first load: {self.follower.sql(STATUS)}")
        told = self.follower.command("follow", "verify", "default")
        if "equal at" not in told:
            raise Wrong(f"the namespace differs from its upstream: {told}")


def mirrored(gateway: Gateway, definition: dict):
    file = gateway.root / "mirror.json"
    file.write_text(json.dumps(definition))
    gateway.command("mirror", "apply", file, "--yes")


def settle(context: Context, *gateways: Gateway):
    for gateway in gateways:
        gateway.checkpoint()
    context.quiet.wait()


def rate(pair: Pair, seconds: int, seed: int, holds: bool) -> tuple[float, float]:
    """(entries a second from the upstream's first message to the last row of the mirror, writes a second of the client)."""
    before = pair.heads()
    if holds:
        pair.relay.hold()
    start = time.monotonic()
    load = writers(pair.upstream, seconds, 1, IN_FLIGHT, KEYS, LENGTH, seed)
    count = int(pair.upstream.sql(HEAD)) - before[0]
    if count < load.per_second * seconds * 0.9:
        raise Wrong(f"the upstream has {count} entries of {load.per_second * seconds:.0f} writes")
    if holds:
        # Its last messages leave the upstream.
        time.sleep(0.5)
        start = time.monotonic()
        pair.relay.release()
    pair.wait_for(before[1] + count)
    return count / (time.monotonic() - start), load.per_second


def throughput(context: Context):
    seconds = context.pick(4, 2)
    with Pair(LEAVES) as pair, Gateway() as alone:
        mirrored(alone, LEAVES)
        directly, followed, live, offered = [], [], [], []
        for number in context.rounds(4, 1, until=90):
            context.progress(f"one client, round {number + 1}")
            settle(context, alone)
            directly.append(writers(alone, seconds, 1, IN_FLIGHT, KEYS, LENGTH, number).per_second)
            alone.sql(WAIT.format(seq=int(alone.sql(HEAD))), patience=300)
            for holds in (True, False):
                settle(context, pair.upstream, pair.follower)
                reached, written = rate(pair, seconds, 2 * number + holds, holds)
                (followed if holds else live).append(reached)
                if not holds:
                    offered.append(written)
        pair.check()
    context.measure("entries a second from the upstream's messages to the mirror / writes a second of one client at the gateway",
                    [one / other for one, other in zip(followed, directly)], aim=0.7,
                    absolute=f"{typical(followed)} against {typical(directly)} a second, 200 bytes each, one WebSocket with {IN_FLIGHT} in flight")
    context.measure("  the same while the upstream, its PostgreSQL and its client use the same processors",
                    [one / other for one, other in zip(live, directly)],
                    absolute=f"{typical(live)} a second; the client wrote {typical(offered)} to the upstream")
    context.note("a relay holds the upstream's messages back until its client has ended, and then sends them at once: the first line is what "
                 "the follower, its log and its mirror can do with the processors that the client that writes directly has for itself. Either "
                 "side has the same mirror; the follower's figure is until its last row, the client's until its last answer")


def lag(context: Context):
    seconds = context.pick(10, 4)
    with Pair(RECORDS) as pair:
        medians, high, worst, logged = [], [], [], []
        for number in context.rounds(3, 1, until=150):
            context.progress(f"{RATE:,} writes a second, round {number + 1}")
            settle(context, pair.upstream, pair.follower)
            before = pair.heads()
            load = wrk(pair.upstream, "/", seconds, 16, "put.lua", ("object", OBJECTS, number, 9, RATE / 2))
            if not 0.9 * RATE < load.per_second < 1.05 * RATE:
                raise Wrong(f"{load.per_second:.0f} writes a second instead of {RATE}")
            pair.wait_for(before[1] + int(pair.upstream.sql(HEAD)) - before[0])
            written, entries, rows = (json.loads(gateway.sql(text.format(after=after))) for gateway, text, after in (
                (pair.upstream, WRITTEN, before[0]), (pair.follower, WRITTEN, before[1]), (pair.follower, MIRRORED, before[1])))
            to_log, to_row = lags(written, entries), lags(written, rows)
            if min(len(to_log), len(to_row)) < 0.9 * RATE * seconds:
                raise Wrong(f"only {len(to_log)} entries and {len(to_row)} rows of {len(written)} writes were found")
            logged.append(part(to_log, 0.99))
            medians.append(part(to_row, 0.5))
            high.append(part(to_row, 0.99))
            worst.append(to_row[-1])
        pair.check()
    context.measure(f"from a commit at the upstream to the row of the mirror, {RATE:,} writes a second: 99th percentile", high, unit=" ms", at_most=50,
                    absolute=f"largest of all: {figure(max(worst))} ms")
    context.measure("  to the entry in the log: 99th percentile", logged, unit=" ms")
    context.measure("  to the row: median", medians, unit=" ms")


def lags(written: dict[str, float], done: dict[str, float]) -> list[float]:
    """Milliseconds between two commits for each path, in order."""
    return sorted(done[path] - at for path, at in written.items() if path in done)


def part(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]
