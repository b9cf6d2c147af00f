"""How the stand-in for the Realtime Database misbehaves on command; the proxy before it, and the writers."""

import base64
import json
import os
import random
import time
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from harness.rest import Rest
from harness.waiting import wait_until
from harness.websocket import Closed
from harness.websocket_client import RealtimeClient, datum
from oracle.export import assign
from upstream import hashing
from upstream.account import GRANT, SCOPES
from upstream.equality import exact
from upstream.misbehaviour import INVALID
from upstream.proxy import DOWN, UP, UpstreamProxy
from upstream.standin import Standin
from upstream.tree import build, export
from upstream.writes import ByRest, BySocket, Direct, Mixed, Writes, run

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)


@pytest.fixture(scope="module")
def standin():
    with Standin() as standin:
        yield standin


@pytest.fixture
def own(tmp_path):
    """A stand-in that demands credentials, and their file."""
    with Standin() as standin:
        yield standin, json.loads(standin.credentials(tmp_path / "account.json").read_text())


def assertion(account: dict, **changes) -> str:
    """A signed assertion as a client makes it of a service account's file."""
    now = int(time.time())
    claims = {"iss": account["client_email"], "aud": account["token_uri"], "iat": now, "exp": now + 3600, "scope": " ".join(SCOPES), **changes}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in
             ({"alg": "RS256", "typ": "JWT", "kid": account["private_key_id"]}, claims)]
    key = serialization.load_pem_private_key(account["private_key"].encode(), None)
    signature = key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
    return ".".join([*parts, base64.urlsafe_b64encode(signature).decode().rstrip("=")])


def token(standin, account: dict, **changes):
    form = urlencode({"grant_type": GRANT, "assertion": assertion(account, **changes)})
    return Rest(standin.port).send("POST", "/token", form.encode(), {"Content-Type": "application/x-www-form-urlencoded"})


def test_tokens_are_given_for_good_assertions_only(own):
    standin, account = own
    given = token(standin, account).json()
    assert given["token_type"] == "Bearer" and given["expires_in"] == 3600
    for wrong in ({"iss": "other@example.com"}, {"aud": "https://oauth2.googleapis.com/token"}, {"exp": int(time.time()) - 1}, {"scope": "openid"},
                  {"exp": int(time.time()) + 7200}):
        assert token(standin, account, **wrong).status == 400, wrong
    standin.account.mode = "down"
    assert token(standin, account).status == 503
    rest = Rest(standin.port, params={"ns": "shop"})
    assert rest.get("a").status == 401 and rest.with_headers(Authorization="Bearer wrong").get("a").status == 401
    assert rest.with_headers(Authorization=f"Bearer {given['access_token']}").value("a") is None
    assert rest.value("a", access_token=given["access_token"]) is None and rest.value("a", auth=given["access_token"]) is None
    assert {one["credential"] for one in standin.http if one["path"] == "/a.json"} == {None, "bearer", "access_token", "auth"}


def test_a_session_ends_with_its_token_unless_it_is_renewed(own):
    standin, _ = own
    with RealtimeClient(standin.port, ns="shop") as client:
        assert client.call("q", {"p": "/", "h": ""})["s"] == "permission_denied"
        assert client.call("gauth", {"cred": "wrong"})["s"] == "invalid_token"
        assert client.ok("gauth", {"cred": standin.account.issue(1)})["expires"] >= int(time.time())
        client.ok("q", {"p": "/", "h": ""})
        client.ok("gauth", {"cred": standin.account.issue(1.5)})
        time.sleep(1.1)
        standin.put("a", 1)
        assert client.push() == datum("a", 1)
        assert client.push(5)["a"] == "ac"
        with pytest.raises(Closed):
            client.push(5)
    assert client.number == 5 and len(standin.requests("q")) == 2 and standin.violations() == []


def test_redirects(standin, ns):
    standin.behave()
    standin.put("a", 1, ns)
    standin.set(redirects_sockets=True, redirects_rest=True)
    client = RealtimeClient(standin.port, ns=ns)
    client.socket.opened()
    assert client.message() == {"t": "c", "d": {"t": "r", "d": f"127.0.0.1:{standin.other_port}"}}
    with RealtimeClient(standin.other_port, ns=ns) as client:
        assert client.listen("/") == datum("", {"a": 1})
    answer = Rest(standin.port, params={"ns": ns}).get("a")
    assert (answer.status, answer.headers["Location"]) == (307, f"http://127.0.0.1:{standin.other_port}/a.json?ns={ns}")
    assert Rest(standin.other_port, params={"ns": ns}).value("a") == 1


def test_listens_that_are_too_big(standin, ns):
    standin.behave()
    standin.put("list", {f"k{number}": "x" * 100 for number in range(50)}, ns)
    standin.set(too_big_bytes=3000)
    with RealtimeClient(standin.port, ns=ns) as client:
        assert client.call("q", {"p": "/", "h": ""})["s"] == "too_big"
        half = {"i": ".key", "ep": "k25", "ein": False}
        assert len(client.listen("list", half, 1)["b"]["d"]) == 18
        standin.put("list", {f"k1{number}": "y" * 100 for number in range(40)}, ns)
        assert client.push()["a"] == "d"
        assert client.push() == {"a": "c", "b": {"p": "list", "q": [half]}}
    standin.set(too_big_closes=True)
    with RealtimeClient(standin.port, ns=ns) as client:
        client.ask("q", {"p": "/", "h": ""})
        assert client.message()["d"]["t"] == "e"
        assert client.socket.wait_for_close() == 1009


def test_initial_data_in_many_parts(standin, ns):
    standin.behave()
    writes = Writes(SEED + 3)
    for operation in writes.take(300):
        (standin.put if operation.kind == "put" else standin.merge)(operation.path, operation.data, ns)
    standin.set(split_bytes=500)
    with RealtimeClient(standin.port, ns=ns) as client:
        client.ok("q", {"p": "/", "h": ""})
        assert len(client.pushes) > 20
        tree = None
        for message in client.pushes:
            assert message["a"] == "d"
            tree = assign(tree, [key for key in message["b"]["p"].split("/") if key], message["b"]["d"])
        assert exact(tree) == exact(standin.export(ns=ns)), f"seed {SEED}"


def test_a_cut_after_so_many_bytes(standin, ns):
    standin.behave()
    standin.put("a", "x" * 5000, ns)
    with RealtimeClient(standin.port, ns=ns) as client:
        standin.set(cut_after=1000)
        client.ask("q", {"p": "/", "h": ""})
        with pytest.raises(Closed):
            client.message()
        assert len(client.socket._buffer) <= 1000


def test_a_frozen_server(standin, ns):
    standin.behave()
    with RealtimeClient(standin.port, ns=ns) as client:
        client.listen("/")
        standin.set(freeze="answers")
        standin.put("a", 1, ns)
        with pytest.raises(AssertionError):
            client.push(0.3)
        standin.set(freeze="")
        assert client.push() == datum("a", 1)
    standin.set(freeze="accept")
    client = RealtimeClient(standin.port, ns=ns)
    client.socket.plain.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.socket.plain.recv(1)
    standin.set(freeze="")
    client.greet()


def test_lies_about_hashes_and_lost_pushes(standin, ns):
    standin.behave()
    standin.put("a", 1, ns)
    standin.set(hash_lies="equal")
    with RealtimeClient(standin.port, ns=ns) as client:
        assert client.listen("/", hash="whatever") is None
        standin.set(lost_pushes=1)
        standin.put("a", 2, ns)
        standin.put("a", 3, ns)
        assert client.pushed() == [datum("a", 3)]
        standin.do("lie", path="a", data="false")
        assert client.pushed() == [datum("a", "false")] and standin.export(ns=ns) == {"a": 3}


def test_commands_reach_sessions(standin, ns):
    standin.behave()
    for command, message in (("error", {"t": "e", "d": "internal error"}), ("redirect", {"t": "r", "d": f"127.0.0.1:{standin.other_port}"}),
                             ("shutdown", {"t": "s", "d": "database moved"})):
        with RealtimeClient(standin.port, ns=ns) as client:
            standin.do(command)
            assert client.message() == {"t": "c", "d": message}
    with RealtimeClient(standin.port, ns=ns) as client:
        client.listen("/")
        standin.do("cancel")
        assert client.push() == {"a": "c", "b": {"p": ""}}
        standin.do("revoke_auth")
        assert client.push()["a"] == "ac"
        for kind in INVALID:
            standin.do("invalid", kind=kind)
            assert client.socket.receive()[1].decode() == INVALID[kind]
        for command in standin.misbehaviour.names:
            if command not in ("cut", "close", "invalid", "raw", "bytes", "lie", "endless", "announce_frame", "shutdown", "payload_error"):
                standin.do(command)
    with RealtimeClient(standin.port, ns=ns) as client:
        standin.do("cut")
        assert client.socket.wait_for_close() is None
    with RealtimeClient(standin.port, ns=ns) as client:
        standin.do("endless", kind="d")
        assert sum(client.message()["d"]["a"] == "d" for _ in range(500)) == 500


def test_the_control_port(standin, ns):
    standin.behave()
    control = Rest(standin.port)

    def post(**asked):
        return control.send("POST", "/control", json.dumps(asked).encode())

    with RealtimeClient(standin.port, ns=ns) as client:
        client.listen("/")
        assert post(put="a/b", data=7, ns=ns).status == 200 and client.push() == datum("a/b", 7)
        assert post(set={"too_big_bytes": 5}).status == 200 and standin.settings.too_big_bytes == 5
        assert post(set={"nonsense": 1}).status == 400 and post(do="nonsense").status == 400
        state = control.send("GET", "/control").json()
        assert state["namespaces"][ns]["hash"] == hashing.node_hash(build({"a": {"b": 7}})) and state["requests"]["q"] >= 1
        assert control.send("GET", f"/control/writes?ns={ns}").json()[0]["changes"] == {"a/b": 7}
        post(do="cut", behave=True)
        assert client.socket.wait_for_close() is None
    assert control.send("GET", "/control/requests").json()[-1]["action"] == "q"


# MARK: The proxy and the writers

def test_the_proxy_cuts_at_exactly_this_byte(standin, ns):
    standin.behave()
    standin.put("a", "x" * 50_000, ns)
    with UpstreamProxy(standin.port) as proxy:
        proxy.plan([(DOWN, 3000), (UP, 100)])
        client = RealtimeClient(proxy.port, ns=ns).greet()
        client.ask("q", {"p": "/", "h": ""})
        with pytest.raises(Closed):
            client.message()
        assert proxy.counted()[1] == 3000
        with pytest.raises((Closed, ConnectionError)):
            RealtimeClient(proxy.port, ns=ns).greet()
        assert proxy.counted()[0] == 100 and proxy.cuts == 2 and proxy.planned == 0
        with RealtimeClient(proxy.port, ns=ns) as client:
            assert client.listen("/") == datum("", {"a": "x" * 50_000})
            assert client.hello["d"]["d"]["h"] == f"127.0.0.1:{proxy.port}"
            proxy.freeze(DOWN)
            standin.put("b", 1, ns)
            with pytest.raises(AssertionError):
                client.push(0.2)
            proxy.thaw()
            assert client.push() == datum("b", 1)
            proxy.cut()
            assert client.socket.wait_for_close() is None
        wait_until(lambda: proxy.alive == 0, "links to end")


def test_random_writes_by_all_ways_and_the_log_of_them(standin, ns):
    standin.behave()
    writes = Writes(SEED + 4, timestamps=False)
    with BySocket(standin.port, ns) as socket, ByRest(standin.port, ns) as rest:
        done = run(writes, Mixed(SEED, socket, rest, Direct(standin, ns)), 600)
    log = standin.writes(ns)
    assert [(one.kind, one.path) for one in log] == [(one.kind, one.path.strip("/")) for one in done]
    assert len({one.by.split()[0] for one in log}) == 3
    tree = None
    for one in log:
        for path, data in one.changes.items():
            tree = assign(tree, [key for key in path.split("/") if key], data)
    assert exact(tree) == exact(standin.export(ns=ns)) == exact(export(writes.copy.root)), f"seed {SEED}"
    assert len(standin.violations()) >= 1


def test_a_rate_is_kept(standin, ns):
    begin = time.monotonic()
    run(Writes(1), Direct(standin, ns), 60, rate=200)
    assert 0.28 < time.monotonic() - begin < 3


def test_the_program(tmp_path):
    from harness.binary import REPOSITORY
    from harness.process import Process

    import sys

    program = Process([sys.executable, "-m", "upstream.standin", "--service-account", tmp_path / "account.json"], "standin", tmp_path,
                      {"PYTHONPATH": str(REPOSITORY / "Tests" / "e2e")})
    try:
        port = int(program.wait_for_output(r"^standin: ready on http://127\.0\.0\.1:(\d+)/\?ns=shop").group(1))
        account = json.loads((tmp_path / "account.json").read_text())
        assert account["token_uri"] == f"http://127.0.0.1:{port}/token"
        assert Rest(port).send("GET", "/control").json()["settings"]["requires_auth"] is True
        assert Rest(port).get("a", ns="shop").status == 401
    finally:
        program.kill()
