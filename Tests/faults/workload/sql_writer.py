"""A job that writes with pathmirror's SQL functions, in transactions that take their time."""

import psycopg
from psycopg.types.json import Jsonb

from .client import Client
from .history import OK, UNKNOWN, Operation
from .writers import REGISTERS

# A fault turns synchronous_commit off for the role: this job needs certain outcomes, independent of the role's default.
OPTIONS = "-c statement_timeout=12000 -c synchronous_commit=on"


class SqlWriter(Client):
    """Writes registers, and fan-out updates, straight into PostgreSQL."""

    pause = 0.15

    def __init__(self, name, doors, history, seed, url: str):
        super().__init__(name, doors, history, seed)
        self.url = url
        self.connection: psycopg.Connection | None = None
        # Whether the server has reported a commit without its synchronous standby.
        self.alone = False

    def step(self) -> bool:
        token = self.token()
        if self.dice.random() < 0.5:
            key = self.dice.choice(REGISTERS)
            operation = Operation(self.name, "write", key, token, gateway="sql")
            statement, values = "select pathmirror.set('default', %s, %s)", (f"/reg/{key}", Jsonb(token))
        else:
            operation = Operation(self.name, "update", "fan", token, gateway="sql")
            update = {f"fan/{branch}/s": token for branch in "abc"} | {
                f"marks/{token}": True, "count/marked": {".sv": {"increment": 1}}}
            statement, values = "select pathmirror.update('default', '/', %s)", (Jsonb(update),)
        self.history.begin(operation)
        self.alone = False
        try:
            if self.connection is None or self.connection.closed:
                self.connection = psycopg.connect(self.url, connect_timeout=5, options=OPTIONS)
                self.connection.add_notice_handler(self.heard)
            with self.connection.transaction():
                seq = self.connection.execute(statement, values).fetchone()[0]
                if self.dice.random() < 0.2:
                    self.stopped.wait(self.dice.random() * 0.1)
        except (psycopg.Error, OSError) as error:
            operation.note = f"{type(error).__name__}: {error}"[:120]
            self.history.end(operation, UNKNOWN)
            self.drop()
            return False
        # PostgreSQL reports a commit whose wait for the synchronous standby was cancelled as a commit, with a warning before it.
        known = not self.alone
        self.history.end(operation, OK if known else UNKNOWN, seq if known else None)
        return True

    def heard(self, notice: psycopg.errors.Diagnostic):
        self.alone = self.alone or notice.source_function == "SyncRepWaitForLSN"

    def drop(self):
        if self.connection is not None:
            try:
                self.connection.close()
            except psycopg.Error:
                pass
            self.connection = None

    def run(self):
        super().run()
        self.drop()
