"""Two gateways, mirrors of every kind in two databases, writers over several protocols, and the faults."""

import http.client
import json
import os
import signal
import threading
from collections import Counter
from urllib.parse import quote

import psycopg
from harness import cli, sql
from harness.binary import pathmirror
from harness.gateway import start_serve
from harness.process import Process
from harness.waiting import Late, wait_until
from harness.websocket import Closed, Rejected
from harness.websocket_client import RealtimeClient
from oracle.log import Log

from .comparing import Comparison, Difference
from .dice import MIRRORS, Dice
from .stored import read, snapshot

RUNNERS = "application_name in ('pathmirror mirror writer', 'pathmirror mirror reader')"
FOLLOWING = "select seq, mirror::text from pathmirror.mirror_cursor"


class World:
    def __init__(self, seed, cluster, folder, writes=(20, 120)):
        self.seed, self.dice, self.cluster, self.folder, self.writes = seed, Dice(seed), cluster, folder, writes
        self.urls = [cluster.create_database() for _ in range(2)]
        self.log, self.done, self.paused, self.paths, self.applied_last = Log(), [], set(), {}, {}
        self.comparisons = [Comparison(self.log, self.place) for _ in self.urls]
        self.statuses, self.counts, self.failures = Counter(), Counter(), Counter()
        self.gateways = [self.gateway(), self.gateway()]
        for gateway in self.gateways:
            gateway.wait_ready(60)
        for name in MIRRORS:
            self.apply(name, must=True)
        self.to_come = self.dice.sample(self.happenings(), len(self.happenings()))

    def place(self) -> str:
        return f"seed {self.seed}, round {len(self.done)}, after {[name for name in self.done[-5:]]}"

    def gateway(self):
        return start_serve(self.urls[0], self.folder, self.folder, "--dead-after", "1s", wait=False)

    def end(self):
        for gateway in self.gateways:
            gateway.sweep()

    # MARK: Writers

    def by_rest(self, requests):
        """Writes. The outcome may stay unknown: the log has it."""
        for number, (method, path, value) in enumerate(requests):
            gateway = self.gateways[number % 2]
            body = None if method == "DELETE" else json.dumps(value).encode()
            try:
                response = gateway.rest.send(method, f"/{quote(path)}.json?format=export", body)
                self.statuses[response.status] += 1
            except (OSError, http.client.HTTPException):
                self.statuses["no answer"] += 1

    def by_sql(self, requests):
        functions = {"PUT": "set", "PATCH": "update", "DELETE": "remove"}
        for method, path, value in requests:
            values = [f"/{path}"] if method == "DELETE" else [f"/{path}", json.dumps(value)]
            text = f"select pathmirror.{functions[method]}('default', {', '.join(['%s'] * len(values))})"
            try:
                with psycopg.connect(self.urls[0]) as connection:
                    connection.execute(text, values)
                self.statuses["sql"] += 1
            except psycopg.Error as error:
                self.statuses[f"sql {error.sqlstate or 'connection'}"] += 1

    def by_socket(self, requests):
        """Opens a session for a few writes each, because the gateway may be gone."""
        for start in range(0, len(requests), 5):
            try:
                with RealtimeClient(self.gateways[self.dice_of_sockets.randrange(2)].port) as client:
                    for method, path, value in requests[start:start + 5]:
                        action = "m" if method == "PATCH" else "p"
                        self.statuses["socket " + client.call(action, {"p": f"/{path}", "d": value})["s"]] += 1
            except (OSError, AssertionError, Closed, Rejected):
                self.statuses["socket lost"] += 1

    # MARK: Reading

    def query(self, url, work):
        return wait_until(lambda: snapshot(url, work), "PostgreSQL to answer", 60)[0]

    def check(self):
        """Waits without writes until all mirrors that are not paused have reached the head, and compares all tables."""
        self.query(self.urls[0], self.log.read)
        paused = {row[0] for row in self.query(self.urls[0], lambda connection: connection.execute(
            "select id::text from pathmirror.mirror where is_paused").fetchall())}
        for url, comparison in zip(self.urls, self.comparisons):
            try:
                wait_until(lambda url=url: all(seq >= self.log.head or mirror in paused for seq, mirror in self.query(
                    url, lambda connection: connection.execute(FOLLOWING).fetchall())), "the mirrors", 45, 0.05)
            except Late as late:
                raise Difference(f"{self.place()}: the mirrors do not come to {self.log.head}: {self.command('mirror', 'status').stdout}") from late
            for found in self.query(url, read):
                comparison.compare(found)
                wanted = self.applied_last.get(found.name)
                if wanted is not None and list(found.definition["columns"]) != wanted:
                    raise Difference(f"{self.place()}, mirror {found.name}: applied with {wanted}, is of {found.definition}")

    def verify(self):
        if not self.command("log", "verify").stdout.startswith("clean"):
            raise Difference(f"{self.place()}: {self.command('log', 'verify').stdout}")

    # MARK: Faults and changes

    def command(self, *words, must=False):
        finished = cli.command(*words, "--database-url", self.urls[0], patience=180)
        if finished.returncode != 0:
            self.failures[" ".join(map(str, words[:2])) + ": " + finished.stderr.strip()[:160]] += 1
        if must and finished.returncode != 0:
            raise Difference(f"{self.place()}: {words} failed: {finished.stdout}{finished.stderr}")
        return finished

    def file(self, name):
        definition = self.dice.definition(name, self.paths.get(name), self.urls[1])
        keeps = {"history", "keeps", "deleted"} & definition.keys()
        if keeps:
            # The path of a history cannot change.
            self.paths[name] = definition["path"]
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(definition))
        return path, definition

    def apply(self, name, must=False):
        path, definition = self.file(name)
        self.applied_last.pop(name, None)
        if self.command("mirror", "apply", path, "--yes", must=must).returncode == 0:
            self.applied_last[name] = list(definition["columns"])

    def cut_short(self, *words):
        process = Process([pathmirror(), *words, "--database-url", self.urls[0]], "cut", self.folder)
        try:
            process.wait(self.dice.uniform(0, 0.5))
        except Late:
            process.kill()
            self.counts["commands killed"] += 1

    def some(self) -> str:
        """The name of a mirror, or of a history beside one."""
        return self.dice.choice([*MIRRORS, "kept_changes", "kept_children_changes", "soft_part_changes"])

    def changeable(self) -> str:
        # The conditions of a row may not change where rows stay: removed ones could come with other values.
        return self.dice.choice([name for name in MIRRORS if name != "soft_part"])

    def applied(self):
        self.apply(self.changeable())

    def killed_apply(self):
        name = self.changeable()
        self.applied_last.pop(name, None)
        self.cut_short("mirror", "apply", self.file(name)[0], "--yes")

    def dropped(self):
        name = self.dice.choice(list(MIRRORS))
        for one in [name, f"{name}_changes"] if MIRRORS[name].get("history") else [name]:
            self.command("mirror", "drop", one, "--yes")
        self.paths.pop(name, None)
        self.apply(name)

    def dropped_history(self):
        """Drops a history only: once it is created again, it begins with the current entries of the log."""
        history = self.dice.choice(["kept_changes", "kept_children_changes", "soft_part_changes"])
        self.command("mirror", "drop", history, "--yes")
        name = history.rpartition("_")[0]
        if name != "soft_part":
            self.apply(name)
        else:
            self.command("mirror", "apply", self.folder / "soft_part.json", "--yes")

    def replayed(self):
        self.command("replay", "mirror", self.some())

    def killed_replay(self):
        self.cut_short("replay", "mirror", self.some())

    def killed_gateway(self):
        victim = self.dice.randrange(2)
        self.gateways[victim].process.kill()
        self.counts["gateways killed"] += 1
        self.gateways[victim] = self.gateway()

    def killed_postgres(self):
        self.cluster.kill()
        self.counts["PostgreSQL killed"] += 1
        self.cluster.start()

    def sessions(self, what):
        return self.query(self.cluster.url("postgres"), lambda connection: connection.execute(
            f"select {what} from pg_stat_activity where {RUNNERS}").fetchall())

    def lost_sessions(self):
        self.counts["sessions ended"] += len(self.sessions("pg_terminate_backend(pid)"))

    def killed_session(self):
        """Kills a server process that writes mirrors with SIGKILL: PostgreSQL then ends all others and recovers."""
        found = sorted(self.sessions("pid"))
        if found:
            try:
                os.kill(self.dice.choice(found)[0], signal.SIGKILL)
                self.counts["sessions killed"] += 1
            except ProcessLookupError:
                pass

    def pruned(self):
        """Prunes the log after the oracle has read it; later entries stay."""
        self.query(self.urls[0], self.log.read)
        self.command("log", "prune", "--keep", f"{self.dice.choice([130, 250])} entries", "--yes")

    def snapshot(self):
        self.command("log", "snapshot")

    def switched(self):
        self.command("mirror", self.dice.choice(["pause", "resume", "resume"]), self.some())

    def retried(self):
        self.command("mirror", "errors", self.dice.choice(["plain", "anywhere", "soft"]), "--retry")

    def imported(self):
        file = self.folder / "import.json"
        file.write_text(json.dumps({self.dice.key(): self.dice.value(3) for _ in range(4)}))
        self.command("import", file, "--path", "/" + self.dice.path(1, 2))

    def nothing(self):
        """Makes no fault: writers continue for a while."""

    def happenings(self) -> list:
        return [self.applied, self.killed_apply, self.dropped, self.dropped_history, self.replayed, self.killed_replay, self.killed_gateway, self.killed_postgres,
                self.lost_sessions, self.killed_session, self.pruned, self.snapshot, self.switched, self.retried, self.imported, self.nothing]

    def round(self):
        happening = self.to_come.pop() if self.to_come else self.dice.choices(self.happenings(), [4, 3, 2, 2, 2, 2, 3, 2, 2, 1, 2, 1, 1, 1, 1, 1])[0]
        self.done.append(happening.__name__)
        self.counts[happening.__name__] += 1
        number = self.dice.randrange(*self.writes)
        requests = [self.dice.write() for _ in range(number)]
        self.dice_of_sockets = Dice(self.dice.random())
        first, second = sorted(self.dice.randrange(number + 1) for _ in range(2))
        shares = {self.by_sql: requests[:first], self.by_socket: requests[first:second], self.by_rest: requests[second:]}
        writers = [threading.Thread(target=write, args=(share,)) for write, share in shares.items()]
        for writer in writers:
            writer.start()
        try:
            happening()
        finally:
            for writer in writers:
                writer.join()
        for gateway in self.gateways:
            gateway.wait_ready(60)
        self.check()
        if len(self.done) % 10 == 0:
            self.verify()

    def finish(self):
        """Resumes all mirrors, waits for the head, compares and rebuilds all tables, and checks that interrupted work left no rows.
        """
        for name, in sql.rows(self.urls[0], "select name from pathmirror.mirror"):
            self.command("mirror", "resume", name, must=True)
        self.check()
        self.verify()
        for name in MIRRORS:
            self.apply(name, must=name != "soft_part") if name != "soft_part" else None
        for name, in sql.rows(self.urls[0], "select name from pathmirror.mirror"):
            self.command("replay", "mirror", name, must=True)
        self.check()
        for url in self.urls:
            left = sql.rows(url, "select relname from pg_class where relname ~ '^_(build|old)'")
            if left:
                raise Difference(f"{self.place()}: left are {left}")
