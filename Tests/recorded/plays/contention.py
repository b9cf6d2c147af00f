"""Logins, rules, onDisconnect, contending transactions: several realtime clients, step by step."""

import time

from harness.gateway import SECRET
from harness.waiting import wait_until
from oracle.hashes import node_hash
from stage import DATABASE_SECRET

NOW = {".sv": "timestamp"}


def play_realtime_auth(player):
    player.rules({"rules": {"mine": {"$uid": {".read": "auth.uid === $uid", ".write": "auth.uid === $uid"}}, "any": {".read": True, ".write": "auth != null"},
                            "team": {".read": "auth.team === 'red'"}}})
    client, other = player.realtime("ws"), player.realtime("other")
    ada, bob = player.custom_token("ada", d={"uid": "ada", "team": "red"}), player.custom_token("bob")
    for action, body in (
            ("q", {"p": "mine/ada", "h": ""}), ("p", {"p": "any", "d": 1}), ("m", {"p": "mine", "d": {"ada": 1}}), ("g", {"p": "team", "q": {}}), ("o", {"p": "any", "d": 1}),
            ("auth", {"cred": "owner"}), ("auth", {"cred": "nonsense"}), ("gauth", {"cred": "nonsense"}), ("auth", {"cred": ada[:-4]}), ("auth", {"cred": ada}),
            ("q", {"p": "mine/ada", "h": ""}), ("q", {"p": "any", "h": ""}), ("p", {"p": "mine/ada", "d": {"x": 1}}), ("p", {"p": "mine/bob", "d": 1}), ("p", {"p": "any", "d": 2}),
            ("auth", {"cred": bob}), ("p", {"p": "mine/ada", "d": 2}), ("p", {"p": "mine/bob", "d": 2}), ("g", {"p": "mine/bob", "q": {}}), ("unauth", {}),
            ("g", {"p": "mine/bob", "q": {}}), ("gauth", {"cred": SECRET}), ("g", {"p": "mine", "q": {}}), ("q", {"p": "mine", "h": ""}),
            ("gauth", {"cred": SECRET, "authvar": {"uid": "ada"}}), ("p", {"p": "mine/ada", "d": 3}), ("p", {"p": "mine/bob", "d": 3}), ("gauth", {"cred": SECRET, "noauth": True}),
            ("p", {"p": "any", "d": 3}), ("auth", {"cred": DATABASE_SECRET}), ("p", {"p": "any", "d": 4}), ("auth", {"cred": "wrong"}), ("p", {"p": "any", "d": 5})):
        client.call(action, body)
    now = int(time.time())
    for claims in ({"v": 0, "iat": now - 100, "exp": now - 50, "d": {"uid": "ada"}}, {"v": 0, "iat": now + 5000, "d": {"uid": "ada"}}, {"v": 0, "iat": now, "nbf": now + 5000, "d": {"uid": "ada"}},
                   {"v": 0, "iat": now, "admin": True, "d": {"uid": "x"}}, {"v": 1, "iat": now, "d": {"uid": "x"}}, {"v": 0, "iat": now, "exp": now + 500, "d": {"uid": "eve", "more": [1]}}):
        other.call("auth", {"cred": player.token(claims)})
    # New rules end listens at once.
    other.call("q", {"p": "any", "h": ""})
    other.call("q", {"p": "any", "q": {"l": 1}, "t": 7, "h": ""})
    player.rules({"rules": {".write": True}})
    other.expect_in_any_order(2)
    other.call("p", {"p": "any", "d": 6})


def play_realtime_cancel(player):
    player.rules({"rules": {".write": True, "room": {".read": "data.child('open').val() === true"}, "far": {".read": "root.child('switch').val() === true"},
                            "list": {".read": "query.limitToLast <= 10 && query.orderByKey"}}})
    client, other = player.realtime("ws"), player.realtime("other")
    other.call("p", {"p": "", "d": {"room": {"open": True, "text": "hello"}, "switch": True, "far": 1, "list": {"a": 1, "b": 2}}})
    for body in ({"p": "room", "h": ""}, {"p": "far", "h": ""}, {"p": "list", "h": ""}, {"p": "list", "q": {"i": ".key", "l": 11, "vf": "r"}, "t": 1, "h": ""},
                 {"p": "list", "q": {"i": ".key", "l": 1, "vf": "r"}, "t": 2, "h": ""}):
        client.call("q", body)
    other.call("p", {"p": "list/c", "d": 3})
    client.message()
    other.call("p", {"p": "room/open", "d": False})
    client.message()
    other.call("p", {"p": "switch", "d": False})
    client.message()
    other.call("p", {"p": "room/text", "d": "secret"})
    client.ping()
    other.call("m", {"p": "", "d": {"room/open": True, "switch": True}})
    client.call("q", {"p": "room", "h": ""})
    client.call("q", {"p": "far", "h": ""})


def play_realtime_on_disconnect(player):
    watcher = player.realtime("watcher")
    watcher.call("q", {"p": "here", "h": ""})
    for how in ("close", "drop", "garbage", "binary"):
        client = player.realtime("client")
        client.call("p", {"p": "here", "d": {"on": True, "count": 1, "how": how}})
        watcher.message()
        for action, body in (("o", {"p": "here/on", "d": None}), ("o", {"p": "/here/count", "d": {".sv": {"increment": 2}}}), ("om", {"p": "here", "d": {"a/b": 1, "c": [1, 2]}}),
                             ("o", {"p": "here/t", "d": {".value": NOW, ".priority": 3}}), ("o", {"p": "here/not", "d": 1}), ("oc", {"p": "here/not"}), ("om", {"p": "here/x", "d": {"y": 1, "y/z": 2}}),
                             ("o", {"p": "here/bad", "d": {"a.b": 1}}), ("oc", {"p": "none"})):
            client.call(action, body)
        if how == "close":
            client.leave()
        elif how == "drop":
            client.close()
        elif how == "garbage":
            client.text("nonsense")
        else:
            client.text(b"\0", 2)
        watcher.expect(4)
    # A client that reconnects ends its old session first.
    old = player.realtime("old")
    old.call("o", {"p": "here", "d": "gone"})
    new = player.realtime("new", f"/.ws?v=5&ls={old.session}")
    new.call("p", {"p": "here", "d": "new"})
    watcher.expect(2)
    while old.frame()[0] != -1:
        pass
    # The gateway omits those that the rules deny at the end.
    client = player.realtime("denied")
    client.call("o", {"p": "here/x", "d": 1})
    client.call("o", {"p": "here/y", "d": 2})
    player.rules({"rules": {".read": True, ".write": True, "here": {"x": {".validate": "false"}}}})
    client.call("o", {"p": "here/x", "d": 3})
    client.leave()
    watcher.message()
    new.call("g", {"p": "here", "q": {}})
    player.sql("select op, path, changes::text, origin->>'via' from pathmirror.log l join pathmirror.namespace n on n.id = l.namespace_id "
               "where n.name = 'realtime-on-disconnect' and op = 'onDisconnect' order by seq")


def play_realtime_transactions(player):
    """Transactions that contend for a path, on a gateway whose slots do not end by timeout."""
    patient = player.serve(tune="transaction-slot=60s", name="patient", own_database=True)

    def client(who: str):
        return player.realtime(who, gateway=patient, host="127.0.0.1")

    def put(one, path: str, value, over):
        return one.ask("p", {"p": path, "d": value, "h": node_hash(over)})

    def waiting(count: int):
        wait_until(lambda: patient.metric("pathmirror_transactions_waiting") == count, f"{count} transactions to wait")
        player.note(f"{count} wait")

    first, second, third, fourth = (client(who) for who in ("first", "second", "third", "fourth"))
    fourth.call("q", {"p": "x", "h": ""})
    first.call("p", {"p": "x", "d": 0})
    first.until(put(first, "x", "no", over="else"))
    seconds = put(second, "x", 2, over=1)
    waiting(1)
    thirds = put(third, "x", 3, over=2)
    waiting(2)
    first.until(put(first, "x", "no", over="else again"))
    first.until(put(first, "x", 1, over=0))
    second.until(seconds)
    third.until(thirds)
    waiting(0)
    fourth.expect(4)
    # Not in its slot, but the client has sent another request: executed at once.
    first.until(put(first, "x", "no", over="else"))
    seconds = put(second, "x", 4, over=3)
    waiting(1)
    second.call("p", {"p": "y", "d": 1})
    seconds = put(second, "x", "no", over="else")
    waiting(1)
    thirds = put(third, "x", 5, over=4)
    waiting(2)
    second.call("s", {"c": {}})
    third.call("g", {"p": "x", "q": {}})
    # Plain writes and other paths do not wait.
    fourth.call("p", {"p": "x", "d": "plain"})
    fourth.until(put(fourth, "x/deeper", 1, over=None))
    fourth.until(put(fourth, "z", 1, over=None))
    first.close()
    second.until(put(second, "x", 6, over={"deeper": 1}))
    waiting(0)
    # A gateway that stops executes the waiting transactions.
    third.until(put(third, "x", "no", over="else"))
    seconds = put(second, "x", 7, over=6)
    waiting(1)
    patient.process.send(15)
    second.until(seconds)
    while second.frame()[0] != -1:
        pass
    patient.stop()
    player.output(patient)


def play_realtime_two_gateways(player):
    """Clients of two gateways: the same writes in the same order at both."""
    url = player.database("the database of both")
    quick = ["--dead-after", "2500ms"]
    near, far = (player.serve(*quick, name=name, url=url) for name in ("near", "far"))
    here, there = (player.realtime(name, gateway=gateway, host="127.0.0.1") for name, gateway in (("here", near), ("there", far)))
    for client in (here, there):
        client.call("q", {"p": "x", "h": ""})
    for number in range(3):
        here.call("p", {"p": "x/here", "d": number})
        there.message()
        there.call("m", {"p": "x", "d": {"there": number, "here": None}})
        here.message()
    # The other gateway ends a session of the first one.
    here.call("o", {"p": "x/left", "d": True})
    back = player.realtime("back", f"/.ws?v=5&ls={here.session}", gateway=far, host="127.0.0.1")
    back.call("p", {"p": "x/back", "d": True})
    for client in (there, here):
        client.expect(2)
    # A gateway that dies: the other executes the onDisconnect writes of its clients.
    watcher = player.realtime("watcher", gateway=near, host="127.0.0.1")
    watcher.call("q", {"p": "x", "h": ""})
    there.call("o", {"p": "x/died", "d": 1})
    far.process.kill()
    watcher.message()


def play_realtime_slow(player):
    """Silent clients: pings, and the end."""
    strict = player.serve("--session-timeout", "900ms", name="strict", own_database=True)
    client = player.realtime("ws", gateway=strict, host="127.0.0.1")
    client.call("o", {"p": "gone", "d": True})
    while client.frame()[0] != -1:
        pass
    other = player.realtime("other", gateway=strict, host="127.0.0.1")
    other.call("g", {"p": "gone", "q": {}})
