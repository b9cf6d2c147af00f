"""The requests of clients and their answers, by one monotonic clock."""

import json
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"


@dataclass
class Operation:
    """One request. `completed` is None if its outcome, or the time of its effect, is unknown."""

    client: str
    kind: str
    key: str
    value: object = None
    expected: object = None
    gateway: str = ""
    epoch: int = 0
    invoked: float = 0.0
    completed: float | None = None
    status: str = UNKNOWN
    seen: object = None
    seq: int | None = None
    note: str = ""

    @property
    def wrote(self) -> bool:
        return self.kind != "read"


@dataclass
class Order:
    """One onDisconnect request: the outcomes of the request and of its cancellation."""

    token: str
    status: str = UNKNOWN
    cancelled: str | None = None
    epoch: int = 0
    invoked: float = 0.0
    completed: float | None = None


@dataclass
class History:
    """Everything of one round. Any thread may add."""

    operations: list[Operation] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    epoch: int = 0
    # Whether a gateway may still return data that a restored database no longer has.
    blurred: bool = False

    def __post_init__(self):
        self._lock = threading.Lock()
        self._seq = 0

    # Times

    def begin(self, operation: Operation) -> Operation:
        """To be called right before the request is sent; the seq to ask for must be read after this."""
        operation.epoch, operation.invoked = self.epoch, time.monotonic()
        with self._lock:
            self.operations.append(operation)
        return operation

    def end(self, operation: Operation, status: str, seq: int | None = None, seen=None):
        """To be called right after the answer has arrived."""
        if seq is not None:
            self.saw(seq, operation.epoch, operation.wrote and status == OK)
        operation.seq, operation.seen, operation.status = seq, seen, status
        operation.completed = time.monotonic() if status != UNKNOWN else None

    def order(self, order: Order) -> Order:
        order.epoch, order.invoked = self.epoch, time.monotonic()
        with self._lock:
            self.orders.append(order)
        return order

    def complain(self, text: str):
        """Records an outcome that no fault excuses."""
        with self._lock:
            self.wrong.append(text)

    # The newest seen seq: strong reads ask for no older state.

    @property
    def seq(self) -> int:
        return self._seq

    def saw(self, seq: int, epoch: int, is_written: bool = False):
        with self._lock:
            if epoch == self.epoch and (is_written or not self.blurred):
                self._seq = max(self._seq, seq)

    def new_epoch(self):
        """Records that the database was replaced by an older copy: seen data may be lost."""
        with self._lock:
            self.epoch += 1
            self._seq = 0
            self.blurred = True

    def clear(self, head: int):
        """Records that reads must return the data of the restored database from now on, whose head is this."""
        with self._lock:
            self._seq = max(self._seq, head)
            self.blurred = False

    def keep(self, path: Path):
        """Writes all of it as lines of JSON."""
        with self._lock, open(path, "w") as file:
            for operation in self.operations:
                file.write(json.dumps(asdict(operation)) + "\n")
            for order in self.orders:
                file.write(json.dumps({"order": asdict(order)}) + "\n")
            for text in self.wrong:
                file.write(json.dumps({"wrong": text}) + "\n")
