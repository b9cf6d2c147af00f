"""The shipped nginx configuration when gateways fail or are removed: repeated requests, requests that are never repeated, and log lines."""

import contextlib
import json
import socket
import time

import pytest
from asking import SECONDS, ask, connect, seen
from proxy import Proxy

SECRET = "a-secret-that-nobody-may-write-down"


@contextlib.contextmanager
def deaf_port():
    """A port at which connections are neither accepted nor refused, as if all packets to it were lost."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        # The queue takes two at most; the kernel drops later ones.
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_a_gateway_that_is_down_loses_no_request(proxy, gateways, method):
    gateways[0].stop()
    answers = [ask(proxy, method, "/x.json", None if method in ("GET", "DELETE") else "1") for _ in range(20)]
    assert [response.status for response, _ in answers] == [200] * 20


def test_a_body_that_streams_in_goes_to_the_gateway_that_is_there(proxy, gateways):
    gateways[0].stop()
    blocks = [bytes([number]) * (1 << 20) for number in range(8)]
    for _ in range(6):
        got = seen(proxy, "PUT", "/big.json", iter(blocks), {}, encode_chunked=True)
        assert got["size"] == 8 << 20


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_a_gateway_whose_packets_are_lost_costs_a_moment_and_no_request(gateways, tmp_path, method):
    with deaf_port() as port, Proxy(tmp_path, [port, gateways[1].port]) as proxy:
        for _ in range(4):
            begin = time.monotonic()
            response, _ = ask(proxy, method, "/x.json", None if method in ("GET", "DELETE") else "1")
            assert response.status == 200
            assert time.monotonic() - begin < 2.5
    assert gateways[1].count(method, "/x.json") == 4


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


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH"])
def test_a_body_that_was_not_read_ends_the_connection_and_the_answer_says_so(proxy, gateways, method):
    """http.client sends headers and body separately: nginx may find no gateway before it has both."""
    for gateway in gateways:
        gateway.stop()
    for path in ("/x.json", "/.lp?id=a1"):
        connection = connect(proxy)
        connection.request(method, path, b"1")
        response = connection.getresponse()
        assert response.status == 503 and "error" in json.loads(response.read())
        assert response.headers["Connection"] == "close"
        connection.close()


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
def test_a_gateway_that_is_taken_out_gets_nothing(proxy, gateways, method):
    for out, other in (gateways, reversed(gateways)):
        name = ("gateway-a", "gateway-b")[gateways.index(out)]
        flag = proxy.directory / "out" / name
        flag.touch()
        ports = {seen(proxy, method, "/x.json", None if method in ("GET", "DELETE") else "1")["port"] for _ in range(10)}
        assert ports == {other.port}
        flag.unlink()


def test_polls_stay_with_a_gateway_that_is_taken_out_and_go_elsewhere_when_it_is_gone(proxy, gateways):
    (proxy.directory / "out/gateway-a").touch()
    assert seen(proxy, "GET", "/.lp?id=a1&pw=2")["port"] == gateways[0].port
    gateways[1].stop()
    assert seen(proxy, "GET", "/.lp?id=b1&pw=2")["port"] == gateways[0].port


def test_the_access_log_says_whom_each_request_was_for(proxy, gateways):
    for method in ("GET", "PUT", "POST", "DELETE"):
        port = seen(proxy, method, f"/{method}.json", None if method in ("GET", "DELETE") else "1")["port"]
        # nginx logs a request at its end, which the client may notice earlier.
        deadline = time.monotonic() + SECONDS
        while not (lines := [line for line in proxy.log().splitlines() if f'"{method} /{method}.json ' in line]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [line.split('" ')[1].split()[3:] for line in lines] == [[f"127.0.0.1:{port}", "200"]]


def test_no_credential_is_in_any_log(proxy, gateways):
    """Checks requests that are served, refused by nginx, and without an answer of a gateway."""
    def everything():
        for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
            for path in (f"/x.json?auth={SECRET}", f"/die.json?access_token={SECRET}", f"/.lp?id=a1&pw={SECRET}",
                         f"/.ws?v=5&s={SECRET}", f"/.metrics?auth={SECRET}"):
                headers = {"Authorization": f"Bearer {SECRET}", "Referer": f"http://x/?auth={SECRET}", "Cookie": SECRET}
                ask(proxy, method, path, None if method in ("GET", "DELETE") else "1", headers)
        ask(proxy, "PUT", f"/x.json?auth={SECRET}", None, {"Content-Length": str((256 << 20) + 1)})
        for broken in (f"GET /x.json?auth={SECRET}\r\n\r\n", f"GET /?auth={SECRET} HTTP/9.9\r\n\r\n",
                       f"GET /?auth={SECRET} HTTP/1.1\r\nHost: {SECRET}?x\r\n\r\n",
                       f"GET /{'x' * 200000}?auth={SECRET} HTTP/1.1\r\nHost: x\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=2) as raw, contextlib.suppress(OSError):
                raw.sendall(broken.encode())
                raw.recv(65536)

    everything()
    for gateway in gateways:
        gateway.stop()
    everything()
    text = proxy.log()
    assert '"PUT /x.json HTTP/1.1" 503' in text
    assert SECRET not in text
