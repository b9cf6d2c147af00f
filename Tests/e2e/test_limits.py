"""Limits for callers: by address, by user, in bytes, in connections; and the identity of callers after proxies."""

import secrets

import pytest
from harness import cli
from harness.gateway import SECRET
from harness.issuer import legacy
from harness.raw import Responses, closed_by_server, raw_connection
from harness.waiting import wait_until
from harness.websocket import Closed, Rejected
from harness.websocket_client import RealtimeClient

ADMIN = {"Authorization": f"Bearer {SECRET}"}
TOO_MANY = "Too many requests"


def refused(response) -> bool:
    """Whether a request was over a limit; anything but that and success fails the test."""
    if response.status == 200:
        return False
    assert (response.status, response.error) == (429, TOO_MANY), response.body
    assert int(response.headers["Retry-After"]) >= 1
    return True


def limited(gateway, kind: str) -> int:
    """The number of exceeded limits by the metrics, which the test reads from another address."""
    text = gateway.rest.send("GET", "/.metrics", headers={**ADMIN, "X-Forwarded-For": "203.0.113.254"}).body.decode()
    return next(int(line.split()[1]) for line in text.splitlines()
                if line.startswith(f'pathmirror_rate_limited_total{{limit="{kind}"}}'))


def test_requests_of_an_address(serve):
    gateway = serve("--rate-limit-per-address", "10/h")
    statuses = [refused(gateway.rest.put(f"a/{number}", number)) for number in range(15)]
    assert statuses == [False] * 10 + [True] * 5
    assert refused(gateway.rest.get("a"))
    # Monitoring of the gateway is never limited.
    assert all(gateway.ready() for _ in range(20))
    with pytest.raises(Rejected) as rejected:
        RealtimeClient(gateway.port).greet()
    assert rejected.value.status == 429


def test_whoever_waits_is_served_again(serve):
    gateway = serve("--rate-limit-per-address", "2/s:2")
    wait_until(lambda: refused(gateway.rest.get("a")), "the limit")
    wait_until(lambda: not refused(gateway.rest.get("a")), "the limit to be over")


def test_clients_behind_a_trusted_proxy_are_told_apart(serve):
    gateway = serve("--rate-limit-per-address", "3/h", "--trusted-proxies", "127.0.0.1,10.0.0.0/8")

    def get(forwarded: str) -> bool:
        return refused(gateway.rest.get("a", headers={"X-Forwarded-For": forwarded}))

    assert [get("203.0.113.1") for _ in range(5)] == [False] * 3 + [True] * 2
    assert not get("203.0.113.2")
    assert get("203.0.113.2, 203.0.113.1"), "any client may have forged the addresses before the last one"
    assert get("203.0.113.1, 10.1.2.3"), "a second trusted proxy"
    assert [get("2001:db8::1"), get("2001:db8::2"), get("2001:db8:0:0:1::3"), get("2001:db8::4")] == [False] * 3 + [True]
    # The proxy itself is not limited.
    assert not any(refused(gateway.rest.get("a")) for _ in range(10))
    assert limited(gateway, "address") == 5


def test_others_can_claim_nothing(serve):
    gateway = serve("--rate-limit-per-address", "5/h")
    claims = [refused(gateway.rest.get("a", headers={"X-Forwarded-For": f"203.0.113.{number}"})) for number in range(8)]
    assert claims == [False] * 5 + [True] * 3


def test_the_log_tells_who_is_behind_the_proxy(serve):
    gateway = serve("--trusted-proxies", "127.0.0.1")
    gateway.rest.put("a", 1, headers={"X-Forwarded-For": "6.6.6.6, 203.0.113.77"})
    entry = cli.succeeds("log", "show", "1", "--database-url", gateway.database_url, "--json")
    assert "203.0.113.77" in entry and "6.6.6.6" not in entry


def test_requests_of_a_user(serve, scratch):
    secret = secrets.token_urlsafe(30)
    file = scratch / "database-secret"
    file.write_text(secret + "\n")
    gateway = serve("--rate-limit-per-identity", "4/h", "--database-secret-file", f"default={file}")

    def get(uid: str) -> bool:
        return refused(gateway.rest.get("a", auth=legacy(uid, secret)))

    assert [get("ada") for _ in range(6)] == [False] * 4 + [True] * 2
    assert not get("bob")
    # Limits for users apply to neither callers without credentials nor administrators.
    assert not any(refused(gateway.rest.get("a")) for _ in range(10))
    assert not any(refused(gateway.rest.get("a", auth=secret)) for _ in range(10))
    with RealtimeClient(gateway.port) as client:
        client.ok("auth", {"cred": legacy("cyd", secret)})
        answers = [client.call("p", {"p": "/a", "d": number}) for number in range(6)]
        assert [answer["s"] for answer in answers] == ["ok"] * 4 + ["unavailable"] * 2
    assert limited(gateway, "identity") == 4


def test_each_gateway_counts_for_itself(serve):
    first, second = (serve("--rate-limit-per-address", "3/h", "--write-limit", "1kB/m", name=name) for name in ("first", "second"))
    assert not refused(first.rest.put("a", "x" * 3_000))
    assert refused(first.rest.put("b", "x"))
    assert not refused(second.rest.put("b", "x" * 3_000))
    assert [refused(first.rest.get("a")) for _ in range(2)] == [False, True]
    assert [refused(second.rest.get("a")) for _ in range(3)] == [False, False, True]


def test_bytes_written_to_a_namespace(serve):
    gateway = serve("--write-limit", "100kB/m", "--create-namespaces")
    assert not refused(gateway.rest.put("a", "x" * 99_000))
    # The rest of the budget admits one more write of any size; then all are refused.
    assert not refused(gateway.rest.put("b", "x" * 50_000))
    assert refused(gateway.rest.put("c", "x"))
    assert refused(gateway.rest.patch("", {"c": 1}))
    assert gateway.rest.value("c") is None
    with RealtimeClient(gateway.port) as client:
        answer = client.call("p", {"p": "/c", "d": 1})
        assert (answer["s"], answer["d"]) == ("unavailable", TOO_MANY)
        assert client.ok("g", {"p": "/c"}) is None
    assert not refused(gateway.rest.put("c", "x", ns="another"))
    assert limited(gateway, "write_bytes") == 3


def test_messages_of_a_realtime_client(serve):
    gateway = serve("--rate-limit-per-address", "20/h", "--trusted-proxies", "127.0.0.1")
    with RealtimeClient(gateway.port, headers={"X-Forwarded-For": "203.0.113.5"}) as client:
        client.listen("/a")
        answers = [client.call("p", {"p": f"/a/{number}", "d": number}) for number in range(30)]
        # One for the handshake, one for the listen.
        assert [answer["s"] for answer in answers] == ["ok"] * 18 + ["unavailable"] * 12
        assert answers[-1]["d"] == TOO_MANY
        # A refusal to send less would add to the load.
        client.ok("n", {"p": "/a"})
        # The gateway disconnects a client that ignores the refusals.
        with pytest.raises((Closed, OSError)):
            for number in range(200):
                client.call("p", {"p": "/a", "d": number})
    assert sorted(gateway.rest.value("a")) == list(range(18))


def test_connections_of_an_address(serve):
    gateway = serve("--max-connections-per-address", "10")
    gateway.rest.close()
    request = b"GET /a.json HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def attempt() -> bool:
        """Opens connections up to the limit, and checks the first one beyond it."""
        with_answers = []
        try:
            for _ in range(10):
                connection = raw_connection(gateway.port)
                plain = connection.__enter__()
                with_answers.append(connection)
                plain.sendall(request)
                if Responses(plain).next()[0] != 200:
                    return False
            with raw_connection(gateway.port) as plain:
                status, headers, body = Responses(plain).next()
                assert status == 429 and TOO_MANY.encode() in body and headers["Retry-After"]
                assert closed_by_server(plain)
            return True
        finally:
            for connection in with_answers:
                connection.__exit__(None, None, None)

    # Connections of the harness may still count until they end.
    wait_until(attempt, "ten connections, and an eleventh refused")
    wait_until(attempt, "the same again: connections are released")
    text = b""

    def metrics() -> bool:
        nonlocal text
        response = gateway.rest.send("GET", "/.metrics")
        text = response.body
        return response.status == 200

    wait_until(metrics, "the metrics")
    line = next(line for line in text.decode().splitlines() if line.startswith('pathmirror_http_refused_total{reason="address"} '))
    assert int(line.split()[1]) >= 2


def test_by_default_this_machine_is_not_limited(dev, at):
    assert all(at.put("a", number).status == 200 for number in range(300))


@pytest.mark.parametrize("option, value", [
    ("--rate-limit-per-address", "fast"), ("--rate-limit-per-address", "0/s"), ("--rate-limit-per-identity", "5"),
    ("--write-limit", "64MiB"), ("--max-connections-per-address", "many"), ("--trusted-proxies", "10.0.0.1/8"),
    ("--trusted-proxies", "proxy.example"),
])
def test_wrong_values_are_wrong_usage(option, value):
    wrong = cli.command("serve", "--database-url", "postgresql:///x", option, value)
    assert wrong.returncode == 2 and option in wrong.stderr, wrong.stderr
