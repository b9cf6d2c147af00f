"""Only clients with the right to write wait in the queue of transactions: others are refused, and block no client."""

import random
import threading

import pytest
from harness.gateway import SECRET
from harness.issuer import legacy
from harness.waiting import Late, wait_until
from harness.websocket_client import RealtimeClient
from oracle.hashes import node_hash
from test_ws_turns import OK, STALE, Transactor, put

DENIED = {"s": "permission_denied", "d": "Permission denied"}
RULES = {"rules": {"shared": {"$any": {".read": True, ".write": "auth.uid === 'ada'"}}}}
UNPERMITTED, PERMITTED = 30, 10


@pytest.fixture
def patient(serve):
    """A gateway whose turns do not end by timeout."""
    return serve(tune="transaction-slot=60s", rules=RULES)


@pytest.fixture
def path():
    return f"shared/counter{random.randrange(1 << 40)}"


def permitted(client: RealtimeClient) -> RealtimeClient:
    client.ok("auth", {"cred": legacy("ada", SECRET)})
    return client


@pytest.mark.parametrize("kind", ["anonymous", "stranger", "no longer permitted"])
def test_whoever_may_not_write_has_no_place_in_the_line(patient, path, kind):
    with RealtimeClient(patient.port) as first, RealtimeClient(patient.port) as second:
        permitted(first).put(path, 0)
        if kind == "stranger":
            second.ok("auth", {"cred": legacy("eve", SECRET)})
        elif kind == "no longer permitted":
            permitted(second).ok("unauth")
        # Refused with a right or a wrong hash; if it had a turn now, the next client would wait for a minute.
        for over in ("else", 0, None):
            assert second.answer(put(second, path, "no", over)) == DENIED
            assert second.answer(second.ask("m", {"p": path, "d": {"a": 1}, "h": node_hash(over)})) == DENIED
        for number in range(3):
            assert first.answer(put(first, path, number + 1, over=number)) == OK
        assert patient.metric("pathmirror_transactions_waiting") == 0
    assert patient.rest.value(path) == 3


def test_whoever_may_not_write_does_not_wait_for_who_may(patient, path):
    with RealtimeClient(patient.port) as first, RealtimeClient(patient.port) as second:
        permitted(first).put(path, 0)
        # The first client's turn, for a minute.
        assert first.answer(put(first, path, "no", over="else")) == STALE
        for over in ("else", 0):
            assert second.answer(put(second, path, "no", over)) == DENIED
        assert patient.metric("pathmirror_transactions_waiting") == 0
        assert first.answer(put(first, path, 1, over=0)) == OK


def test_a_turn_ends_with_the_permission(patient, path):
    """A client that loses the right to write during its turn loses the turn."""
    with RealtimeClient(patient.port) as first, RealtimeClient(patient.port) as second:
        permitted(first).put(path, 0)
        permitted(second)
        assert first.answer(put(first, path, "no", over="else")) == STALE
        first.ok("unauth")
        assert first.answer(put(first, path, "no", over=0)) == DENIED
        assert second.answer(put(second, path, 1, over=0)) == OK


class Nuisance(threading.Thread):
    """A client that may not write, and retries without end."""

    def __init__(self, port: int, path: str, isOver: threading.Event):
        super().__init__(daemon=True)
        self.client, self.path, self.isOver = RealtimeClient(port).greet(), path, isOver
        self.answers, self.error = set(), None

    def run(self):
        number = 0
        try:
            while not self.isOver.is_set():
                number += 1
                # Every third hash belongs to a former value of the counter.
                over = number // 3 % 40 if number % 3 == 0 else f"else {number}"
                self.answers.add(self.client.answer(put(self.client, self.path, "no", over))["s"])
        except BaseException as error:
            self.error = error
        finally:
            self.client.socket.close()


@pytest.mark.parametrize("pace", ["one after another", "all at once"])
def test_thirty_clients_without_permission_cost_ten_with_it_nothing(patient, serve, path, pace):
    """Counted in sends, not in time: the number equals that without these clients."""
    gateway = patient if pace == "one after another" else serve(rules=RULES)
    transactors = [Transactor(gateway.port, path) for _ in range(PERMITTED)]
    for one in transactors:
        permitted(one.client)
    isOver, errors, waiting = threading.Event(), [], []
    nuisances = [Nuisance(gateway.port, path, isOver) for _ in range(UNPERMITTED)]
    for one in nuisances:
        one.start()

    def knows(transactor):
        for push in transactor.client.pushed():
            transactor.holder.take(push)
        return pace == "all at once" or (transactor.holder.value or 0) == sum(len(one.sends) for one in transactors)

    def work(transactor):
        try:
            for _ in range(3):
                # Another loop of the gateway pushes the write of another client; an SDK would know it.
                wait_until(lambda: knows(transactor), "the last write to be pushed")
                transactor.add_one()
                waiting.append(gateway.metric("pathmirror_transactions_waiting"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(one,)) for one in transactors]
    try:
        for thread in threads:
            thread.start()
            if pace == "one after another":
                thread.join()
        for thread in threads:
            thread.join()
    except Late as late:
        errors.append(late)
    finally:
        isOver.set()
        for one in nuisances:
            one.join()
        for one in transactors:
            one.client.socket.close()
    assert not errors, errors[0]
    assert not [one.error for one in nuisances if one.error]
    assert set().union(*(one.answers for one in nuisances)) == {"permission_denied"}
    sends = [count for one in transactors for count in one.sends]
    assert len(sends) == 3 * PERMITTED and gateway.rest.value(path) == 3 * PERMITTED
    if pace == "one after another":
        assert set(sends) == {1} and set(waiting) == {0}
    else:
        # Only clients that may write are in the queue, and SDKs give up after 25.
        assert max(waiting) <= PERMITTED - 1 and max(sends) <= 25, (max(waiting), max(sends))
