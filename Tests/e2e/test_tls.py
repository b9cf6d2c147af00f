"""HTTPS: versions, new certificates, large bodies, streams and sockets, and peers without TLS."""

import json
import signal
import socket
import ssl
import threading

import pytest
import requests
from harness import cli
from harness.binary import pathmirror
from harness.gateway import start_dev
from harness.ports import free_port
from harness.process import Process
from harness.raw import Responses, answer_or_close, closed_by_server, raw_connection
from harness.rest import Rest
from harness.sse import Listener
from harness.tls import Authority, Pair, Tunnel, connect
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

GET = b"GET /.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def authority(scratch):
    return Authority(scratch)


@pytest.fixture
def pair(authority, scratch):
    return Pair(authority, scratch)


@pytest.fixture
def gateway(serve, pair):
    port = free_port()
    gateway = serve(*pair.options, "--tls-listen", f"127.0.0.1:{port}")
    gateway.secure_port = port
    return gateway


def handshakes(gateway, outcome: str) -> float:
    return gateway.metric(f'pathmirror_tls_handshakes_total{{outcome="{outcome}"}}')


def shown(port: int, authority: Authority) -> int:
    """The serial number of the certificate that a new connection gets."""
    with connect(port, authority.context()) as secure:
        return int(secure.getpeercert()["serialNumber"], 16)


def test_reads_and_writes_by_a_client_that_checks_the_certificate(gateway, authority):
    url = f"https://localhost:{gateway.secure_port}"
    with requests.Session() as session:
        # The variable in the environment would take precedence over `verify`.
        session.trust_env = False
        session.verify = str(authority.file)
        for number in range(20):
            assert session.put(f"{url}/a/{number}.json", json={"n": number}).status_code == 200
        assert session.get(f"{url}/a/7.json").json() == {"n": 7}
        assert session.patch(f"{url}/.json", json={"b": 1}).status_code == 200
        assert session.delete(f"{url}/a.json").status_code == 200
    # The gateway also has a port without TLS, for the same data.
    assert gateway.rest.value() == {"b": 1}
    assert handshakes(gateway, "full") == 1, "keep-alive"
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{url}/b.json", timeout=20)


def test_versions_and_protocols(gateway, authority):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = authority.context(minimum_version=version, maximum_version=version)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with connect(gateway.secure_port, context) as secure:
            assert secure.version().replace(".", "_") == version.name
            assert secure.selected_alpn_protocol() == "http/1.1"
            secure.sendall(GET)
            assert Responses(secure).next()[0] == 200
    too_old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    too_old.check_hostname, too_old.verify_mode = False, ssl.CERT_NONE
    too_old.set_ciphers("ALL:@SECLEVEL=0")
    too_old.minimum_version = too_old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(gateway.secure_port, too_old)
    only_h2 = authority.context()
    only_h2.set_alpn_protocols(["h2"])
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(gateway.secure_port, only_h2)
    wait_until(lambda: handshakes(gateway, "failed") == 2, "the failures to be counted")


def test_sessions_are_resumed(gateway, authority):
    context = authority.context(maximum_version=ssl.TLSVersion.TLSv1_2)
    with connect(gateway.secure_port, context) as first:
        session = first.session
        assert not first.session_reused
    with connect(gateway.secure_port, context, session=session) as second:
        assert second.session_reused
        second.sendall(GET)
        assert Responses(second).next()[0] == 200
    assert handshakes(gateway, "resumed") == 1


def test_large_bodies_both_ways(gateway, authority):
    value = {f"k{number}": "x" * 1000 for number in range(8000)}
    with Tunnel(gateway.secure_port, authority.context()) as tunnel:
        rest = Rest(tunnel.port)
        rest.set("large", value)
        assert rest.value("large") == value


def test_a_reader_that_takes_its_time_gets_everything(gateway, authority):
    value = {f"k{number}": "x" * 1000 for number in range(8000)}
    gateway.rest.set("large", value)
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.settimeout(60)
        plain.connect(("127.0.0.1", gateway.secure_port))
        with authority.context().wrap_socket(plain, server_hostname="localhost") as secure:
            for _ in range(3):
                secure.sendall(b"GET /large.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers = Responses(secure)
            # The gateway serves other clients while this client's answers wait.
            assert gateway.rest.get("none").status == 200
            for _ in range(3):
                status, _, body = answers.next()
                assert status == 200 and json.loads(body) == value


def test_streams_and_sockets(gateway, authority):
    with Tunnel(gateway.secure_port, authority.context()) as tunnel:
        rest = Rest(tunnel.port)
        with Listener(rest.at("s")) as listener, RealtimeClient(tunnel.port) as client:
            client.listen("/s")
            for number in range(50):
                client.put(f"/s/{number}", "y" * number)
            expected = {str(number): "y" * number for number in range(1, 50)}
            rest.at("s/0").delete()
            listener.wait_for_value(rest.value("s"))
            assert len(client.pushed()) >= 50
            client.put("/big", "z" * 3_000_000)
            assert len(rest.value("big")) == 3_000_000
            assert expected.items() <= dict(enumerate_value(rest.value("s"))).items()


def enumerate_value(value):
    """The children by name, of an object or of an array."""
    pairs = enumerate(value) if isinstance(value, list) else value.items()
    return ((str(key), child) for key, child in pairs if child is not None)


def test_many_at_once(gateway, authority):
    failures = []

    def work(worker: int):
        try:
            with connect(gateway.secure_port, authority.context()) as secure:
                answers = Responses(secure)
                for number in range(40):
                    body = json.dumps({"w": worker, "n": number}).encode()
                    secure.sendall(b"PUT /m/%d/%d.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                                   % (worker, number, len(body), body) + GET.replace(b"/.json", b"/m/%d/%d.json" % (worker, number)))
                    assert answers.next()[0] == 200
                    assert json.loads(answers.next()[2]) == {"w": worker, "n": number}
        except BaseException as error:  # noqa: BLE001: a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_new_certificate_is_for_new_connections(gateway, pair, authority):
    with connect(gateway.secure_port, authority.context()) as old:
        assert int(old.getpeercert()["serialNumber"], 16) == pair.serial
        new = pair.replace()
        wait_until(lambda: shown(gateway.secure_port, authority) == new, "the new certificate to be shown")
        old.sendall(GET)
        assert Responses(old).next()[0] == 200


def test_the_hangup_signal_loads_it_at_once(gateway, pair, authority):
    new = pair.replace()
    gateway.process.send(signal.SIGHUP)
    wait_until(lambda: shown(gateway.secure_port, authority) == new, "the new certificate to be shown")
    assert gateway.process.running


def test_files_that_cannot_be_used_change_nothing(gateway, pair, authority):
    pair.certificate.write_text("no certificate at all\n")
    wait_until(lambda: "can't be loaded" in gateway.process.stderr(), "the mistake to be logged")
    assert str(pair.certificate) in gateway.process.stderr()
    assert shown(gateway.secure_port, authority) == pair.serial
    # The gateway uses a certificate that expires soon, and logs a warning.
    new = pair.replace(days=5)
    wait_until(lambda: shown(gateway.secure_port, authority) == new, "the new certificate to be shown")
    wait_until(lambda: "expires soon" in gateway.process.stderr(), "the warning")
    assert "PRIVATE KEY" not in gateway.process.stderr()


def test_plain_http_at_the_tls_port_is_refused(gateway):
    with raw_connection(gateway.secure_port) as plain:
        plain.sendall(GET)
        assert answer_or_close(plain) == 400
        assert closed_by_server(plain)
    for noise in (b"\x00" * 100, b"SSH-2.0-x\r\n", b"PATCH / HTTP/1.1\r\n\r\n", bytes(range(256)) * 20):
        with raw_connection(gateway.secure_port) as plain:
            plain.sendall(noise)
            assert closed_by_server(plain)
    # The same with exchanged roles.
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(gateway.port, ssl.create_default_context())
    assert gateway.ready()


def test_peers_that_vanish_leave_nothing(gateway, authority):
    for _ in range(30):
        with raw_connection(gateway.secure_port) as plain:
            plain.sendall(b"\x16\x03\x01\x02\x00\x01")
        with connect(gateway.secure_port, authority.context()) as secure:
            secure.sendall(b"PUT /x.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{")
            secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    wait_until(lambda: gateway.metric("pathmirror_connections") <= 2, "the connections to be gone")
    assert gateway.rest.get("x").json() is None


def test_without_a_plain_address_there_is_no_plain_http(database_url, pair, authority, logs):
    port = free_port()
    process = Process([pathmirror(), "serve", "--database-url", database_url, *pair.options, "--tls-listen",
                       f"127.0.0.1:{port}"], "serve-tls", logs)
    try:
        process.wait_for_output(rf"^pathmirror: ready on https://127\.0\.0\.1:{port}\s*$", 30)
        assert "http://" not in process.stdout()
        with connect(port, authority.context()) as secure:
            secure.sendall(b"GET /.health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert Responses(secure).next()[0] == 200
            # A shutdown closes idle connections cleanly.
            process.send(signal.SIGTERM)
            assert secure.recv(100) == b""
        assert process.wait(20) == 0
    finally:
        if process.running:
            process.kill()


def test_mistakes_are_explained(database_url, pair, scratch, authority):
    start = ["serve", "--database-url", database_url]
    alone = cli.command(*start, "--tls-certificate", pair.certificate)
    assert alone.returncode == 2 and "--tls-key" in alone.stderr
    other = scratch / "other.pem"
    other.write_bytes(authority.issue()[1])
    for certificate, key, words in (
        (pair.certificate, other, "does not belong to"), (pair.key, pair.key, str(pair.key)),
        (scratch / "missing.pem", pair.key, "missing.pem"), (pair.certificate, scratch / "missing.pem", "missing.pem"),
    ):
        wrong = cli.command(*start, "--tls-certificate", certificate, "--tls-key", key)
        assert wrong.returncode == 1 and words in wrong.stderr, (certificate, key, wrong.stderr)


def answered(port: int, authority: Authority, host: str = "db.example", target: str = "/x.json"):
    """Headers of an answer over TLS to a client that uses a host name for the gateway."""
    with connect(port, authority.context()) as secure:
        secure.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return Responses(secure).next()[1]


def test_browsers_are_told_to_stay_with_https(gateway, authority):
    for target in ("/x.json", "/.health/ready", "/.settings/rules.json", "/x", "/.nothing", "/.metrics", "/.lp?id=1&pw=2"):
        assert answered(gateway.secure_port, authority, "db.example", target)["Strict-Transport-Security"] == "max-age=31536000", target
    # For localhost the header would apply to every port, and so to all other programs in development.
    for host in ("localhost", f"LOCALHOST.:{gateway.secure_port}", "ns.localhost", "127.0.0.1", "[::1]:443"):
        assert answered(gateway.secure_port, authority, host)["Strict-Transport-Security"] is None, host
    # Without TLS, any party on the network could have sent it.
    assert gateway.rest.get("x", headers={"Host": "db.example"}, ns="default").headers["Strict-Transport-Security"] is None


def test_what_one_request_is_told_says_nothing_of_the_next(gateway, authority):
    """The gateway checks host names and pages for each request of a connection."""
    with connect(gateway.secure_port, authority.context()) as secure:
        responses = Responses(secure)
        for host, expected in (("db.example", True), ("localhost", False), ("localhost", False), ("db.example", True), ("db.example", True)):
            secure.sendall(f"GET /x.json HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert (responses.next()[1]["Strict-Transport-Security"] is not None) == expected, host


def test_pages_are_refused_over_tls_behind_programs_that_are_not(scratch, logs, pair, authority):
    port = free_port()
    gateway = start_dev(scratch / "data", logs, None, *pair.options, "--tls-listen", f"127.0.0.1:{port}")
    try:
        with connect(port, authority.context()) as secure:
            responses = Responses(secure)
            for headers, status in (
                ("Host: localhost\r\n", 200), ("Host: localhost\r\n", 200), ("Host: evil.example\r\n", 403),
                ("Host: localhost\r\nOrigin: https://evil.example\r\n", 403), ("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403),
                ("Host: localhost\r\nReferer: https://evil.example/x\r\n", 403), ("Host: localhost\r\n", 200),
            ):
                secure.sendall(f"GET /x.json HTTP/1.1\r\n{headers}\r\n".encode())
                assert responses.next()[0] == status, headers
    finally:
        gateway.stop()


@pytest.mark.parametrize("time, expected", [("0s", None), ("10m", "max-age=600")])
def test_how_long_they_are_to_stay_is_an_option(serve, pair, authority, time, expected):
    port = free_port()
    serve(*pair.options, "--tls-listen", f"127.0.0.1:{port}", "--hsts-max-age", time)
    assert answered(port, authority)["Strict-Transport-Security"] == expected


def test_dev_does_not_tell_them_by_itself(scratch, logs, pair, authority):
    for options, expected in (([], None), (["--hsts-max-age", "1m"], "max-age=60")):
        port = free_port()
        gateway = start_dev(scratch / "data", logs, None, *pair.options, "--tls-listen", f"127.0.0.1:{port}", "--allow-origin", "https://db.example", *options)
        try:
            assert answered(port, authority)["Strict-Transport-Security"] == expected
        finally:
            gateway.stop()
