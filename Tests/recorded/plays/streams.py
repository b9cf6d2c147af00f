"""Server-sent events: first values, changes, queries, cancellation, resumption, keep-alives, conflation."""

import json
import time

from harness.gateway import SECRET
from harness.waiting import wait_until
from stage import ADMIN
from wires.http import Events


def play_streams_first(player):
    """The first events of a stream, and requests that are refused."""
    player.set("tree", {"a": 1, "b": {"c": {".value": 2, ".priority": 3}, "0": "x"}, "l": [1, 2], "text": "é\n\"\u2028"})
    for target in ("/.json", "/tree.json", "/tree/b.json", "/tree/b/c.json", "/tree/none.json", "/tree.json?format=export", "/tree/b/c/.priority.json",
                   "/tree.json?print=pretty", "/tree.json?orderBy=%22$key%22&limitToFirst=1", "/tree.json?orderBy=%22$value%22&equalTo=1", "/tree/l.json"):
        stream = player.events("s", target)
        stream.expect()
        stream.close()
    for target in ("/tree.json?shallow=true", "/tree.json?callback=f", "/tree.json?print=silent", "/tree.json?limitToFirst=0", "/tr.ee.json", "/tree",
                   "/tree.json?auth=wrong", "/tree.json?ns=a/b", "/tree.json?download=x"):
        player.events("refused", target).close()
    for method in ("PUT", "HEAD", "DELETE"):
        web = player.http()
        web.ask(method, "/s.json", "1" if method == "PUT" else None, {"Accept": "text/event-stream", "Connection": "close"})
    for accept in ("text/event-stream, */*", "TEXT/EVENT-STREAM", "text/event-stream;q=0.5", "application/json, text/event-stream"):
        stream = player.events("s", "/tree/a.json", {"Accept": accept, "Connection": "close"})
        stream.expect()
        stream.close()
    stream = player.events("s", "/tree/a.json", {"Accept-Encoding": "gzip", "Origin": "https://app.example"})
    stream.expect()


def play_streams_changes(player):
    """The events of several streams for the same writes, in order."""
    player.set("room", {"a": 1, "deep": {"er": {"x": 1}}})
    web = player.http("writer")
    targets = {"root": "/.json", "room": "/room.json", "deep": "/room/deep.json", "leaf": "/room/deep/er/x.json", "export": "/room.json?format=export",
               "again": "/room.json"}
    streams = {name: player.events(name, target) for name, target in targets.items()}
    for stream in streams.values():
        stream.expect()
    writes = [
        ("PUT", "/room/a.json", "2"), ("PUT", "/room/a.json", "2"), ("PUT", "/room/b.json", '{"x":[1,null,{"y":1}]}'), ("PATCH", "/room.json", '{"a":3,"deep/er/x":2,"b":null}'),
        ("PATCH", "/.json", '{"room/deep/er/x":3,"room/n":1}'), ("DELETE", "/room/deep/er/x.json", None), ("PUT", "/room/deep/er.json", '{"x":{".value":1,".priority":"p"}}'),
        ("PUT", "/room/deep/er/x/.priority.json", "2"), ("PUT", "/room/.priority.json", "1"), ("POST", "/room/list.json", '{"t":{".sv":"timestamp"}}'),
        ("PATCH", "/room/deep.json", '{"er/x":{".sv":{"increment":4}},"other":{"k":true}}'), ("PUT", "/room/deep.json", '"leaf"'), ("PUT", "/room/deep/er/x.json", "5"),
        ("PATCH", "/room.json", "{}"), ("PUT", "/room/deep.json", "null"), ("PUT", "/room.json", '{"all":"new"}'), ("PUT", "/room.json", '{"all":"new"}'),
        ("DELETE", "/room.json", None), ("PUT", "/.json", '{"room":{"a":1,"deep":{"er":{"x":9}}}}'), ("PATCH", "/room.json", '{"a":null,"deep":null}'),
    ]
    for number, (method, target, body) in enumerate(writes):
        web.ask(method, target, body)
        # A write that reaches all streams: earlier events have arrived then.
        mark = f'"mark{number}'
        web.ask("PATCH", "/.json", json.dumps({f"room/mark{number}": number, "room/deep/er/x": f"mark{number}"}))
        for name, stream in streams.items():
            while True:
                events = stream.expect()
                if not events or mark.encode() in events[-1]:
                    break
    for stream in streams.values():
        stream.close()


def play_streams_queries(player):
    player.set("list", {f"k{number}": {"n": number, ".priority": 9 - number} for number in range(6)})
    player.rules({"rules": {".read": True, ".write": True, "list": {".indexOn": ["n", ".value"]}}})
    web = player.http("writer")
    queries = {"first": "orderBy=%22$key%22&limitToFirst=2", "last": "orderBy=%22$key%22&limitToLast=2", "child": "orderBy=%22n%22&startAt=3&endAt=4",
               "value": "orderBy=%22$value%22&equalTo=%22x%22", "priority": "orderBy=%22$priority%22&limitToLast=2&format=export", "whole": "orderBy=%22n%22"}
    streams = {name: player.events(name, f"/list.json?{query}") for name, query in queries.items()}
    for stream in streams.values():
        stream.expect()
    # Each write changes the selection of each stream, or a later one does.
    for method, target, body in (
            ("PUT", "/list/k0.json", "null"), ("PUT", "/list/z.json", '{"n":3.5}'), ("PATCH", "/list.json", '{"k1/n":4,"k3":null,"zz":"x"}'),
            ("PUT", "/list/k4/n.json", "9"), ("PUT", "/list/k2/.priority.json", "100"), ("PUT", "/list/a.json", '"x"'), ("DELETE", "/list.json", None),
            ("PUT", "/list.json", '{"b":"x","c":{"n":4},"d":{".value":"x",".priority":1}}'), ("PUT", "/list.json", '"leaf"')):
        web.ask(method, target, body)
    web.ask("PUT", "/list.json", '{"mark":{"n":3},"mark2":{".value":"x",".priority":5}}')
    for stream in streams.values():
        while (events := stream.expect()) and b"mark" not in events[-1]:
            pass
    player.events("refused", "/list.json?orderBy=%22other%22")
    player.rules({"rules": {".read": True, ".write": True}})
    player.events("no longer", "/list.json?orderBy=%22n%22")


def play_streams_resume(player):
    web = player.http("writer")
    web.ask("PUT", "/r.json", '{"a":1}')
    stream = player.events("first", "/r.json?eventIds=true")
    ids = [Events.id(stream.expect()[0])]
    for number in range(4):
        web.ask("PUT", f"/r/k{number}.json", str(number))
        ids.append(Events.id(stream.expect()[0]))
    web.ask("PATCH", "/.json", '{"elsewhere":1,"r/p":{"q":1}}')
    web.ask("PUT", "/other.json", "1")
    ids.append(Events.id(stream.expect()[0]))
    stream.close()
    seqs = [one.partition("-")[0] for one in ids]
    last = 8

    def resume(who: str, given: str, target: str = "/r.json", headers: dict | None = None):
        nonlocal last
        one = player.events(who, target, {"Last-Event-ID": given, **(headers or {})})
        if one.isStream:
            last += 1
            web.ask("PATCH", "/r.json", json.dumps({"last": last, "p/q": last}))
            while (events := one.expect()) and f"{last}".encode() not in events[-1].partition(b"data:")[2]:
                pass
        one.close()

    for given in ids:
        resume("again", given)
    for given in (seqs[0], seqs[-1], "0", "1", "-1", "x", "", "999-x", f"{seqs[1]}-{'A' * 24}", ids[1] + "x", "99999999999999999999", "7"):
        resume("unsealed", given)
        if len(given) < 3 or given[0] != "9":
            # A future entry: an administrator's request would wait for it.
            resume("admin", given, headers=ADMIN)
    for given in (ids[1], ids[-1]):
        resume("elsewhere", given, "/r/p.json")
        resume("above", given, "/.json")
        resume("export", given, "/r.json?format=export")
        resume("query", given, "/r.json?orderBy=%22$key%22&limitToLast=2")
        resume("parameter", given, f"/r.json?lastEventId={given}")
    # Other rules in between, with no access for the reader.
    player.rules({"rules": {".write": True, ".read": "now > 0"}})
    resume("other rules", ids[2])
    one = player.events("by time", "/r.json?eventIds=true")
    given = Events.id(one.expect()[0])
    one.close()
    resume("by time again", given)
    player.rules({"rules": {".write": True}})
    resume("denied", ids[2])


def play_streams_cancel(player):
    player.rules({"rules": {".write": True, "open": {".read": True}, "flag": {".read": "data.child('on').val() === true"},
                            "auth": {".read": "auth.uid === 'ada'"}, "elsewhere": {".read": "root.child('switch').val() === true"}}})
    web = player.http("writer")
    web.ask("PUT", "/.json", '{"open":1,"flag":{"on":true,"x":1},"auth":1,"switch":true,"elsewhere":1}')
    player.events("denied", "/other.json")
    plain, flag, elsewhere = (player.events(name, f"/{name}.json") for name in ("open", "flag", "elsewhere"))
    for stream in (plain, flag, elsewhere):
        stream.expect()
    web.ask("PATCH", "/flag.json", '{"x":2}')
    flag.expect()
    web.ask("PATCH", "/flag.json", '{"on":false,"x":3}')
    flag.rest()
    web.ask("PUT", "/switch.json", "false")
    elsewhere.rest()
    player.rules({"rules": {".write": True, "open": {".read": False}}})
    plain.rest()


def play_streams_keep_alive(player):
    lively = player.serve(tune="stream-keep-alive=100ms", name="lively", own_database=True)
    stream = player.events("s", "/a.json", gateway=lively, host="127.0.0.1")
    stream.expect(3)
    stream.close()


def play_streams_conflation(player):
    """A stalled reader during many writes: the first and the last events."""
    slow = player.serve("--stream-buffer", "20kB", name="slow", own_database=True)
    stream = Events(player.transcript, "slow", slow.port, "127.0.0.1", receive_buffer=4096)
    player.exits.callback(stream.close)
    stream.open("/x.json")
    stream.expect()
    for number in range(1, 81):
        assert slow.rest.put("x", {"n": number, "text": "x" * 100_000}).status == 200
    wait_until(lambda: slow.metric("pathmirror_conflations_total") > 0, "the stream to be conflated")
    stream.pass_over(b'"n":80,')


def play_streams_two_gateways(player):
    """Writes at one gateway, streams at the other; the ids of one are valid at the other."""
    other = player.serve("--create-namespaces", "--log-format", "json", name="other")
    web, far = player.http("writer"), player.http("far", gateway=other)
    web.ask("PUT", "/r.json", '{"a":1}')
    far.ask("GET", "/r.json", None, {"X-Pathmirror-Min-Seq": "1"})
    here, there = player.events("here", "/r.json?eventIds=true"), player.events("there", "/r.json?eventIds=true", gateway=other)
    for stream in (here, there):
        stream.expect()
    for number in range(3):
        web.ask("PUT", f"/r/k{number}.json", str(number))
        for stream in (here, there):
            stream.expect()
        far.ask("PATCH", "/r.json", json.dumps({f"k{number}": None, "far": number}))
        for stream in (there, here):
            given = Events.id(stream.expect()[0])
    web.ask("PUT", "/r/missed.json", "1")
    for name, gateway in (("resumed here", None), ("resumed there", other)):
        stream = player.events(name, "/r.json", {"Last-Event-ID": given}, gateway=gateway)
        stream.expect()
    # An id that the other gateway has not read yet.
    seq = int(given.partition("-")[0]) + 1
    far.ask("GET", "/r.json", None, {"X-Pathmirror-Min-Seq": str(seq)})
    # Rules from one gateway apply at the other.
    player.rules({"rules": {".write": True}})
    here.rest()
    there.rest()
    far.ask("GET", "/r.json", None, {"X-Pathmirror-Min-Seq": str(seq + 1)})
    other.stop()
    player.output(other)


def play_streams_revoked(player):
    """A token that expires while its stream is open, and a gateway that stops."""
    secret = player.directory / "secret"
    secret.write_text(SECRET[::-1] + "\n")
    secret.chmod(0o600)
    own = player.serve("--database-secret-file", f"default={secret}", "--clock-skew", "0s", name="own", own_database=True,
                       rules={"rules": {"a": {".read": "auth.uid === 'ada'"}, "b": {".read": True}}})
    token = player.token({"v": 0, "iat": int(time.time()) - 10, "exp": int(time.time()) + 3, "d": {"uid": "ada"}}, SECRET[::-1])
    stream = player.events("s", f"/a.json?auth={token}", gateway=own, host="127.0.0.1")
    stream.expect()
    stream.rest()
    player.http(gateway=own, host="127.0.0.1").ask("GET", f"/a.json?auth={token}")
    stream = player.events("stopped", "/b.json", gateway=own, host="127.0.0.1")
    stream.expect()
    own.stop()
    stream.rest()
