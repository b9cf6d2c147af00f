"""Access by REST and streams: ID tokens, custom tokens and secrets, their expiry, and the author of a write in the log."""

import json
import secrets
import signal
import time

import pytest
from harness import cli
from harness.gateway import SECRET
from harness.issuer import Issuer, SigningKey, hs256, legacy, unsigned
from harness.sse import Listener, Refused
from harness.waiting import wait_until

RULES = {"rules": {
    "users": {"$uid": {".read": "auth != null && auth.uid === $uid", ".write": "auth.uid === $uid"}},
    "edited": {".write": "auth.token.role === 'editor' && auth.token.firebase.sign_in_provider === 'password'",
               ".read": "auth.provider === 'password'"},
    "team": {".write": "auth.team === 'red'", ".read": "auth.team === 'red'"},
    "nobody": {".read": False, ".write": False},
}}
UNPARSABLE = "Could not parse auth token."


@pytest.fixture(scope="module")
def issuer():
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def database_secret():
    return secrets.token_urlsafe(30)


@pytest.fixture
def gateway(serve, issuer, scratch, database_secret):
    file = scratch / "database-secret"
    file.write_text(database_secret + "\n")
    return serve(*issuer.options, "--database-secret-file", f"default={file}", rules=RULES)


def bearer(token: str) -> dict:
    return {"Authorization": f"Bearer {token}"}


def refused(response, text: str = UNPARSABLE):
    assert (response.status, response.error) == (401, text), response.body


@pytest.mark.parametrize("form", ["x509", "jwks"])
def test_id_tokens_and_their_claims_reach_the_rules(serve, form):
    with Issuer(form) as issuer:
        claims_reach_the_rules(serve(*issuer.options, rules=RULES).rest, issuer)


def claims_reach_the_rules(rest, issuer):
    token = issuer.token("ada", role="editor")
    for place in ({"auth": token}, {"access_token": token}, {"headers": bearer(token)}):
        assert rest.put("users/ada/name", "Ada", **place).status == 200
        assert rest.get("users/ada/name", **place).json() == "Ada"
        assert rest.put("edited", 1, **place).status == 200
        refused(rest.put("users/eve/name", "x", **place), "Permission denied")
    refused(rest.put("edited", 2, auth=issuer.token("bob", role="reader")), "Permission denied")
    refused(rest.get("users/ada"), "Permission denied")


def test_tokens_that_are_not_believed(gateway, issuer):
    rest = gateway.rest
    good = issuer.token()
    assert rest.get("users/ada", auth=good).status == 200
    header, payload, signature = good.split(".")
    other = SigningKey("key-1")
    certificate = issuer.keys[0].certificate
    tokens = {
        "another key": issuer.token(key=other),
        "an unknown key": SigningKey("key-x").sign(issuer.claims()),
        "no key id": issuer.keys[0].sign(issuer.claims(), kid=None),
        "another audience": issuer.token(aud="other"),
        "another issuer": issuer.token(iss="https://securetoken.google.com/other"),
        "no subject": issuer.token(sub=""),
        "from the future": issuer.token(iat=int(time.time()) + 1000),
        "not before": issuer.token(nbf=int(time.time()) + 1000),
        "unsigned": unsigned(issuer.claims()),
        "unsigned, signature kept": f"{unsigned(issuer.claims())}{signature}",
        "signature dropped": f"{header}.{payload}.",
        "the public key as a secret": hs256(issuer.claims(), certificate),
        "the public key as a secret, named": hs256(issuer.claims(), certificate, kid="key-1"),
        "cut short": good[:-10],
        "with something behind": good + "x",
        "too large": issuer.token(filler="x" * 20_000),
        "a name twice": ".".join([header, payload[:-2], signature]),
        "a blank": " ", "dots": "..", "owner": "owner", "a guess": "secret",
    }
    for name, token in tokens.items():
        response = rest.get("users/ada", auth=token)
        assert (response.status, response.error) == (401, UNPARSABLE), name
        assert rest.put("users/ada", "no", headers=bearer(token.strip() or "x")).status == 401
    refused(rest.get("users/ada", auth=issuer.token(lasts=-100)), "Auth token is expired")
    assert rest.value("users/ada", auth=good) is None


@pytest.mark.parametrize("nothing", [
    {"auth": ""}, {"access_token": ""}, {"auth": "", "access_token": ""}, {"headers": {"Authorization": "Bearer "}},
    {"headers": {"Authorization": "Bearer"}}, {"auth": "", "headers": {"Authorization": "Bearer "}}])
def test_an_empty_credential_is_none(serve, issuer, nothing):
    """Clients append `?auth=` whether they have a credential or not."""
    gateway = serve(*issuer.options, rules={"rules": {"open": {".read": "auth === null", ".write": True}}})
    rest = gateway.rest
    assert rest.put("open", 1, **nothing).status == 200
    assert rest.get("open", **nothing).json() == 1
    refused(rest.get("closed", **nothing), "Permission denied")
    with Listener(rest.at("open"), **nothing) as listener:
        assert listener.next().change == ("put", "/", 1)
    # An empty credential does not hide another one.
    more = {**nothing, "headers": bearer(SECRET)} if "auth" in nothing or "access_token" in nothing else {**nothing, "auth": SECRET}
    assert rest.get("closed", **more).status == 200
    query = "&".join(f"{name}=" for name in nothing if name != "headers")
    response = rest.send("GET", f"/.settings/rules.json?{query}", headers=nothing.get("headers"))
    refused(response, "Permission denied")


def test_custom_tokens_and_secrets_of_a_namespace(gateway, database_secret):
    rest = gateway.rest
    token = legacy("carl", database_secret, d={"uid": "carl", "team": "red"})
    assert rest.put("team", 1, auth=token).status == 200
    assert rest.put("users/carl", 1, auth=token).status == 200
    refused(rest.put("nobody", 1, auth=token), "Permission denied")
    assert rest.put("nobody", 1, auth=database_secret).status == 200
    assert rest.put("nobody", 1, auth=legacy("x", database_secret, admin=True)).status == 200
    refused(rest.put("team", 1, auth=legacy("carl", "another secret of forty characters 12345", d={"uid": "carl"})))
    refused(rest.get("team", auth=hs256({"v": 1, "iat": 1, "d": {"uid": "c"}}, database_secret)))
    old = int(time.time()) - 25 * 3600
    refused(rest.get("team", auth=legacy("carl", database_secret, iat=old)), "Auth token is expired")
    # The namespace's administrators manage its rules; users and tokens for data only do not.
    assert rest.send("GET", f"/.settings/rules.json?auth={database_secret}").status == 200
    refused(rest.send("GET", f"/.settings/rules.json?auth={token}"), "Permission denied")
    data_only = legacy("x", database_secret, admin=True, scope="data")
    assert rest.put("nobody", 2, auth=data_only).status == 200
    refused(rest.send("GET", f"/.settings/rules.json?auth={data_only}"), "Permission denied")


def test_a_secret_is_its_own_namespaces(serve, issuer, scratch, database_secret):
    table = scratch / "secrets.json"
    other = secrets.token_urlsafe(30)
    table.write_text(json.dumps({"one": [database_secret], "two": other}))
    rest = serve("--database-secret-file", table, ns="one,two", rules=RULES).rest
    assert rest.put("nobody", 1, ns="one", auth=database_secret).status == 200
    assert rest.put("nobody", 1, ns="two", auth=other).status == 200
    refused(rest.put("nobody", 1, ns="two", auth=database_secret))
    refused(rest.put("users/a", 1, ns="two", auth=legacy("a", database_secret)))
    for name in ("one", "two"):
        assert rest.put("nobody", 1, ns=name, auth=SECRET).status == 200


def test_administrators_may_act_as_others(gateway, issuer, database_secret):
    rest = gateway.rest
    ada = json.dumps({"uid": "ada", "token": {"firebase": {"identities": {"google.com": ["1"]}}}})
    assert rest.put("users/ada", 1, auth=database_secret, auth_variable_override=ada).status == 200
    refused(rest.put("users/eve", 1, auth=database_secret, auth_variable_override=ada), "Permission denied")
    refused(rest.put("users/ada", 1, auth=SECRET, auth_variable_override="null"), "Permission denied")
    assert rest.put("users/ada", 1, auth=SECRET, auth_variable_override="[1]").status == 400
    response = rest.put("users/ada", 1, auth=issuer.token("eve"), auth_variable_override=ada)
    assert response.status == 401
    assert rest.put("users/ada", 1, auth_variable_override=ada).status == 401


def test_a_stream_ends_when_its_token_does(serve, issuer):
    gateway = serve(*issuer.options, "--clock-skew", "0s", rules=RULES)
    at = gateway.rest.at("users/ada")
    token = issuer.token("ada", lasts=3)
    with Listener(at, auth=token) as short, Listener(at, auth=issuer.token("ada")) as long:
        assert short.next().kind == "put" and long.next().kind == "put"
        event = short.next()
        assert (event.kind, event.text) == ("auth_revoked", "credential is no longer valid")
        short.wait_for_end()
        assert not long.ended
        at.put("x", 1, auth=SECRET)
        assert long.next().change == ("put", "/x", 1)
    with pytest.raises(Refused) as refusal:
        Listener(at, auth=token)
    assert refusal.value.status == 401 and b"expired" in refusal.value.body


@pytest.mark.parametrize("by_signal", [False, True])
def test_rotation_of_secrets(gateway, scratch, database_secret, by_signal):
    rest, file = gateway.rest, scratch / "database-secret"
    new = secrets.token_urlsafe(30)
    at = rest.at("users/ada")
    with Listener(at, auth=database_secret) as by_secret, Listener(at, auth=legacy("ada", database_secret)) as by_token, \
            Listener(at, auth=legacy("ada", SECRET)) as other:
        for listener in (by_secret, by_token, other):
            assert listener.next().kind == "put"
        file.write_text(f"{new}\n{database_secret}\n")
        if by_signal:
            gateway.process.send(signal.SIGHUP)
        wait_until(lambda: rest.get("nobody", auth=new).status == 200, "the new secret to hold")
        assert rest.get("nobody", auth=database_secret).status == 200
        file.write_text(new + "\n")
        if by_signal:
            gateway.process.send(signal.SIGHUP)
        for listener in (by_secret, by_token):
            assert listener.next().kind == "auth_revoked"
            listener.wait_for_end()
        refused(rest.get("nobody", auth=database_secret))
        refused(rest.get("users/ada", auth=legacy("ada", database_secret)))
        assert not other.ended
        # An unusable file changes nothing.
        file.write_text("short\n")
        gateway.process.send(signal.SIGHUP)
        wait_until(lambda: "the previous ones stay in use" in gateway.process.stderr(), "the refusal in the log")
        assert rest.get("nobody", auth=new).status == 200
    assert new not in gateway.process.stderr() and database_secret not in gateway.process.stderr()


def test_new_keys_are_fetched_when_they_are_needed(serve):
    with Issuer("jwks") as issuer:
        rest = serve(*issuer.options, rules=RULES).rest
        assert rest.get("users/ada", auth=issuer.token()).status == 200
        fetches = issuer.fetches
        for _ in range(20):
            assert rest.get("users/ada", auth=issuer.token()).status == 200
            refused(rest.get("users/ada", auth=SigningKey("made-up").sign(issuer.claims())))
        # Unknown keys do not make the gateway fetch the keys repeatedly.
        assert issuer.fetches <= fetches + 1
        issuer.down = True
        assert rest.get("users/ada", auth=issuer.token()).status == 200


def test_a_key_server_that_is_down_is_not_the_clients_fault(serve):
    with Issuer("jwks") as issuer:
        issuer.down = True
        rest = serve(*issuer.options, rules=RULES).rest
        response = rest.get("users/ada", auth=issuer.token())
        assert response.status == 503
        refused(rest.get("users/ada", auth=issuer.token(aud="other")))
        # Requests of administrators continue to succeed.
        assert rest.put("users/ada", 1, auth=SECRET).status == 200
        issuer.down = False
        wait_until(lambda: rest.get("users/ada", auth=issuer.token()).status == 200, "the keys to be fetched")


def test_dev_believes_this_machine(at, dev):
    rules = {"rules": {"users": {"$uid": {".read": "auth.uid === $uid"}}}}
    ns = {"ns": f"auth-{secrets.token_hex(8)}"}
    rest = dev.rest
    assert rest.send("PUT", f"/.settings/rules.json?ns={ns['ns']}", json.dumps(rules).encode(), bearer("owner")).status == 200
    # Like the mock tokens of the JavaScript SDK, which are long expired.
    token = unsigned({"sub": "mock", "iat": 0, "exp": 3600, "firebase": {"sign_in_provider": "custom"}})
    assert rest.get("users/mock", auth=token, **ns).status == 200
    refused(rest.get("users/eve", auth=token, **ns), "Permission denied")
    assert rest.get("users/eve", headers=bearer("owner"), **ns).status == 200
    refused(rest.get("users/eve", auth=hs256({"v": 0, "iat": 1, "d": {"uid": "eve"}}, "x"), **ns))


def test_minted_tokens(gateway, scratch, database_secret):
    rest, file = gateway.rest, scratch / "database-secret"
    token = cli.succeeds("token", "mint", "--uid", "dora", "--claims", '{"role":"editor"}', "--secret-file", file).strip()
    assert rest.put("users/dora", 1, auth=token).status == 200
    refused(rest.put("users/eve", 1, auth=token), "Permission denied")
    answer = json.loads(cli.succeeds("token", "mint", "--admin", "--data-only", "--expires-in", "90s", "--secret-file",
                                     scratch / "admin-secret", "--json"))
    assert rest.put("nobody", 1, auth=answer["token"]).status == 200
    refused(rest.send("GET", f"/.settings/rules.json?auth={answer['token']}"), "Permission denied")
    assert 80 <= answer["expiresAt"] - time.time() <= 90
    shown = cli.succeeds("token", "inspect", token, "--secret-file", file)
    assert "The signature is good." in shown and '"uid":"dora"' in shown and database_secret not in shown
    assert cli.command("token", "inspect", token, "--secret-file", scratch / "admin-secret").returncode == 1
    assert cli.command("token", "mint", "--uid", "x").returncode == 2
    assert cli.command("token", "mint", "--uid", "x", "--claims", json.dumps({"x": "y" * 1100}),
                       "--secret-file", file).returncode == 1


def test_the_log_says_who_wrote(gateway, issuer, database_secret):
    rest, source = gateway.rest, ("--database-url", gateway.database_url)
    assert rest.put("users/ada", 1, auth=issuer.token("ada")).status == 200
    assert rest.put("users/ada", 2, auth=database_secret).status == 200
    override = json.dumps({"uid": "ada"})
    assert rest.put("users/ada", 3, auth=database_secret, auth_variable_override=override).status == 200
    assert rest.patch("users/ada", None, auth=legacy("ada", database_secret)).status == 200
    entries = cli.objects(cli.succeeds("log", "ls", "--json", *source))
    here = {"via": "rest", "ip": "127.0.0.1"}
    assert [entry["origin"] for entry in entries] == [
        {"uid": "ada", "admin": False, **here}, {"uid": None, "admin": True, **here},
        {"uid": "ada", "admin": False, "override": True, **here}, {"uid": "ada", "admin": False, **here}]
    assert json.loads(cli.succeeds("log", "show", "2", "--json", *source))["origin"]["admin"] is True
    assert database_secret not in json.dumps(entries)
    cli.verify(*source)


@pytest.mark.parametrize("options", [
    ["--issuer", "x"], ["--jwks-url", "https://x/"], ["--project-id", "x", "--jwks-url", "http://192.0.2.1/keys"],
    ["--database-secret-file", "=nonsense"], ["--project-id", "x", "--clock-skew", "30"]])
def test_options_that_are_no_help(options):
    finished = cli.command("serve", "--database-url", "postgres://nowhere.invalid/x", *options)
    assert finished.returncode == 2, finished.stderr
