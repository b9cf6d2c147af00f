"""The cost of a synchronous standby for a write: the same PUTs with a synchronous one, an asynchronous one, and none."""

import json
import os
import shutil
import time

from harness import machine, process
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Load, Wrong, wrk
from harness.report import typical
from suites.puts import KEYS, LENGTH

NAME = "standby"
WAYS = ("none", "asynchronous", "synchronous")


def run(context: Context):
    with Gateway() as gateway, Standby(gateway) as standby:
        gateway.request("PUT", "/bench.json", json.dumps({f"k{key}": "y" * LENGTH for key in range(1, KEYS + 1)}))
        for connections in (1, 64):
            compare(gateway, standby, context, connections)
        result = json.loads(gateway.command("log", "verify", "--json"))
        if not result["clean"]:
            raise Wrong(f"log verify found {result['differences']} differences")
    context.note("the standby is on the same disk and the same processors: between machines there are a network's round trip and a disk of its own")


class Standby:
    """A second PostgreSQL that follows the gateway's, on a data directory with the same lifetime."""

    def __init__(self, gateway: Gateway):
        self.gateway = gateway
        self.data, self.sockets = gateway.root / "standby", gateway.root / "standby-run"
        self.child = None

    def __enter__(self) -> "Standby":
        owner = (self.gateway.data / "pgdata").stat()
        process.run([machine.program("pg_basebackup"), "-D", self.data, "-R", "-X", "stream", "-c", "fast"], env=self.gateway.environment)
        self.sockets.mkdir()
        for path in (self.data, self.sockets, *self.data.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        self.child = process.start(
            [machine.program("postgres"), "-D", self.data, "-c", "listen_addresses=", "-c", f"unix_socket_directories={self.sockets}"],
            stdout=open(self.gateway.root / "standby.log", "wb"), stderr=-2, user=owner.st_uid, group=owner.st_gid)
        self.source = self.gateway.sql("select current_setting('unix_socket_directories')").strip('"')
        self.follow("asynchronous")
        return self

    def __exit__(self, *_):
        if self.child:
            process.stop(self.child)
        shutil.rmtree(self.data, ignore_errors=True)

    def sql(self, text: str):
        process.run([machine.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"], 60, text,
                    {**self.gateway.environment, "PGHOST": str(self.sockets)})

    def follow(self, way: str):
        """Returns once the change is effective, and the standby has all data."""
        names = "'*'" if way == "synchronous" else "''"
        self.gateway.sql(f"alter system set synchronous_standby_names = {names};\nselect pg_reload_conf()")
        source = "" if way == "none" else f"host={self.source} port=5432 user=pathmirror"
        self._until(lambda: self.sql(f"alter system set primary_conninfo = '{source}';\nselect pg_reload_conf();") is None)
        wanted = {"none": "0|", "asynchronous": "1|async", "synchronous": "1|sync"}[way]
        self._until(lambda: self.gateway.sql(
            "select count(*), max(sync_state) from pg_stat_replication where state = 'streaming' and flush_lsn = sent_lsn") == wanted)

    def _until(self, good, patience: float = 60):
        end = time.monotonic() + patience
        while True:
            try:
                if good():
                    return
                last = "not yet"
            except process.Failed as error:
                last = str(error)
            if time.monotonic() > end:
                log = (self.gateway.root / "standby.log").read_text(errors="replace")
                raise process.Failed(f"the standby is not as it should be: {last}\n{log[-2000:]}")
            time.sleep(0.1)


def compare(gateway: Gateway, standby: Standby, context: Context, connections: int):
    found: dict[str, list[Load]] = {way: [] for way in WAYS}
    for turn in range(context.pick(6, 3)):
        # The order changes with each turn.
        for way in (*WAYS[turn % 3:], *WAYS[:turn % 3]):
            context.progress(f"{connections} connections, round {turn + 1}, {way}")
            standby.follow(way)
            gateway.checkpoint()
            context.quiet.wait()
            found[way].append(wrk(gateway, "/", context.pick(5, 2), connections, "put.lua", ("leaf", KEYS, turn + 1, LENGTH)))
    what = "one connection" if connections == 1 else f"{connections} connections"
    for other in WAYS[:2]:
        pairs = list(zip(found["synchronous"], found[other]))
        context.measure(f"PUTs a second, {what}: synchronous standby / {other}", [one.per_second / two.per_second for one, two in pairs],
                        absolute=f"{typical([one.per_second for one, _ in pairs])} against {typical([two.per_second for _, two in pairs])} a second")
        context.measure(f"  a PUT's latency, median: synchronous / {other}", [one.latency / two.latency for one, two in pairs],
                        absolute=f"{typical([one.latency for one, _ in pairs])} against {typical([two.latency for _, two in pairs])} ms")
