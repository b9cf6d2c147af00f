"""HTTP itself: framing, limits, pages, the gateway's own endpoints."""

import re

from harness.gateway import SECRET
from stage import ADMIN
from wires.wire import Wire


def play_http_framing(player):
    player.set("a", {"x": 1})
    def once(data: bytes, who: str = "raw"):
        """One connection on which these bytes are sent; all received bytes until the server closes."""
        wire = Wire(player.transcript, who, player.stage.gateway.port)
        player.exits.callback(wire.close)
        wire.send(data)
        wire.rest()

    host = f"Host: {player.host}\r\n".encode()
    end = b"Connection: close\r\n\r\n"
    once(b"PUT /c.json HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\n{\"a\":\r\n2;x=y\r\n1}\r\n0\r\nT: x\r\n\r\n")
    once(b"PUT /c.json HTTP/1.1\r\n" + host + b"Expect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1")
    once(b"PUT /c.json HTTP/1.1\r\n" + host + b"Expect: other\r\nContent-Length: 1\r\n\r\n1")
    once(b"GET /a.json HTTP/1.0\r\n" + host + b"\r\n")
    once(b"GET /a.json HTTP/1.0\r\n" + host + b"Connection: keep-alive\r\n\r\nGET /a/x.json HTTP/1.0\r\n" + host + b"\r\n")
    # Pipelined: answered in order.
    once(b"".join(b"PUT /p/%d.json HTTP/1.1\r\n" % n + host + b"Content-Length: 1\r\n\r\n%d" % n for n in range(5))
         + b"GET /p.json HTTP/1.1\r\n" + host + b"\r\nHEAD /p.json HTTP/1.1\r\n" + host + b"\r\nBAD /p.json HTTP/1.1\r\n" + host + end)
    once(b"\r\n\r\nGET /a.json HTTP/1.1\r\n" + host + end)
    for line in (b"GET /a.json HTTP/2.0\r\n", b"GET /a.json HTTP/1.2\r\n", b"GET /a.json\r\n", b"get /a.json HTTP/1.1\r\n", b"G\x00T / HTTP/1.1\r\n", b"GET  /a.json HTTP/1.1\r\n",
                 b"GET /a\x01.json HTTP/1.1\r\n", b"GET /a b.json HTTP/1.1\r\n", b"GET http://x.localhost/a.json HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n", b"CONNECT a:1 HTTP/1.1\r\n",
                 b"nonsense\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n"):
        once(line + host + end)
    for field in (b"A b: c\r\n", b"A\r\n", b": x\r\n", b"A: \x00\r\n", b"Content-Length: x\r\n", b"Content-Length: -1\r\n", b"Content-Length: 1\r\nContent-Length: 2\r\n",
                  b"Transfer-Encoding: gzip\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                  b" folded: x\r\n", b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"Content-Length: 99999999999999999999\r\n", b"Content-Length: 999999999999\r\n"):
        once(b"PUT /f.json HTTP/1.1\r\n" + host + field + end)
    once(b"PUT /f.json HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    once(b"PUT /f.json HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n3\r\n1.5X\r\n0\r\n\r\n")
    once(b"GET /a.json HTTP/1.1\r\nHost: x y\r\n" + end)
    once(b"GET /a.json HTTP/1.1\r\n" + host + host + end)
    once(b"GET /" + b"a" * 70_000 + b".json HTTP/1.1\r\n" + host + end)
    once(b"GET /a.json?" + b"q" * 9_000 + b" HTTP/1.1\r\n" + host + end)
    once(b"GET /a.json HTTP/1.1\r\n" + host + b"X: " + b"x" * 70_000 + b"\r\n" + end)
    once(b"GET /a.json HTTP/1.1\r\n" + host + b"".join(b"X-%d: x\r\n" % n for n in range(300)) + end)
    web = player.http()
    web.ask("GET", "/a.json", None, {"Connection": "close"})


def play_http_limits(player):
    """Bodies, rates and connections over their bounds."""
    tight = player.serve("--max-user-body", "1kB", "--max-body", "3kB", tune="header-timeout=300ms,body-timeout=300ms,idle-timeout=300ms",
                         name="tight", own_database=True)
    for size, headers in ((900, {}), (1001, {}), (2000, ADMIN), (3001, ADMIN)):
        web = player.http(gateway=tight, host="127.0.0.1")
        web.ask("PUT", "/b.json?print=silent", '"' + "x" * (size - 2) + '"', headers)
        web.close()
    web = player.http(gateway=tight, host="127.0.0.1")
    web.write(b"PUT /b.json?print=silent HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"200\r\n" + b"1" * 512 + b"\r\n") * 3)
    web.answer("PUT")
    for data in (b"", b"GET /slow.json HTTP/1.1\r\nHost:", b"PUT /slow.json HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n1"):
        wire = Wire(player.transcript, "slow", tight.port)
        player.exits.callback(wire.close)
        wire.send(data)
        wire.rest()
    rated = player.serve("--rate-limit-per-address", "5/h", name="rated", own_database=True)
    web = player.http(gateway=rated, host="127.0.0.1")
    for number in range(7):
        web.ask("PUT", "/b.json?print=silent", str(number))
    web.ask("GET", "/b.json", None, ADMIN)
    web.ask("GET", "/.health/live")
    player.realtime("ws", gateway=rated, host="127.0.0.1", greeted=False)
    crowded = player.serve("--max-connections-per-address", "2", tune="max-streams=1,max-sessions=1", name="crowded", own_database=True)
    stream = player.events("one", "/a.json", gateway=crowded, host="127.0.0.1")
    stream.expect()
    second = player.events("two", "/a.json", gateway=crowded, host="127.0.0.1")
    player.http("three", gateway=crowded, host="127.0.0.1").answer()
    second.close()
    stream.close()


def play_http_pages(player):
    """Origins and preflights: allowed for all pages, and for some."""
    some = player.serve("--allow-origin", "https://app.example,https://*.app.example,null", name="some", own_database=True)
    for gateway, host in ((None, None), (some, "127.0.0.1")):
        web = player.http(gateway=gateway, host=host)
        for origin in (None, "https://app.example", "https://a.app.example", "http://app.example", "https://evil.example", "null", "http://localhost:3000", "nonsense", ""):
            for method, target, headers in (
                    ("GET", "/a.json", {}), ("PUT", "/a.json", {}), ("HEAD", "/a.json", {}), ("OPTIONS", "/a.json", {}),
                    ("OPTIONS", "/a.json", {"Access-Control-Request-Method": "PUT"}),
                    ("OPTIONS", "/a.json", {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "X-Firebase-ETag, if-match",
                                            "Access-Control-Request-Private-Network": "true"}),
                    ("OPTIONS", "/.lp", {"Access-Control-Request-Method": "GET"}), ("OPTIONS", "/.settings/rules.json", {}), ("OPTIONS", "/x", {}),
                    ("GET", "/.health/live", {}), ("GET", "/.health/ready", {}), ("GET", "/none", {}), ("GET", "/a.json?print=x", {})):
                web.ask(method, target, "1" if method == "PUT" else None, {"Origin": origin, **headers})
        for site in ("cross-site", "same-origin", "same-site", "none"):
            web.ask("GET", "/a.json", None, {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"})


def play_http_operations(player):
    web = player.http()
    for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE"):
        for target in ("/.health/live", "/.health/ready", "/.health/other", "/.health", "/.settings/rules.json", "/.settings/other.json", "/.settings/functionTriggers.json", "/.inspect/coverage.json",
                       "/.log", "/.feeds/x", "/.mirrors/x", "/.openapi.json", "/.oauth2/token", "/.console/", "/.metrics/x", "/.ws", "/.lp", "/favicon.ico"):
            web.ask(method, target, "1" if method in ("POST", "PUT") else None)
    for headers in ({}, ADMIN, {"Authorization": "Bearer wrong"}):
        web.ask("GET", "/.health/ready", None, headers)
    web.ask("GET", f"/.health/ready?auth={SECRET}")
    # The names of the metrics, without the figures.
    response = player.stage.gateway.rest.send("GET", "/.metrics")
    for name, value in sorted(response.headers.items()):
        if name not in ("Date", "Content-Length"):
            player.transcript.came("metrics", f"{name}: {value}".encode())
    names = set()
    for line in response.body.decode().splitlines():
        if line.startswith("#") or not re.search(r'namespace="', line):
            names.add(re.sub(r" [-+.\deInfNa]+$", " <figure>", line))
        else:
            names.add(re.sub(r'namespace="[^"]*"', 'namespace="<namespace>"', re.sub(r" [-+.\deInfNa]+$", " <figure>", line)))
    player.transcript.came("metrics", "\n".join(sorted(names)).encode())


def play_http_settings(player):
    """The rules as a document."""
    web = player.http()
    for headers in ({}, ADMIN):
        web.ask("GET", "/.settings/rules.json", None, headers)
        web.ask("GET", "/.settings/rules.json?format=strict", None, headers)
        for body in ('{"rules":{".read":true,".write":true}}', '// text\n{"rules": {".read": true, /* x */ ".write": "auth == null", "a": {".indexOn": "b"}}}\n',
                     '{"rules":{".read":"auht != null"}}', '{"rules":{".read":1}}', "{}", "", "nonsense", '{"rules":{"a":{".validate":"newData.val() > "}}}',
                     '{"rules":{"$a":{"$a":{}}}}', '{"rules":{".other":1}}', '{"rules":{".read":true}} x', '{"other":1}', "[1]",
                     '{"rules":{".read":"x == 1 && y","b":{".write":"root.child(1)"}}}'):
            web.ask("PUT", "/.settings/rules.json?dryRun=true", body, headers)
            web.ask("PUT", "/.settings/rules.json", body, headers)
        web.ask("GET", "/.settings/rules.json", None, headers)
        web.ask("GET", "/.settings/rules.json?format=strict&print=pretty", None, headers)
        for method in ("POST", "PATCH", "DELETE", "HEAD", "OPTIONS"):
            web.ask(method, "/.settings/rules.json", None, headers)
        web.ask("GET", "/.settings/rules.json?ns=none-such", None, headers)
    web.ask("PUT", "/a.json", "1")
    web.ask("GET", "/a.json")
