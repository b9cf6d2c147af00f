"""Executes a plan on the rig."""

import random
import signal
import time

from check.availability import Outage
from check.entries import Restored
from collector import Collector
from harness.process import kill_all
from plan import GATEWAYS, Fault
from rig.rig import Rig
from workload.history import History

ALL = frozenset(GATEWAYS)
# The time in which gateways must notice that the database is an older one.
NOTICE = 10.0


class Strikes:
    """Begins and ends faults; one thread calls."""

    def __init__(self, rig: Rig, history: History, collector: Collector):
        self.rig, self.history, self.collector = rig, history, collector
        self.outages: dict[int, Outage] = {}
        self.restored: Restored | None = None
        self.notes: dict[int, str] = {}
        # Faults that did not occur: no such message was sent while they waited for one.
        self.missed: list[Fault] = []
        self._tripped: dict[int, int] = {}

    def begin(self, fault: Fault):
        struck = self._struck(fault)
        self.outages[fault.number] = Outage(fault.kind, time.monotonic(), float("inf"), struck, f"#{fault.number} {fault}")
        getattr(self, "_" + fault.kind.partition("-")[0])(fault, True)

    def end(self, fault: Fault):
        getattr(self, "_" + fault.kind.partition("-")[0])(fault, False)
        outage = self.outages[fault.number]
        outage.ended = min(outage.ended, time.monotonic())

    @staticmethod
    def _struck(fault: Fault) -> frozenset:
        if fault.kind.startswith(("gateway-", "link-")):
            return frozenset({fault.gateway})
        if fault.kind.startswith(("door-", "clock-")):
            return frozenset()
        return ALL

    # Gateways

    def _gateway(self, fault: Fault, begins: bool):
        process = self.rig.gateways[fault.gateway].process
        if fault.kind.startswith("gateway-freeze"):
            process.send(signal.SIGSTOP if begins else signal.SIGCONT)
        elif begins:
            self.rig.kill_gateway(fault.gateway, politely=fault.kind == "gateway-stop")
        else:
            self.rig.revive_gateway(fault.gateway)

    # The network between a gateway and PostgreSQL, and between clients and a gateway

    def _link(self, fault: Fault, begins: bool):
        self._network(f"link-{fault.gateway}", fault, begins)

    def _door(self, fault: Fault, begins: bool):
        self._network(f"door-{fault.gateway}", fault, begins)

    def _network(self, route: str, fault: Fault, begins: bool):
        proxies, what, more = self.rig.proxies, fault.kind.partition("-")[2], fault.details
        if not begins:
            return self._mend(route, fault)
        self._tripped[fault.number] = proxies.tripped(route)
        if what in ("reset", "close"):
            proxies.end(route, what)
        elif what == "refuse":
            proxies.refuse(route, True)
            proxies.end(route)
        elif what == "delay":
            proxies.set(route, more["ms"], more["ms"])
        elif what in ("stall", "stall-long"):
            proxies.set(route, "stall", "stall")
        elif what == "stall-up":
            proxies.set(route, up="stall")
        elif what == "stall-down":
            proxies.set(route, down="stall")
        elif what == "cut-in-message":
            proxies.arm(route, "up", None, more["bytes"], "reset", more["bytes"] + 1)
        elif what in ("stall-in-message", "stall-in-message-long"):
            proxies.arm(route, "up", None, more["bytes"], "stall", more["bytes"] + 1)
        elif what == "cut-in-copy":
            # Rows of a large value, in the middle of their COPY.
            proxies.arm(route, "up", "/large/l1", 3000, more["how"])
        elif what == "stall-in-copy-long":
            proxies.arm(route, "up", "/large/l1", 3000, "stall")
        elif what == "cut-after-commit":
            proxies.arm(route, "down", "COMMIT\0", 0, more["how"])
        elif what == "stall-after-commit":
            proxies.arm(route, "down", "COMMIT\0", 0, "stall")
        elif what == "cut-in-answer":
            proxies.arm(route, "down", None, more["bytes"], "reset")

    def _mend(self, route: str, fault: Fault):
        proxies = self.rig.proxies
        proxies.disarm(route)
        if any(word in fault.kind for word in ("-in-", "-after-")) and proxies.tripped(route) == self._tripped[fault.number]:
            self.missed.append(fault)
        if "refuse" in fault.kind:
            proxies.refuse(route, False)
        if fault.details.get("then") == "reset":
            proxies.end(route)
        proxies.set(route)

    # PostgreSQL

    def _backends(self, fault: Fault, begins: bool):
        if begins:
            pids = self.rig.backends()
            self.rig.terminate(random.Random(fault.details["dice"]).sample(pids, min(1, len(pids))) if fault.details["one"] else pids)

    def _backend(self, fault: Fault, begins: bool):
        # One process is killed: the server ends all of them and recovers.
        if begins:
            kill_all(self.rig.backends()[:1])
        else:
            self.rig.server.start()

    def _postgres(self, fault: Fault, begins: bool):
        server, how = self.rig.server, fault.kind.partition("-")[2]
        if how == "freeze":
            server.freeze() if begins else server.thaw()
        elif begins and how == "kill":
            server.kill()
        elif begins:
            server.stop("fast" if how == "restart" else "immediate")
        else:
            server.start()

    def _power(self, fault: Fault, begins: bool):
        rig = self.rig
        if not begins:
            rig.server.start()
            if fault.kind == "power-cut-asynchronous":
                rig.rows("alter role postgres reset synchronous_commit")
            if fault.kind == "power-cut-of-all":
                for name in rig.names:
                    rig.revive_gateway(name)
            return
        dice, manner = random.Random(fault.details["dice"]), None
        if fault.kind == "power-cut-asynchronous":
            # An operator may do this for speed. It applies to sessions that begin now.
            rig.rows("alter role postgres set synchronous_commit = off")
            rig.terminate(rig.backends())
            time.sleep(2.0 + dice.random())
            manner = "nothing"
        if fault.kind == "power-cut-of-all":
            for name in rig.names:
                rig.kill_gateway(name)
        self.notes[fault.number] = str(rig.server.cut_power(dice, manner))

    def _disk(self, fault: Fault, begins: bool):
        full = self.rig.server.journal / "full"
        if begins:
            full.touch()
        else:
            full.unlink()
            self.rig.server.start()

    def _head(self, fault: Fault, begins: bool):
        self.rig.hold_head() if begins else self.rig.leave_head()

    def _clock(self, fault: Fault, begins: bool):
        seconds = fault.details["seconds"] if begins else 0
        self.rig.clocks[fault.gateway or "postgres"].step(seconds)

    def _copy(self, fault: Fault, begins: bool):
        server = self.rig.server
        if begins:
            server.keep_copy("copy")
            # The log is known up to the end of the copy from here on.
            self.collector.collect(self.rig)
            return
        server.kill()
        # Requests from here on cannot be in the discarded files.
        self.history.new_epoch()
        killed = time.monotonic()
        server.put_back("copy")
        server.start()
        begun = self.outages[fault.number].ended = time.monotonic()
        kept = self.collector.went_back(self.rig)
        # Clients continue meanwhile.
        time.sleep(max(0.0, begun + NOTICE - time.monotonic()))
        self.history.clear(self.rig.head())
        self.restored = Restored(kept, killed, time.monotonic())
