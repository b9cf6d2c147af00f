"""onDisconnect: the gateway executes the requested writes once when a connection ends, in whichever way it ends."""

import contextlib
import json
import signal
import time

import pytest
from harness import sql
from harness.gateway import SECRET, start_serve
from harness.network import network
from harness.ports import free_port
from harness.rest import Rest
from harness.waiting import Late, wait_until
from harness.websocket import Closed
from harness.websocket_client import RealtimeClient, datum, merge

NOW = {".sv": "timestamp"}
PLUS = {".sv": {"increment": 1}}
# Gateways detect dead gateways and silent clients quickly.
QUICK = ("--dead-after", "1500ms")
WATCHFUL = ("--session-timeout", "1500ms")
ADMIN = {"Authorization": f"Bearer {SECRET}"}


def ends(location, value, patience=20):
    wait_until(lambda: location.value() == value, f"{location.base} to become {value!r}", patience)


# The ends of connections

@pytest.mark.parametrize("how", ["close", "drop", "reset", "garbage", "binary"])
def test_orders_are_carried_out_when_the_connection_ends(dev, at, how):
    with RealtimeClient(dev.port) as client, RealtimeClient(dev.port) as other:
        client.put(at.base, {"here": True, "count": 1})
        assert client.ok("o", {"p": f"/{at.base}/here", "d": None}) == ""
        assert client.ok("o", {"p": f"/{at.base}/count", "d": PLUS}) == ""
        assert at.value() == {"here": True, "count": 1}
        other.listen(at.base)
        match how:
            case "close": client.socket.close()
            case "drop": client.socket.drop()
            case "reset": client.socket.reset()
            case "garbage": client.socket.send(b"nonsense")
            case "binary": client.socket.send(b"\0", 2)
        assert [other.push(), other.push()] == [datum(f"{at.base}/here", None), datum(f"{at.base}/count", 2)]
        assert at.value() == {"count": 2}


def test_a_client_that_comes_back_ends_its_old_session_first(dev, at):
    with RealtimeClient(dev.port) as old:
        old.put(at.base, "old")
        old.ok("o", {"p": at.base, "d": "gone"})
        with RealtimeClient(dev.port) as other:
            other.listen(at.base)
            with RealtimeClient(dev.port, ls=old.session) as new:
                new.put(at.base, "new")
                assert [other.push(), other.push()] == [datum(at.base, "gone"), datum(at.base, "new")]
                old.socket.wait_for_close()
                new.ok("s", {"c": {}})
                assert at.value() == "new"


def test_a_session_of_another_gateway_is_ended(gateway_pair):
    first, second = gateway_pair
    at = second.unique()
    with RealtimeClient(first.port) as old:
        old.put(at.base, "old")
        old.ok("o", {"p": at.base, "d": "gone"})
        with RealtimeClient(second.port, ls=old.session) as new, RealtimeClient(second.port) as other:
            other.listen(at.base)
            new.put(at.base, "new")
            seen = [push["b"]["d"] for push in other.pushed()]
            assert seen[-1] == "new" and at.value() == "new"
            # The old session's onDisconnect writes have been executed: its end changes nothing any more.
            old.socket.reset()
            new.put(f"{at.base}-2", 1)
            old_rows = lambda: sql.rows(first.database_url, "select 1 from pathmirror.session where session_id = %s", old.session)
            wait_until(lambda: not old_rows(), "the old session to be forgotten")
            new.ok("s", {})
            assert at.value() == "new"


def test_a_session_that_never_was_holds_nobody_up(dev, at):
    began = time.monotonic()
    with RealtimeClient(dev.port, ls="0" * 32) as client:
        client.put(at.base, 1)
    assert time.monotonic() - began < 3


def test_silence_of_a_client_that_answers_no_pings(serve):
    gateway = serve(*WATCHFUL)
    with RealtimeClient(gateway.port) as silent, RealtimeClient(gateway.port) as alive:
        silent.ok("o", {"p": "silent", "d": NOW})
        alive.ok("o", {"p": "alive", "d": NOW})
        alive.listen("silent")
        # The client answers pings while it waits; the silent one does not read at all.
        assert alive.push(patience=20)["b"]["p"] == "silent"
        assert gateway.rest.value("alive") is None
        assert alive.ok("s", {}) == ""


def test_a_page_that_was_put_aside(serve):
    """The browser answers pings for minutes; only the program sends the protocol's "0"."""
    gateway = serve("--session-timeout", "600ms", tune="keep-alive-timeout=1500ms")
    with RealtimeClient(gateway.port) as aside, RealtimeClient(gateway.port) as alive:
        aside.ok("o", {"p": "aside", "d": NOW})
        alive.ok("o", {"p": "alive", "d": NOW})

        def gone():
            alive.socket.send(b"0")
            # Both clients answer pings here.
            for client in (aside, alive):
                with contextlib.suppress(Late, Closed):
                    client.message(0.05)
            return gateway.rest.value("aside")

        wait_until(gone, "the page to be taken for gone")
        assert alive.ok("s", {}) == "" and gateway.rest.value("alive") is None


def test_silent_loss_of_the_network(serve):
    with network() as lossy:
        if lossy is None:
            pytest.skip("needs the right to make network namespaces")
        port = free_port()
        gateway = serve(*WATCHFUL, "--listen", f"0.0.0.0:{port}", port=port)
        with lossy.inside():
            client = RealtimeClient(port, address=lossy.server)
        with client:
            client.put("lost", {"here": True})
            client.ok("o", {"p": "lost/here", "d": None})
            client.ok("o", {"p": "lost/times", "d": PLUS})
            lossy.cut()
            ends(gateway.rest.at("lost"), {"times": 1})


def test_a_graceful_shutdown(serve):
    gateway = serve()
    with RealtimeClient(gateway.port) as client:
        client.put("here", {"a": True, "n": 0})
        client.ok("om", {"p": "here", "d": {"a": None, "n": PLUS}})
        gateway.process.send(signal.SIGTERM)
        client.socket.wait_for_close()
        assert gateway.process.wait() == 0
    assert sql.rows(gateway.database_url, "select count(*) from pathmirror.session") == [(0,)]
    assert sql.rows(gateway.database_url, "select value::text from pathmirror.node where path like '/here%%'") == [("1",)]


def test_many_sessions_at_a_graceful_shutdown(serve):
    gateway = serve()
    clients = [RealtimeClient(gateway.port).greet() for _ in range(100)]
    for number, client in enumerate(clients):
        client.ask("p", {"p": f"here/{number}", "d": True})
        client.ask("o", {"p": f"here/{number}", "d": None})
        client.ask("o", {"p": "left", "d": PLUS})
    for client in clients:
        client.answer(client.number)
    assert gateway.stop() == 0
    assert sql.rows(gateway.database_url, "select path, value::text from pathmirror.node") == [("/left", "100")]


def test_a_killed_gateway_with_another_alive(serve):
    killed, other = serve(*QUICK, name="killed"), serve(*QUICK, name="other")
    with RealtimeClient(killed.port) as client, RealtimeClient(other.port) as watcher, RealtimeClient(other.port) as stays:
        client.ok("p", {"p": "here", "d": {"a": True, "n": 0}})
        stays.put("stays", True)
        stays.ok("o", {"p": "stays", "d": None})
        client.ok("om", {"p": "here", "d": {"a": None, "n": PLUS}})
        client.ok("o", {"p": "when", "d": NOW})
        watcher.listen("here")
        watcher.pushes.clear()
        killed.process.kill()
        assert watcher.push_until(lambda push: push["a"] == "m") == merge("here", {"a": None, "n": 1})
        wait_until(lambda: other.rest.value("when"), "the second order")
        # Executed exactly once, and for no other session.
        watcher.ok("s", {})
        wait_until(lambda: sql.rows(other.database_url, "select count(*) from pathmirror.gateway") == [(1,)], "the dead to be forgotten")
        assert other.rest.value("here") == {"n": 1} and other.rest.value("stays") is True


def test_a_killed_gateway_that_starts_again(serve):
    gateway = serve(*QUICK)
    with RealtimeClient(gateway.port) as client:
        client.put("n", 0)
        client.ok("o", {"p": "n", "d": PLUS})
        gateway.process.kill()
    again = serve(*QUICK, url=gateway.database_url)
    ends(again.rest.at("n"), 1)
    third = serve(*QUICK, url=gateway.database_url)
    with RealtimeClient(third.port) as client:
        client.put("x", 1)
    assert again.rest.value("n") == 1


def test_a_session_of_a_killed_gateway_is_ended_by_its_client_at_once(serve):
    slow = ("--dead-after", "10m")
    killed, other = (serve(*slow, name=name, tune="heartbeat=1s") for name in ("killed", "other"))
    with RealtimeClient(killed.port) as client:
        client.put("n", 0)
        client.ok("o", {"p": "n", "d": PLUS})
        killed.process.kill()
    with RealtimeClient(other.port, ls=client.session) as new:
        assert new.ok("g", {"p": "n", "q": {}}) == 1


def test_a_gateway_that_was_taken_for_dead_sends_its_clients_away(serve):
    frozen, other = serve(*QUICK, name="frozen"), serve(*QUICK, name="other")
    with RealtimeClient(frozen.port) as client:
        client.put("here", True)
        client.ok("o", {"p": "here", "d": None})
        frozen.process.freeze()
        try:
            wait_until(lambda: other.rest.value("here") is None, "the other to do it")
        finally:
            frozen.process.send(signal.SIGCONT)
        # The client must connect again, and repeat its requests.
        assert client.socket.wait_for_close() in (1001, None)
        with RealtimeClient(frozen.port, ls=client.session) as new:
            new.put("here", "again")
            new.ok("o", {"p": "here", "d": None})
            assert other.rest.value("here") in ("again", None)
        wait_until(lambda: other.rest.value("here") is None, "the new session's end")


def test_the_order_is_stored_before_the_write_behind_it(serve):
    """`onDisconnect().remove(); set(true)` at once: no presence remains, whichever process is killed at any time."""
    gateway = serve(*QUICK)
    other = serve(*QUICK, url=gateway.database_url)
    for round in range(3):
        clients = [RealtimeClient(gateway.port).greet() for _ in range(20)]
        for number, client in enumerate(clients):
            client.ask("o", {"p": f"ghosts/{round}/{number}", "d": None})
            client.ask("p", {"p": f"ghosts/{round}/{number}", "d": True})
        clients[0].answer(1 + round % 2)
        gateway.process.kill()
        wait_until(lambda: not sql.rows(gateway.database_url, "select 1 from pathmirror.session"), "all sessions to be ended")
        wait_until(lambda: other.rest.value("ghosts") is None, "no ghosts")
        gateway = serve(*QUICK, url=gateway.database_url)


# The meaning of onDisconnect requests

def test_cancelling_a_part_of_a_map(client_pair, at):
    # A test of the iOS SDK.
    client, other = client_pair
    foo = f"{at.base}/foo"
    client.put(foo, {"bar": "a", "baz": "b"})
    client.ok("om", {"p": foo, "d": {"baz": "c", "bat": "d"}})
    client.ok("oc", {"p": f"{foo}/baz", "d": None})
    client.socket.drop()
    ends(at.at("foo"), {"bar": "a", "baz": "b", "bat": "d"})


@pytest.fixture
def client_pair(dev):
    with RealtimeClient(dev.port) as first, RealtimeClient(dev.port) as second:
        yield first, second


@pytest.mark.parametrize("orders, before, after", [
    ([("o", "", 1), ("o", "", 2)], None, 2),
    ([("o", "a", 1), ("o", "", {"b": 2})], {"c": 3}, {"b": 2}),
    ([("o", "", {"b": 2}), ("o", "a", 1)], {"c": 3}, {"a": 1, "b": 2}),
    ([("o", "", {"b": 2, "c": 3}), ("o", "b", None)], None, {"c": 3}),
    ([("o", "", 1), ("oc", "", None)], "stays", "stays"),
    ([("o", "a/b", 1), ("o", "c", 2), ("oc", "a", None)], None, {"c": 2}),
    ([("o", "", {"a": {"x": 1, "y": 2}, "b": 3}), ("oc", "a/x", None)], None, {"a": {"y": 2}, "b": 3}),
    ([("o", "", "leaf"), ("oc", "a", None)], None, "leaf"),
    ([("om", "", {"a": 1, "b/c": 2, "d": None})], {"d": 4, "e": 5, "b": {"x": 1}}, {"a": 1, "b": {"c": 2, "x": 1}, "e": 5}),
    ([("om", "", {"a": 1, "b": 2}), ("oc", "a", None)], None, {"b": 2}),
    ([("om", "", {"a": 1, "b": 2}), ("om", "", {"a": 3})], None, {"a": 3, "b": 2}),
    ([("om", "", {"n": PLUS}), ("o", "m", PLUS)], {"n": 1, "m": "x"}, {"n": 2, "m": 1}),
    ([("o", "", {".value": 5, ".priority": 1})], None, 5),
])
def test_queues_of_orders(client_pair, at, orders, before, after):
    client, _ = client_pair
    client.put(at.base, before)
    for action, below, value in orders:
        client.ok(action, {"p": f"/{at.base}/{below}", "d": value})
    client.ok("o", {"p": f"{at.base}-end", "d": True})
    client.socket.drop()
    ends(Rest(at.port, f"{at.base}-end"), True)
    assert at.value() == after


def test_one_push_an_operation_and_one_instant_for_all(client_pair, at):
    client, other = client_pair
    other.listen(at.base)
    client.put(at.base, {"x": 0})
    client.ok("o", {"p": f"{at.base}/t1", "d": NOW})
    client.ok("om", {"p": at.base, "d": {"t2": NOW, "x": None, "deep/t3": NOW}})
    client.ok("o", {"p": f"{at.base}/t4", "d": {"t": NOW}})
    other.push()
    asked = int(time.time() * 1000)
    client.socket.drop()
    first, second, third = (other.push() for _ in range(3))
    instant = first["b"]["d"]
    assert asked - 1000 <= instant <= int(time.time() * 1000) + 1000
    assert first == datum(f"{at.base}/t1", instant)
    assert second == merge(at.base, {"t2": instant, "x": None, "deep/t3": instant})
    assert third == datum(f"{at.base}/t4", {"t": instant})
    assert other.pushed() == []


def test_orders_that_were_carried_out_are_not_again(dev, at):
    with RealtimeClient(dev.port) as client:
        client.ok("o", {"p": at.base, "d": PLUS})
        client.socket.drop()
    ends(at, 1)
    with RealtimeClient(dev.port, ls=client.session) as again:
        again.ok("s", {})
    with RealtimeClient(dev.port, ls=client.session) as again:
        assert again.ok("g", {"p": at.base, "q": {}}) == 1


# Rights of onDisconnect writes

def test_permission_is_asked_at_set_up_and_again_when_run(serve):
    open_rules = {".read": True, "a": {".write": True}, "b": {".write": "auth.uid == 'ada'"}, "c": {".validate": "newData.isNumber()", ".write": True}}
    gateway = serve(rules={"rules": open_rules})
    with RealtimeClient(gateway.port) as client:
        denied = {"s": "permission_denied", "d": "Permission denied"}
        assert client.call("o", {"p": "b", "d": 1}) == denied
        assert client.call("om", {"p": "/", "d": {"a": 1, "b": 2}}) == denied
        assert client.call("o", {"p": "c", "d": "text"}) == denied
        client.ok("oc", {"p": "b", "d": None})
        client.ok("gauth", {"cred": SECRET, "authvar": {"uid": "ada"}})
        client.ok("o", {"p": "b", "d": "by ada"})
        client.ok("o", {"p": "a", "d": "shut"})
        client.ok("o", {"p": "c", "d": 5})
        # /a is closed before the execution: the other writes are executed nevertheless.
        rules = {**open_rules, "a": {".write": False}}
        assert gateway.rest.send("PUT", "/.settings/rules.json", json.dumps({"rules": rules}).encode(), ADMIN).status == 200
        client.socket.drop()
    ends(gateway.rest, {"b": "by ada", "c": 5})
    # The client signs out in between: the gateway judges it by its final sign-in state.
    with RealtimeClient(gateway.port) as client:
        client.ok("gauth", {"cred": SECRET, "authvar": {"uid": "ada"}})
        client.ok("o", {"p": "b", "d": "signed out"})
        client.ok("o", {"p": "c", "d": 6})
        client.ok("unauth")
        client.socket.drop()
    ends(gateway.rest, {"b": "by ada", "c": 6})


# Presence

@pytest.mark.parametrize("ending", ["close", "drop", "reset", "again", "shutdown", "kill"])
def test_presence_leaves_no_ghost(serve, ending):
    first, second = serve(*QUICK, name="first"), serve(*QUICK, name="second")
    with RealtimeClient(second.port) as watcher:
        watcher.listen("users/u")

        def arrive(port, name, ls=None):
            client = RealtimeClient(port, ls=ls).greet()
            place = f"users/u/connections/{name}"
            client.ask("o", {"p": place, "d": None})
            client.ask("p", {"p": place, "d": True})
            client.ask("o", {"p": "users/u/lastOnline", "d": NOW})
            for number in (1, 2, 3):
                assert client.answer(number)["s"] == "ok"
            return client

        device, other = arrive(first.port, "-device"), arrive(second.port, "-other")
        match ending:
            case "close": device.socket.close()
            case "drop": device.socket.drop()
            case "reset": device.socket.reset()
            case "again": device = arrive(second.port, "-device2", device.session)
            case "shutdown": assert first.stop() == 0
            case "kill": first.process.kill()
        rest = second.rest
        left = {"-other": True} | ({"-device2": True} if ending == "again" else {})
        wait_until(lambda: rest.value("users/u/connections") == left, "the device to be gone")
        assert rest.value("users/u/lastOnline") > 1_600_000_000_000
        other.socket.drop()
        if ending == "again":
            device.socket.drop()
        wait_until(lambda: rest.value("users/u/connections") is None, "no session to be left")


def test_too_many_orders_are_refused_not_forgotten(dev, at):
    with RealtimeClient(dev.port) as client:
        answers = []
        for number in range(1100):
            client.ask("o", {"p": f"{at.base}/{number}", "d": 1})
        for number in range(1, 1101):
            answers.append(client.answer(number)["s"])
        assert answers == ["ok"] * 1000 + ["too_big"] * 100
        client.socket.drop()
    wait_until(lambda: len(at.value() or {}) == 1000, "all that were accepted")


def test_a_lost_database_refuses_orders_and_finds_them_again(own_postgres, scratch, logs):
    url = own_postgres.create_database()
    gateway = start_serve(url, scratch, logs, *QUICK)
    try:
        with RealtimeClient(gateway.port) as client:
            client.ok("o", {"p": "kept", "d": PLUS})
            own_postgres.kill()
            assert client.call("o", {"p": "refused", "d": 1})["s"] == "unavailable"
            client.socket.drop()
        own_postgres.start()
        gateway.wait_ready()
        wait_until(lambda: gateway.rest.value("kept") == 1, "the order that was accepted")
        # Both are executed in one transaction.
        assert gateway.rest.value("refused") is None
    finally:
        gateway.sweep()


def test_orders_go_on_after_an_outage(own_postgres, scratch, logs):
    """A refused request during the outage has no effect; earlier and later ones are executed."""
    url = own_postgres.create_database()
    gateway = start_serve(url, scratch, logs, *QUICK)
    try:
        with RealtimeClient(gateway.port) as client:
            client.ok("o", {"p": "x/kept", "d": 1})
            own_postgres.kill()
            assert client.call("o", {"p": "x/refused", "d": 1})["s"] == "unavailable"
            assert client.call("oc", {"p": "x/kept"})["s"] == "unavailable"
            own_postgres.start()
            gateway.wait_ready()
            client.ok("o", {"p": "x/later", "d": 1})
            client.socket.drop()
        wait_until(lambda: gateway.rest.value("x") == {"kept": 1, "later": 1}, "the orders that were accepted")
    finally:
        gateway.sweep()


@pytest.mark.parametrize("ending", ["of the client", "of the gateway"])
def test_the_log_says_whose_orders_they_were(serve, ending):
    gateway = serve(*QUICK)
    with RealtimeClient(gateway.port) as client:
        client.ok("auth", {"cred": SECRET})
        client.ok("o", {"p": "x", "d": 1})
        if ending == "of the client":
            client.socket.drop()
        else:
            gateway.process.send(signal.SIGKILL)
            gateway = serve(*QUICK)
    wait_until(lambda: gateway.rest.value("x") == 1, "the order")
    rows = sql.rows(gateway.database_url, "select op, origin::text from pathmirror.log order by seq")
    assert [(operation, json.loads(origin)) for operation, origin in rows] == [
        ("onDisconnect", {"uid": None, "admin": True, "via": "ws", "ip": "127.0.0.1"})]


def test_orders_that_replace_others_are_never_too_many(dev, at):
    """A draft that a client replaces repeatedly counts by its last version; the remaining writes are limited."""
    text = "x" * 60_000
    with RealtimeClient(dev.port) as client:
        for number in range(400):
            assert client.ok("o", {"p": f"/{at.base}/draft", "d": f"{number} {text}"}) == ""
        kept = 0
        while (answer := client.answer(client.ask("o", {"p": f"/{at.base}/k{kept}", "d": text})))["s"] == "ok":
            kept += 1
        assert answer["s"] == "too_big"
        # 16 MiB, of which the draft uses a part.
        assert 270 <= kept <= 282
        assert client.ok("oc", {"p": f"/{at.base}"}) == ""
        assert client.ok("o", {"p": f"/{at.base}/k", "d": text}) == ""
