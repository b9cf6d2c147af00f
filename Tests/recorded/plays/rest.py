"""REST: writes, reads, queries, tags, errors."""

import gzip
import json
import zlib

from oracle.hashes import etag, node_hash
from stage import ADMIN

PEOPLE = {
    "ada": {"name": "Ada", "born": 1815, "tags": ["maths", "engines"], "rank": {"n": 2}},
    "bob": {"name": "Bob", "born": 1990.5, "rank": {"n": 1}, ".priority": "second"},
    "cy": {"name": "Çy 🎈", "born": "unknown", "rank": {"n": 3}, ".priority": 7},
    "dee": {"name": None, "born": False, "rank": {"n": -1}},
    "10": "ten", "9": "nine", "eve": True, "f": 1.5,
}

BODIES = [
    "1", "-0", "-0.0", "0.5", "1e3", "1.0", "1e400", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "18446744073709551616", "4.9e-324", "1e-7", "123456789.123456789", "true", "false", "null", '""', '"a"', '"é€🎈"', r'"\u00e9\ud83c\udf88"',
    r'"\u0000"', r'"\ud800"', '"\t"', r'"\"\\\/\b\f\n\r\t"', "[]", "{}", "[1,2,3]", "[null,1]", "[1,null,3]", '[[],{},[1]]', '{"a":{}}',
    '{"a":null,"b":1}', '{"0":"a","1":"b","3":"d"}', '{"0":"a","9":"b"}', '{"00":1,"1":2}', '{"a":1,"a":2}', ' { "b" : 1 , "a" : [ ] } ', "nul", "1 2",
    "", " ", "{", "[1", '{"a"}', '{"a":1,}', "[1,]", "'a'", '{"a.b":1}', '{"":1}', '{"a/b":1}', '{"$a":1}', '{"#":1}', '{"[":1}',
    '{".value":1}', '{".value":1,".priority":2}', '{".value":1,".priority":"x"}', '{".priority":1}', '{".priority":1,"a":2}', '{".priority":{},"a":1}',
    '{".priority":true,"a":1}', '{".value":{"a":1}}', '{".value":[1]}', '{".value":1,"a":2}', '{".other":1}', '{".sv":"timestamp"}', '{".sv":"other"}',
    '{".sv":{"increment":2}}', '{".sv":{"increment":"x"}}', '{".sv":{"increment":1.5}}', '{".sv":{}}', '{"a":{".sv":"timestamp"},"b":1}',
    '{"\\u0061":1,"b\\u0000":2}', "\ufeff1", '"' + "k" * 300 + '"', '{"' + "k" * 768 + '":1}', '{"' + "k" * 769 + '":1}', "[" * 40 + "1" + "]" * 40,
    '{"a":' * 31 + "1" + "}" * 31, '{"a":' * 33 + "1" + "}" * 33, "[" * 2000,
]


def play_rest_bodies(player):
    """Every kind of body, with its answer and the stored value."""
    web = player.http()
    for number, body in enumerate(BODIES):
        web.ask("PUT", f"/v/{number}.json", body)
        web.ask("GET", f"/v/{number}.json?format=export")
    web.ask("PUT", "/raw.json", b'"\xff"')
    web.ask("PUT", "/raw.json", b'"\xc3"')
    web.ask("PUT", "/raw.json", b'{"\xed\xa0\x80":1}')
    web.ask("GET", "/v.json")
    web.ask("GET", "/v.json?format=export&print=pretty")


def play_rest_writes(player):
    web = player.http()
    web.ask("PUT", "/people.json", json.dumps(PEOPLE))
    for options in ("print=pretty", "print=silent", "print=other", "callback=f", "format=export", "shallow=true", "timeout=1s", "orderBy=%22a%22"):
        web.ask("PUT", f"/options.json?{options}", '{"a":1,"b":[1,2],"c":{}}')
        web.ask("PATCH", f"/options.json?{options}", '{"a":{"x":1}}')
        web.ask("POST", f"/options.json?{options}", "1")
        web.ask("DELETE", f"/options.json?{options}")
    for size in ("tiny", "small", "medium", "large", "unlimited", "huge"):
        web.ask("PUT", f"/size.json?writeSizeLimit={size}", "1")
    # Updates
    web.ask("PUT", "/u.json", '{"a":{"x":1,"y":2},"b":1}')
    for body in ('{"a":3}', '{"a/x":1,"b":null}', '{"a":{"x":1},"a/y":2}', '{"a/x":1,"a":2}', '{"a/x":1,"a//x":2}', "{}", "null", "[1,2]", "1", '"x"',
                 '{"c/d/e":{"f":[1,null,{}]}}', '{"/abs":1}', '{"a/":1}', '{"a.b":1}', '{".priority":1}', '{"b/.priority":1}', '{"n":1,"n/.priority":2}',
                 '{"m":{".value":1,".priority":3}}', '{"t":{".sv":"timestamp"},"m/.priority":{".sv":{"increment":2}}}', '{"":1}', '{"x/$y":1}',
                 '{"i":{".sv":{"increment":5}},"j":{"k":{".sv":{"increment":-1.25}}}}', "", "{", '{"c":{}}'):
        web.ask("PATCH", "/u.json", body)
    web.ask("GET", "/u.json?format=export")
    web.ask("PATCH", "/.json", '{"u/root":true,"other":{"x":1}}')
    # Pushes
    web.ask("POST", "/list.json", '{"a":1}')
    web.ask("POST", "/list.json", '{".sv":"timestamp"}')
    web.ask("POST", "/list.json?print=pretty", "null")
    web.ask("POST", "/list.json", "")
    web.ask("GET", "/list.json")
    # Overrides, other methods, odd paths
    for method in ("GET", "PUT", "PATCH", "DELETE", "POST", "patch", "HEAD", "TRACE", ""):
        web.ask("POST", "/o.json", '{"a":1}', {"X-HTTP-Method-Override": method})
        web.ask("POST", f"/o.json?x-http-method-override={method}", '{"a":1}')
    for method in ("TRACE", "LOCK", "SEARCH"):
        web.ask(method, "/o.json")
    for target in ("/a//b.json", "//a.json", "/a/.json", "/.json", "/%61.json", "/a%2Fb.json", "/a%00.json", "/a%zz.json", "/a%ff.json", "/a.b.json",
                   "/a$.json", "/a%23.json", "/a%5B.json", "/é.json", "/%C3%A9.json", "/a/.priority.json", "/.priority.json", "/a/.value.json",
                   "/.info/connected.json", "/.other.json", "/a", "/", "/a.JSON", "/a.json/b", "/a.xml", "/" + "a/" * 32 + "b.json", "/" + "a/" * 31 + "b.json"):
        web.ask("PUT", target, "1")
        web.ask("GET", target)
        web.ask("DELETE", target)
    web.ask("PUT", "/p.json", '{"a":1}')
    for body in ("1", '"x"', "null", "true", '{"a":1}', '{".sv":"timestamp"}', '{".sv":{"increment":1}}', ""):
        web.ask("PUT", "/p/.priority.json", body)
        web.ask("GET", "/p.json?format=export")
    web.ask("PATCH", "/p/.priority.json", '{"a":1}')
    web.ask("POST", "/p/.priority.json", "1")
    web.ask("PUT", "/none/.priority.json", "1")
    # A child below a leaf, and null below one; an object whose last child goes
    web.ask("PUT", "/leaf.json", '{".value":1,".priority":2}')
    web.ask("PUT", "/leaf/x.json", "null")
    web.ask("PUT", "/leaf/x.json", "1")
    web.ask("GET", "/leaf.json?format=export")
    web.ask("DELETE", "/leaf/x.json")
    web.ask("GET", "/leaf.json?format=export")
    # All data
    web.ask("DELETE", "/.json")
    web.ask("GET", "/.json")


def play_rest_large_writes(player):
    """Bodies that a worker parses, writes with a precondition, large writes; compressed and chunked ones."""
    web = player.http()
    rows = {f"key{number:05}": {"n": number, "text": f"text {number}"} for number in range(1500)}
    web.ask("PUT", "/rows.json", json.dumps(rows))
    web.ask("GET", "/rows.json?shallow=true")
    web.ask("GET", "/rows.json?orderBy=%22$key%22&limitToLast=2")
    web.ask("PUT", "/big.json?print=silent", json.dumps("x" * 1_500_000))
    web.ask("GET", "/big.json")
    many = {f"k{number:06}": number for number in range(25_000)}
    web.ask("PUT", "/many.json?print=silent", json.dumps(many))
    web.ask("GET", "/many.json")
    web.ask("PATCH", "/many.json", json.dumps({key: None for key in list(many)[:24_990]}))
    web.ask("GET", "/many.json?print=pretty")
    web.ask("PUT", "/many.json?writeSizeLimit=tiny", json.dumps({f"t{number}": 1 for number in range(110_000)}))
    web.ask("PUT", "/string.json", json.dumps("y" * (10 << 20)))
    web.ask("PUT", "/string.json", json.dumps("y" * ((10 << 20) + 1)))
    for body in ('{"broken":' + json.dumps("z" * 70_000), '{"a.b":' + json.dumps("z" * 70_000) + "}"):
        web.ask("PUT", "/broken.json", body)
    packed = gzip.compress(b'{"packed":[1,2,3]}', mtime=0)
    web.ask("PUT", "/packed.json", packed, {"Content-Encoding": "gzip"})
    web.ask("PUT", "/packed.json", zlib.compress(b'{"deflated":1}'), {"Content-Encoding": "deflate"})
    web.ask("PUT", "/packed.json", packed[:-3], {"Content-Encoding": "gzip"})
    web.ask("PUT", "/packed.json", b"plain", {"Content-Encoding": "gzip"})
    web.ask("PUT", "/packed.json", "1", {"Content-Encoding": "br"})
    web.ask("PUT", "/packed.json", "1", {"Content-Encoding": "identity"})
    web.ask("PUT", "/packed.json?print=silent", gzip.compress(json.dumps(rows).encode(), mtime=0), {"Content-Encoding": "gzip"})
    web.ask("GET", "/packed.json", None, {"Accept-Encoding": "gzip"})
    for accept in ("gzip;q=0", "*", "identity", "deflate", "br, gzip;q=0.5", "GZIP"):
        web.ask("GET", "/packed.json?orderBy=%22$key%22&limitToFirst=60", None, {"Accept-Encoding": accept})
    web.ask("GET", "/packed/key00001.json", None, {"Accept-Encoding": "gzip"})
    web.ask("HEAD", "/packed.json", None, {"Accept-Encoding": "gzip"})


def play_rest_reads(player):
    player.set("people", PEOPLE)
    player.set("array", ["a", None, "c", [1, {"x": 2}]])
    player.set("odd", {"a b": 1, "é": 2, "🎈": 3, "-1": 4, "2147483648": 5, "-2147483649": 6, "01": 7, "<script>": "</script>&\u2028", "'": '"'})
    player.set("none", None)
    web = player.http()
    for path in ("", "people", "people/ada", "people/ada/tags", "people/ada/tags/0", "people/bob/.priority", "people/bob", "array", "array/3", "array/3/1", "odd",
                 "none", "none/deep/er", "people/eve", "people/eve/x"):
        target = f"/{path}.json" if path else "/.json"
        for options in ("", "?print=pretty", "?print=silent", "?shallow=true", "?format=export", "?format=export&print=pretty", "?callback=cb.f",
                        "?shallow=true&print=pretty"):
            web.ask("GET", target + options)
        web.ask("HEAD", target)
    for options in ("print=loud", "shallow=1", "shallow=false", "format=other", "callback=1x", "callback=" + "a" * 257, "callback=alert(1)", "callback=",
                    "download=a.json", "download=a%22b/c%0d.json", "download=", "timeout=3ms", "timeout=16min", "timeout=x", "timeout=0s", "unknown=1",
                    "shallow=true&format=export", "shallow=true&callback=f", "print=pretty&callback=f&format=export", "%zz=1", "print=%zz", "print=pretty&print=silent",
                    "disableTriggers=true", "ns=", "ns=a/b", "ns=" + "n" * 65, "ns=" + "n" * 64, "&&=&x", "x=%C3"):
        web.ask("GET", f"/people/ada.json?{options}")


def play_rest_queries(player):
    player.set("people", PEOPLE)
    player.set("scores", {"a": 3, "b": 1, "c": "x", "d": True, "e": None, "f": 2, "g": {"x": 1}, "h": 1, "10": 0, "2": 9, "i": False})
    player.rules({"rules": {".read": True, ".write": True, "people": {".indexOn": ["name", "rank/n", "born"]}, "scores": {".indexOn": ".value"},
                            "wide": {".indexOn": ["n", ".value"]}}})
    web = player.http()

    def ask(path: str, **parameters):
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        web.ask("GET", f"/{path}.json?{query}")

    def text(value) -> str:
        return json.dumps(value).replace('"', "%22").replace(" ", "%20")

    bounds = [{}, {"limitToFirst": 2}, {"limitToLast": 2}, {"startAt": "X"}, {"endAt": "X"}, {"equalTo": "X"}, {"startAfter": "X"}, {"endBefore": "X"},
              {"startAt": "X", "limitToFirst": 1}, {"endAt": "X", "limitToLast": 1}, {"startAt": "X", "endAt": "X"}, {"startAfter": "X", "limitToLast": 3}]
    orders = [("people", "$key", ["bob", "9", "c", "zz"]), ("people", "$priority", [7, "second", None]), ("people", "name", ["Ada", "B", None]),
              ("people", "rank/n", [1, 2.5, "x"]), ("people", "born", [1815, "unknown", False, True]), ("scores", "$value", [1, "x", True, None]),
              ("scores", "$key", ["2", "b"])]
    for path, order, values in orders:
        for bound in bounds:
            for value in values if "X" in bound.values() else [None]:
                ask(path, orderBy=text(order), **{name: text(value) if one == "X" else one for name, one in bound.items()})
    for extra in ({"equalTo": text(1) + ",%22h%22"}, {"startAt": text(1) + ",%22c%22"}, {"endAt": text(1) + ",%22c%22"}, {"startAfter": text(1) + ",%22b%22"}):
        ask("scores", orderBy=text("$value"), **extra)
    # Refused and unusual parameters
    for parameters in (
            {"orderBy": "name"}, {"orderBy": text("unindexed")}, {"orderBy": text("$other")}, {"orderBy": text("")}, {"orderBy": "%22a/../b%22"}, {"orderBy": "1"},
            {"orderBy": text("a.b")}, {"limitToFirst": 2}, {"startAt": "1"}, {"orderBy": text("$key"), "limitToFirst": 0},
            {"orderBy": text("$key"), "limitToFirst": -1}, {"orderBy": text("$key"), "limitToFirst": "x"}, {"orderBy": text("$key"), "limitToFirst": "1.5"},
            {"orderBy": text("$key"), "limitToFirst": 1, "limitToLast": 1}, {"orderBy": text("$key"), "equalTo": "1"},
            {"orderBy": text("$key"), "equalTo": text("a"), "startAt": text("a")}, {"orderBy": text("$key"), "startAt": text("a"), "startAfter": text("a")},
            {"orderBy": text("$key"), "endAt": text("a"), "endBefore": text("a")}, {"orderBy": text("$value"), "startAt": "[1]"},
            {"orderBy": text("$value"), "startAt": "{}"}, {"orderBy": text("$value"), "startAt": "x"}, {"orderBy": text("$value"), "startAt": "1,2"},
            {"orderBy": text("$value"), "startAt": "1,%22a%22,2"}, {"orderBy": text("$key"), "orderBy%20": "x"}, {"shallow": "true", "orderBy": text("$key"), "limitToFirst": 2},
            {"shallow": "true", "limitToLast": 3}, {"shallow": "true", "startAt": text("c")}, {"orderBy": text("$key"), "print": "pretty", "limitToFirst": 2},
            {"orderBy": text("$priority"), "format": "export"}, {"orderBy": text("$key"), "callback": "f", "limitToFirst": 1}):
        ask("people", **parameters)
        ask("scores", **parameters)
    web.ask("GET", '/people.json?orderBy="$key"&orderBy="$key"')
    web.ask("GET", "/people/eve.json?orderBy=%22$key%22")
    web.ask("GET", "/none.json?orderBy=%22$key%22&limitToFirst=1")
    for method in ("PUT", "PATCH", "POST", "DELETE"):
        web.ask(method, "/people.json?orderBy=%22$key%22", None if method == "DELETE" else "{}")
    # Wide enough for an ordered index, which then follows changes
    player.set("wide", {f"k{number:03}": {"n": (number * 37) % 101, "v": number} for number in range(400)})
    for _ in range(2):
        ask("wide", orderBy=text("n"), startAt=50, limitToFirst=5)
        ask("wide", orderBy=text("n"), limitToLast=3)
        ask("wide", orderBy=text("n"), equalTo=7)
        web.ask("PATCH", "/wide.json", json.dumps({"k000/n": 50, "k001": None, "new": {"n": 100.5}, "k002/n": "text"}))


def play_rest_etags(player):
    web = player.http()
    tag = {"X-Firebase-ETag": "true"}
    for value in (None, 1, -0.0, "text", True, [1, 2], {"a": {".value": 1, ".priority": 2}, "b": 3}):
        web.ask("PUT", "/e.json", json.dumps(value), tag)
        web.ask("GET", "/e.json", None, tag)
        web.ask("GET", "/e.json?shallow=true", None, tag)
        web.ask("GET", "/e.json", None, {"if-none-match": etag(value) if not isinstance(value, list) else "x"})
        web.ask("GET", "/e.json", None, {"if-none-match": '"nonsense"'})
    player.set("e", {"a": 1, "b": "x"})
    good = node_hash({"a": 1, "b": "x"})
    for header in ("nonsense", f'"{node_hash(1)}"', "null_etag", "*", ""):
        web.ask("PUT", "/e.json", "2", {"if-match": header})
        web.ask("DELETE", "/e.json", None, {"if-match": header})
    web.ask("PUT", "/e.json", "2", {"if-match": f'"{good}"', **tag})
    web.ask("PUT", "/e.json", "3", {"if-match": node_hash(2)})
    web.ask("DELETE", "/e.json", None, {"if-match": node_hash(3), **tag})
    web.ask("PUT", "/e.json", '{".sv":{"increment":7}}', {"if-match": "null_etag"})
    web.ask("DELETE", "/e.json", None, {"if-match": "null_etag", "X-Pathmirror-Min-Seq": "1"})
    for method in ("GET", "PATCH", "POST", "HEAD"):
        web.ask(method, "/e2.json", None if method in ("GET", "HEAD") else "{}", {"if-match": "x"})
    web.ask("POST", "/e3.json", "1", tag)
    web.ask("PATCH", "/e3.json", '{"a":1}', tag)
    web.ask("GET", "/e3.json?orderBy=%22$key%22", None, tag)
    web.ask("HEAD", "/e3/a.json", None, tag)
    web.ask("PUT", "/e4.json?print=silent", "1", tag)
    web.ask("GET", "/e4.json?callback=f", None, tag)


def play_rest_min_seq(player):
    web = player.http()
    web.ask("PUT", "/a.json", "1")
    for value in ("0", "1", "-1", "x", "", "99999999999999999999"):
        web.ask("GET", "/a.json", None, {"X-Pathmirror-Min-Seq": value})
        web.ask("PUT", "/a.json", "1", {"X-Pathmirror-Min-Seq": value})
    # The request waits for the next write, which comes on another connection.
    waiting = player.http("waiting")
    waiting.send(waiting.request("GET", "/a.json", None, {"X-Pathmirror-Min-Seq": "6"}))
    for number in range(3, 7):
        web.ask("PUT", "/a.json", str(number))
    waiting.answer()


def play_rest_namespaces(player):
    closed = player.serve(name="closed", ns="known,second", own_database=True)
    for host in ("known.localhost", "unknown.localhost", "127.0.0.1", "localhost", "known.example.com", "unknown.example.com:1234", "example.com", "[::1]:80",
                 "KNOWN.localhost", "known.localhost."):
        web = player.http(gateway=closed, host=host)
        web.ask("PUT", "/a.json", '1')
        web.ask("GET", "/a.json?ns=second")
        web.ask("GET", "/a.json?ns=none")
        web.ask("POST", "/a.json?ns=none", "1")
        web.close()
    web = player.http(gateway=closed)
    web.ask("GET", "/.json", None, {"Host": None})
    web = player.http("old", gateway=closed)
    web.ask("GET", "/.json", None, {"Host": None}, version="1.0")


def play_rest_administrators(player):
    """Requests that only administrators may make, in a gateway without rules."""
    shut = player.serve(name="shut", own_database=True, rules=None)
    web = player.http(gateway=shut, host="127.0.0.1")
    for headers in ({}, ADMIN, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic wrong"}, {"Authorization": "bearer x"}):
        for method, target, body in (("GET", "/a.json", None), ("PUT", "/a.json", "1"), ("PATCH", "/.json", '{"b":1}'), ("DELETE", "/b.json", None),
                                     ("POST", "/c.json", None), ("GET", "/.settings/rules.json", None), ("GET", "/a.json?auth=", None),
                                     ("GET", "/a.json?auth=owner", None), ("GET", "/a.json?access_token=x", None),
                                     ("GET", "/a.json?auth_variable_override=null", None), ("GET", "/a.json?auth_variable_override=x", None),
                                     ("PUT", "/a.json?auth_variable_override=%7B%22uid%22%3A%22x%22%7D", "1"), ("GET", "/.health/ready", None),
                                     ("HEAD", "/a.json", None), ("GET", "/.inspect/x.json", None)):
            web.ask(method, target, body, headers)
