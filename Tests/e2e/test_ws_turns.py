"""Transactions that contend for a path take turns: SDKs give up after 25 refusals."""

import random
import signal
import threading
import time

import pytest
from harness.contention import contend
from harness.waiting import wait_until
from harness.websocket_client import Holder, RealtimeClient
from oracle.hashes import node_hash

OK = {"s": "ok", "d": ""}
STALE = {"s": "datastale", "d": "Transaction hash does not match"}


class Transactor:
    """A transaction as an SDK runs it: listen, run, send with the hash, repeat if stale; 25 times at most."""

    def __init__(self, port: int, path: str, distance: float = 0):
        self.client = RealtimeClient(port).greet()
        self.path, self.holder, self.distance = path, Holder(path), distance
        self.holder.take(self.client.listen(path))
        self.sends = []

    def add_one(self):
        for send in range(1, 200):
            # A distant client: it sends changes of a value that it saw a while ago.
            time.sleep(self.distance)
            value = (self.holder.value or 0) + 1
            answer = self.client.call("p", {"p": self.path, "d": value, "h": node_hash(self.holder.value)})
            while self.client.pushes:
                self.holder.take(self.client.pushes.popleft())
            if answer["s"] == "ok":
                self.sends.append(send)
                return
            assert answer["s"] == "datastale", answer
        raise AssertionError("200 attempts")


@pytest.mark.parametrize("pace", ["rounds", "ceaseless"])
def test_twenty_clients_contend_over_two_gateways(gateway_pair, pace):
    """In rounds, all clients make one change at the same time; the continuous ones start the next round without a pause."""
    path = f"counter{random.randrange(1 << 40)}"
    transactors = [Transactor(gateway_pair[number % 2].port, path) for number in range(20)]
    errors, barrier = [], threading.Barrier(20)

    def work(transactor):
        try:
            for _ in range(10):
                if pace == "rounds":
                    barrier.wait(30)
                transactor.add_one()
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(one,)) for one in transactors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    for gateway in gateway_pair:
        wait_until(lambda: gateway.rest.value(path) == 200, "both gateways to have all")
    for one in transactors:
        while one.holder.value != 200:
            one.holder.take(one.client.push())
        one.client.socket.close()
    sends = sorted(count for one in transactors for count in one.sends)
    print(f"\ncontention ({pace}): {sum(sends)} sends for 200 transactions, most {sends[-1]}, median {sends[100]}")
    # SDKs give up after 25.
    assert sends[-1] <= 25


@pytest.mark.parametrize("place", ["beside the others", "at the other gateway"])
def test_a_distant_client_has_its_turn_among_near_ones(gateway_pair, place):
    """Without turns this client would never be the first with a change of the newest value."""
    path = f"counter{random.randrange(1 << 40)}"
    near = [Transactor(gateway_pair[0].port, path) for _ in range(6)]
    distant = Transactor(gateway_pair[0 if place.startswith("beside") else 1].port, path, distance=0.05)
    isOver, errors = threading.Event(), []

    def work(transactor):
        try:
            while not isOver.is_set():
                transactor.add_one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(one,)) for one in near]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            distant.add_one()
    finally:
        isOver.set()
        for thread in threads:
            thread.join()
    assert not errors, errors[0]
    total = sum(len(one.sends) for one in [*near, distant])
    for gateway in gateway_pair:
        wait_until(lambda: gateway.rest.value(path) == total, "both gateways to have all")
    for one in [*near, distant]:
        one.client.socket.close()
    print(f"\na distant client {place}: {distant.sends} sends; {total} transactions in all")
    # SDKs give up after 25.
    assert max(distant.sends) <= 25


def test_clients_that_also_write_elsewhere(gateway_pair):
    """Without a rule for them, their other writes would send each of their transactions before its slot."""
    path = f"counter{random.randrange(1 << 40)}"
    result = contend([gateway.port for gateway in gateway_pair], path, count=60, pause=0.01, seconds=5)
    print(f"\nclients that also write elsewhere: {result}")
    assert result.given_up == 0
    assert len(result.sends) >= 60
    for gateway in gateway_pair:
        wait_until(lambda: gateway.rest.value(path) == len(result.sends), "both gateways to have all")


# Turns, one step at a time

def put(client: RealtimeClient, path: str, value, over) -> int:
    """Sends a put with the hash of the value that it replaces."""
    return client.ask("p", {"p": path, "d": value, "h": node_hash(over)})


def wait_for_waiting(gateway, count: int):
    wait_until(lambda: gateway.metric("pathmirror_transactions_waiting") == count, f"{count} transactions to wait")


@pytest.fixture
def patient(serve):
    """A gateway whose turns do not end by timeout."""
    return serve(tune="transaction-slot=60s")


@pytest.fixture
def line(patient):
    """Four clients; the first has its turn on `/x`, whose value is 0."""
    clients = [RealtimeClient(patient.port).greet() for _ in range(4)]
    clients[0].put("x", 0)
    assert clients[0].answer(put(clients[0], "x", "no", over="else")) == STALE
    yield clients
    for client in clients:
        client.socket.close()


def test_turns_are_had_in_the_order_of_asking(patient, line):
    first, second, third, _ = line
    seconds = put(second, "x", 2, over=1)
    wait_for_waiting(patient, 1)
    thirds = put(third, "x", 3, over=2)
    wait_for_waiting(patient, 2)
    assert patient.rest.value("x") == 0
    assert first.answer(put(first, "x", 1, over=0)) == OK
    assert second.answer(seconds) == OK
    assert third.answer(thirds) == OK
    assert patient.rest.value("x") == 3
    wait_for_waiting(patient, 0)


def test_a_client_keeps_its_turn_until_it_succeeds(patient, line):
    first, second, *_ = line
    seconds = put(second, "x", 2, over=1)
    wait_for_waiting(patient, 1)
    for attempt in range(3):
        assert first.answer(put(first, "x", "no", over=f"else {attempt}")) == STALE
    assert patient.metric("pathmirror_transactions_waiting") == 1
    assert first.answer(put(first, "x", 1, over=0)) == OK
    assert second.answer(seconds) == OK


def test_nothing_waits_behind_a_transaction_that_waits(patient, line):
    _, second, third, _ = line
    waiting = put(second, "x", 2, over=0)
    wait_for_waiting(patient, 1)
    assert second.call("p", {"p": "y", "d": 1}) == OK
    # This was executed before: the gateway executes requests in their order.
    assert second.answers.pop(waiting) == OK
    assert patient.rest.value("x") == 2
    # Out of turn, and refused at once; but the client keeps its position before the third.
    waiting = put(second, "x", 2, over="else")
    wait_for_waiting(patient, 1)
    thirds = put(third, "x", 3, over=2)
    wait_for_waiting(patient, 2)
    second.ok("s", {"c": {}})
    assert second.answer(waiting) == STALE
    wait_for_waiting(patient, 1)
    line[0].socket.close()
    assert second.answer(put(second, "x", 22, over=2)) == OK
    assert third.answer(thirds) == STALE


def test_requests_of_a_refused_client_wait(patient, line):
    first, second, *_ = line
    for refusal in range(3):
        waiting = put(second, "x", 2, over="else")
        wait_for_waiting(patient, 1)
        second.put("y", refusal)
        assert second.answers.pop(waiting) == STALE
    waiting = put(second, "x", 2, over=1)
    wait_for_waiting(patient, 1)
    others = [second.ask("p", {"p": "y", "d": "later"}), second.ask("g", {"p": "y"})]
    # Requests of other clients do not wait.
    first.put("z", 1)
    assert patient.metric("pathmirror_transactions_waiting") == 1
    assert patient.rest.value("y") == 2
    assert first.answer(put(first, "x", 1, over=0)) == OK
    assert second.answer(others[1]) == {"s": "ok", "d": "later"}
    assert second.answers.pop(others[0]) == OK and second.answers.pop(waiting) == OK


def test_other_writes_and_other_paths_wait_for_nobody(patient, line):
    _, second, third, fourth = line
    waiting = put(second, "x", 2, over=0)
    wait_for_waiting(patient, 1)
    assert third.call("p", {"p": "x", "d": "plain"}) == OK
    assert fourth.answer(put(fourth, "x/deeper", 1, over=None)) == OK
    assert fourth.answer(put(fourth, "z", 1, over=None)) == OK
    assert patient.metric("pathmirror_transactions_waiting") == 1
    line[0].socket.close()
    assert second.answer(waiting) == STALE


def test_a_turn_ends_with_its_client(patient, line):
    first, second, third, _ = line
    put(second, "x", "never", over=0)
    wait_for_waiting(patient, 1)
    thirds = put(third, "x", 3, over=0)
    wait_for_waiting(patient, 2)
    # The client leaves before its turn: its unanswered request is not executed, and blocks no other client.
    second.socket.close()
    wait_for_waiting(patient, 1)
    first.socket.close()
    assert third.answer(thirds) == OK
    assert patient.rest.value("x") == 3


def test_a_client_that_gives_up_is_passed_over(serve):
    gateway = serve(tune="transaction-slot=50ms")
    with RealtimeClient(gateway.port) as gives_up, RealtimeClient(gateway.port) as other:
        assert gives_up.answer(put(gives_up, "x", 1, over="else")) == STALE
        assert other.answer(put(other, "x", 2, over=None)) == OK
    assert gateway.rest.value("x") == 2


def test_turns_can_be_turned_off(serve):
    gateway = serve(tune="transaction-slot=0s")
    with RealtimeClient(gateway.port) as first, RealtimeClient(gateway.port) as second:
        assert first.answer(put(first, "x", 1, over="else")) == STALE
        assert second.answer(put(second, "x", 2, over=None)) == OK
        assert gateway.metric("pathmirror_transactions_waiting") == 0


def test_a_stopping_gateway_tries_what_waits(patient, line):
    _, second, *_ = line
    waiting = put(second, "x", 2, over=0)
    wait_for_waiting(patient, 1)
    patient.process.send(signal.SIGTERM)
    assert second.answer(waiting) == OK
