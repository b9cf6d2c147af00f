"""One round: a fresh rig, clients at work, the plan's faults, and then all checks."""

import collections
import json
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from check import availability, feeds, log, registers, streams
from check.entries import difference, tree_of
from collector import Collector
from harness import cli
from harness.rest import Rest
from harness.waiting import Late, wait_until
from plan import LONG, Round
from rig.rig import Rig
from strikes import Strikes
from workload.feeds import FeedWork
from workload.history import OK, UNKNOWN, History
from workload.listeners import RealtimeListener, StreamReader
from workload.prober import Prober
from workload.sessions import Sessions
from workload.sql_writer import SqlWriter
from workload.writers import FanOut, Increments, Large, Registers


# Seconds for which a gateway lets a resuming stream wait for the entry that the client named, and for which a gateway reads the missed
# entries once it reaches PostgreSQL again.
STREAM_WAIT = 10.0
CATCH_UP = 2.0


@dataclass
class Result:
    """The result of a round."""

    violations: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)
    checks: int = 0
    gaps: dict[str, float] = field(default_factory=dict)


class Onslaught:
    def __init__(self, rig: Rig, plan: Round, say):
        self.rig, self.plan, self.say = rig, plan, say
        self.history, self.collector = History(), Collector()
        self.strikes = Strikes(rig, self.history, self.collector)
        self.result = Result()
        self.began = time.monotonic()
        self._ended = threading.Event()
        seeds = iter(range(plan.seed, plan.seed + 1000))

        def client(kind, name, *more, doors=rig.doors):
            return kind(name, doors, self.history, next(seeds), *more)

        names = list(rig.names)
        self.streams = [client(StreamReader, f"stream{number}") for number in range(2)]
        self.listens = [client(RealtimeListener, f"listen{number}") for number in range(2)]
        self.probers = {name: client(Prober, f"probe{name}", name, doors=rig.ports) for name in names}
        self.clients = [
            *(client(Registers, f"reg{number}", home) for number, home in enumerate([*names, *names[:2]])),
            *(client(FanOut, f"fan{number}", home) for number, home in enumerate(names[:2])),
            client(Increments, "inc0", names[-1]), client(Increments, "inc1", names[0]), client(Large, "large0", names[1]),
            *(client(Sessions, f"ses{number}", home) for number, home in enumerate([*names, names[0]])),
            client(SqlWriter, "sql0", rig.url)]
        self.feeds = FeedWork(rig.doors, rig.ports, self.history, plan.seed + 1000)

    # The round

    def run(self) -> Result:
        """Runs faults and checks; a failure is a violation, and no exception."""
        self.feeds.start()
        everyone = [*self.streams, *self.listens, *self.probers.values(), *self.clients]
        for one in everyone:
            one.start()
        upkeep = threading.Thread(target=self._upkeep, daemon=True)
        upkeep.start()
        try:
            self._strike()
            # Clients continue for a while: these observations count, too.
            time.sleep(5.0 if self.plan.puts_back else 1.0)
        except Exception as error:  # noqa: BLE001
            self._wrong("a fault could not be carried through", f"{type(error).__name__}: {error}")
        finally:
            self._ended.set()
            for one in [*self.clients, *self.probers.values()]:
                one.stop()
        try:
            self.rig.heal()
            self._quiet(upkeep)
            self._judge()
        except Exception as error:  # noqa: BLE001
            self._wrong("the round did not come to its end", f"{type(error).__name__}: {error}")
        for one in [*self.streams, *self.listens]:
            one.stop()
        self.feeds.close()
        self._count()
        return self.result

    def _wrong(self, what: str, text: str):
        self.result.violations.append(f"{what}: {text}")

    def _strike(self):
        """Begins and ends faults in the plan's order. The plan's time stops while a fault is begun or ended."""
        moments = sorted([(fault.at, 1, fault) for fault in self.plan.faults] + [(fault.at + fault.lasts, 2, fault) for fault in self.plan.faults],
                         key=lambda moment: (moment[0], moment[2].number, moment[1]))
        stood = 0.0
        for at, step, fault in moments:
            time.sleep(max(0.0, self.began + stood + at - time.monotonic()))
            began = time.monotonic()
            if step == 1:
                self.say(f"  {began - self.began:6.1f} s  #{fault.number:03} {fault}" + (f" for {fault.lasts} s" if fault.lasts else ""))
                self.strikes.begin(fault)
                if note := self.strikes.notes.get(fault.number):
                    self.say(f"            {note}")
                self.result.faults[fault.kind] = self.result.faults.get(fault.kind, 0) + 1
            else:
                self.strikes.end(fault)
            stood += time.monotonic() - began

    def _upkeep(self):
        """The periodic work of an operator, also during faults; it may fail, but may not damage anything."""
        turn = 0
        while not self._ended.wait(7):
            turn += 1
            if self.plan.puts_back:
                continue
            try:
                self.collector.collect(self.rig)
                if turn % 2:
                    cli.command("log", "snapshot", "--database-url", self.rig.url, patience=60)
                else:
                    # The dropped entries have been collected: fifteen hundred newer ones stay.
                    cli.command("log", "prune", "--keep", "1500 entries", "--yes", "--database-url", self.rig.url, patience=60)
            except Exception:  # noqa: BLE001 - the database is away, most likely
                continue

    def _quiet(self, upkeep: threading.Thread):
        """Waits until all requests have ended, every session of realtime clients is done, and all gateways and listeners know the last
        entry."""
        for one in [*self.clients, *self.probers.values()]:
            one.join(60)
            if one.is_alive():
                self._wrong("a client did not come to its end", one.name)
        upkeep.join(90)
        try:
            wait_until(lambda: self.rig.rows("select count(*) from pathmirror.session")[0][0] == 0, "all sessions to be ended", 45, 0.2)
        except Late:
            left = self.rig.rows("select to_jsonb(session)::text from pathmirror.session")
            gateways = self.rig.rows("select to_jsonb(gateway)::text from pathmirror.gateway")
            self._wrong("sessions are left", f"{len(left)} after all clients are gone: {left[:3]}; gateways {gateways}")
        for name in self.rig.names:
            wait_until(lambda: self._last_word(name), f"gateway {name} to write", 30, 0.2)
        self.head = self.rig.head()
        for one in self.streams:
            try:
                wait_until(lambda: one.last_seq == self.head, "the stream to reach the end", 40, 0.05)
            except Late:
                self._wrong("a stream did not reach the end", f"{one.name} is at {one.last_seq}, the log at {self.head}")
        for one in self.streams:
            one.stop()
        self.rig.caught_up()
        self._drain()

    def _drain(self):
        """Lets consumers continue until nothing is left to deliver."""
        try:
            wait_until(lambda: self.rig.feeds_at(self.head), "the feeds to be drained", 60, 0.2)
        except Late:
            left = self.rig.rows("select to_jsonb(feed_status)::text from pathmirror.feed_status")
            self._wrong("feeds are not drained", f"the log is at {self.head}: {left}")
        self.feeds.finish()

    def _last_word(self, name: str) -> bool:
        try:
            return Rest(self.rig.ports[name], patience=15).put(f"end/{name}", True).status == 200
        except OSError:
            return False

    # The checks

    def _judge(self):
        self.collector.compare(self.rig)
        entries, restored = self.collector.list(), self.strikes.restored
        until = time.monotonic()
        wrong, decided, visited = registers.judge(self.history, entries, restored)
        findings = {
            "clients": self.history.wrong,
            "the log": self.collector.wrong + log.shape(entries, self.head),
            "acknowledged writes": log.acknowledged(self.history, entries, restored),
            "order": log.order(self.history, entries, restored),
            "counters": log.counters(self.history, entries, restored),
            "compare-and-set": log.comparisons(self.history, entries),
            "onDisconnect": log.orders(self.history, entries, restored),
            "linearizability": wrong,
            "trees": self._trees(entries),
            "streams": [text for one in self.streams for text in streams.stream(one.name, one.events, entries, restored, self.head, self._away())],
            "realtime listens": [text for one in self.listens for listening in one.listens
                                 if restored is None or listening.at > restored.noticed
                                 for text in streams.listen(one.name, listening, entries)],
            "feeds": [text for notes in self.feeds.notes for text in feeds.judge(notes, entries, restored)[:4]],
            "log verify": self._verify(),
            "mirror": self._mirror(entries),
            "availability": self._availability(until),
            "processes": self._processes(),
            "work": self._work(),
        }
        for what, found in findings.items():
            self.result.checks += 1
            for text in found[:6]:
                self._wrong(what, text)
        self.result.checks += decided
        self.result.figures |= {"registers decided": decided, "places searched": visited}

    def _trees(self, entries) -> list[str]:
        """Checks that every gateway, the database and the log have the same tree."""
        tree, wrong = tree_of(entries), []
        stored = self.rig.rows("select pathmirror.get('default', '/')")[0][0]
        if stored != tree:
            wrong.append(f"the log's tree and the database's differ {difference(tree, stored)}")
        for name, port in self.rig.ports.items():
            response = Rest(port).get("", {"X-Pathmirror-Min-Seq": str(self.head)}, format="export")
            if response.status != 200 or response.json() != tree:
                wrong.append(f"the log's tree and that of gateway {name} differ {difference(tree, response.json())}")
        return wrong

    def _verify(self) -> list[str]:
        done = cli.command("log", "verify", "--database-url", self.rig.url)
        return [] if done.returncode == 0 else [f"exit {done.returncode}: {done.stdout[-600:]} {done.stderr[-300:]}"]

    def _mirror(self, entries) -> list[str]:
        wanted = {(key, value.get("n"), value.get("t")) for key, value in ((tree_of(entries) or {}).get("rec") or {}).items()}
        found = set(self.rig.rows("select id, n, t from mirror.recs"))
        return [] if found == wanted else [f"rows that should not be there {list(found - wanted)[:3]}, missing {list(wanted - found)[:3]}"]

    def _away(self) -> list[streams.Away]:
        """The times in which a resumed stream may begin with an older value."""
        return [streams.Away(outage.begun + STREAM_WAIT, outage.ended + CATCH_UP, outage.struck)
                for outage in self.strikes.outages.values() if outage.kind in LONG]

    def _availability(self, until: float) -> list[str]:
        outages = list(self.strikes.outages.values())
        # Writers stop when the faults have ended: only requests up to then can be judged.
        last = max((probe.ended for prober in self.probers.values() for probe in prober.probes), default=until)
        wrong = availability.judge(outages, {name: prober.probes for name, prober in self.probers.items()}, min(until, last))
        for outage in outages:
            self.result.gaps[outage.kind] = max(self.result.gaps.get(outage.kind, 0.0), outage.longest)
        return wrong

    def _processes(self) -> list[str]:
        wrong = []
        wrong += [f"a gateway ended with {text}" for text in self.rig.ended if not text.startswith("1:")]
        for file in Path(self.rig.logs).glob("*-gateway-*.err"):
            text = file.read_text(errors="replace")
            if "Fatal error" in text or "crashed" in text:
                wrong.append(f"{file.name}: {text[-400:]}")
        return wrong

    def _work(self) -> list[str]:
        """Checks the amount of work: a history with little work proves little."""
        done = collections.Counter(one.client for one in self.history.operations if one.status == OK)
        done.update(order.token.partition("n")[0] for order in self.history.orders if order.status == OK)
        wrong = [f"{one.name} had {done[one.name]} requests acknowledged" for one in self.clients if done[one.name] < 5]
        wrong += [f"{one.name} was told {len(one.events)} events" for one in self.streams if len(one.events) < 50]
        wrong += [f"{one.name} was told nothing" for one in self.listens if not any(listening.pushes for listening in one.listens)]
        wrong += [f"feed {notes.name} gave {len(notes.given)} messages" for notes in self.feeds.notes if len(notes.given) < 50]
        return wrong

    def keep(self, target: Path):
        """Saves the history and the log."""
        self.history.keep(target / "history.ndjson")
        with open(target / "log.ndjson", "w") as file:
            for entry in self.collector.list():
                file.write(json.dumps(asdict(entry)) + "\n")
        for one in self.streams:
            with open(target / f"{one.name}.ndjson", "w") as file:
                for event in one.events:
                    file.write(json.dumps(asdict(event)) + "\n")
        for notes in self.feeds.notes:
            notes.keep(target / f"feed-{notes.name}.ndjson")
        outages = [f"{outage.begun:.3f} {outage.ended:.3f} {outage.text}" for outage in self.strikes.outages.values()]
        (target / "faults").write_text("\n".join([*outages, str(self.strikes.restored)]) + "\n")

    def _count(self):
        operations = self.history.operations
        self.result.figures |= {
            "operations": len(operations), "acknowledged": sum(one.status == OK for one in operations),
            "unknown": sum(one.status == UNKNOWN for one in operations),
            "onDisconnect requests": len(self.history.orders), "entries": len(self.collector.entries),
            "events of streams": sum(len(one.events) for one in self.streams),
            "streams begun": sum(one.connections for one in self.streams),
            "realtime listens": sum(len(one.listens) for one in self.listens),
            "messages given by feeds": sum(len(notes.given) for notes in self.feeds.notes),
            "those that were given again": sum(one.message["attempt"] > 1 for notes in self.feeds.notes for one in notes.given),
            "acknowledged with done": sum(len(notes.done) for notes in self.feeds.notes),
            "dead letters": sum(len(notes.dead) for notes in self.feeds.notes),
            "faults whose moment did not come": len(self.strikes.missed),
            "gateways that gave up and were started again": len(self.rig.ended),
            "fresh puts": sum(streams.is_fresh(event) for one in self.streams for event in one.events)}
