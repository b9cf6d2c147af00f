"""Realtime clients: transactions, and onDisconnect writes."""

import time

from harness.waiting import Late
from harness.websocket import Closed, Rejected
from harness.websocket_client import RealtimeClient
from oracle.hashes import node_hash

from .client import PATIENCE, Client
from .history import OK, REFUSED, UNKNOWN, Operation, Order
from .writers import REGISTERS

LOST = (Late, Closed, Rejected, OSError, AssertionError, ValueError)


def definite(answer: dict) -> str:
    """Whether a request was executed, certainly not executed, or perhaps."""
    if answer["s"] == "ok":
        return OK
    text = str(answer.get("d", ""))
    return UNKNOWN if answer["s"] == "unavailable" and "may have been" in text else REFUSED


class Sessions(Client):
    """One session after another. Each asks for increments at its end, runs transactions, and ends in some manner."""

    pause = 0.05

    def __init__(self, name, doors, history, seed, home=None):
        super().__init__(name, doors, history, seed, home)
        self.last: str | None = None
        self.silent: list[RealtimeClient] = []

    def step(self) -> bool:
        gateway = self.gateway()
        resumed = self.last if self.dice.random() < 0.4 else None
        try:
            client = RealtimeClient(self.doors[gateway], ls=resumed)
        except LOST:
            return False
        try:
            client.greet()
            self.last = client.session
            self.live(client, gateway)
        except LOST:
            client.socket.drop()
            return False
        self.leave(client)
        return True

    def live(self, client: RealtimeClient, gateway: str):
        orders = [self.ask_order(client) for _ in range(self.dice.randint(1, 3))]
        for _ in range(self.dice.randint(2, 14)):
            if self.stopped.is_set():
                return
            self.transaction(client, gateway)
            # The session stays for some seconds, so that faults can strike it.
            time.sleep(self.dice.random() * 0.5)
            if self.dice.random() < 0.1:
                orders.append(self.ask_order(client))
        if self.dice.random() < 0.3:
            self.cancel(client, self.dice.choice(orders))

    def ask_order(self, client: RealtimeClient) -> Order:
        token = self.token()
        order = self.history.order(Order(token))
        number = client.ask("o", {"p": f"gone/{token}", "d": {".sv": {"increment": 1}}})
        order.status = definite(client.answer(number, PATIENCE))
        order.completed = time.monotonic()
        return order

    def cancel(self, client: RealtimeClient, order: Order):
        order.cancelled = UNKNOWN
        number = client.ask("oc", {"p": f"gone/{order.token}", "d": None})
        order.cancelled = definite(client.answer(number, PATIENCE))

    def transaction(self, client: RealtimeClient, gateway: str):
        """Reads, and writes if the value is unchanged. Only success proves the value: a refusal may be of older data."""
        key = self.dice.choice(REGISTERS)
        answer = client.answer(client.ask("g", {"p": f"reg/{key}"}), PATIENCE)
        if answer["s"] != "ok":
            return
        value, token = answer["d"], self.token()
        operation = self.history.begin(Operation(self.name, "cas", key, token, value, gateway))
        answer = client.answer(client.ask("p", {"p": f"reg/{key}", "d": token, "h": node_hash(value)}), PATIENCE)
        if answer["s"] == "datastale":
            self.history.end(operation, REFUSED, seen=token)
            operation.kind, operation.completed = "stale", None
            return
        if definite(answer) != OK:
            operation.note = f"{answer}"[:120]
            return
        operation.status = OK
        self.learn_seq(operation)

    def learn_seq(self, operation: Operation):
        """Reads a seq by REST, because the protocol has none. The gateway has applied the write, so its current seq is at least that."""
        if self.history.blurred:
            operation.completed = time.monotonic()
            return
        try:
            response = self._rests[operation.gateway].get("reg/none")
        except Exception:  # noqa: BLE001 - the write stays acknowledged, at a time that is not known
            return
        if response.status == 200:
            self.history.saw(response.seq, operation.epoch)
            operation.completed = time.monotonic()

    def leave(self, client: RealtimeClient):
        manner = self.dice.choice(["close", "drop", "reset", "silence"])
        if manner == "silence" and len(self.silent) < 4:
            self.silent.append(client)
        elif manner == "reset":
            client.socket.reset()
        elif manner == "drop":
            client.socket.drop()
        else:
            client.socket.close()

    def run(self):
        super().run()
        for client in self.silent:
            client.socket.drop()
