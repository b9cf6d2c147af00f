"""Many clients at once: reconnect storms, stalled clients, gateways that end under load."""

import resource
import signal
import threading
import time

import pytest
from harness.process import resident_bytes
from harness.sse import Listener
from harness.waiting import wait_until
from harness.websocket import Closed
from harness.websocket_client import Holder, RealtimeClient, datum
from oracle.hashes import node_hash


@pytest.fixture(autouse=True)
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def storm(port, sessions, held):
    """Reconnects all clients at once: hello, listen with their data, presence, and a write. Returns them, and the seconds."""
    began = time.monotonic()
    clients = [RealtimeClient(port, ls=session) for session in sessions]
    for client in clients:
        client.greet()
    for number, client in enumerate(clients):
        client.ask("s", {"c": {"sdk.test": 1}})
        client.ask("q", {"p": "shared", "h": node_hash(held)})
        client.ask("o", {"p": f"presence/{number}", "d": None})
        client.ask("p", {"p": f"presence/{number}", "d": True})
    for client in clients:
        for number in (1, 2, 3, 4):
            assert client.answer(number)["s"] == "ok"
    # Their hashes are right: the gateway does not send the data again (except to the first, which may race with the loading of the tree).
    assert sum(len(client.pushes) for client in clients) <= 2
    for client in clients:
        client.pushes.clear()
    return clients, time.monotonic() - began


def test_a_thousand_clients_come_back_after_a_restart(serve):
    quick = ("--dead-after", "1500ms")
    gateway = serve(*quick)
    held = {f"k{number}": number for number in range(200)}
    gateway.rest.set("shared", held)
    clients, first = storm(gateway.port, [None] * 1000, held)
    base = resident_bytes(gateway.process.pid)
    gateway.process.kill()
    port = gateway.port
    for client in clients:
        client.socket.drop()
    again = serve(*quick, url=gateway.database_url, port=port)
    clients, second = storm(port, [client.session for client in clients], held)
    print(f"\nstorm of 1,000 clients: {first:.1f} s at first, {second:.1f} s after kill -9; {base >> 20} MiB")
    # Their old sessions ended before the new presence.
    assert len(again.rest.value("presence")) == 1000
    again.rest.set("shared/news", 1)
    for client in clients:
        assert client.push() == datum("shared/news", 1)
        client.socket.drop()
    wait_until(lambda: again.rest.value("presence") is None, "no ghosts", 30)


def test_stalled_clients_slow_nobody_and_cost_little(serve):
    gateway = serve("--stream-buffer", "256KiB", tune="write-stall=60s")
    good = [RealtimeClient(gateway.port).greet() for _ in range(45)]
    stalled = [RealtimeClient(gateway.port, receive_buffer=4096).greet() for _ in range(5)]
    for client in good + stalled:
        client.listen("feed")
    before = resident_bytes(gateway.process.pid)
    text, rounds = "x" * 20_000, 300
    most = 0
    began = time.monotonic()
    for number in range(rounds):
        gateway.rest.set(f"feed/{number % 10}", {"n": number, "text": text})
        for client in good:
            message = client.push()
            assert message["b"]["d"]["n"] == number
        most = max(most, resident_bytes(gateway.process.pid) - before)
    took = time.monotonic() - began
    # 6 MB were addressed to each; stalled clients have a quarter of a megabyte waiting, not a copy of everything.
    assert most < 64 << 20, f"{most >> 20} MiB"
    print(f"\nstalled clients: {rounds} rounds to 45 of 50 clients in {took:.1f} s; {most >> 20} MiB more at most")
    # A client that resumes reading gets the current value, without all missed changes.
    for client in stalled:
        holder, pushes = Holder("feed"), 0
        holder.complete = True
        wanted = gateway.rest.value("feed")
        while not isinstance(holder.value, dict) or any((holder.value.get(str(n)) or {}).get("n") != wanted[n]["n"] for n in range(10)):
            holder.take(client.push())
            pushes += 1
        assert pushes < rounds
        # Afterwards it gets every change.
        gateway.rest.set("feed/again", 1)
        assert client.push() == datum("feed/again", 1)
        gateway.rest.set("feed/again", None)
        assert client.push() == datum("feed/again", None)


def test_the_writers_own_echo_when_it_lags(serve):
    """A client that reads late still gets the changes of its own writes before their answers."""
    gateway = serve("--stream-buffer", "64KiB")
    with RealtimeClient(gateway.port, receive_buffer=4096) as client:
        client.listen("x")
        asked = [client.ask("p", {"p": "x", "d": {"n": number, "text": "y" * 10_000}}) for number in range(100)]
        wait_until(lambda: (gateway.rest.value("x") or {}).get("n") == 99, "all writes")
        known = -1
        seen = {}
        while len(seen) < 100:
            data = client.message()["d"]
            if "r" in data:
                seen[data["r"]] = known
                assert data["b"]["s"] == "ok"
            else:
                known = data["b"]["d"]["n"]
        for index, number in enumerate(asked):
            assert seen[number] >= index, "an answer before the data"


def test_clients_on_a_gateway_that_drains_go_to_the_other(serve):
    first, second = serve(name="first"), serve(name="second")
    stop = threading.Event()
    written, errors = [], []

    def write(worker):
        """Writes as an SDK does: a write without an answer is sent again to another gateway."""
        port, session, number = first.port, None, 0
        try:
            while not stop.is_set():
                try:
                    with RealtimeClient(port, ls=session) as client:
                        session = client.session
                        while not stop.is_set():
                            answer = client.call("p", {"p": f"w/{worker}/{number}", "d": True})
                            assert answer["s"] in ("ok", "unavailable"), answer
                            if answer["s"] == "ok":
                                written.append((worker, number))
                                number += 1
                except (Closed, OSError):
                    port = second.port
        except BaseException as error:
            errors.append(error)

    with RealtimeClient(second.port) as reader:
        reader.listen("w")
        threads = [threading.Thread(target=write, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(written) > 100, "writes")
        first.process.send(signal.SIGTERM)
        assert first.process.wait() == 0
        count = len(written)
        wait_until(lambda: len(written) > count + 100, "writes on the other gateway")
        stop.set()
        for thread in threads:
            thread.join()
        assert not errors, errors[0]
        found = second.rest.value("w", format="export")
        for worker, number in written:
            assert found[str(worker)][str(number)] is True


def test_listens_resume_on_a_restarted_gateway(serve):
    gateway = serve()
    with RealtimeClient(gateway.port) as client:
        client.put("a", {"x": 1})
        client.listen("a")
        gateway.process.send(signal.SIGTERM)
        client.socket.wait_for_close()
        gateway.process.wait()
    again = serve(url=gateway.database_url, port=gateway.port)
    with RealtimeClient(again.port, ls=client.session) as client, Listener(again.rest.at("a")) as stream:
        assert client.listen("a", hash=node_hash({"x": 1})) is None
        stream.next()
        client.put("a/x", 2)
        assert client.pushed() == [datum("a/x", 2)]
        assert stream.next().change == ("put", "/x", 2)
