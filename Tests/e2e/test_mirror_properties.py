"""Random mirrors and random writes while gateways, the mirrors' database sessions and commands are killed with SIGKILL.

At every check, each table is the projection of the tree at its cursor. The tree follows from the log's entries, and the projection from
`oracle.mirror`, which shares no code with the program. PATHMIRROR_E2E_MIRROR_SEEDS and PATHMIRROR_E2E_MIRROR_ROUNDS change the seeds and
the number of rounds."""

import http.client
import json
import os
import random
import signal
import threading
from urllib.parse import quote

import psycopg
import pytest
from harness import cli, sql
from harness.binary import pathmirror
from harness.gateway import start_serve
from harness.process import Process
from harness.waiting import Late, wait_until
from oracle.export import assign
from oracle.mirror import FILTERS, project

ROUNDS = int(os.environ.get("PATHMIRROR_E2E_MIRROR_ROUNDS", 30))
SEEDS = [int(seed) for seed in os.environ.get("PATHMIRROR_E2E_MIRROR_SEEDS", "1,2").split(",")]

PATTERNS = ["/{k}", "/a/{k}", "/{k}/a", "/{j}/{k}", "/a/{k}/b", "/a b/{j}/{k}", "/a/{j}/b/{k}", "/{i}/{j}/{k}"]
FIELDS = ["a", "b", "0", "1", "é", "a b", "a!", "2026-01-31", "2026-02-30"]
TYPES = ["text", "bigint", "double precision", "numeric", "boolean", "timestamptz", "date", "jsonb", "text[]", "uuid"]
DEFAULTS = {"text": "none", "bigint": 7, "double precision": 0.5, "numeric": "1.25", "boolean": True, "timestamptz": "2020-01-01",
            "date": "2020-01-01", "uuid": "00000000-0000-0000-0000-000000000001"}


class Dice(random.Random):
    def field(self) -> str:
        return self.choice(FIELDS)

    def leaf(self):
        return self.choice([
            True, False, 0, -1, 7, 2**53, -(2**63), 1.5, -2.25, 0.1, 1_700_000_000_000, -62_135_596_800_001, "", "x", "é", "nul\0", "12",
            "12.50", "-", "2026-01-31", "2026-02-30", "2026-01-31T23:59:58Z", "1999-12-31 12:30",
            "0E0E0E0E-1111-2222-3333-444444444444", 'quote"back\\slash', "10"])

    def value(self, depth: int):
        kind = self.randrange(8)
        if kind == 0:
            node = {self.field(): self.random() < 0.8 for _ in range(3)}
        elif kind == 1:
            node = {"0": "a", "1": self.choice(["b", "nul\0"])}
        elif depth == 0 or kind == 2:
            node = self.leaf()
        else:
            node = {self.field(): self.value(depth - 1) for _ in range(self.randrange(1, 5))}
        if self.random() < 0.1:
            priority = self.choice([1, "p", 2.5])
            node = {**node, ".priority": priority} if isinstance(node, dict) else {".value": node, ".priority": priority}
        return node

    def path(self, most: int, least: int = 0) -> str:
        return "/".join(self.field() for _ in range(self.randrange(least, most + 1)))

    def column(self) -> dict:
        kind = self.choice(TYPES)
        path = self.choice([".", f"{self.field()}/{self.field()}", ".priority", f"{self.field()}/.priority", *FIELDS])
        column = {"type": kind, "path": path}
        if kind in DEFAULTS and self.random() < 0.3:
            column["default"] = DEFAULTS[kind]
            if self.random() < 0.5:
                column["not null"] = "default"
        elif self.random() < 0.12:
            column["not null"] = self.choice(["skip", "error"])
        return column

    def definition(self, name: str, target: str | None) -> dict:
        definition = {"name": name, "path": self.choice(PATTERNS), "columns": {f"c{n}": self.column() for n in range(self.randrange(5))}}
        if self.random() < 0.1:
            definition["keys"] = {"k": self.choice(["bigint", "date"])}
        if self.random() < 0.3:
            definition["filter"] = self.choice(list(FILTERS))
        if self.random() < 0.5:
            definition["rest"] = "rest"
        if self.random() < 0.3:
            definition["indexes"] = ["_seq"]
        return definition if target is None else {**definition, "target": target}

    def request(self) -> tuple[str, str, object]:
        """The method, path and value of a write."""
        kind = self.randrange(10)
        # Writes of the whole tree are rare, or the tree stays small.
        least = 0 if self.random() < 0.03 else 1 if self.random() < 0.2 else 2
        if kind == 0:
            return "DELETE", self.path(4, least), None
        if kind == 1:
            return "PUT", f"{self.path(4, 1)}/.priority", self.choice([None, 1, "p"])
        if kind < 5:
            changes = {}
            for _ in range(self.randrange(1, 5)):
                path = self.path(4, 1)
                if not any((path + "/").startswith(other + "/") or (other + "/").startswith(path + "/") for other in changes):
                    changes[path] = None if self.random() < 0.25 else self.value(2)
            return "PATCH", "", changes
        path = self.path(5, least)
        return "PUT", path, self.value(max(0, 4 - path.count("/")))


class World:
    """Two gateways on a PostgreSQL that may be killed, and the known part of its log."""

    def __init__(self, seed: int, cluster, scratch, logs):
        self.seed, self.dice, self.cluster, self.scratch, self.logs = seed, Dice(seed), cluster, scratch, logs
        self.url, self.other = cluster.create_database(), cluster.create_database()
        self.gateways = [self.gateway(), self.gateway()]
        self.trees, self.checks, self.rows, self.done = [None], 0, 0, []
        # Each fault at least once, then at random.
        self.to_come = self.dice.sample(self.happenings(), len(self.happenings()))

    def gateway(self):
        return start_serve(self.url, self.scratch, self.logs, "--dead-after", "1s", wait=False)

    def end(self):
        for gateway in self.gateways:
            gateway.sweep()

    def write(self, requests):
        """Writes. The outcome may stay unknown: the log has it."""
        for number, (method, path, value) in enumerate(requests):
            gateway = self.gateways[number % len(self.gateways)]
            body = None if method == "DELETE" else json.dumps(value).encode()
            try:
                response = gateway.rest.send(method, f"/{quote(path)}.json?format=export", body)
                assert response.status in (200, 400, 503), (method, path, value, response.body)
            except (OSError, http.client.HTTPException):
                continue

    def query(self, url, text):
        """Reads one snapshot of a database that may be restarting."""
        def attempt():
            try:
                with psycopg.connect(url) as connection:
                    connection.execute("set transaction isolation level repeatable read")
                    connection.execute("set timezone to 'UTC'")
                    return [text(connection)]
            except psycopg.OperationalError:
                return None

        return wait_until(attempt, "PostgreSQL to answer", 40)[0]

    def tree(self, seq):
        """Returns the tree after an entry, from the log alone."""
        if seq >= len(self.trees):
            entries = self.query(self.url, lambda connection: connection.execute(
                "select seq, changes::text from pathmirror.log where seq >= %s order by seq", [len(self.trees)]).fetchall())
            for number, changes in entries:
                assert number == len(self.trees)
                tree = self.trees[-1]
                for path, value in json.loads(changes).items():
                    tree = assign(tree, [key for key in path.split("/") if key], value)
                self.trees.append(tree)
        return self.trees[seq]

    def check(self):
        """Compares every table with its projection; definition, cursor, rows and errors are of one snapshot."""
        for url in (self.url, self.other):
            for found in self.query(url, tables):
                definition, seq, rows, errors = found
                wanted, wanted_errors = project(definition, self.tree(seq))
                place = f"seed {self.seed}, mirror {definition['name']} ({definition['path']}) at seq {seq} after {self.done[-5:]}"
                assert rows.keys() == wanted.keys(), f"{place}: {rows.keys() ^ wanted.keys()}"
                for keys, row in wanted.items():
                    assert rows[keys] == row, f"{place}: {keys}"
                assert errors == wanted_errors, f"{place}: {errors ^ wanted_errors}"
                self.checks += 1
                self.rows += len(rows)

    # MARK: faults and changes

    def command(self, *words):
        return cli.command(*words, "--database-url", self.url)

    def definition_file(self):
        name = f"m{self.dice.randrange(4)}"
        path = self.scratch / f"{name}.json"
        # The last one lives in the other database.
        path.write_text(json.dumps(self.dice.definition(name, self.other if name == "m3" else None)))
        return path

    def applied(self):
        self.command("mirror", "apply", self.definition_file(), "--yes")

    def killed_apply(self):
        self.cut_short("mirror", "apply", self.definition_file(), "--yes")

    def replayed(self):
        self.command("replay", "mirror", f"m{self.dice.randrange(4)}")

    def replayed_in_part(self):
        self.command("replay", "mirror", f"m{self.dice.randrange(4)}", "--from", str(self.dice.randrange(1, len(self.trees) + 1)))

    def killed_replay(self):
        self.cut_short("replay", "mirror", f"m{self.dice.randrange(4)}", "--rate", "200")

    def cut_short(self, *words):
        process = Process([pathmirror(), *words, "--database-url", self.url], "cut", self.logs)
        try:
            process.wait(self.dice.uniform(0, 0.3))
        except Late:
            process.kill()

    def killed_gateway(self):
        victim = self.dice.randrange(len(self.gateways))
        self.gateways[victim].process.kill()
        self.gateways[victim] = self.gateway()

    def lost_sessions(self):
        self.sessions("pg_terminate_backend(pid)")

    def killed_session(self):
        """Kills a server process that writes a mirror with SIGKILL: PostgreSQL then ends all others and recovers."""
        found = wait_until(lambda: self.sessions("pid"), "a session that runs mirrors", 60)
        try:
            os.kill(self.dice.choice(sorted(found))[0], signal.SIGKILL)
        except ProcessLookupError:
            # The process has just ended by itself.
            pass

    def sessions(self, what):
        return self.query(self.cluster.url("postgres"), lambda connection: connection.execute(
            f"select {what} from pg_stat_activity where application_name in ('pathmirror mirror writer', 'pathmirror mirror reader')"
        ).fetchall())

    def switched(self):
        self.command("mirror", self.dice.choice(["pause", "resume", "resume"]), f"m{self.dice.randrange(4)}")

    def retried(self):
        self.command("mirror", "errors", f"m{self.dice.randrange(4)}", "--retry")

    def nothing(self):
        """Makes no fault: writers continue for a while."""

    def happenings(self) -> list:
        return [self.applied, self.killed_apply, self.replayed, self.replayed_in_part, self.killed_replay, self.killed_gateway,
                self.lost_sessions, self.killed_session, self.switched, self.retried, self.nothing]

    def round(self):
        requests = [self.dice.request() for _ in range(self.dice.randrange(5, 40))]
        happening = self.to_come.pop() if self.to_come else self.dice.choices(
            self.happenings(), [3, 2, 2, 2, 2, 3, 2, 1, 1, 1, 2])[0]
        self.done.append(happening.__name__)
        writer = threading.Thread(target=self.write, args=(requests,))
        writer.start()
        try:
            happening()
            self.check()
        finally:
            writer.join()
        self.check()


def tables(connection) -> list:
    """Definition, cursor, rows and errors of every mirror of a database."""
    if not connection.execute("select to_regclass('pathmirror.mirror_cursor')").fetchone()[0]:
        return []
    found = []
    for definition, seq, mirror, generation in connection.execute(
            "select definition, seq, mirror, generation from pathmirror.mirror_cursor").fetchall():
        keys = [part.strip("{}") for part in definition["path"].split("/") if part.startswith("{")]
        columns = [*definition.get("columns", {}), *([definition["rest"]["column"]] if "rest" in definition else [])]
        names = ", ".join(f'"{name}"' for name in [*keys, *columns, "_misfits"])
        schema, table = definition["table"].split(".")
        rows = {}
        try:
            values = connection.execute(f'select {names} from "{schema}"."{table}"').fetchall()
        except psycopg.errors.UndefinedTable as error:
            raise AssertionError(f"no table {table}") from error
        if not connection.execute(
                "select 1 from pg_class where oid = to_regclass(%s) and relname = %s", [f'"{schema}"."{table}"', table]).fetchone():
            # The table was swapped since the snapshot, in which the new table is empty.
            continue
        for row in values:
            own = row[len(keys):-1]
            rows[row[:len(keys)]] = (dict(zip(columns, own)), set(row[-1] or []))
        assert len(rows) == len(values), f"two rows with the same keys in {table}"
        errors = set(connection.execute(
            "select record, column_name from pathmirror.mirror_error where mirror = %s and generation = %s", [mirror, generation]).fetchall())
        found.append((definition, seq, rows, errors))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_are_the_projection_of_the_tree_at_their_cursors(seed, own_postgres, scratch, logs):
    world = World(seed, own_postgres, scratch, logs)
    try:
        for gateway in world.gateways:
            gateway.wait_ready()
        for name in range(4):
            path = scratch / "first.json"
            path.write_text(json.dumps(world.dice.definition(f"m{name}", world.other if name == 3 else None)))
            cli.succeeds("mirror", "apply", path, "--yes", "--database-url", world.url)
        for _ in range(ROUNDS):
            world.round()
        for gateway in world.gateways:
            gateway.wait_ready()
        for name in range(4):
            cli.succeeds("mirror", "resume", f"m{name}", "--database-url", world.url)
        head = sql.head(world.url)
        for url in (world.url, world.other):
            wait_until(lambda: sql.rows(url, f"select coalesce(bool_and(seq >= {head}), true) from pathmirror.mirror_cursor")[0][0],
                       "the mirrors to come to the head", 90)
        world.check()
        assert ", 4 mirrors" in cli.verify("--database-url", world.url)
        for name in range(4):
            cli.succeeds("replay", "mirror", f"m{name}", "--database-url", world.url)
        world.check()
        for url in (world.url, world.other):
            assert sql.rows(url, "select relname from pg_class where relname ~ '^_(build|old)'") == []
        print(f"seed {seed}: {head} entries, {world.checks} tables of {world.rows} rows compared; {world.done}")
        # The tables had rows to compare: the number varies with the seed and with time.
        assert world.rows > ROUNDS
    finally:
        world.end()
