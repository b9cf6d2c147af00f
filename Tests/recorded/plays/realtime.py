"""The realtime protocol over WebSockets: requests, pushes, their order; queries; hashes; several clients."""

import json

from oracle.hashes import node_hash
from oracle.ranges import compound
from wires.realtime import PING, compact, frame

NOW = {".sv": "timestamp"}


def plus(number) -> dict:
    return {".sv": {"increment": number}}


def play_realtime_handshake(player):
    for target, headers in (
            ("/.ws?v=5", {}), ("/.ws?v=5&p=1:1:web:1&ac=junk", {}), ("/.ws?v=5&ls=notasession", {}), ("/.ws?v=5&ls=" + "x" * 3000, {}), ("/.ws?v=5&ns=other-space", {}),
            ("/.ws?v=5&s=unknown", {}), ("/.ws?v=5", {"Host": "db.example.com:8443"}), ("/.ws?v=5", {"Origin": "https://app.example"}),
            ("/.ws?v=5", {"Sec-WebSocket-Protocol": "chat"}), ("/.ws?v=5", {"Sec-WebSocket-Extensions": "permessage-deflate"}),
            ("/.ws?v=4", {}), ("/.ws", {}), ("/.ws?v=5", {"Sec-WebSocket-Key": None}), ("/.ws?v=5", {"Sec-WebSocket-Key": "short"}),
            ("/.ws?v=5", {"Sec-WebSocket-Version": "8"}), ("/.ws?v=5", {"Upgrade": "h2c"}), ("/.ws?v=5", {"Upgrade": None}), ("/.ws?v=5&ns=a/b", {}),
            ("/.ws?v=5&ns=" + "n" * 2000, {}), ("/.ws/x?v=5", {}), ("/.ws?v=5&ls=%zz", {})):
        client = player.realtime("ws", target, headers, greeted=False)
        if client.isUpgraded:
            client.message()
            client.leave()
        client.close()
    web = player.http()
    web.ask("POST", "/.ws?v=5", "x", {"Upgrade": "websocket", "Connection": "Upgrade"})
    label = player.serve("--session-label", "ab12", name="label", own_database=True)
    client = player.realtime("labelled", gateway=label, host="127.0.0.1")
    player.transcript.event("labelled", f"the id begins with {client.session[:4]}")
    client.leave(1001)


def play_realtime_below(player):
    """Keep-alives, pings, segments, fragments, closes."""
    client = player.realtime("ws")
    client.ping()
    for text in ("0", "0", '{"t":"c","d":{"t":"a","d":{}}}', '{"t":"c","d":{"t":"n","d":{}}}', '{"t":"c","d":{"t":"zz","d":{}}}'):
        client.text(text)
    client.text(b"abc", PING)
    client.frame()
    client.text(b"", PING)
    client.frame()
    for length in (0, 16300, 16384, 16385, 20000, 49152, 100_000):
        client.call("p", {"p": "long", "d": "x" * length + "é"})
        client.call("g", {"p": "long", "q": {}})
    client.call("q", {"p": "long", "h": ""})
    for shift in ("", "a", "é"):
        client.call("p", {"p": "long", "d": shift + "🎈" * 30_000})
    text = compact({"t": "d", "d": {"r": 100, "a": "p", "b": {"p": "fragments", "d": "🎈" * 10}}}).encode()
    client.text(text[:50], fin=False)
    client.text(b"", PING)
    client.frame()
    client.text(text[50:97], 0, fin=False)
    client.text(text[97:], 0)
    client.until(100)
    client.text("1")
    client.text(compact({"t": "d", "d": {"r": 101, "a": "s", "b": {}}}))
    client.until(101)
    text = compact({"t": "d", "d": {"r": 102, "a": "echo", "b": {"d": "pieces"}}})
    client.text(str(len(text) + 1))
    for character in text:
        client.text(character)
    client.text("")
    client.until(102)
    for number in (0, 1, 2147483647, 7, -1):
        client.say({"t": "d", "d": {"r": number, "a": "s", "b": {"c": {"sdk.js.12-0-0": 1}}}})
        client.until(number)
    # Many requests in one packet
    client.write(b"".join(_frame({"t": "d", "d": {"r": 200 + n, "a": "p", "b": {"p": f"many/k{n}", "d": n}}}) for n in range(10)))
    client.until(209)
    client.leave()


def _frame(message) -> bytes:
    return frame(compact(message).encode())


def play_realtime_bad_input(player):
    texts = ["", "nonsense", "[]", "null", "{}", '{"t":"d"}', '{"t":"d","d":5}', '{"t":5,"d":{}}', '{"t":"x","d":{}}', '{"t":"d","d":{}}',
             '{"t":"d","d":{"r":"1","a":"s","b":{}}}', '{"t":"d","d":{"r":1.5,"a":"s","b":{}}}', '{"t":"d","d":{"r":1,"b":{}}}', '{"t":"d","d":{"r":1,"a":7,"b":{}}}',
             '{"t":"c","d":{}}', '{"t":"c","d":{"t":7}}', '{"t":"d"} trailing', '"text"', "\ufeff{}", "[" * 16000, "-1", "99999", "2", "000001", "1000000"]
    for text in texts:
        client = player.realtime("ws")
        client.text(text)
        client.text(compact({"t": "d", "d": {"r": 9, "a": "echo", "b": {"d": 1}}}))
        client.until(9) if text not in ("2", "99999", "000001", "1000000") else None
        client.close()
    for name, data in (("unmasked", frame(b"{}", mask=None)), ("binary", frame(b"x", 2)), ("reserved opcode", frame(b"x", 3)), ("reserved control", frame(b"x", 11)),
                       ("long ping", frame(b"x" * 200, PING)), ("ping in parts", frame(b"x", PING, fin=False)), ("not UTF-8", frame(b'"\xff"')),
                       ("continuation of nothing", frame(b"x", 0)), ("text in text", frame(b"x", fin=False) + frame(b"y")), ("reserved bits", b"\xf1" + frame(b"x")[1:]),
                       ("one byte of a close", frame(b"\x03", 8)), ("a bad close code", frame(b"\x03\xec", 8)), ("a close without a code", frame(b"", 8)),
                       ("a close with a reason", frame(b"\x03\xe8bye", 8))):
        client = player.realtime("ws")
        client.transcript.sent("ws", f"[{name}]".encode())
        client.write(data)
        while client.frame()[0] != -1:
            pass
    # Requests that are refused by themselves
    client = player.realtime("ws")
    for action, body in (
            ("p", {}), ("p", {"p": 5, "d": 1}), ("p", {"p": "a.b", "d": 1}), ("p", {"p": "a", "d": {"a.b": 1}}), ("p", {"p": "a"}), ("p", {"p": "a", "d": {".sv": "x"}}),
            ("p", {"p": "a", "d": {".sv": {"increment": "1"}}}), ("p", {"p": "a", "d": {"a": {".sv": None}}}), ("p", {"p": "a/.priority", "d": 1}), ("p", {"p": "/".join("a" * 40), "d": 1}),
            ("p", {"p": "a", "d": 1, "h": 5}), ("m", {"p": "a", "d": 1}), ("m", {"p": "a", "d": None}), ("m", {"p": "a", "d": {"x": 1, "x/y": 2}}), ("m", {"p": "a", "d": {"x$": 2}}),
            ("m", {"p": "a", "d": []}), ("q", {}), ("q", {"p": "a", "q": 5}), ("q", {"p": "a", "q": {"i": "x"}, "t": "1"}), ("q", {"p": "a", "q": {"l": 0}}), ("q", {"p": "a", "q": {"l": "x"}}),
            ("q", {"p": "a", "q": {"sp": {}}}), ("q", {"p": "a", "q": {"i": ".other"}}), ("q", {"p": "a", "h": 5}), ("q", {"p": "a", "h": "", "ch": {"hs": "x", "ps": []}}),
            ("q", {"p": "a", "h": "", "ch": {"hs": ["", ""], "ps": []}}), ("q", {"p": "a", "h": "", "ch": {}}), ("g", {}), ("g", {"p": "a", "q": {"i": "n"}}), ("g", {"p": "a"}),
            ("o", {"p": "a"}), ("o", {"p": "a.b", "d": 1}), ("om", {"p": "a", "d": 1}), ("oc", {}), ("auth", {}), ("auth", {"cred": 5}), ("auth", {"cred": ""}), ("gauth", {"cred": "x"}),
            ("unauth", {}), ("s", {}), ("stats", {}), ("nonsense", {}), ("echo", {}), ("echo", {"d": {"a": [1, None, "é"]}}), ("appcheck", {"token": "x"}), ("unappcheck", {}), ("n", {"p": "a"}),
            ("u", {"p": "a"}), ("p", None), ("p", []), ("p", "text")):
        client.call(action, body)
    client.text('{"t":"d","d":{"r":500,"a":"p","b":{"p":"a","d":1},"extra":[1,{"x":null}]},"more":1}')
    client.until(500)
    client.text('{"d":{"b":{"d":1,"p":"a"},"a":"p","r":501},"t":"d"}')
    client.until(501)
    client.text('{"t":"d","d":{"r":502,"a":"p"}}')
    client.text('{"t":"d","d":{"r":503,"a":"p","b":{"p":"a","d":1e400}}}')
    client.until(503)
    client.leave()


def play_realtime_listens(player):
    """Data before answers, own echoes before answers, and the pushes of other clients."""
    own, other, deep = player.realtime("own"), player.realtime("other"), player.realtime("deep")
    own.call("p", {"p": "room", "d": {"a": 1, "in": {"side": {"x": 1}}}})
    for client, path in ((own, "/room"), (other, "room/"), (deep, "room/in/side")):
        client.call("q", {"p": path, "h": ""})
    own.call("q", {"p": "room", "h": ""})
    own.call("q", {"p": "none"})
    own.call("l", {"p": "none/old", "h": ""})
    writes = [
        ("p", {"p": "room", "d": {"a": 1, "b": {"c": 2}, "in": {"side": {"x": 2}}}}), ("p", {"p": "/room/b/c", "d": 3}), ("m", {"p": "room", "d": {"a": None, "b/c": 4, "x/y/z": True}}),
        ("p", {"p": "room/b/c", "d": 4}), ("p", {"p": "room/none", "d": None}), ("m", {"p": "room", "d": {}}), ("m", {"p": "/", "d": {"room/in/side/x": 3, "else": 1}}),
        ("p", {"p": "room/in/side/.priority", "d": 5}), ("p", {"p": "room/.priority", "d": "p"}), ("p", {"p": "room/leaf", "d": {".value": 1, ".priority": 2}}),
        ("p", {"p": "room/leaf/child", "d": 1}), ("p", {"p": "room/leaf/child", "d": None}), ("m", {"p": "room", "d": {"t": NOW, "n": plus(2), "deep": {"t": NOW, "n": plus(-1.5)}}}),
        ("p", {"p": "room/n", "d": plus(0.5)}), ("p", {"p": "room/list", "d": [1, None, [2]]}), ("p", {"p": "room/in", "d": "leaf"}), ("p", {"p": "room/é/🎈", "d": "\u2028<>&'\"\\/\u0000"}),
        ("p", {"p": "room/in/side/x", "d": 9}), ("p", {"p": "room", "d": None}), ("p", {"p": "", "d": {"room": {"in": {"side": {"x": 10}}}}}), ("m", {"p": "room", "d": {"in": None}}),
    ]
    for number, (action, body) in enumerate(writes):
        own.call(action, body)
        mark = f"mark{number}"
        own.call("m", {"p": "room", "d": {"mark": mark, "in/side/mark": mark}})
        for client in (other, deep):
            _until(client, mark)
    own.call("n", {"p": "room"})
    own.call("p", {"p": "room/in/side/x", "d": "after"})
    _until(deep, "after")
    # Several writes at once: pushes in order, then answers in order.
    own.call("q", {"p": "room", "h": ""})
    last = [own.ask("p", {"p": f"room/at/once{number}", "d": number}) for number in range(5)][-1]
    own.gather(lambda message: message["d"].get("r") == last, lambda message: (message["d"].get("r", 0), message["d"].get("b", {}).get("p", "")))
    own.leave()
    own = player.realtime("again")
    own.call("g", {"p": "room", "q": {}})
    own.call("g", {"p": "none", "q": {}})


def _until(client, mark: str):
    """Messages up to one with this text."""
    while True:
        message = client.message()
        if message is None or mark in json.dumps(message):
            return


def play_realtime_windows(player):
    """Listens with queries and tags."""
    player.rules({"rules": {".read": True, ".write": True, "list": {".indexOn": ["n", "rank/n", ".value"]}}})
    own, other = player.realtime("own"), player.realtime("other")
    own.call("p", {"p": "list", "d": {f"k{number}": {"n": number, "rank": {"n": 9 - number}, ".priority": number % 3} for number in range(8)}})
    queries = [{"i": ".key", "l": 2, "vf": "r"}, {"i": ".key", "l": 2}, {"i": "n", "sp": 3, "ep": 5}, {"i": "rank/n", "sp": 3, "sin": False, "l": 2}, {"i": ".value", "sp": "x", "ep": "x"},
               {"l": 3, "vf": "r"}, {"sp": 1, "ep": 1}, {"i": ".key", "sp": "k3", "ep": "k5", "ein": False}, {"i": "n"}, {"i": ".key"}, {"i": "n", "sp": 4, "sn": "k4", "l": 1, "vf": "l"},
               {"i": "unindexed", "sp": 1}, {"i": ".key", "sp": "[MIN_NAME]", "ep": "[MAX_NAME]", "l": 1}]
    for tag, query in enumerate(queries, 1):
        other.call("q", {"p": "list", "q": query, "t": tag, "h": ""})
        other.call("g", {"p": "list", "q": query})
    for number, (action, body) in enumerate((
            ("p", {"p": "list/k9", "d": {"n": 4, "rank": {"n": 4}}}), ("p", {"p": "list/k9", "d": None}), ("p", {"p": "list/k3/n", "d": 100}), ("p", {"p": "list/k3/rank/n", "d": 3.5}),
            ("p", {"p": "list/k4/.priority", "d": 9}), ("m", {"p": "list", "d": {"k7": None, "k6": None, "z": "x", "k0/more": 1}}), ("p", {"p": "list/k5/rank", "d": "text"}),
            ("p", {"p": "list", "d": "leaf"}), ("p", {"p": "list", "d": {"k4": {"n": 4}, "a": "x", "zz": {"rank": {"n": 4}, ".priority": 1}}}))):
        own.call(action, body)
        # Every window has the newest data when this one has.
        own.call("p", {"p": "mark", "d": number})
        other.call_in_any_order("g", {"p": "mark", "q": {}})
    for tag, query in enumerate(queries[:6], 1):
        other.call("n", {"p": "list", "q": query, "t": tag})
    own.call("p", {"p": "list/k1", "d": {"n": 4}})
    own.call("p", {"p": "list", "d": None})
    other.call_in_any_order("g", {"p": "list", "q": {}})


def play_realtime_hashes(player):
    client = player.realtime("ws")
    trees = {"leaf": "text", "tree": {"a": 1, "b": {"c": {".value": True, ".priority": 2}}}, "list": {f"k{n}": {"n": n, "t": "x" * n} for n in range(12)}}
    for path, tree in trees.items():
        client.call("p", {"p": path, "d": tree})
        for given in ("", "badhash", node_hash(tree)):
            client.call("q", {"p": path, "h": given})
            client.call("n", {"p": path})
    client.call("q", {"p": "none", "h": ""})
    query = {"i": ".key", "l": 3, "vf": "r"}
    window = {key: trees["list"][key] for key in sorted(trees["list"])[-3:]}
    client.call("q", {"p": "list", "q": query, "t": 4, "h": node_hash(window)})
    client.call("q", {"p": "list", "q": query, "t": 5, "h": "other"})
    # Compound hashes: the ranges that differ
    held = dict(trees["list"]) | {"k3": {"n": 3, "t": "old"}, "k30": {"n": 0}}
    del held["k7"]
    posts = [("k1", "t"), ("k3", "t"), ("k5", "n"), ("k9", "t")]
    for given in (held, trees["list"], {"other": 1}, "leaf"):
        own = posts if isinstance(given, dict) and "k1" in given else [("other",)] if isinstance(given, dict) else [()]
        client.call("q", {"p": "list", "h": node_hash(given), "ch": compound(given, own)})
        client.call("n", {"p": "list"})
    client.call("q", {"p": "list", "h": "", "ch": {"hs": [""], "ps": []}})
    client.call("q", {"p": "gone", "h": node_hash({"a": 1}), "ch": compound({"a": 1}, [("a",)])})
    client.call("q", {"p": "leaf", "h": node_hash("old"), "ch": compound("old", [()])})
    # Puts with a hash
    for body in ({"p": "t", "d": 1, "h": ""}, {"p": "t", "d": 2, "h": ""}, {"p": "t", "d": 2, "h": "badhash"}, {"p": "t", "d": {"a": 1}, "h": node_hash(1)},
                 {"p": "t/deep/er", "d": plus(2), "h": ""}, {"p": "t", "d": None, "h": node_hash({"a": 1, "deep": {"er": 2}})}):
        client.call("p", body)
    client.call("m", {"p": "t", "d": {"x": 1}, "h": "badhash"})
    client.call("m", {"p": "t", "d": {"x": 1}, "h": ""})
    other = player.realtime("other")
    client.call("q", {"p": "t", "h": ""})
    other.call("p", {"p": "t", "d": "newer"})
    client.call("p", {"p": "t", "d": "mine", "h": node_hash({"x": 1})})
    client.call("p", {"p": "t", "d": "mine", "h": node_hash("newer")})


def play_realtime_large(player):
    """Long and large writes, read back in segments, received by streams and clients."""
    client, other = player.realtime("ws"), player.realtime("other")
    other.call("q", {"p": "big", "h": ""})
    stream = player.events("stream", "/big.json")
    stream.expect()
    client.call("p", {"p": "big", "d": {f"key{number:05}": {"n": number, "text": f"text {number}"} for number in range(2500)}})
    other.message()
    stream.expect()
    client.call("p", {"p": "big", "d": "x" * 2_000_000})
    other.message()
    stream.expect()
    client.call("m", {"p": "big", "d": {f"k{number}": number for number in range(21_000)}})
    other.message()
    stream.expect()
    client.call("p", {"p": "big", "d": "y" * ((10 << 20) + 1)})
    client.call("g", {"p": "big", "q": {"i": ".key", "l": 2}})
    client.call("p", {"p": "big", "d": None})
    other.message()
    stream.expect()


