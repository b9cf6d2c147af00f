"""One round of the feed campaign: a fresh rig, feeds of every kind, the plan's faults in waves, and all checks of feeds."""

import json
import time
from dataclasses import asdict
from pathlib import Path

from check import feeds, log
from collector import Collector
from feed_plan import FeedRound
from feed_strikes import FeedStrikes
from harness.rest import Rest
from harness.waiting import Late, wait_until
from onslaught import Result
from rig.feed_rig import FeedRig
from workload.feed_field import FeedField
from workload.history import History

# The seconds in which feeds must finish without a fault. A sink's new gateway waits for the deliveries of the former one.
DRAIN = 60.0


class FeedOnslaught:
    def __init__(self, rig: FeedRig, plan: FeedRound, say):
        self.rig, self.plan, self.say = rig, plan, say
        self.history = History()
        self.collectors = {namespace: Collector(namespace) for namespace in rig.namespaces}
        self.field = FeedField(rig, self.history, plan.seed)
        self.strikes = FeedStrikes(rig, self.history, self.collectors["default"], self.field)
        self.result = Result()
        self.drained: list[float] = []
        # Feeds that did not finish after a wave: later waves do not wait for them.
        self._stuck: set[str] = set()

    def run(self) -> Result:
        """Runs faults and checks; a failure is a violation, and no exception."""
        try:
            self.field.start()
            self._strike()
        except Exception as error:  # noqa: BLE001
            self._wrong("a fault could not be carried through", f"{type(error).__name__}: {error}")
        try:
            self.rig.heal()
            self._end()
            self._judge()
        except Exception as error:  # noqa: BLE001
            self._wrong("the round did not come to its end", f"{type(error).__name__}: {error}")
        self.field.close()
        self._count()
        return self.result

    def _wrong(self, what: str, text: str):
        self.result.violations.append(f"{what}: {text}")
        self.say(f"    {what}: {text[:400]}")

    def _strike(self):
        """Begins and ends faults wave by wave; after each wave all feeds must finish."""
        faults = iter(self.plan.faults)
        waiting, begin = next(faults, None), 0.0
        for rest in self.plan.rests:
            moments = []
            while waiting and waiting.at < rest:
                moments += [(waiting.at, waiting.number, 1, waiting), (waiting.at + waiting.lasts, waiting.number, 2, waiting)]
                waiting = next(faults, None)
            began, stood = time.monotonic(), 0.0
            for at, _, step, fault in sorted(moments, key=lambda moment: moment[:3]):
                time.sleep(max(0.0, began + stood + at - begin - time.monotonic()))
                now = time.monotonic()
                self._step(step, fault)
                # A slow begin of a fault does not shorten other faults.
                stood += time.monotonic() - now
            begin = rest
            self._rest()

    def _step(self, step: int, fault):
        if step == 2:
            self.strikes.end(fault)
            return
        self.say(f"  #{fault.number:03} {fault}" + (f" for {fault.lasts} s" if fault.lasts else ""))
        self.strikes.begin(fault)
        self.result.faults[fault.kind] = self.result.faults.get(fault.kind, 0) + 1

    def _rest(self):
        """Waits, without faults, until every feed has delivered the writes so far; clients continue."""
        self.rig.heal()
        for collector in self.collectors.values():
            collector.collect(self.rig)
        heads = dict(self.rig.rows("select name, head from pathmirror.namespace where name = any(%s)", list(self.rig.namespaces)))
        self.field.calm(True)
        begun = time.monotonic()
        try:
            wait_until(lambda: not self._late(heads), "the feeds to come to where the log was", DRAIN, 0.25)
        except Late:
            late = self._late(heads)
            self._wrong("feeds do not come to the end after a wave", f"{list(late.values())[:4]}")
            self._stuck |= set(late)
        self.drained.append(time.monotonic() - begun)
        self.field.calm(False)

    def _late(self, heads: dict[str, int]) -> dict[str, str]:
        rows = self.rig.rows("select namespace, name, state, seq, message, gateway from pathmirror.feed_status")
        return {f"{namespace}/{name}": f"{namespace}/{name} is {state} at {seq} of {heads[namespace]}, worked by {gateway}: {message}"
                for namespace, name, state, seq, message, gateway in rows
                if seq < heads[namespace] and f"{namespace}/{name}" not in self._stuck}

    def _end(self):
        """Stops the writers, retries dead letters, and waits until every feed has reached the head."""
        self.field.calm(True)
        self.field.end_writes()
        for name in self.rig.names:
            wait_until(lambda: self._last_word(name), f"gateway {name} to write", 30, 0.2)
        # Retried dead letters may release others of their keys: all must be done within this time.
        deadline = time.monotonic() + 1.5 * DRAIN
        while left := self.field.at_end() + self.field.letters_left():
            if time.monotonic() > deadline:
                self._wrong("feeds are not drained", str(left[:6]))
                break
            self.field.retry_all()
            time.sleep(0.5)
        self.field.finish()

    def _last_word(self, name: str) -> bool:
        try:
            return Rest(self.rig.ports[name], patience=15).put(f"end/{name}", True).status == 200
        except OSError:
            return False

    # The checks

    def _judge(self):
        entries = {}
        for namespace, collector in self.collectors.items():
            collector.compare(self.rig)
            entries[namespace] = collector.list()
        findings = {
            "clients": self.history.wrong,
            "the log": [text for namespace, collector in self.collectors.items()
                        for text in collector.wrong + log.shape(entries[namespace], self.rig.head(namespace))],
            **{f"feed {notes.namespace}/{notes.name}": feeds.judge(notes, entries[notes.namespace], None)[:4] for notes in self.field.notes},
            "webhooks": [text for hook in self.field.server.hooks.values() for text in hook.wrong],
            "processes": self._processes(),
            "work": self._work(),
        }
        for what, found in findings.items():
            self.result.checks += 1
            for text in found[:6]:
                self._wrong(what, text)

    def _processes(self) -> list[str]:
        wrong = list(self.rig.exits)
        wrong += [f"a gateway ended with {text}" for text in self.rig.ended if not text.startswith("1:")]
        for file in sorted(Path(self.rig.logs).glob("*-gateway-*.err")):
            text = file.read_text(errors="replace")
            if "Fatal error" in text or "crashed" in text:
                wrong.append(f"{file.name}: {text[-400:]}")
        return wrong

    def _work(self) -> list[str]:
        """Checks the amount of work: a round with little work proves little."""
        least = len(self.plan.faults)
        return [f"feed {notes.namespace}/{notes.name} gave {len(notes.given)} messages" for notes in self.field.notes
                if len(notes.given) < (least if notes.name != "young" else 1)]

    def keep(self, target: Path):
        """Saves the deliveries, the processed messages, and the logs."""
        self.history.keep(target / "history.ndjson")
        for namespace, collector in self.collectors.items():
            with open(target / f"log-{namespace}.ndjson", "w") as file:
                for entry in collector.list():
                    file.write(json.dumps(asdict(entry)) + "\n")
        for notes in self.field.notes:
            notes.keep(target / f"feed-{notes.namespace}-{notes.name}.ndjson")
        outages = [f"{outage.begun:.3f} {outage.ended:.3f} {outage.text}" for outage in self.strikes.outages.values()]
        (target / "faults").write_text("\n".join(outages) + "\n")

    def _count(self):
        notes, server = self.field.notes, self.field.server
        answers: dict[str, int] = {}
        for hook in server.hooks.values():
            for how, count in hook.answers.items():
                answers[f"webhook {how.partition(' {')[0]}"] = answers.get(f"webhook {how.partition(' {')[0]}", 0) + count
        self.result.figures |= {
            "entries": sum(len(collector.entries) for collector in self.collectors.values()),
            "messages given by feeds": sum(len(one.given) for one in notes),
            "those that were given again": sum(given.message["attempt"] > 1 for one in notes for given in one.given),
            "acknowledged with done": sum(len(one.done) for one in notes),
            "dead letters that were retried": sum(len(one.retried) for one in notes),
            "moves of a feed": sum(len(one.seeks) for one in notes),
            "connections that consumers cut": sum(getattr(one, "cuts", 0) for one in self.field.clients),
            **dict(sorted(answers.items())),
            "requests after unsolicited bytes": server.trapped,
            **{f"administration: {what}": count for what, count in sorted(self.field.administrator.did.items())},
            "faults whose moment did not come": len(self.strikes.missed),
            "gateways that gave up and were started again": len(self.rig.ended),
            "longest wait for feeds after a wave, ms": int(1000 * max(self.drained, default=0))}
