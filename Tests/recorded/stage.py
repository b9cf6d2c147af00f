"""The servers of the plays: one PostgreSQL, gateways on one database, and a player for each play."""

import contextlib
import json
import os
from pathlib import Path

import psycopg
from harness.cluster import Cluster
from harness.gateway import OPEN_RULES, SECRET, Gateway, start_dev, start_serve
from harness.issuer import hs256, legacy
from harness.process import Process, run
from harness.scratch import scratch_directory
from names import Names
from transcript import Transcript
from wires.http import HTTP, Events
from wires.polling import Polling
from wires.realtime import Realtime
from wires.wire import Missing

DATABASE_SECRET = "recorded-database-secret-0123456789abcdef"
ADMIN = {"Authorization": f"Bearer {SECRET}"}
# No timer sends data while a play does not wait for it, and no log line depends on the load of the machine.
CALM = ["--session-timeout", "1h", "--loops", "2"]
CALM_TUNE = "stream-keep-alive=1h,keep-alive-timeout=1h,long-stretch=0s"


class Stage:
    """Programs that all plays of a recording share. Use as a context."""

    def __init__(self, binary: Path):
        self.binary = binary.resolve()
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> "Stage":
        with contextlib.ExitStack() as exits:
            self.directory = exits.enter_context(scratch_directory("recorded"))
            self.logs = self.directory / "logs"
            self.logs.mkdir()
            # The harness starts the program of this variable.
            before = os.environ.get("PATHMIRROR_BINARY")
            exits.callback(lambda: os.environ.pop("PATHMIRROR_BINARY") if before is None
                           else os.environ.__setitem__("PATHMIRROR_BINARY", before))
            os.environ["PATHMIRROR_BINARY"] = str(self.binary)
            self.cluster = Cluster(self.directory, self.logs)
            exits.callback(self.cluster.stop, "immediate")
            self.cluster.start()
            self.url = self.cluster.create_database()
            secrets = self.directory / "database-secrets.json"
            secrets.write_text(json.dumps({"auth": [DATABASE_SECRET], "realtime-auth": [DATABASE_SECRET], "rules": [DATABASE_SECRET]}))
            secrets.chmod(0o600)
            self.gateway = self.serve(exits, self.url, "--create-namespaces", "--database-secret-file", secrets)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_):
        self._exits.close()

    def serve(self, exits: contextlib.ExitStack, url: str, *options, rules: dict | None = OPEN_RULES, ns: str = "default",
              tune: str = "", **more) -> Gateway:
        # The last value of a repeated name counts.
        tune = ",".join(filter(None, (CALM_TUNE, tune)))
        gateway = start_serve(url, self.directory, self.logs, *CALM, *options, rules=rules, ns=ns, tune=tune, **more)
        exits.callback(gateway.sweep)
        return gateway


class Player:
    """One play: its transcript, its namespace, its clients. All of them are closed when it ends."""

    def __init__(self, stage: Stage, name: str):
        self.stage, self.name = stage, name
        # The first label of the host is the namespace; so requests are the same in every run.
        self.host = f"{name}.localhost"
        self.names = Names()
        self.transcript = Transcript(self.names)
        self.exits = contextlib.ExitStack()
        self.directory = stage.directory / name
        self.directory.mkdir()
        self.directory.chmod(0o755)
        self.names.learn(str(self.directory), "directory")
        self.names.learn(str(stage.directory), "scratch")
        self._learn_url(stage.url, "database")
        self._learn_gateway(stage.gateway, "port")

    def note(self, text: str):
        self.transcript.note(text)

    # Programs

    def _learn_gateway(self, gateway: Gateway, name: str):
        self.names.learn(f"127.0.0.1:{gateway.port}", f"127.0.0.1:{name}")
        self.names.learn(f"localhost:{gateway.port}", f"localhost:{name}")

    def _learn_url(self, url: str, name: str):
        self.names.learn(url, f"{name} URL")
        self.names.learn(url.rpartition("/")[2], name)

    def serve(self, *options, name: str, own_database: bool = False, url: str | None = None, **more) -> Gateway:
        """Another gateway: on the shared database, on one of its own, or on this one."""
        url = self.database(f"{name}'s database") if own_database else url or self.stage.url
        gateway = self.stage.serve(self.exits, url, *options, name=name, **more)
        self._learn_gateway(gateway, f"{name}'s port")
        return gateway

    def database(self, name: str) -> str:
        """The URL of an empty database."""
        url = self.stage.cluster.create_database()
        self._learn_url(url, name)
        return url

    def dev(self, *options) -> Gateway:
        gateway = start_dev(self.directory / "data", self.stage.logs, None, *options)
        self.exits.callback(gateway.sweep)
        self._learn_gateway(gateway, "dev's port")
        return gateway

    def output(self, gateway: Gateway, *leave_out: str):
        """The output of a gateway so far, without lines that have some of these words."""
        for label, text in (("out", gateway.process.stdout()), ("err", gateway.process.stderr())):
            lines = [line for line in text.splitlines(keepends=True) if not any(word in line for word in leave_out)]
            self.transcript.came(f"{gateway.process.name} {label}", "".join(lines).encode())

    # Clients

    def http(self, who: str = "a", gateway: Gateway | None = None, host: str | None = None) -> HTTP:
        return self._client(HTTP, who, gateway, host)

    def events(self, who: str, target: str, headers: dict | None = None, gateway: Gateway | None = None,
               host: str | None = None) -> Events:
        return self._client(Events, who, gateway, host).open(target, headers)

    def realtime(self, who: str, target: str = "/.ws?v=5", headers: dict | None = None, gateway: Gateway | None = None,
                 host: str | None = None, greeted: bool = True) -> Realtime:
        return self._client(Realtime, who, gateway, host).open(target, headers, greeted)

    def polling(self, who: str, query: str = "start=t&cb=1&v=5", gateway: Gateway | None = None) -> Polling:
        client = Polling(self.transcript, who, (gateway or self.stage.gateway).port, self.host)
        self.exits.callback(client.close)
        return client.open(query)

    def _client(self, kind, who: str, gateway: Gateway | None, host: str | None):
        client = kind(self.transcript, who, (gateway or self.stage.gateway).port, host or self.host)
        self.exits.callback(client.close)
        return client

    def set(self, path: str, value, gateway: Gateway | None = None):
        """The initial data of a play; the transcript includes the exchange."""
        self.http("data", gateway).ask("PUT", f"/{path}.json?print=silent", json.dumps(value, ensure_ascii=False), ADMIN)

    def rules(self, rules: dict, gateway: Gateway | None = None):
        self.http("rules", gateway).ask("PUT", "/.settings/rules.json", json.dumps(rules), ADMIN)

    # Credentials

    def custom_token(self, uid: str, **claims) -> str:
        """A legacy custom token of Firebase."""
        token = legacy(uid, DATABASE_SECRET, **claims)
        self.names.learn(token, self.names.number(f"token of {uid}"))
        return token

    def token(self, claims: dict, secret: str = DATABASE_SECRET) -> str:
        token = hs256(claims, secret)
        self.names.learn(token, self.names.number("token"))
        return token

    # Commands and SQL

    def command(self, *words, stdin: bytes | None = None, source: bool = True, env: dict | None = None) -> str:
        """Runs a command; with `source` on the shared database. The transcript includes its output and exit status."""
        words = [str(word) for word in words]
        self.transcript.sent("$", ("pathmirror " + " ".join(words)).encode())
        argv = [str(self.stage.binary), *words, *(["--database-url", self.stage.url] if source else [])]
        finished = run(argv, 60, stdin, env)
        self.transcript.came("out", finished.stdout.encode())
        self.transcript.came("err", finished.stderr.encode())
        self.transcript.event("$", f"exit {finished.returncode}")
        return finished.stdout

    def quiet_command(self, *words) -> str:
        """The standard output of a command, which the transcript does not include yet."""
        words = [str(word) for word in words]
        self.transcript.sent("$", ("pathmirror " + " ".join(words)).encode())
        return run([str(self.stage.binary), *words], 60).stdout

    def program(self, *words) -> Process:
        """Starts a command on the shared database that runs until it is stopped."""
        words = [str(word) for word in words]
        self.transcript.sent("$", ("pathmirror " + " ".join(words)).encode())
        program = Process([self.stage.binary, *words, "--database-url", self.stage.url], "-".join(words[:3]), self.stage.logs)
        self.exits.callback(program.stop)
        return program

    def sql(self, query: str, *values):
        """Runs a query on the shared database; the transcript includes the rows or the error."""
        self.transcript.sent("sql", query.encode())
        with psycopg.connect(self.stage.url, autocommit=True) as connection:
            try:
                cursor = connection.execute(query, values or None)
                for row in cursor.fetchall() if cursor.description else []:
                    self.transcript.came("sql", json.dumps(row, default=str, ensure_ascii=False).encode())
            except psycopg.Error as error:
                self.transcript.event("sql", f"{error.sqlstate} {error.diag.message_primary}")


def play(stage: Stage, name: str, script) -> str:
    """The transcript of one play. It includes the failures of the play."""
    player = Player(stage, name)
    with player.exits:
        try:
            script(player)
        except Missing:
            player.transcript.event(name, "ends here")
        except Exception as error:
            player.transcript.event(name, f"ends here: {type(error).__name__}: {error}")
    return player.transcript.text()
