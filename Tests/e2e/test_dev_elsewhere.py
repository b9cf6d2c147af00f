"""`dev` and clients of other machines: its open rules and its trust in its own machine do not apply to them."""

import json
import secrets
import socket
import ssl

import pytest
from harness.gateway import start_dev
from harness.issuer import unsigned
from harness.ports import free_port
from harness.rest import Rest
from harness.sse import Listener, Refused
from harness.tls import Authority, Pair, Tunnel
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

SECRET = secrets.token_urlsafe(30)
# Headers of a proxy on this machine, trusted or not, for a client of another machine.
ELSEWHERE = [
    {"X-Forwarded-For": "203.0.113.9"}, {"X-Forwarded-For": "203.0.113.9, 127.0.0.1"}, {"X-Forwarded-For": "127.0.0.1, 203.0.113.9"},
    {"X-Forwarded-For": "::1,2001:db8::1"}, {"X-Forwarded-For": "unknown"}, {"X-Forwarded-For": ""}, {"X-Real-IP": "203.0.113.9"},
    {"Forwarded": "for=203.0.113.9"}, {"Forwarded": 'for="[2001:db8::1]:80";proto=https'}, {"Forwarded": "proto=https"},
    {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=203.0.113.9"}]
HERE = [{}, {"X-Forwarded-For": "127.0.0.1"}, {"X-Forwarded-For": "::1, ::ffff:127.0.0.1"}, {"X-Real-IP": "127.0.0.1"},
        {"Forwarded": 'for=127.0.0.1;proto=http, for="[::1]:4711"'}]
DENIED = "Permission denied"


def own_address() -> str | None:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        try:
            # Connects a UDP socket, which sends nothing.
            plain.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = plain.getsockname()[0]
    return None if address.startswith("127.") else address


@pytest.fixture(scope="module", params=["untrusted", "trusted"])
def gateway(request, logs, tmp_path_factory):
    directory = tmp_path_factory.mktemp("elsewhere")
    secret = directory / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    options = ["--trusted-proxies", "127.0.0.1"] if request.param == "trusted" else []
    gateway = start_dev(directory / "data", logs, None, "--admin-secret-file", secret, *options)
    gateway.rest.set("kept", "data")
    yield gateway
    gateway.stop()


def shut_out(rest, port: int, headers: dict):
    """Tries every protocol without a credential and with the credentials that `dev` accepts from its own machine only."""
    for credential in ({}, {"auth": "owner"}, {"auth": unsigned({"sub": "ada", "iat": 0, "exp": 3600})}):
        # Credentials that are valid only on this machine are wrong for other machines.
        text = DENIED if not credential else "Could not parse auth token."
        for response in (rest.get("kept", headers=headers, **credential), rest.put("kept", 1, headers=headers, **credential),
                         rest.patch("", {"kept": 1}, headers=headers, **credential), rest.post("", 1, headers=headers, **credential),
                         rest.delete("kept", headers=headers, **credential), rest.get("", headers=headers, shallow="true", **credential)):
            assert (response.status, response.error) == (401, text)
        with pytest.raises(Refused) as refused:
            Listener(rest.at("kept"), headers=headers, **credential)
        assert refused.value.status == 401
    assert rest.send("GET", "/.settings/rules.json", headers={**headers, "Authorization": "Bearer owner"}).status == 401
    assert rest.send("PUT", "/.settings/rules.json", b'{"rules":{}}', headers={**headers, "Authorization": "Bearer owner"}).status == 401
    with RealtimeClient(port, ns="default", headers={"Host": "localhost", **headers}) as client:
        for _ in range(2):
            assert client.call("q", {"p": "/kept", "h": ""})["s"] == "permission_denied"
            assert client.call("g", {"p": "/kept", "q": {}})["s"] == "permission_denied"
            assert client.call("p", {"p": "/kept", "d": 1})["s"] == "permission_denied"
            assert client.call("m", {"p": "/", "d": {"kept": 1}})["s"] == "permission_denied"
            assert client.call("o", {"p": "/kept", "d": 1})["s"] == "permission_denied"
            for token in ("owner", unsigned({"sub": "ada", "iat": 0, "exp": 3600})):
                assert client.call("auth", {"cred": token})["s"] == "invalid_token"
            assert client.call("unauth")["s"] == "ok"


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
def test_forwarded_clients_from_elsewhere(gateway, headers):
    shut_out(gateway.rest, gateway.port, headers)
    assert gateway.rest.value("kept") == "data"
    # Administrators have access from all machines.
    assert gateway.rest.get("kept", headers=headers, auth=SECRET).json() == "data"


@pytest.mark.parametrize("headers", HERE, ids=str)
def test_clients_of_this_machine(gateway, headers):
    rest, key = gateway.rest, f"k{secrets.token_hex(6)}"
    assert rest.put(key, 1, headers=headers).status == 200
    assert rest.get(key, headers=headers, auth="owner").json() == 1
    with Listener(rest.at(key), headers=headers) as listener:
        assert listener.next().change == ("put", "/", 1)
    with RealtimeClient(gateway.port, headers=headers, ns="default") as client:
        client.listen(f"/{key}")
        client.put(f"/{key}", 2)
        assert client.call("unauth")["s"] == "ok"
        client.ok("o", {"p": f"/{key}", "d": "gone"})
    wait_until(lambda: rest.value(key) == "gone", "the client's onDisconnect write")


def test_rules_that_were_uploaded_are_for_whom_they_say(gateway):
    ns, headers = f"rules-{secrets.token_hex(6)}", ELSEWHERE[0]
    rest = gateway.rest.at(ns=ns)
    assert rest.put("open", 1).status == 200
    with RealtimeClient(gateway.port, ns=ns, headers={"Host": "localhost", **headers}) as client:
        assert client.call("q", {"p": "/open", "h": ""})["s"] == "permission_denied"
        rules = {"rules": {"open": {".read": True}, "hers": {".write": "auth.uid === 'ada'"}}}
        assert rest.send("PUT", f"/.settings/rules.json?ns={ns}", json.dumps(rules).encode(), {"Authorization": "Bearer owner"}).status == 200
        assert client.call("q", {"p": "/open", "h": ""})["s"] == "ok"
        assert client.call("p", {"p": "/open", "d": 2})["s"] == "permission_denied"
    assert rest.get("open", headers=headers).json() == 1
    assert rest.put("open", 2, headers=headers).status == 401


@pytest.fixture
def reachable(scratch, logs):
    """A `dev` that listens everywhere over TLS, and this machine's address."""
    address = own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    authority = Authority(scratch)
    secret = scratch / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    port = free_port()
    gateway = start_dev(scratch / "data", logs, None, *Pair(authority, scratch).options, "--tls-listen", f"0.0.0.0:{port}",
                        "--admin-secret-file", secret, "--allow-origin", f"https://{address}:{port}")
    gateway.secure_port, gateway.authority = port, authority
    yield gateway, address
    gateway.stop()


def test_listening_everywhere_lets_nobody_in_who_is_elsewhere(reachable):
    gateway, address = reachable
    gateway.rest.set("kept", "data")
    context = gateway.authority.context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    here, there = Tunnel(gateway.secure_port, context), Tunnel(gateway.secure_port, context, address)
    with here, there:
        shut_out(Rest(there.port), there.port, {"Host": f"{address}:{gateway.secure_port}"})
        # A forged header, as no proxy is trusted.
        shut_out(Rest(there.port), there.port, {"X-Forwarded-For": "127.0.0.1"})
        assert Rest(there.port).get("kept", auth=SECRET).json() == "data"
        # Another host name gives no access to a client of another machine.
        assert Rest(there.port).get("kept", headers={"Host": "evil.example"}, auth=SECRET).status == 403
        assert Rest(here.port).put("kept", "changed").status == 200
    assert gateway.rest.value("kept") == "changed"
    assert "remote clients can only access" in gateway.process.stderr()
