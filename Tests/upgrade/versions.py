"""Two gateways that may be of different versions, and the change from one version to the other."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psycopg
from check import availability
from check.availability import Outage
from harness import older
from harness.binary import pathmirror
from harness.gateway import start_serve
from harness.ports import free_port
from harness.process import run
from harness.waiting import wait_until
from onslaught import Onslaught
from plan import Fault, Round
from rig.rig import MIRROR, OPTIONS, TUNE, Rig
from workload.listeners import StreamReader


def version(program: Path) -> str:
    """The version of a program, with the schema that it knows."""
    said = subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{said} ({program})"


def known(program: Path, options: list) -> list:
    """The options that a version has; all of them take a value."""
    help_ = subprocess.run([program, "serve", "--help", "all"], capture_output=True, text=True, check=True).stdout
    pairs = list(zip(options[::2], options[1::2], strict=True))
    return [word for pair in pairs if f"  {pair[0]} " in help_ for word in pair]


@contextlib.contextmanager
def using(program: Path):
    """Makes the harness start this program during the context."""
    before = os.environ.get("PATHMIRROR_BINARY")
    os.environ["PATHMIRROR_BINARY"] = str(program)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PATHMIRROR_BINARY"]
        else:
            os.environ["PATHMIRROR_BINARY"] = before


class Pair(Rig):
    """The fault campaign's rig with two gateways, each with a program of its own."""

    def __init__(self, root: Path, logs: Path, old: Path):
        super().__init__(root, logs, None, names=("a", "b"), settings={"fsync": "off"})
        self.old, self.new = old, Path(pathmirror())
        self.programs = {name: old for name in self.names}
        # Gateways of the older version never migrate: the order of steps depends on that.
        self.migrating: set[str] = set()

    def start(self):
        self.server.start()
        self.rows_of("postgres", "create database pm")
        self.migrate(self.old)
        for name in self.names:
            self.links[name] = self.proxies.open(f"link-{name}", self.server.port)
            self.doors[name] = self.proxies.open(f"door-{name}", self.ports[name])
            self.start_gateway(name)
        for name in self.names:
            self.gateways[name].wait_ready(60)
        definition = self.root / "mirrors.json"
        definition.write_text(json.dumps([MIRROR]))
        self.do(self.old, "mirror", "apply", definition, "--yes")

    def rows_of(self, database: str, statement: str):
        with psycopg.connect(self.server.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def do(self, program: Path, *words) -> subprocess.CompletedProcess:
        done = run([str(program), *words, "--database-url", self.url], 120)
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def migrate(self, program: Path):
        self.do(program, "migrate", "up")

    def refuses(self, program: Path, why: str):
        """Checks that a gateway does not start on another schema, and prints a remedy."""
        done = run([str(program), "serve", "--no-migrate", "--database-url", self.url, "--listen", f"127.0.0.1:{free_port()}"], 60)
        if done.returncode != 1 or why not in done.stdout + done.stderr:
            raise RuntimeError(f"{program} starts on another version's schema, or says nothing of it: {done.returncode}\n{done.stderr}")

    def start_gateway(self, name: str):
        place = self.root / f"gateway-{name}"
        place.mkdir(exist_ok=True)
        program = self.programs[name]
        spoken, variables = older.spoken(str(program), OPTIONS, TUNE)
        words = known(program, spoken) + ([] if name in self.migrating else ["--no-migrate"])
        with using(program):
            self.gateways[name] = start_serve(self.server.url(port=self.links[name]), place, self.logs, *words,
                                              port=self.ports[name], name=f"gateway-{name}", env=variables, wait=False)


class Beginner(StreamReader):
    """A reader that starts again if a gateway of the older version does not know the id of a newer one."""

    begun_anew = 0

    def refused(self, gateway: str, status: int, body: bytes):
        if status == 400 and b"Last-Event-ID" in body and self.last_id:
            self.begun_anew += 1
            self.last_id = None
        else:
            super().refused(gateway, status, body)


class NoFeeds:
    """Replaces the fault campaign's consumers: the older version may have no feeds."""

    notes: list = []

    def start(self):
        pass

    finish = close = start


class Steps:
    """Executes the steps of an order; each has an outage for the gateways that it strikes, as a fault does."""

    def __init__(self, pair: Pair):
        self.pair = pair
        self.outages: dict[int, Outage] = {}
        self.restored, self.missed = None, []
        self.notes: dict[int, str] = {}

    def begin(self, fault: Fault):
        what, _, name = fault.kind.partition("-")
        name, _, how = name.partition("-")
        struck = frozenset({name} if name else set())
        self.outages[fault.number] = Outage(fault.kind, time.monotonic(), float("inf"), struck, f"#{fault.number} {fault.kind}")
        if what == "migrate":
            self.pair.migrate(self.pair.new)
        elif what == "replace":
            self._replace(name, how == "migrating")
        elif what == "kill":
            self.pair.kill_gateway(name)
        elif what == "freeze":
            self._freeze(name)
        elif what == "disconnect":
            self.pair.terminate(self.pair.backends())
        self.notes[fault.number] = f"{time.monotonic() - self.outages[fault.number].begun:.1f} s"

    def _replace(self, name: str, migrates: bool):
        self.pair.kill_gateway(name, politely=True)
        self.pair.programs[name] = self.pair.new
        if migrates:
            self.pair.migrating.add(name)
        self.pair.revive_gateway(name)
        wait_until(lambda: self.pair.gateways[name].ready(), f"the newer gateway {name} to be ready", 60, 0.1)

    def _freeze(self, name: str):
        """For longer than its lease lasts."""
        process = self.pair.gateways[name].process
        process.freeze()
        time.sleep(5)
        process.send(signal.SIGCONT)

    def end(self, fault: Fault):
        self.outages[fault.number].ended = time.monotonic()


class Changeover(Onslaught):
    """The fault campaign's round with the steps of an update instead of faults."""

    def __init__(self, pair: Pair, plan: Round, say):
        super().__init__(pair, plan, say)
        self.strikes, self.feeds = Steps(pair), NoFeeds()
        self.streams = [Beginner(f"stream{number}", pair.doors, self.history, plan.seed + 2000 + number) for number in range(2)]

    def _drain(self):
        pass

    def _availability(self, until: float) -> list[str]:
        wrong = super()._availability(until)
        # Includes times within the limits, for the report: of all gateways, from the first step to the last.
        outages = self.strikes.outages.values()
        first, last = min(one.begun for one in outages), min(max(one.ended for one in outages), until)
        for name, prober in self.probers.items():
            self.result.gaps[name] = availability.longest_gap(prober.probes, first, last)
        return wrong

    def _count(self):
        super()._count()
        self.result.figures["streams that the older version refused"] = sum(one.begun_anew for one in self.streams)

    def _processes(self) -> list[str]:
        """Checks that only the steps ended a gateway, and that none has reported a loss of the database."""
        wrong = super()._processes()
        for file in Path(self.rig.logs).glob("*-gateway-*.err"):
            wrong += [f"{file.name}: {line}" for line in file.read_text(errors="replace").splitlines() if "HAS LOST ENTRIES" in line]
        return wrong
