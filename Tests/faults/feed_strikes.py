"""Executes a plan on the rig of the feed campaign."""

import random
import threading
import time

import psycopg
from harness.waiting import Late, wait_until
from plan import GATEWAYS, Fault
from rig.feed_rig import FeedRig
from strikes import Strikes
from workload.feed_field import FeedField
from workload.feeds import FeedNotes

WAITING = """
select activity.pid from pg_stat_activity as activity join pg_locks as waiting on waiting.pid = activity.pid and not waiting.granted
where waiting.relation = %s::regclass and activity.application_name like 'pathmirror %%'"""


class TableLock:
    """A stranger's session that locks a table, and ends the sessions of gateways that wait for it. A thread of its own."""

    def __init__(self, rig: FeedRig, table: str, most: int):
        self.rig, self.table, self.most = rig, f"pathmirror.{table}", most
        self.ended = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        holder = eye = None
        try:
            holder = psycopg.connect(self.rig.url, connect_timeout=5, options="-c lock_timeout=1000")
            eye = psycopg.connect(self.rig.url, autocommit=True, connect_timeout=5)
            holder.execute(f"lock table {self.table} in access exclusive mode")
            self._terminate(eye)
        except psycopg.Error:
            # PostgreSQL is struck, too.
            return
        finally:
            # The end of the session ends its transaction.
            for connection in (holder, eye):
                if connection:
                    connection.close()

    def _terminate(self, eye: psycopg.Connection):
        while self.ended < self.most and not self._over.wait(0.02):
            waiting = [pid for pid, in eye.execute(WAITING, [self.table]).fetchall()]
            if waiting:
                # The sessions have waited for some time, as for a slow server.
                self._over.wait(0.1)
                eye.execute("select count(pg_terminate_backend(pid)) from unnest(%s::int[]) as pid", [waiting])
                self.ended += len(waiting)

    @property
    def is_over(self) -> bool:
        """Whether the table is free again, because PostgreSQL was unreachable or enough sessions were ended."""
        return not self._thread.is_alive()

    def end(self):
        self._over.set()
        self._thread.join(20)


class FeedStrikes(Strikes):
    """Begins and ends faults; one thread calls."""

    def __init__(self, rig: FeedRig, history, collector, field: FeedField):
        super().__init__(rig, history, collector)
        self.field, self.server = field, field.server
        self._locks: dict[int, TableLock] = {}
        self._young_feeds: dict[int, FeedNotes | None] = {}
        self._owners: dict[int, str] = {}

    # Backends of feeds, and their waits

    def _named(self, fault: Fault, begins: bool):
        if not begins:
            return
        try:
            pids = [pid for pid, in self.rig.rows("select pid from pg_stat_activity where application_name = %s order by backend_start, pid",
                                                  f"pathmirror {fault.details['backend']}", patience=0)]
            self.rig.terminate(random.Random(fault.details["dice"]).sample(pids, min(1, len(pids))) if fault.details["one"] else pids)
        except psycopg.OperationalError:
            # The database is frozen or down, and this thread has to end that, too.
            pids = []
        if not pids:
            self.missed.append(fault)

    def _table(self, fault: Fault, begins: bool):
        if begins:
            self._locks[fault.number] = TableLock(self.rig, fault.details["table"], 100)
        else:
            self._let_go(fault)

    def _let_go(self, fault: Fault):
        lock = self._locks.pop(fault.number)
        lock.end()
        if not lock.ended:
            self.missed.append(fault)

    def _begin(self, fault: Fault, begins: bool):
        """A gateway dies, and those that begin its feeds lose their connections while they wait for a table."""
        if begins:
            self.rig.kill_gateway(fault.gateway)
            self._locks[fault.number] = TableLock(self.rig, fault.details["table"], fault.details["most"])
        else:
            self._let_go(fault)
            self.rig.revive_gateway(fault.gateway)

    def _young(self, fault: Fault, begins: bool):
        """The first feed of a namespace begins while a table is held, and the reader's connection ends as it waits for it. A consumer takes
        some messages and vanishes, and the gateway that works the feed dies."""
        if not begins:
            owner = self._owners.pop(fault.number, None)
            if owner:
                self.rig.revive_gateway(owner)
            self.field.begin_young(self._young_feeds.pop(fault.number))
            return
        notes = self._young_feeds[fault.number] = self.field.next_young()
        if notes is None:
            self.missed.append(fault)
            return
        lock = TableLock(self.rig, "snapshot", fault.details["most"])
        try:
            self.field.make(notes)
            wait_until(lambda: lock.ended or lock.is_over, "the reader to lose its connection", 5, 0.05)
        except Late:
            self.missed.append(fault)
        finally:
            lock.end()
        self.field.vanish(notes)
        owner = self.field.owner(notes)
        if owner:
            self.rig.kill_gateway(owner)
            self._owners[fault.number] = owner

    def _takeover(self, fault: Fault, begins: bool):
        """A gateway dies, and each of the others loses the n-th message of a connection afterwards; the restarted one does, too."""
        more = fault.details
        if begins:
            self._tripped[fault.number] = sum(self.rig.proxies.tripped(f"link-{name}") for name in GATEWAYS)
            self.rig.kill_gateway(fault.gateway)
            for name in GATEWAYS:
                self.rig.proxies.lose_call(f"link-{name}", f"pathmirror {more['backend']}", more["text"], more["skip"], more["lost"])
        else:
            self.rig.revive_gateway(fault.gateway)
            if sum(self.rig.proxies.tripped(f"link-{name}") for name in GATEWAYS) == self._tripped[fault.number]:
                self.missed.append(fault)

    def _network(self, route: str, fault: Fault, begins: bool):
        if fault.kind != "link-call-lost":
            return super()._network(route, fault, begins)
        proxies, more = self.rig.proxies, fault.details
        if begins:
            self._tripped[fault.number] = proxies.tripped(route)
            proxies.lose_call(route, f"pathmirror {more['backend']}", more["text"], more["skip"], more["lost"])
        elif proxies.tripped(route) == self._tripped[fault.number]:
            self.missed.append(fault)

    # Receivers and brokers

    def _hooks(self, fault: Fault, begins: bool):
        if fault.kind == "hooks-reset" and begins:
            self.server.reset_all()
        elif fault.kind == "hooks-silent":
            self.server.silent_until = time.monotonic() + 60 if begins else 0.0

    def _nats(self, fault: Fault, begins: bool):
        nats, what = self.rig.nats, fault.kind.partition("-")[2]
        if what in ("reset", "cut-in-message"):
            self._network("nats", fault, begins)
        elif what == "freeze":
            nats.freeze() if begins else nats.thaw()
        elif begins:
            nats.stop()
        else:
            nats.start()

    def _kafka(self, fault: Fault, begins: bool):
        kafka, what = self.rig.kafka, fault.kind.partition("-")[2]
        if what == "errors" and begins:
            kafka.do("errors", numbers=fault.details["errors"])
        elif what == "down":
            kafka.do("down" if begins else "up")
        elif what == "slow":
            kafka.do("slow", ms=400 if begins else 0)
