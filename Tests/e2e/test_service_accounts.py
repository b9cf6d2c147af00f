"""Service accounts: servers with a file in Google's form, whose `token_uri` is the gateway."""

import json
import os
import subprocess
import threading
import time
import uuid
from datetime import UTC
from urllib.parse import urlencode

import firebase_admin
import google.auth.transport.requests
import jwt
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from firebase_admin import credentials, db, exceptions
from google.oauth2 import service_account
from harness import binary, cli
from harness.gateway import SECRET, start_serve
from harness.ports import free_port
from harness.sse import Listener
from harness.tls import Authority, Pair
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLOSED = {"rules": {".read": False, ".write": False}}
OPEN = {"rules": {".read": True, ".write": True}}


@pytest.fixture
def gateway(serve):
    return serve(rules=CLOSED, ns="default,shop,blog")


class Accounts:
    """Creates accounts for one gateway."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.url = f"http://127.0.0.1:{gateway.port}"

    def run(self, *words):
        return cli.command("service-account", *words, "--database-url", self.gateway.database_url)

    def create(self, name: str, *options, url: str | None = None) -> dict:
        finished = self.run("create", name, "--gateway", url or self.url, *options)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    def token(self, account: dict) -> str:
        answer = ask(self.gateway, assertion(account))
        assert answer.status == 200, answer.body
        return answer.json()["access_token"]

    def wait_refused(self, token: str, ns: str = "default"):
        """Waits until the gateway refuses a token, the documented three seconds and some."""
        began = time.monotonic()
        wait_until(lambda: read(self.gateway, token, ns) == 401, "the token to be refused")
        assert time.monotonic() - began < 10


@pytest.fixture
def accounts(gateway):
    return Accounts(gateway)


def assertion(account: dict, key=None, headers: dict | None = None, algorithm: str = "RS256", **changes) -> str:
    now = int(time.time())
    claims = {"iss": account["client_email"], "aud": account["token_uri"], "iat": now, "exp": now + 3600,
              "scope": "https://www.googleapis.com/auth/firebase.database", **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key or account["private_key"], algorithm=algorithm,
                      headers={"kid": account["private_key_id"], **(headers or {})})


def post(gateway, body: bytes, method: str = "POST"):
    return gateway.rest.send(method, "/.oauth2/token", body, {"Content-Type": "application/x-www-form-urlencoded"})


def ask(gateway, text: str):
    return post(gateway, urlencode({"grant_type": GRANT, "assertion": text}).encode())


def bearer(token: str) -> dict:
    return {"Authorization": f"Bearer {token}"}


def read(gateway, token: str, ns: str = "default") -> int:
    return gateway.rest.send("GET", f"/a.json?ns={ns}", None, bearer(token)).status


# --- Admin SDKs ---


@pytest.fixture
def secure(serve, scratch, monkeypatch):
    """A gateway with TLS whose certificate the SDK trusts; the files of accounts name its address."""
    authority = Authority(scratch)
    pair = Pair(authority, scratch)
    port = free_port()
    gateway = serve(*pair.options, "--tls-listen", f"127.0.0.1:{port}", rules=CLOSED)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.file))
    monkeypatch.delenv("FIREBASE_DATABASE_EMULATOR_HOST", raising=False)
    return gateway, f"https://localhost:{port}"


def make_app(account: dict, scratch, url: str):
    file = scratch / f"{account['client_email']}.json"
    file.write_text(json.dumps(account))
    return firebase_admin.initialize_app(credentials.Certificate(str(file)), {"databaseURL": url}, name=uuid.uuid4().hex)


def test_firebase_admin_with_a_certificate(secure, scratch):
    gateway, url = secure
    app = make_app(Accounts(gateway).create("server", url=url), scratch, url)
    heard = []
    try:
        ref = db.reference("users/ada", app)
        ref.set({"n": 1})
        ref.update({"n": 2, "m": [1, 2]})
        assert ref.get() == {"n": 2, "m": [1, 2]}
        assert ref.child("n").transaction(lambda n: n + 1) == 3
        registration = ref.listen(lambda event: heard.append((event.event_type, event.path, event.data)))
        wait_until(lambda: heard, "the first event")
        ref.child("n").set(4)
        wait_until(lambda: ("put", "/n", 4) in heard, f"the change, heard {heard}")
        registration._sse.close()
    finally:
        firebase_admin.delete_app(app)


def test_firebase_admin_as_viewer(secure, scratch):
    gateway, url = secure
    gateway.rest.set("a", 1, auth=SECRET)
    app = make_app(Accounts(gateway).create("reports", "--role", "viewer", url=url), scratch, url)
    try:
        assert db.reference("a", app).get() == 1
        for write in (lambda: db.reference("a", app).set(2), lambda: db.reference("a", app).push(2),
                      lambda: db.reference("/", app).update({"a": 2}), lambda: db.reference("a", app).delete(),
                      lambda: db.reference("a", app).transaction(lambda value: value + 1)):
            with pytest.raises(exceptions.FirebaseError, match="Permission denied"):
                write()
        assert db.reference("a", app).get() == 1
    finally:
        firebase_admin.delete_app(app)


def test_google_auth_refreshes(gateway, accounts):
    account = accounts.create("server")
    known = service_account.Credentials.from_service_account_info(account, scopes=["https://www.googleapis.com/auth/firebase.database"])
    known.refresh(google.auth.transport.requests.Request())
    # The library's time is in UTC, without a zone.
    assert 3_500 < known.expiry.replace(tzinfo=UTC).timestamp() - time.time() <= 3_600
    assert read(gateway, known.token) == 200


# --- Assertions ---


def test_a_token_of_an_administrator(gateway, accounts):
    account = accounts.create("server")
    assert account["type"] == "service_account" and account["token_uri"].endswith("/.oauth2/token")
    for audience in (account["token_uri"], "https://oauth2.googleapis.com/token"):
        answer = ask(gateway, assertion(account, aud=audience))
        assert answer.status == 200 and answer.headers["Cache-Control"] == "no-store"
        granted = answer.json()
        assert granted["token_type"] == "Bearer" and granted["expires_in"] == 3600
    headers = bearer(granted["access_token"])
    assert gateway.rest.send("PUT", "/a.json", b"1", headers).status == 200
    assert gateway.rest.send("GET", f"/a.json?access_token={granted['access_token']}").json() == 1
    assert gateway.rest.send("GET", "/.settings/rules.json", None, headers).status == 200
    assert gateway.rest.send("GET", "/a.json?auth_variable_override=null", None, headers).status == 401


def test_bad_assertions_are_refused_alike(gateway, accounts):
    account = accounts.create("server")
    other = accounts.create("other")
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = serialization.load_pem_private_key(account["private_key"].encode(), None).public_key()
    refusals = {
        ask(gateway, text).body for text in (
            "x", "x.y.z", "..", assertion(account, key=stranger), assertion(account, key=other["private_key"]),
            assertion(account, headers={"kid": "0" * 40}), assertion({**account, "client_email": "nobody@x"}, key=stranger),
            assertion(account, key="s" * 32, algorithm="HS256"), assertion(account, key=None, headers={"kid": ""}),
            assertion(account) + "A", jwt.encode({}, None, algorithm="none"))}
    assert len(refusals) == 1
    assert json.loads(refusals.pop())["error"] == "invalid_grant"
    assert public.key_size == 2048


@pytest.mark.parametrize("changes, text", [
    ({"iss": "x@y"}, "issuer"), ({"aud": "https://elsewhere/token"}, "audience"), ({"aud": None}, "audience"), ({"iat": None}, "iat"),
    ({"exp": None}, "exp"), ({"exp": 1}, "expired"), ({"iat": 10**10, "exp": 10**10 + 60}, "iat"), ({"iat": 0}, "exp"),
    ({"sub": "somebody"}, "sub")])
def test_wrong_claims_are_named_to_the_owner_of_the_key(gateway, accounts, changes, text):
    account = accounts.create("server")
    answer = ask(gateway, assertion(account, **changes))
    assert answer.status == 400 and answer.json()["error"] == "invalid_grant"
    assert text in answer.json()["error_description"]


def test_clocks_may_differ_a_little(gateway, accounts):
    account = accounts.create("server")
    now = int(time.time())
    assert ask(gateway, assertion(account, iat=now + 20, exp=now + 3600)).status == 200
    assert ask(gateway, assertion(account, iat=now - 100, exp=now - 20)).status == 200
    assert ask(gateway, assertion(account, iat=now - 100, exp=now - 60)).status == 400


@pytest.mark.parametrize("body, error", [
    (b"", "invalid_request"), (b"grant_type=password", "unsupported_grant_type"), (b"{}", "invalid_request"),
    (b"grant_type=%zz", "invalid_request"), (f"grant_type={GRANT}".encode(), "invalid_request"),
    (f"grant_type={GRANT}&assertion=".encode(), "invalid_request"),
    (f"grant_type={GRANT}&assertion=a&assertion=b".encode(), "invalid_request"),
    (f"grant_type={GRANT}&assertion=".encode() + b"a" * 9_000, "invalid_request"),
    (f"grant_type={GRANT}&assertion=".encode() + b"a" * 5_000, "invalid_grant")])
def test_bad_forms(gateway, body, error):
    answer = post(gateway, body)
    assert answer.status == 400 and answer.json()["error"] == error


def test_only_post(gateway):
    for method in ("GET", "PUT", "DELETE"):
        answer = post(gateway, b"" if method == "PUT" else None, method)
        assert answer.status == 405 and answer.headers["Allow"] == "POST"


# --- Rights ---


def test_an_account_of_some_namespaces(gateway, accounts):
    token = accounts.token(accounts.create("shop-server", "--ns", "shop,blog"))
    headers = bearer(token)
    for ns, status in (("shop", 200), ("blog", 200), ("default", 401)):
        assert gateway.rest.send("PUT", f"/a.json?ns={ns}", b"1", headers).status == status
        assert gateway.rest.send("GET", f"/a.json?ns={ns}", None, headers).status == status
        assert gateway.rest.send("GET", f"/.settings/rules.json?ns={ns}", None, headers).status == status
        assert gateway.rest.send("GET", f"/.feeds?ns={ns}", None, headers).status == status
        assert gateway.rest.send("GET", f"/.log?ns={ns}", None, headers).status == status


def test_a_viewer_reads_everything_and_writes_nothing(gateway, accounts):
    admin = {"Authorization": f"Bearer {SECRET}"}
    assert gateway.rest.send("PUT", "/.settings/rules.json", json.dumps(OPEN).encode(), admin).status == 200
    assert gateway.rest.send("PUT", "/a.json", b"1", admin).status == 200
    assert gateway.rest.send("PUT", "/.feeds/all", b'{"path":"/{key}"}', admin).status == 201
    viewer = bearer(accounts.token(accounts.create("reports", "--role", "viewer")))
    rest = gateway.rest
    for target in ("/a.json", "/.json?shallow=true", '/.json?orderBy="$key"&limitToFirst=1', "/.settings/rules.json", "/.log?offset=-1"):
        assert rest.send("GET", target, None, viewer).status == 200, target
    assert {entry["origin"] for entry in rest.send("GET", "/.log?offset=-1", None, viewer).json()} == {None}
    assert None not in [entry["origin"] for entry in rest.send("GET", "/.log?offset=-1", None, admin).json()]
    # The rules allow everyone to write, except viewers.
    assert rest.send("PUT", "/public.json", b"1").status == 200
    for method, target, body in (
            ("PUT", "/a.json", b"2"), ("POST", "/a.json", b"2"), ("PATCH", "/.json", b'{"a":2}'), ("DELETE", "/a.json", None),
            ("POST", "/a.json?x-http-method-override=PUT", b"2"), ("PUT", "/big.json", b'"' + b"x" * 200_000 + b'"'),
            ("PUT", "/.settings/rules.json", json.dumps(CLOSED).encode()), ("PUT", "/.settings/rules.json?dryRun=true", b"{}"),
            ("GET", "/.feeds", None), ("GET", "/.feeds/all", None), ("PUT", "/.feeds/mine", b'{"path":"/{key}"}'),
            ("DELETE", "/.feeds/all", None), ("POST", "/.feeds/all/pull", b"{}"), ("POST", "/.feeds/all/ack", b'{"ids":[]}'),
            ("GET", "/.feeds/all/status", None), ("POST", "/.feeds/all/seek", b'{"to":"begin"}'),
            ("GET", '/a.json?auth_variable_override={"uid":"ada"}', None)):
        assert rest.send(method, target.replace('"', "%22"), body, viewer).status == 401, (method, target)
    assert rest.send("GET", "/a.json", None, admin).json() == 1


def test_streams_of_a_viewer_end_with_its_account(gateway, accounts):
    viewer = accounts.token(accounts.create("reports", "--role", "viewer"))
    gateway.rest.set("a", 1, auth=SECRET)
    with Listener(gateway.rest.at("a"), headers=bearer(viewer)) as listener:
        assert listener.next().change == ("put", "/", 1)
        gateway.rest.set("a", 2, auth=SECRET)
        listener.wait_for_value(2)
        # The rules deny everything, so new rules that do the same change nothing for a viewer.
        assert gateway.rest.send("PUT", "/.settings/rules.json", json.dumps(CLOSED).encode(), bearer(SECRET)).status == 200
        gateway.rest.set("a", 3, auth=SECRET)
        listener.wait_for_value(3)
        assert accounts.run("rm", "reports").returncode == 0
        wait_until(lambda: any(event.kind == "auth_revoked" for event in listener.events), "the end of the stream")


def test_a_viewer_on_the_realtime_protocol(gateway, accounts):
    admin = {"Authorization": f"Bearer {SECRET}"}
    assert gateway.rest.send("PUT", "/.settings/rules.json", json.dumps(OPEN).encode(), admin).status == 200
    token = accounts.token(accounts.create("reports", "--role", "viewer"))
    with RealtimeClient(gateway.port) as client:
        # An operation of an anonymous session that becomes a viewer's.
        assert client.call("o", {"p": "/left", "d": "anonymous"})["s"] == "ok"
        assert client.call("gauth", {"cred": token})["s"] == "ok"
        assert client.call("q", {"p": "/a", "h": ""})["s"] == "ok"
        assert client.call("g", {"p": "/a", "q": {}})["s"] == "ok"
        for action, fields in (("p", {"p": "/a", "d": 1}), ("m", {"p": "/", "d": {"a": 1}}), ("p", {"p": "/a", "d": 1, "h": ""}),
                               ("o", {"p": "/a", "d": 1}), ("om", {"p": "/", "d": {"a": 1}})):
            assert client.call(action, fields)["s"] == "permission_denied", (action, fields)
    wait_until(lambda: gateway.metric("pathmirror_sessions") == 0, "the end of the session")
    # Later than a write of the session's end would be.
    assert gateway.rest.send("PUT", "/marker.json", b"1", admin).status == 200
    assert gateway.rest.send("GET", "/.json", None, admin).json() == {"marker": 1}


# --- The end of tokens ---


def test_rm_ends_tokens_and_streams(gateway, accounts):
    account = accounts.create("server")
    token = accounts.token(account)
    with RealtimeClient(gateway.port) as client:
        assert client.call("gauth", {"cred": token})["s"] == "ok"
        assert client.call("q", {"p": "/a", "h": ""})["s"] == "ok"
        assert accounts.run("rm", "server").returncode == 0
        accounts.wait_refused(token)
        # The gateway checks the logins of open sessions every second.
        wait_until(lambda: client.call("p", {"p": "/a", "d": 1})["s"] == "permission_denied", "the login to end")
        assert any(push.get("a") == "ac" for push in client.pushes)
    assert ask(gateway, assertion(account)).json()["error"] == "invalid_grant"
    assert accounts.run("rm", "server").returncode == 1
    # A later account of the same name has other keys.
    accounts.create("server")
    assert ask(gateway, assertion(account)).status == 400 and read(gateway, token) == 401


@pytest.mark.parametrize("method, accept", [("GET", "application/json"), ("GET", "text/event-stream"), ("PUT", "application/json")])
def test_a_request_that_waited_is_checked_again(gateway, accounts, method, accept):
    """The account is removed while its request waits for an entry."""
    gateway.rest.set("a", 1, auth=SECRET)
    token = accounts.token(accounts.create("server"))
    head = gateway.rest.get("a", auth=SECRET).seq
    headers = {**bearer(token), "X-Pathmirror-Min-Seq": str(head + 1), "Accept": accept}
    answers = []
    request = threading.Thread(
        target=lambda: answers.append(gateway.rest.send(method, "/a.json", b"2" if method == "PUT" else None, headers).status))
    request.start()
    assert accounts.run("rm", "server").returncode == 0
    accounts.wait_refused(token)
    gateway.rest.set("b", 1, auth=SECRET)
    request.join(20)
    assert answers == [401]
    assert gateway.rest.get("a", auth=SECRET).json() == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_file_that_cannot_be_written_changes_nothing(gateway, accounts):
    account = accounts.create("server")
    token = accounts.token(account)
    for words in (("rotate", "server"), ("create", "other")):
        with open("/dev/full", "w") as full:
            finished = subprocess.run([str(binary.pathmirror()), "service-account", *words, "--database-url", gateway.database_url],
                                      stdout=full, stderr=subprocess.PIPE, text=True)
        assert finished.returncode == 1 and "Nothing was changed" in finished.stderr
    assert read(gateway, token) == 200 and accounts.token(account)
    assert "other" not in accounts.run("ls").stdout


def test_rotation(gateway, accounts):
    old = accounts.create("server")
    token = accounts.token(old)
    new = json.loads(accounts.run("rotate", "server").stdout)
    assert new["private_key_id"] != old["private_key_id"] and new["client_email"] == old["client_email"]
    accounts.wait_refused(token)
    assert ask(gateway, assertion(old)).status == 400
    token = accounts.token(new)
    newest = json.loads(accounts.run("rotate", "server", "--overlap", "4s").stdout)
    assert read(gateway, accounts.token(newest)) == 200 and read(gateway, token) == 200
    granted = ask(gateway, assertion(new)).json()
    assert granted["expires_in"] <= 4
    accounts.wait_refused(token)
    assert ask(gateway, assertion(new)).status == 400


def test_every_gateway_of_the_database(gateway, accounts, serve):
    second = serve(rules=CLOSED, ns="default")
    account = accounts.create("server")
    token = accounts.token(account)
    wait_until(lambda: read(second, token) == 200, "the other gateway to know the account")
    assert ask(second, assertion(account)).status == 200


def test_an_outage_of_the_database(own_postgres, scratch, logs):
    """Without its database a gateway accepts the tokens that it issued, and issues no new ones."""
    gateway = start_serve(own_postgres.create_database(), scratch, logs, rules=CLOSED)
    try:
        accounts = Accounts(gateway)
        account = accounts.create("server")
        token = accounts.token(account)
        assert read(gateway, token) == 200
        own_postgres.stop("immediate")
        answer = wait_until(lambda: (answer := ask(gateway, assertion(account))).status == 503 and answer, "the accounts to be out of date")
        assert answer.json()["error"] == "temporarily_unavailable" and answer.headers["Retry-After"] == "1"
        assert read(gateway, token) == 200
        own_postgres.start()
        wait_until(lambda: ask(gateway, assertion(account)).status == 200, "the accounts to be read again")
    finally:
        gateway.sweep()


# --- Commands, records and the log ---


def test_commands_and_audit(gateway, accounts, database_url):
    account = accounts.create("reports", "--role", "viewer", "--ns", "shop")
    listed = cli.objects(accounts.run("ls", "--json").stdout)
    assert [(entry["name"], entry["role"], entry["namespaces"]) for entry in listed] == [("reports", "viewer", ["shop"])]
    assert [key["id"] for key in listed[0]["keys"]] == [account["private_key_id"]]
    assert accounts.run("create", "reports").returncode == 1
    assert accounts.run("rotate", "report").returncode == 1 and "Did you mean" in accounts.run("rotate", "report").stderr
    for words in (("create", "Bad"), ("create", "x", "--role", "owner"), ("create", "x", "--ns", "a/b"), ("create", "x", "--gateway", "ftp://x"),
                  *(("create", "x", "--gateway", url) for url in ("https://:", "https://::1", "https://h:99999", "https://h'$(id)'")),
                  ("rotate", "reports", "--overlap", "99d")):
        assert accounts.run(*words).returncode == 2, words
    assert accounts.run("rotate", "reports").returncode == 0 and accounts.run("rm", "reports").returncode == 0
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select action, name, role, namespaces from pathmirror.service_account_audit order by id").fetchall()
        assert rows == [(action, "reports", "viewer", ["shop"]) for action in ("create", "rotate", "rm")]
        assert connection.execute("select count(*) from pathmirror.service_account_key").fetchone() == (0,)


def test_secrets_stay_out_of_the_database_and_the_log(gateway, accounts, database_url):
    account = accounts.create("server")
    text = assertion(account)
    token = ask(gateway, text).json()["access_token"]
    read(gateway, token), ask(gateway, text[:-4] + "AAAA"), ask(gateway, assertion(account, aud="x"))
    log = gateway.process.tail()
    key = account["private_key"].splitlines()[3]
    with psycopg.connect(database_url) as connection:
        stored = str(connection.execute("select k::text from pathmirror.service_account_key as k").fetchall())
    for secret in (key, token, token.split(".")[2], text, text.split(".")[2]):
        assert secret not in log and secret not in stored
    assert "access token issued" in log and "account=server" in log
    assert "assertion of a service account refused" in log


def test_a_token_of_google_is_explained(gateway):
    for _ in range(3):
        assert gateway.rest.send("GET", "/a.json", None, bearer("ya29.a0AfB_secret")).status == 401
    log = gateway.process.tail()
    assert log.count("access token of Google refused") == 1 and "docs/guides/admin-sdks.md" in log and "a0AfB" not in log
