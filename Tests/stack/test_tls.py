"""The TLS overlay: HTTPS and sockets through it, and a redirect of plain HTTP to its port."""

import http.client
import json
import socket
import ssl

import pytest
from harness.waiting import wait_until
from stack import PROXY_USER, ROOT


@pytest.fixture(scope="module")
def secure(stack):
    """The stack with the overlay, and afterwards without it."""
    where = stack.directory / "tls"
    where.mkdir()
    stack.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
              "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
              "-keyout", stack.directory / "made.key", "-out", where / "tls.crt")
    stack.private("tls/tls.key", (stack.directory / "made.key").read_text(), PROXY_USER)
    # Instead of deploy/tls.
    mounted = stack.directory / "certificates.yml"
    mounted.write_text(json.dumps({"services": {"proxy": {"volumes": [f"{where}:/etc/nginx/tls:ro"]}}}))
    plain = list(stack.files)
    stack.files[1:1] = [ROOT / "deploy/compose.tls.yml"]
    stack.files.append(mounted)
    stack.up("--no-deps", "proxy")
    stack.certificate = where / "tls.crt"
    yield stack
    stack.files[:] = plain
    stack.up("--no-deps", "proxy")
    stack.wait_until_served()


def connected(stack, *protocols: str) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(stack.certificate))
    context.set_alpn_protocols(list(protocols))
    raw = socket.create_connection(("127.0.0.1", stack.tls_port), timeout=20)
    return context.wrap_socket(raw, server_hostname="localhost")


def ask(stack, method: str, path: str, body: str | None = None):
    connection = http.client.HTTPConnection("localhost", stack.tls_port, timeout=20)
    connection.sock = connected(stack, "http/1.1")
    connection.request(method, path, body, {"Authorization": f"Bearer {stack.secret}"})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


def test_https_serves_reads_and_writes(secure):
    wait_until(lambda: ask(secure, "PUT", "/secure.json", "7")[0].status == 200, "a write by HTTPS")
    # The other gateway may receive it a moment later.
    wait_until(lambda: ask(secure, "GET", "/secure.json")[1].strip() == b"7", "the value by HTTPS")
    response, _ = ask(secure, "GET", "/secure.json")
    assert response.headers["Strict-Transport-Security"]
    with connected(secure, "h2", "http/1.1") as wrapped:
        assert wrapped.selected_alpn_protocol() == "h2"


def test_plain_http_is_sent_on_to_the_port_of_https(secure):
    response = secure.rest.put("secure", 8)
    assert response.status == 308
    assert response.headers["Location"] == f"https://127.0.0.1:{secure.tls_port}/secure.json"


def test_sockets_go_by_tls(secure):
    with connected(secure, "http/1.1") as wrapped:
        wrapped.sendall(b"GET /.ws?v=5 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        said = b""
        while b'"t":"h"' not in said:
            piece = wrapped.recv(65536)
            assert piece, said
            said += piece
    assert said.startswith(b"HTTP/1.1 101 ")
