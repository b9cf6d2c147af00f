"""The shipped nginx configuration at work, before two stand-ins for the gateways."""

import http.client
import json
import random
import socket
import ssl
import threading
from hashlib import sha256

import pytest
from deployment import run, tool
from proxy import Proxy
from standin import StandIn

SECONDS = 30


@pytest.fixture
def gateways():
    """Two of them, which share the event that tells of a body's first byte."""
    body_started = threading.Event()
    pair = [StandIn(body_started), StandIn(body_started)]
    yield pair
    for gateway in pair:
        gateway.stop()


@pytest.fixture
def proxy(gateways, tmp_path):
    with Proxy(tmp_path, [gateway.port for gateway in gateways]) as running:
        yield running


@pytest.fixture
def certificate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    run(tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-keyout", directory / "tls.key", "-out", directory / "tls.crt")
    return directory


def connect(proxy) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS)


def ask(proxy, method, path, body=None, headers=None, **options):
    connection = connect(proxy)
    connection.request(method, path, body, headers or {}, **options)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


def seen(proxy, method, path, body=None, headers=None, **options):
    response, content = ask(proxy, method, path, body, headers, **options)
    assert response.status == 200, content
    return json.loads(content)


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


def test_a_polling_client_stays_with_its_gateway(proxy, gateways):
    """Its polls, and the WebSocket that is to take over from them."""
    def gateway_of(address, path):
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS, source_address=(address, 0))
        connection.request("GET", path)
        content = json.loads(connection.getresponse().read())
        connection.close()
        return content["port"]

    homes = set()
    for number in range(2, 30):
        paths = ["/.lp?start=t", "/.lp?id=1&pw=2", "/.lp?id=1&pw=2&seg0=0", "/.ws?v=5&s=1&ns=x"] * 3
        ports = {gateway_of(f"127.0.0.{number}", path) for path in paths}
        assert len(ports) == 1, (number, ports)
        homes |= ports
    assert homes == {gateway.port for gateway in gateways}


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_a_gateway_that_is_down_loses_no_request_that_can_be_repeated(proxy, gateways, method):
    gateways[0].stop()
    answers = [ask(proxy, method, "/x.json", None if method in ("GET", "DELETE") else "1") for _ in range(20)]
    failed = [response.status for response, _ in answers if response.status != 200]
    # One PUT or DELETE finds out for everybody, again whenever fail_timeout has run out.
    assert len(failed) <= (2 if method in ("PUT", "DELETE") else 0), failed


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_a_write_that_was_sent_is_never_sent_again(proxy, gateways, method):
    response, content = ask(proxy, method, "/die.json", None if method == "DELETE" else "1")
    assert response.status == 503
    assert response.headers["Retry-After"] == "1"
    assert "unknown" in json.loads(content)["error"]
    assert sum(gateway.count(method, "/die.json") for gateway in gateways) == 1


def test_a_read_is_tried_on_the_other_gateway(proxy, gateways):
    ask(proxy, "GET", "/die.json")
    assert [gateway.count("GET", "/die.json") for gateway in gateways] == [1, 1]


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
        assert (response.status, response.headers["Location"]) == (308, "https://example.com/x.json?ns=demo")
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
