"""Callers do not learn data that the rules forbid: by streams, nearby changes, seqs, sizes, settings, and requests without credentials."""

import http.client
import json
import re
from urllib.parse import quote

import pytest
from disclosure.rest_rows import Row
from disclosure.verdicts import READS, REFUSED, judge
from disclosure.worlds import CALLERS, MARKS, PLACE, SECRET_PATH, VALUES, plain
from harness.gateway import SECRET
from harness.issuer import legacy
from harness.rest import ordered, query_string
from harness.sse import Listener
from harness.websocket import Rejected
from harness.websocket_client import RealtimeClient
from test_disclosure_rest import is_denial

BY_ID = {caller.name: caller for caller in CALLERS}


# Streams

STREAMS = [
    Row("stream", READS),
    Row("stream above", READS, path=PLACE),
    Row("stream of a child", READS, path=f"{SECRET_PATH}/asked"),
    Row("stream in export form", READS, params={"format": "export"}),
    Row("stream by key", READS, params=ordered(orderBy="$key", equalTo="asked")),
    Row("stream by a declared index", READS, params=ordered(orderBy="rank", startAt=5)),
    Row("stream by no index", REFUSED, params=ordered(orderBy="colour", startAt=5)),
    Row("stream from the beginning", READS, headers={"Last-Event-ID": "0"}),
    Row("stream from before the value", READS, headers={"Last-Event-ID": "1"}),
    Row("stream of what is to come", REFUSED, headers={"Last-Event-ID": "head"}),
]


def follow(world, row, caller) -> tuple:
    """A stream in the form of a REST exchange with its first event. A caller that may not get events causes one to check the silence."""
    headers = {"Accept": "text/event-stream", **row.headers}
    resumed = headers.get("Last-Event-ID") == "head"
    if resumed:
        with Listener(world.rest.at(row.path)) as listener:
            headers["Last-Event-ID"] = getattr(listener.next().id, "text", str(world.base))
    connection = http.client.HTTPConnection("127.0.0.1", world.gateway.port, timeout=20)
    try:
        params = {"ns": world.ns, **row.params, **caller.params}
        connection.request("GET", f"/{quote(row.path)}.json?{query_string(params)}", None, headers)
        answer = connection.getresponse()
        seen = {name: value for name, value in answer.headers.items() if name != "Date"}
        if answer.headers["Content-Type"].startswith("text/event-stream"):
            if resumed:
                world.rest.set(SECRET_PATH, "changed")
            body = ""
            while not body.endswith("\n\n"):
                line = answer.readline().decode()
                assert line, body
                # The rest of an id is a signature.
                body += f"id: +{int(line[4:].partition('-')[0]) - world.base}\n" if line.startswith("id: ") else line
        else:
            body = answer.read().decode()
    finally:
        connection.close()
    if "X-Pathmirror-Seq" in seen:
        seen["X-Pathmirror-Seq"] = f"+{int(seen['X-Pathmirror-Seq']) - world.base}"
    return answer.status, sorted(seen.items()), plain(body, world), answer.will_close


@pytest.mark.parametrize("caller", CALLERS, ids=repr)
@pytest.mark.parametrize("row", STREAMS, ids=repr)
def test_streams(worlds, row, caller):
    seen = {}
    for name, world in worlds.items():
        seen[name] = follow(world, row, caller)
        # An administrator may read the past. Other callers get the current value for every id, forged ones included.
        assert caller.administers or "before" not in seen[name][2], seen[name]
        world.restore()
    judge(row.needs, caller, seen, f"{row.headers} {row.params}", is_denial)


@pytest.mark.parametrize("door", ["stream", "socket"])
def test_changes_beside_what_a_listener_may_read(worlds, door):
    """One write changes both parts: a listener gets only its part."""
    sibling, kinds = BY_ID["sibling"], set()
    for name, world in worlds.items():
        change = {f"{SECRET_PATH}/deep": VALUES["other"], "side/mine": 1, f"{PLACE}/{VALUES['other']}": name}
        if door == "stream":
            with Listener(world.rest.at("side", **sibling.params)) as listener:
                listener.next()
                world.rest.patch("", change)
                world.rest.set(SECRET_PATH, VALUES["known"])
                world.rest.set("", {**world.tree, "side": {"mine": 2}})
                events = [listener.next(), listener.next()]
                kinds.add(json.dumps([(event.kind, event.text, event.id - world.base) for event in events]))
        else:
            with RealtimeClient(world.gateway.port, world.ns) as client:
                sibling.log_in(client)
                client.listen("side")
                world.rest.patch("", change)
                world.rest.set(SECRET_PATH, VALUES["known"])
                world.rest.set("", {**world.tree, "side": {"mine": 2}})
                pushes = [client.push(), client.push()] + client.pushed()
                kinds.add(json.dumps(pushes, sort_keys=True))
        world.restore()
    assert len(kinds) == 1, kinds
    assert not any(mark in kind for kind in kinds for mark in MARKS), kinds


# Seqs

@pytest.mark.parametrize("caller", [caller for caller in CALLERS if not caller.reads], ids=repr)
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_how_many_entries_there_are_is_not_told_by_waiting_for_one(worlds, caller, accept):
    """A caller that the rules refuse for all data is refused at once: a wait would reveal that an entry does not exist yet."""
    world = worlds["known"]
    kinds = set()
    for seq in (0, 1, world.base, world.base + 1, world.base + 10**6):
        # The gateway waits for up to 10 s for an entry.
        rest = world.gateway.rest.at(SECRET_PATH, ns=world.ns, **caller.params)
        rest.patience = 8
        response = rest.get(headers={"X-Pathmirror-Min-Seq": str(seq), "Accept": accept})
        headers = [pair for pair in response.headers.items() if pair[0] != "Date"]
        assert is_denial((response.status, headers, response.body.decode(), False)), response.body
        kinds.add((response.status, tuple(headers), response.body))
    assert len(kinds) == 1
    assert world.rest.get(SECRET_PATH, headers={"X-Pathmirror-Min-Seq": str(world.base)}).seq == world.base


# Sizes

def test_sizes(serve):
    """`writeSizeLimit` also counts removed data. Only a caller that may write and read gets this error."""
    gateway = serve(rules={"rules": {"vault": {".write": "auth.role === 'writer'"}}}, ns="empty,full")
    rows = {f"k{number:06}": number for number in range(110_000)}
    assert gateway.rest.put("vault/secret", rows, ns="full", auth=SECRET, print="silent").status == 204
    writer = legacy("writer", SECRET, d={"uid": "w", "role": "writer"})
    for caller, expected in ((None, {401}), (legacy("stranger", SECRET), {401}), (SECRET, {200, 400}), (writer, {200})):
        answers = set()
        for ns in ("empty", "full"):
            for path in ("vault", "vault/secret"):
                response = gateway.rest.delete(path, ns=ns, writeSizeLimit="tiny", **({"auth": caller} if caller else {}))
                answers.add((response.status, response.body))
        assert {status for status, _ in answers} == expected and len(answers) == len(expected), answers


# Settings

RULES = [{"rules": {"one": {".read": "auth.uid === 'ada'"}}}, {"rules": {"other": {".write": "auth.uid === 'bob'"}}}]
SETTINGS = [
    ("GET", "", None), ("GET", "format=strict", None), ("PUT", "dryRun=true", b'{"rules":{}}'),
    ("PUT", "dryRun=true", b'{"rules":{".read":"auht"}}'), ("PUT", "", b'{"rules":{".read":true,".write":true}}'),
    ("PUT", "", b"{"), ("PUT", "", b""), ("HEAD", "", None), ("DELETE", "", None), ("POST", "", b"{}")]


def test_settings_are_for_administrators(serve):
    """Other callers learn neither the rules nor whether rules of their own would be valid."""
    gateway = serve(ns="one,two")
    for ns, rules in zip(("one", "two"), RULES):
        response = gateway.rest.send("PUT", f"/.settings/rules.json?ns={ns}&auth={SECRET}", json.dumps(rules).encode())
        assert response.status == 200, response.body
    credentials = [BY_ID[name].params for name in ("anonymous", "stranger", "writer", "reader", "acting")]
    credentials.append({"auth": legacy("x", SECRET, admin=True, scope="data")})
    for method, query, body in SETTINGS:
        for params in credentials:
            seen = set()
            for ns in ("one", "two"):
                response = gateway.rest.send(method, f"/.settings/rules.json?{query}&{query_string({'ns': ns, **params})}", body)
                seen.add((response.status, response.body))
            assert len(seen) == 1, (method, query, params, seen)
            status, text = seen.pop()
            assert status in ((401,) if method in ("GET", "PUT") else (401, 405)), (method, query, params, status, text)
    texts = [gateway.rest.send("GET", f"/.settings/rules.json?ns={ns}&auth={SECRET}").json() for ns in ("one", "two")]
    assert texts == RULES


# Requests without credentials

@pytest.mark.parametrize("target", ["/.metrics", "/.health/live", "/.health/ready", "/.health/", "/.inspect/databases.json",
                                    "/.settings/", "/", "/.info/connected.json"])
def test_no_key_and_no_value_is_told_to_everybody(worlds, target):
    for world in worlds.values():
        # All features have been used, including refused requests.
        for caller in CALLERS:
            world.gateway.rest.at(SECRET_PATH, ns=world.ns, **caller.params).get()
        response = world.gateway.rest.send("GET", f"{target}?ns={world.ns}")
        # Numbers may have any digits; names and labels may not contain keys or values.
        text = re.sub(r"(?m)^(pathmirror_.+) [0-9.e+-]+$", r"\1", response.body.decode())
        shown = [mark for mark in (*MARKS, PLACE, "secret", "stranger", SECRET, SECRET[:12]) if mark in text]
        assert not shown, (target, shown)
    assert VALUES["known"] in worlds["known"].gateway.rest.at(auth=SECRET).get(SECRET_PATH, ns=worlds["known"].ns).body.decode()


def test_how_the_gateway_does_is_for_operators(serve):
    """The figures show the number of values and writes of every namespace. Clients of other machines need administrator rights."""
    rest = serve("--trusted-proxies", "127.0.0.1").rest.with_headers(X_Forwarded_For="203.0.113.9")
    for params in (BY_ID["anonymous"].params, BY_ID["stranger"].params, BY_ID["acting"].params,
                   {"auth": legacy("x", SECRET, admin=True, scope="data")}):
        response = rest.send("GET", f"/.metrics?{query_string(params)}")
        assert (response.status, response.body) == (401, b'{\n  "error" : "Permission denied"\n}\n'), (params, response.body[:200])
    assert rest.send("GET", "/.metrics", headers={"Authorization": "Bearer nonsense"}).status == 401
    assert b"pathmirror_tree_rows" in rest.send("GET", f"/.metrics?auth={SECRET}").body
    ready = rest.send("GET", "/.health/ready")
    assert (ready.status, list(ready.json())) == (200, ["status"]), ready.body
    assert len(rest.send("GET", f"/.health/ready?auth={SECRET}").json()) > 1


@pytest.mark.parametrize("caller", CALLERS, ids=repr)
def test_namespaces_that_are_not_there(worlds, caller):
    """The absence of a namespace is no secret, and all callers get the same answer."""
    gateway = worlds["known"].gateway
    text = {"error": 'There is no namespace "elsewhere" here'}
    for method, headers in (("GET", {}), ("PUT", {}), ("PUT", {"if-match": "x"}), ("DELETE", {"if-match": "null_etag"}),
                            ("GET", {"Accept": "text/event-stream"}), ("GET", {"X-Pathmirror-Min-Seq": "9"})):
        response = gateway.rest.at(ns="elsewhere", **caller.params)._call(
            method, SECRET_PATH, 1, None, headers, {}) if method == "PUT" else gateway.rest.send(
                method, gateway.rest.url(SECRET_PATH, ns="elsewhere", **caller.params), None, headers)
        assert (response.status, response.json()) == (404, text), (method, headers, response.body)
    with pytest.raises(Rejected) as rejected:
        RealtimeClient(gateway.port, "elsewhere").greet()
    assert rejected.value.status == 404
