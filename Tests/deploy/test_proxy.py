"""The shipped nginx configuration at work, before two stand-ins for the gateways."""

import http.client
import json
import random
import socket
import ssl
from hashlib import sha256

import pytest
from asking import SECONDS, ask, connect, seen
from deployment import run
from proxy import Proxy


@pytest.mark.parametrize("server", ["http.conf", "tls.conf"])
def test_nginx_takes_the_configuration(server, tmp_path, certificate):
    proxy = Proxy(tmp_path, [1, 2], server, certificate if server == "tls.conf" else None)
    done = run(*proxy.command("-t"))
    assert "[warn]" not in done.stderr


def test_passes_path_method_and_headers_unchanged(proxy):
    for method in ("GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"):
        path = "/a%2Fb//c%20d/%C3%A9.json?orderBy=%22%24key%22&ns=demo"
        sent = {"Host": "demo.example.com:9000", "If-Match": '"etag"', "Last-Event-ID": "17", "Accept": "text/event-stream",
                "Accept-Encoding": "gzip", "Authorization": "Bearer x", "X-HTTP-Method-Override": "PATCH"}
        got = seen(proxy, method, path, headers=sent)
        assert (got["method"], got["path"]) == (method, path)
        assert {name: got["headers"].get(name.lower()) for name in sent} == sent


def test_says_where_the_request_came_from_whatever_the_client_claims(proxy):
    claimed = {"Host": "demo.example.com", "X-Forwarded-For": "10.9.9.9", "X-Forwarded-Proto": "https"}
    headers = seen(proxy, "GET", "/x.json", headers=claimed)["headers"]
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["x-forwarded-proto"] == "http"
    assert headers["x-forwarded-host"] == "demo.example.com"


def test_believes_the_proxies_before_it_that_are_named(gateways, tmp_path):
    named = "set_real_ip_from 127.0.0.1;\nreal_ip_header X-Forwarded-For;\nreal_ip_recursive on;\n"
    with Proxy(tmp_path, [gateway.port for gateway in gateways], outer_proxies=named) as proxy:
        for method in ("GET", "PUT"):
            headers = seen(proxy, method, "/x.json", headers={"X-Forwarded-For": "198.51.100.1, 203.0.113.7"})["headers"]
            assert headers["x-forwarded-for"] == "203.0.113.7"


def test_nobody_can_choose_the_method_behind_the_proxys_back(proxy):
    for method in ("GET", "POST", "PUT", "DELETE"):
        got = seen(proxy, method, "/x.json", headers={"X-True-Method": "PATCH", "X-Gateways-Asked": "nobody"})
        assert got["method"] == method
        assert "x-true-method" not in got["headers"]


def test_the_longest_path_fits(proxy):
    path = "/" + "/".join(["%C3%A9" * 384] * 32) + ".json"
    for method in ("GET", "PUT", "DELETE"):
        assert seen(proxy, method, path)["path"] == path


def test_events_arrive_when_they_are_sent_and_a_hangup_reaches_the_gateway(proxy, gateways):
    connection = connect(proxy)
    connection.request("GET", "/stream.json", headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert response.headers["Content-Type"] == "text/event-stream"
    first = [response.readline() for _ in range(3)]
    assert first == [b"event: put\n", b"data: 1\n", b"\n"]
    gateway = next(gateway for gateway in gateways if gateway.hits)
    gateway.next_event.set()
    second = [response.readline() for _ in range(3)]
    assert second == [b"event: put\n", b"data: 2\n", b"\n"]
    response.close()
    connection.close()
    assert gateway.stream_closed.wait(SECONDS)


def test_websocket_upgrade_passes_both_ways(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=SECONDS) as client:
        client.sendall(b"GET /socket?ns=demo&v=5 HTTP/1.1\r\nHost: demo\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        answer = client.makefile("rb")
        assert answer.readline().startswith(b"HTTP/1.1 101 ")
        while answer.readline() != b"\r\n":
            pass
        for message in (b"hello", bytes(range(256)) * 100):
            client.sendall(message)
            assert answer.read(len(message)) == message


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_streams_through(proxy, gateways, chunked):
    block = random.Random(1).randbytes(1 << 20)
    total = 32

    def blocks():
        yield block
        # The gateway must have the beginning before the client has sent the end.
        assert gateways[0].body_started.wait(SECONDS)
        for _ in range(total - 1):
            yield block

    headers = {} if chunked else {"Content-Length": str(total << 20)}
    got = seen(proxy, "PUT", "/big.json", blocks(), headers, encode_chunked=chunked)
    assert got["size"] == total << 20
    assert got["sha256"] == sha256(block * total).hexdigest()


def test_a_body_over_the_limit_is_refused_before_it_is_sent(proxy, gateways):
    connection = connect(proxy)
    connection.putrequest("PUT", "/big.json")
    connection.putheader("Content-Length", str((256 << 20) + 1))
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413
    assert "error" in json.loads(response.read())
    assert not any(gateway.hits for gateway in gateways)


@pytest.mark.parametrize("path", ["/x.json", "/.ws?v=5"])
def test_both_gateways_get_work_and_nothing_is_sticky(proxy, gateways, path):
    ports = {seen(proxy, "GET", path)["port"] for _ in range(40)}
    assert ports == {gateway.port for gateway in gateways}


def test_requests_of_a_polling_session_go_to_the_gateway_that_its_id_names(proxy, gateways):
    """Polls of a session, and the WebSocket that is to replace them; all clients here have one address."""
    for number in range(10):
        for label, gateway in zip("ab", gateways, strict=True):
            for path in (f"/.lp?id={label}{number}&pw=2", f"/.lp?id={label}{number}&pw=2&seg0=0", f"/.ws?v=5&s={label}{number}"):
                assert seen(proxy, "GET", path)["port"] == gateway.port
    assert {seen(proxy, "GET", "/.lp?start=t&cb=1")["port"] for _ in range(40)} == {gateway.port for gateway in gateways}


def test_metrics_stay_inside_and_liveness_needs_no_gateway(proxy, gateways):
    response, _ = ask(proxy, "GET", "/.metrics")
    assert response.status == 404
    for gateway in gateways:
        gateway.stop()
    response, _ = ask(proxy, "GET", "/.proxy/live")
    assert response.status == 200


def test_tls_is_ready_to_switch_on(gateways, certificate, tmp_path):
    ports = [gateway.port for gateway in gateways]
    context = ssl.create_default_context(cafile=str(certificate / "tls.crt"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with Proxy(tmp_path, ports, "tls.conf", certificate) as proxy:
        response, _ = ask(proxy, "PUT", "/x.json?ns=demo", "1", {"Host": "example.com"})
        assert (response.status, response.headers["Location"]) == (308, f"https://example.com:{proxy.tls_port}/x.json?ns=demo")
        with socket.create_connection(("127.0.0.1", proxy.tls_port), timeout=SECONDS) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as wrapped:
                assert wrapped.selected_alpn_protocol() == "h2"
        context.set_alpn_protocols(["http/1.1"])
        raw = socket.create_connection(("127.0.0.1", proxy.tls_port), timeout=SECONDS)
        connection = http.client.HTTPConnection("localhost", proxy.tls_port, timeout=SECONDS)
        connection.sock = context.wrap_socket(raw, server_hostname="localhost")
        connection.request("GET", "/x.json")
        response = connection.getresponse()
        assert json.loads(response.read())["headers"]["x-forwarded-proto"] == "https"
        assert response.headers["Strict-Transport-Security"]
        connection.close()
