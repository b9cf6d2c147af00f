"""Web pages: `dev` allows only pages of this machine, by every protocol and by this machine's names; `--allow-origin` allows others."""

import json
import secrets

import pytest
from harness import cli
from harness.gateway import SECRET, start_dev
from harness.raw import Responses, answer_or_close, raw_connection
from harness.sse import Listener, Refused
from harness.websocket import Rejected, WebSocket
from harness.websocket_client import RealtimeClient
from harness.websocket_polling import PollingClient

EVIL = "http://evil.example"
HANDSHAKE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
OWNER = {"Authorization": "Bearer owner"}
# Every protocol: the request, and its own headers.
DOORS = {
    "read": ("GET", "/x.json", {}), "head": ("HEAD", "/x.json", {}), "JSONP": ("GET", "/x.json?callback=steal", {}),
    "put": ("PUT", "/x.json", {}), "post": ("POST", "/x.json", {}), "patch": ("PATCH", "/.json", {}), "delete": ("DELETE", "/x.json", {}),
    "override": ("POST", "/x.json?x-http-method-override=DELETE", {}), "stream": ("GET", "/x.json", {"Accept": "text/event-stream"}),
    "rules read": ("GET", "/.settings/rules.json", OWNER), "rules": ("PUT", "/.settings/rules.json", OWNER),
    "websocket": ("GET", "/.ws?v=5", HANDSHAKE), "polling": ("GET", "/.lp?start=t&cb=1&v=5", {}), "poll": ("GET", "/.lp?id=1&pw=2", {}),
    "frame": ("GET", "/.lp?dframe=t&id=1&pw=2", {}), "preflight": ("OPTIONS", "/x.json", {"Access-Control-Request-Method": "PUT"}),
    "metrics": ("GET", "/.metrics", {}), "health": ("GET", "/.health/ready", {}), "nothing": ("GET", "/.nothing", {}),
    "no JSON": ("GET", "/x", {}),
}
# The headers of a browser for a page of another site.
STRANGERS = {
    "another origin": {"Origin": EVIL}, "no origin": {"Origin": "null"}, "a name that looks like ours": {"Origin": "http://localhost.evil.example"},
    "a script": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "an old browser's script": {"Referer": EVIL + "/page"},
    "led here by DNS": {"Host": "evil.example:9000", "Origin": "http://evil.example:9000", "Sec-Fetch-Site": "same-origin"},
    "led here by DNS, without origin": {"Host": "evil.example:9000", "Sec-Fetch-Site": "same-origin"},
    "led to 0.0.0.0": {"Host": "0.0.0.0:9000"},
}


@pytest.fixture(scope="module")
def closed(logs, tmp_path_factory):
    """A `dev` without more options."""
    gateway = start_dev(tmp_path_factory.mktemp("pages") / "data", logs)
    gateway.rest.set("x", "kept")
    yield gateway
    gateway.stop()


def body_of(method: str) -> bytes | None:
    return b'{"rules":{".read":true}}' if method in ("PUT", "POST", "PATCH") else None


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("door", DOORS)
def test_pages_from_elsewhere_get_nothing_at_any_door(closed, door, stranger):
    method, target, own = DOORS[door]
    response = closed.rest.send(method, target, body_of(method), {**own, **STRANGERS[stranger]})
    assert response.status == 403, response.body
    assert response.headers["Access-Control-Allow-Origin"] is None and "Origin" in response.headers["Vary"]
    if method != "HEAD":
        assert "localhost" in response.error or "--allow-origin" in response.error
        assert "kept" not in response.body.decode()
    assert closed.rest.value() == {"x": "kept"}
    assert closed.rest.send("GET", "/.settings/rules.json", headers=OWNER).json() == {"rules": {".read": True, ".write": True}}


def test_the_error_and_the_log_name_the_fix(closed):
    assert closed.rest.get("x", headers={"Origin": "https://a.example:8443"}).error == \
        'Pages of "https://a.example:8443" may not use this gateway: to allow them, start it with --allow-origin https://a.example:8443'
    assert closed.rest.get("x", headers={"Host": "b.example:9000"}).error == \
        '"b.example:9000" is not a name of this machine, and pathmirror dev accepts no other names: use localhost, or start it with --allow-origin http://b.example:9000'
    log = closed.process.stderr()
    assert log.count("--allow-origin https://a.example:8443") == 1 and log.count("--allow-origin http://b.example:9000") == 1
    # The number of log lines is limited, even if a client invents many names.
    for number in range(200):
        assert closed.rest.get("x", headers={"Origin": f"http://{number}.example"}).status == 403
    assert closed.process.stderr().count("may not use") < 100


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1:5173", "http://[::1]:8080", "http://app.localhost", "capacitor://localhost"])
def test_pages_of_this_machine_may_do_everything_and_read_the_answer(closed, origin):
    headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    for door, (method, target, own) in DOORS.items():
        if door in ("websocket", "stream", "polling", "put", "post", "patch", "delete", "override", "rules", "metrics"):
            continue
        response = closed.rest.send(method, target, None, {**own, **headers})
        assert response.status != 403 and response.headers["Access-Control-Allow-Origin"] == origin, door
        assert "Origin" in response.headers.get_all("Vary"), door
    ns = {"ns": f"pages-{secrets.token_hex(6)}"}
    rest = closed.rest.with_headers(**headers)
    for response in (rest.put("a", 1, **ns), rest.patch("", {"b": 2}, **ns), rest.post("c", 3, **ns), rest.delete("c", **ns), rest.get("a", **ns),
                     rest.put("d", 4, print="silent", **ns), rest.get("", headers={"if-none-match": rest.get("", **ns).headers["ETag"] or ""}, **ns)):
        assert response.status in (200, 204, 304) and response.headers["Access-Control-Allow-Origin"] == origin
    with Listener(rest, **ns) as listener:
        assert listener.headers["Access-Control-Allow-Origin"] == origin
        assert listener.next().change == ("put", "/", {"a": 1, "b": 2, "d": 4})
    with RealtimeClient(closed.port, ns=ns["ns"], headers=headers) as client:
        client.put("/e", 5)
    assert rest.value("e", **ns) == 5


def test_what_is_no_page_needs_no_origin(closed):
    ns = f"pages-{secrets.token_hex(6)}"
    for host in (f"localhost:{closed.port}", "LOCALHOST", "localhost.:80", "127.0.0.1", "127.8.8.8:1", "[::1]:9000", "[0::1]", "10.0.2.2:9000"):
        response = closed.rest.put("a", host, headers={"Host": host}, ns=ns)
        assert response.status == 200 and response.headers["Access-Control-Allow-Origin"] is None, host
    with raw_connection(closed.port) as plain:
        plain.sendall(b"GET /x.json HTTP/1.0\r\n\r\n")
        assert answer_or_close(plain) == 200
    # Long polling uses scripts: for a page on this machine, a browser sends no more headers than these.
    for said in ({}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
                 {"Sec-Fetch-Site": "cross-site", "Referer": "http://localhost:3000/"}):
        assert closed.rest.send("GET", "/.lp?start=t&cb=1&v=5", headers=said).status == 200, said
    polling = PollingClient(closed.port, ns=ns)
    assert polling.id


def test_names_of_namespaces_below_localhost(closed):
    ns = f"pages-{secrets.token_hex(6)}"
    for number, host in enumerate((f"{ns}.localhost:{closed.port}", f"{ns}.localhost", f"{ns}.LOCALHOST:1", f"{ns}.localhost.")):
        assert closed.rest.put("a", number, headers={"Host": host}).status == 200
        assert closed.rest.value("a", ns=ns) == number
        with WebSocket(closed.port, "/.ws?v=5", {"Host": host, "Origin": "http://localhost:3000"}).opened() as socket:
            assert host in socket.receive()[1].decode()


@pytest.mark.parametrize("head", [
    "GET http://evil.example/x.json HTTP/1.1\r\nHost: localhost", "GET http://localhost/x.json HTTP/1.1\r\nHost: evil.example",
    "GET http://localhost@evil.example/x.json HTTP/1.1\r\nHost: localhost", "GET /x.json HTTP/1.1\r\nHost: localhost@evil.example",
    "GET /x.json HTTP/1.1\r\nHost: ", "GET /x.json HTTP/1.1\r\nHost: localhost evil.example", "GET /x.json HTTP/1.0\r\nHost: evil.example",
    "GET /x.json HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example",
    "GET /x.json HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost http://evil.example", "GET /x.json HTTP/1.1\r\nHost: localhost\r\nOrigin:",
    "CONNECT localhost:9000 HTTP/1.1\r\nHost: evil.example"])
def test_forms_that_could_hide_a_name(closed, head):
    with raw_connection(closed.port) as plain:
        plain.sendall(head.encode() + b"\r\n\r\n")
        assert answer_or_close(plain) in (400, 403)


def test_absolute_targets_of_this_machine(closed):
    with raw_connection(closed.port) as plain:
        responses = Responses(plain)
        for target in ("http://localhost:9000/x.json", "HTTP://127.0.0.1/x.json"):
            plain.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost:9000\r\n\r\n".encode())
            status, _, body = responses.next()
            assert (status, json.loads(body)) == (200, "kept")


@pytest.mark.parametrize("how", ["flag", "environment", "file"])
def test_allow_origin(scratch, logs, how):
    origins = ["https://app.test", "http://*.lan.test:3000"]
    options, env = [], {}
    if how == "flag":
        options = [word for origin in origins for word in ("--allow-origin", origin)]
    elif how == "environment":
        env = {"PATHMIRROR_ALLOW_ORIGIN": ",".join(origins)}
    else:
        (scratch / "config").write_text("".join(f"allow-origin = {origin}\n" for origin in origins))
        options = ["--config", scratch / "config"]
    gateway = start_dev(scratch / "data", logs, None, *options, env=env)
    try:
        for origin in ("https://app.test", "http://ns.lan.test:3000", "http://localhost:1"):
            response = gateway.rest.put("a", 1, headers={"Origin": origin})
            assert response.status == 200 and response.headers["Access-Control-Allow-Origin"] == origin
            with WebSocket(gateway.port, "/.ws?v=5", {"Origin": origin}).opened():
                pass
        for origin in ("http://app.test", "https://app.test:444", "http://lan.test:3000", "http://ns.lan.test", "null"):
            assert gateway.rest.put("a", 1, headers={"Origin": origin}).status == 403
            with pytest.raises(Rejected) as rejected:
                WebSocket(gateway.port, "/.ws?v=5", {"Origin": origin}).opened()
            assert rejected.value.status == 403
        for host, status in (("app.test:9000", 200), ("ns.lan.test", 200), ("other.test", 403)):
            assert gateway.rest.get("a", headers={"Host": host}, ns="default").status == status
    finally:
        gateway.stop()


def test_null_only_where_it_is_asked_for(scratch, logs):
    gateway = start_dev(scratch / "data", logs, None, "--allow-origin", "null")
    try:
        response = gateway.rest.put("a", 1, headers={"Origin": "null"})
        assert response.status == 200 and response.headers["Access-Control-Allow-Origin"] == "null"
        assert gateway.rest.put("a", 1, headers={"Origin": EVIL}).status == 403
    finally:
        gateway.stop()


def test_serve_answers_every_page_unless_it_is_told_which(serve):
    gateway = serve()
    for headers in ({"Origin": EVIL}, {"Origin": "null"}, {}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "any.thing"}):
        response = gateway.rest.put("a", 1, headers=headers, ns="default")
        assert response.status == 200 and response.headers["Access-Control-Allow-Origin"] == "*", headers
    # These endpoints need no credential.
    assert gateway.rest.send("GET", "/.metrics", headers={"Origin": EVIL}).headers["Access-Control-Allow-Origin"] is None


def test_serve_keeps_to_its_list(serve):
    rest = serve("--allow-origin", "https://app.test").rest
    response = rest.put("a", 1, headers={"Origin": "https://app.test", "Host": "db.test"})
    assert response.status == 200 and response.headers["Access-Control-Allow-Origin"] == "https://app.test"
    # Programs, by any host name; some of them send the gateway's own address.
    for headers in ({"Host": "db.test"}, {"Host": "db.test", "Origin": "https://db.test"}):
        assert rest.get("a", headers=headers).status == 200
    for headers in ({"Origin": EVIL}, {"Origin": "null"}, {"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "cross-site"}):
        response = rest.put("a", 2, headers=headers, auth=SECRET)
        assert response.status == 403 and response.headers["Access-Control-Allow-Origin"] is None
    with pytest.raises(Refused) as refused:
        Listener(rest.at("a"), headers={"Origin": EVIL})
    assert refused.value.status == 403
    assert rest.value("a") == 1


@pytest.mark.parametrize("value", ["*", "app.test", "http://app.test/path", "https://app.test,", "http://ä.test", "https://*.127.0.0.1"])
def test_wrong_values_are_wrong_usage(value):
    for command in (["dev"], ["serve", "--database-url", "postgresql:///x"]):
        wrong = cli.command(*command, "--allow-origin", value)
        assert wrong.returncode == 2 and "--allow-origin" in wrong.stderr, wrong.stderr
