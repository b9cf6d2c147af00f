"""Gateways and their peers: trust between gateways, forwarded requests, and attempts to read and forge them."""

import contextlib
import http.client
import json
import signal
import threading
import time
import uuid

import psycopg
import pytest
from harness import cli, sql
from harness.feeds import ADMIN, PATIENT, Feed, FeedStream
from harness.gateway import SECRET
from harness.ports import free_port
from harness.proxy import Proxy
from harness.raw import Responses, Unread, raw_connection
from harness.rest import Rest
from harness.tls import Authority, Pair, Tunnel
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient
from oracle.hashes import node_hash

DATABASE_SECRET = "a-database-secret-of-the-default-namespace"


@pytest.fixture
def secret(scratch):
    file = scratch / "database-secret"
    file.write_text(DATABASE_SECRET + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def mint(secret):
    def mint(name: str, *words) -> dict:
        token = cli.succeeds("token", "mint", "--feed", name, "--ns", "default", "--secret-file", secret, *words).strip()
        return {"Authorization": f"Bearer {token}"}

    return mint


@pytest.fixture
def start(serve, secret):
    def start(name, *options, **settings):
        return serve("--database-secret-file", f"default={secret}", "--clock-skew", "0s", *options, name=name, **settings)

    return start


class Two:
    """A feed on two gateways: `working` works it, `passing` forwards to that one."""

    def __init__(self, url, gateways, rests=None, **definition):
        self.url = url
        feeds = [Feed(rest, headers=ADMIN) for rest in rests or [gateway.rest for gateway in gateways]]
        feeds[0].make(**{**PATIENT, **definition})
        number = wait_until(lambda: self._owner(gateways), "a gateway to work the feed")
        self.owner, self.other = feeds[number - 1], feeds[2 - number]
        self.working, self.passing = gateways[number - 1], gateways[2 - number]
        for feed in feeds:
            assert feed.pull() == []

    def _owner(self, gateways):
        found = sql.rows(self.url, "SELECT worker.address FROM pathmirror.feed_owner AS owner "
                         "JOIN pathmirror.feed_worker AS worker ON worker.id = owner.worker")
        ports = [getattr(gateway, "secure_port", gateway.port) for gateway in gateways]
        return next((n for n, port in enumerate(ports, 1) if found and found[0][0].endswith(f":{port}")), None)

    def reached_at(self, address: str):
        """Registers another address of the gateway that works the feed, for the gateways that forward to it."""
        sql.execute(self.url, f"UPDATE pathmirror.feed_worker SET peer_address = '{address}' "
                    "WHERE id = (SELECT worker FROM pathmirror.feed_owner)", "NOTIFY pathmirror_feed")


@pytest.fixture
def pair(start, database_url):
    def make(*options, tune="", **definition):
        return Two(database_url, [start(name, *options, tune=tune) for name in ("one", "two")], **definition)

    return make


class Recorder(Proxy):
    """Records the bytes of requests."""

    def __init__(self, port: int):
        self.requests: list[bytes] = []
        super().__init__(port)

    def _heard(self, data: bytes):
        self.requests.append(data)


# MARK: Notifications

def test_notifications_of_others_are_not_believed(serve, database_url):
    """A role that can only connect neither delays transactions of others nor keeps a gateway busy for long."""
    gateway = serve(tune="transaction-slot=60s")
    role = f"stranger_{uuid.uuid4().hex[:12]}"
    sql.execute(database_url, f"CREATE ROLE {role} LOGIN")
    try:
        stranger = psycopg.conninfo.make_conninfo(database_url, user=role)
        with psycopg.connect(stranger, autocommit=True) as connection, RealtimeClient(gateway.port) as client:
            for table in ("gateway_key", "feed_worker"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"SELECT * FROM pathmirror.{table}")
            connection.execute("LISTEN pathmirror_peer")
            client.put("x", 0)
            # A client that fails again and again makes its gateway ask the others.
            for _ in range(6):
                assert transact(client, "x", "no", over="else")["s"] == "datastale"
            heard = next((notice.payload for notice in connection.notifies(timeout=20)), None)
            assert heard and " turn asks " in heard
            assert transact(client, "x", 1, over=0)["s"] == "ok"
            sender, number, clock, code, text = heard.split(" ", 4)
            forged = [
                f"{sender} {text}", f"{uuid.uuid4().hex[:16]} {text}", heard, f"{sender} {int(number) + 1} {clock} {code} {text}",
                f"stranger {number} {clock} {code} {text}", f"other 1 {int(time.time() * 1000)} {'0' * 32} {text}",
            ]
            for _ in range(20):
                for payload in forged:
                    connection.execute("SELECT pg_notify('pathmirror_peer', %s)", [payload])
            for channel, payload in (("pathmirror", f"1 {(1 << 63) - 1}"), ("pathmirror_feed", ""), ("pathmirror_mirror", ""),
                                     ("pathmirror_placement", "9")):
                connection.execute("SELECT pg_notify(%s, %s) FROM generate_series(1, 1000)", [channel, payload])
            # A later notification was received, and so the forged ones were.
            sql.execute(database_url, "NOTIFY pathmirror, '1 1'")
            wait_until(lambda: gateway.metric("pathmirror_notifications_total") >= 2, "the notifications to be heard")
            assert transact(client, "x", 2, over=1)["s"] == "ok"
            assert gateway.metric("pathmirror_transactions_waiting") == 0
        assert gateway.rest.put("d", 1, headers=ADMIN).status == 200
    finally:
        sql.execute(database_url, f"DROP ROLE {role}")


def transact(client: RealtimeClient, path: str, value, over) -> dict:
    """Sends a put with the hash of the value that it replaces, and returns the answer."""
    return client.call("p", {"p": path, "d": value, "h": node_hash(over)})


# MARK: Forwarded requests

def test_no_credential_is_forwarded(pair, secret, mint):
    two = pair()
    with Recorder(two.working.port) as recorder:
        two.reached_at(f"http://127.0.0.1:{recorder.port}")
        token = mint("orders")
        wait_until(lambda: two.other.call("POST", "pull", {}).status == 200 and recorder.requests, "requests to be forwarded")
        two.other.rest.set("orders/a", 1)
        consumer = two.other.by(token)
        message = consumer.one("c1")
        assert consumer.settle("ack", [message], consumer="c1") == {message["id"]: "done"}
        assert consumer.status()["acknowledged"] == 1
        answer = two.other.rest.send("POST", f"/.feeds/orders/pull?ns=default&auth={SECRET}", b"{}")
        assert answer.status == 200
        with FeedStream(two.other, auth=SECRET) as stream:
            two.other.rest.set("orders/b", 2)
            stream.wait_for_count(1)
    sent = b"".join(recorder.requests)
    assert sent.lower().count(b"x-pathmirror-gateway: ") >= 4
    for word in (SECRET, DATABASE_SECRET, token["Authorization"].split()[1]):
        assert word.encode() not in sent
    assert b"authorization" not in sent.lower() and b"auth=" not in sent


def test_what_was_forwarded_is_good_once(pair):
    """An eavesdropper can neither repeat a forwarded request nor derive another one from it."""
    two = pair()
    two.other.rest.set("orders", {"a": 1, "b": 2})
    with Recorder(two.working.port) as recorder:
        two.reached_at(f"http://127.0.0.1:{recorder.port}")
        wait_until(lambda: two.other.call("POST", "ack", {"ids": []}).status == 200 and recorder.requests, "requests to be forwarded")
        two.owner.wait_for_free(2)
        recorder.requests.clear()
        assert two.other.call("POST", "pull", {"max": 1, "consumer": "c1"}).json()["messages"]
        request = b"".join(recorder.requests)
    head = request.split(b"\r\n\r\n")[0]
    line = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"x-pathmirror-gateway: "))
    forged = [
        request, request.replace(b"/orders/pull", b"/others/pull"), request.replace(b'"max":1,', b'"max":9,'),
        request.replace(b"ns=default", b"ns=another"), request.replace(line, line[:-1] + (b"0" if line[-1:] != b"0" else b"1")),
        request.replace(b"POST /.feeds/orders/pull", b"DELETE /.feeds/orders"),
    ]
    for bytes in forged:
        with raw_connection(two.working.port) as connection:
            connection.sendall(bytes)
            # The sender's gateway may have been late, or this one may have restarted: the caller's credential may be valid.
            assert Responses(connection).next()[0] == 503, bytes[:300]
    # The refused request got no message.
    assert two.owner.one("c2")["attempt"] == 1


def test_durations_between_gateways_are_milliseconds(pair):
    """Gateways of the previous version understand no other unit."""
    two = pair()
    with Recorder(two.working.port) as recorder:
        two.reached_at(f"http://127.0.0.1:{recorder.port}")
        wait_until(lambda: two.other.call("POST", "ack", {"ids": []}).status == 200 and recorder.requests, "requests to be forwarded")
        assert two.other.call("POST", "pull", {"wait": "1ms", "consumer": "c1"}).json()["messages"] == []
        for verb in ("nack", "extend"):
            assert two.other.call("POST", verb, {"ids": [], "delay": "5s"}).status == 200
    sent = b"".join(recorder.requests)
    assert b'"wait_ms":1,' in sent and sent.count(b'"delay_ms":5000') == 2
    assert b'"wait":' not in sent and b'"delay":' not in sent


# A pull without a stream, with and without the name of its consumer, and one that opens a connection of it.
PULLS = [{}, {"consumer": "c1"}, {"consumer": "c1", "resume": True}]


class Held:
    """A message that the other gateway delivered for a pull, and whose answer is held in transit. Use as a context."""

    def __init__(self, two: Two):
        self.two, self.recorder = two, Recorder(two.working.port)

    def __enter__(self):
        self.recorder.__enter__()
        self.two.reached_at(f"http://127.0.0.1:{self.recorder.port}")
        wait_until(lambda: self.two.other.call("POST", "ack", {"ids": []}).status == 200 and self.recorder.requests, "requests to be forwarded")
        self.two.other.rest.set("orders/a", 1)
        self.two.owner.wait_for_free(1)
        self.recorder.hold(b'{"messages":[{')
        return self

    def wait(self):
        wait_until(lambda: self.two.owner.status()["held_messages"] == 1, "the message to be handed out")

    def went_back(self):
        message = self.two.owner.one("c2")
        assert (message["key"], message["attempt"]) == ("a", 1)

    def __exit__(self, *_):
        self.recorder.__exit__()


@pytest.mark.parametrize("body", PULLS)
def test_an_answer_that_is_lost_between_gateways_goes_back(pair, body):
    two, answers = pair(), []
    with Held(two) as held:
        pull = threading.Thread(target=lambda: answers.append(two.other.call("POST", "pull", body)), daemon=True)
        pull.start()
        held.wait()
        held.recorder.cut()
        pull.join(20)
        assert answers[0].status == 503 and answers[0].headers["Retry-After"]
        held.went_back()


@pytest.mark.parametrize("body", PULLS)
def test_an_answer_whose_client_is_gone_goes_back(pair, body):
    two = pair()
    with Held(two) as held:
        with raw_connection(two.passing.port) as connection:
            text = json.dumps(body)
            connection.sendall(f"POST {two.other.target('pull')} HTTP/1.1\r\nHost: x\r\nAuthorization: {ADMIN['Authorization']}\r\n"
                               f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
            held.wait()
        held.went_back()


@pytest.mark.parametrize("body", PULLS)
def test_an_answer_without_room_goes_back(pair, body):
    """The output of the gateway that forwards is full: it answers 503, and no client has the message."""
    two = pair("--request-memory", "32MiB")
    value = "x" * (5 << 20)
    two.other.rest.set("big", value)
    big = two.other.rest.at("big").url()
    two.owner.rest.set("orders/a", value)
    two.owner.wait_for_free(1)
    with contextlib.ExitStack() as stack:
        statuses = [200]
        while 200 in statuses:
            statuses = stack.enter_context(Unread(two.passing.port, big, ADMIN, 10)).statuses()
        answer = two.other.call("POST", "pull", body)
        assert answer.status == 503 and answer.headers["Retry-After"]
        message = two.owner.one("c2")
        assert (message["key"], message["attempt"]) == ("a", 1)


def test_nothing_is_forwarded_to_a_gateway_without_a_key(pair, mint):
    """A gateway of an older version has registered no key, and would need the client's own credential."""
    two = pair()
    consumer = two.other.by(mint("orders"))
    with Recorder(two.working.port) as recorder:
        sql.execute(two.url, "UPDATE pathmirror.feed_worker SET peer_address = NULL, peer_key = NULL, peer_pin = NULL, "
                    f"address = 'http://127.0.0.1:{recorder.port}' WHERE id = (SELECT worker FROM pathmirror.feed_owner)",
                    "NOTIFY pathmirror_feed")
        wait_until(lambda: consumer.call("POST", "pull", {}).status == 503, "the missing key to be noticed")
        two.other.rest.set("orders/a", 1)
        # The gateway that works the feed serves it throughout.
        message = two.owner.one("c1")
        for verb, body in (("pull", {}), ("ack", {"ids": [message["id"]]}), ("nack", {"ids": [message["id"]]})):
            answer = consumer.call("POST", verb, body)
            assert answer.status == 503 and answer.headers["Retry-After"], verb
        assert stream_answer(consumer) == (503, "1")
        assert consumer.status()["name"] == "orders"
        assert two.owner.settle("ack", [message], consumer="c1") == {message["id"]: "done"}
        assert recorder.requests == []


def test_a_request_counts_at_the_first_gateway_only(pair):
    two = pair("--rate-limit-per-address", "300/m:30")
    statuses = [two.other.call("POST", "pull", {}).status for _ in range(20)]
    assert statuses == [200] * 20
    # The owner has counted only the two requests from the start of the test, and no forwarded one.
    assert [two.owner.call("POST", "pull", {}).status for _ in range(20)] == [200] * 20


# MARK: TLS

@pytest.fixture
def start_secure(serve, scratch, secret):
    """Gateways with certificates of authorities that no other gateway trusts."""

    def start(name, **settings):
        directory = scratch / name
        directory.mkdir()
        pair = Pair(Authority(directory), directory)
        port = free_port()
        gateway = serve(*pair.options, "--tls-listen", f"127.0.0.1:{port}", "--database-secret-file", f"default={secret}", name=name,
                        **settings)
        gateway.secure_port, gateway.pair = port, pair
        return gateway

    return start


@pytest.fixture
def secure_pair(start_secure, database_url):
    return Two(database_url, [start_secure(name) for name in ("one", "two")])


def test_gateways_that_serve_tls_only(start_secure, database_url):
    gateways = [start_secure(name, plain=False) for name in ("one", "two")]
    with contextlib.ExitStack() as stack:
        tunnels = [stack.enter_context(Tunnel(gateway.secure_port, gateway.pair.authority.context())) for gateway in gateways]
        two = Two(database_url, gateways, [Rest(tunnel.port) for tunnel in tunnels])
        two.other.rest.set("orders/a", 1)
        message = two.other.one("c1")
        two.other.ack([message], consumer="c1")
        with FeedStream(two.other) as stream:
            two.owner.rest.set("orders/b", 2)
            assert stream.wait_for_count(1)[0]["key"] == "b"


def test_gateways_forward_over_tls(secure_pair, database_url):
    two = secure_pair
    rows = sql.rows(database_url, "SELECT peer_address, octet_length(peer_key), octet_length(peer_pin) FROM pathmirror.feed_worker")
    assert sorted(rows) == sorted((f"https://127.0.0.1:{gateway.secure_port}", 32, 32) for gateway in (two.working, two.passing))
    two.other.rest.set("orders/a", 1)
    message = two.other.one("c1")
    two.other.ack([message], consumer="c1")
    handshakes = two.working.metric('pathmirror_tls_handshakes_total{outcome="full"}')
    assert handshakes >= 1
    # A certificate with another key: other gateways expect it as soon as the gateway uses it.
    two.working.pair.replace()
    two.working.process.send(signal.SIGHUP)
    wait_until(lambda: "certificate loaded" in two.working.process.tail(), "the certificate to be loaded")
    two.other.rest.set("orders/b", 2)
    message = two.other.one("c1")
    assert message["key"] == "b"
    two.other.ack([message], consumer="c1")


def test_nothing_is_sent_to_another_key(secure_pair):
    """A program that has taken the address of a gateway receives no forwarded request."""
    two = secure_pair
    two.reached_at(f"https://127.0.0.1:{two.passing.secure_port}")
    wait_until(lambda: two.other.call("POST", "pull", {}).status == 503, "the other key to be noticed")
    answer = two.other.call("POST", "ack", {"ids": ["default:1:0"]})
    assert answer.status == 503 and answer.headers["Retry-After"]


# MARK: Streams without an owner

def stream_answer(feed: Feed, **headers) -> tuple[int, str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", feed.rest.port, timeout=30)
    try:
        connection.request("GET", feed.target("stream"), None, {**feed.headers, **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers["Retry-After"]
    finally:
        connection.close()


def test_a_stream_whose_owner_is_gone_is_refused(pair):
    two = pair(tune="feed-takeover=30s")
    with FeedStream(two.other) as stream:
        two.owner.rest.set("orders/a", 1)
        stream.wait_for_count(1)
        two.working.process.kill()
        stream.wait_for_end()
    for _ in range(3):
        assert stream_answer(two.other) == (503, "1")
    assert two.other.call("HEAD", "stream").status == 503


def test_a_stream_that_loses_its_owner_says_when_to_come_back(pair):
    two = pair(tune="feed-takeover=30s")
    connection = http.client.HTTPConnection("127.0.0.1", two.other.rest.port, timeout=60)
    connection.request("GET", two.other.target("stream"), None, two.other.headers)
    answer = connection.getresponse()
    assert answer.status == 200
    two.working.process.kill()
    text = answer.read().decode()
    connection.close()
    hint = next(line for line in text.splitlines() if line.startswith("retry:"))
    assert int(hint.removeprefix("retry:")) >= 1_000


def test_a_stream_of_a_frozen_owner_is_refused(pair):
    two = pair(tune="feed-takeover=30s")
    two.working.process.freeze()
    try:
        assert stream_answer(two.other) == (503, "1")
    finally:
        two.working.process.send(signal.SIGCONT)


# MARK: Tokens of feeds

def test_a_token_is_for_no_later_feed_of_the_name(start, database_url, mint):
    gateway = start("one")
    feed = Feed(gateway.rest, headers=ADMIN).make(**PATIENT)
    gateway.rest.set("orders/a", 1)
    by_time, by_id = mint("orders"), mint("orders", "--database-url", database_url)
    for token in (by_time, by_id):
        assert feed.by(token).status()["state"]
    stream = FeedStream(feed.by(by_id))
    feed.remove()
    # Times in tokens are whole seconds.
    made = time.time()
    wait_until(lambda: time.time() > int(made) + 1.05, "the next second")
    feed.make("/secret/{id}", **PATIENT)
    gateway.rest.set("secret/a", "tango-4711")
    assert feed.one("c1")["value"] == "tango-4711"
    stream.wait_for_end()
    stream.close()
    for token in (by_time, by_id):
        old = feed.by(token)
        for method, what, body in (("POST", "pull", {"resume": True, "consumer": "c1"}), ("POST", "ack", {"ids": ["default:2:0"]}),
                                   ("POST", "nack", {"ids": ["default:2:0"]}), ("GET", "stream", None), ("GET", "status", None),
                                   ("POST", "seek", {"to": "beginning"}), ("GET", "dead", None), ("GET", "", None),
                                   ("POST", "dead/drop", {"all": True})):
            answer = old.call(method, what, body)
            assert answer.status == 401 and b"tango" not in answer.body, (method, what, answer.status, answer.body)
        log = gateway.rest.send("GET", "/.log?ns=default&offset=-1", None, token)
        assert log.status == 401 and b"tango" not in log.body
    # These refused pulls did not return the messages that c1 holds.
    assert feed.call("POST", "pull", {"consumer": "c2"}).json()["messages"] == []
    assert feed.by(mint("orders", "--database-url", database_url)).status()["held_messages"] == 1


def test_a_token_is_judged_where_the_feed_is_worked(pair, mint, database_url):
    """The gateway that forwards does not know which feed of the name is worked there."""
    two = pair()
    tokens = [mint("orders"), mint("orders", "--database-url", database_url)]
    made = time.time()
    wait_until(lambda: time.time() > int(made) + 1.05, "the next second")
    two.owner.remove()
    two.owner.make(**PATIENT)
    good = mint("orders", "--database-url", database_url)
    for feed in (two.owner, two.other):
        assert feed.by(good).pull() == []
        for token in tokens:
            for method, what, body in (("POST", "pull", {}), ("POST", "ack", {"ids": ["default:2:0"]}), ("GET", "stream", None),
                                       ("GET", "status", None)):
                assert feed.by(token).call(method, what, body).status == 401, (method, what)


def test_a_token_of_a_feed_that_is_not_there(start, database_url, secret):
    start("one")
    result = cli.command("token", "mint", "--feed", "orders", "--ns", "default", "--secret-file", secret, "--database-url", database_url)
    assert result.returncode == 1 and "orders" in result.stderr
