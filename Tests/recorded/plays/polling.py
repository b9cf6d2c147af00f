"""Long polling, and the change to a WebSocket."""

PING = {"t": "c", "d": {"t": "p", "d": {}}}
READY = {"t": "c", "d": {"t": "a", "d": {}}}
LAST = {"t": "c", "d": {"t": "n", "d": {}}}


def play_polling_requests(player):
    web = player.http()
    for query in ("", "start=t", "start=t&cb=1", "start=t&cb=1&v=4", "start=t&cb=&v=5", "start=t&cb=a-b&v=5", f"start=t&cb={'1' * 65}&v=5", "start=t&cb=1&v=5&ns=a/b", "start=t&cb=Abc9&v=5&ls=x",
                  "dframe=t", "dframe=t&id=0a&pw=1b", "dframe=t&id=x&pw=1", "id=x&pw=y", "id=x", "disconn=t&id=x&pw=y"):
        script = web.ask("GET", f"/.lp?{query}")
        player.transcript.event("a", f"{len(script)} bytes")
    for method in ("POST", "PUT", "HEAD", "OPTIONS"):
        web.ask(method, "/.lp?start=t&cb=1&v=5", "" if method in ("POST", "PUT") else None)
    client = player.polling("lp")
    for action, body in (("p", {"p": "a", "d": 1}), ("g", {"p": "a", "q": {}}), ("q", {"p": "a", "h": ""}), ("s", {"c": {}}), ("nonsense", {}), ("p", {"p": "a.b", "d": 1}),
                         ("g", {"p": "none", "q": {}}), ("p", {"p": "b", "d": "\u2028</script>é🎈"}), ("g", {"p": "b", "q": {}}), ("p", {"p": "b", "d": "x" * 5000}), ("g", {"p": "b", "q": {}})):
        client.call(action, body)
    # A message in several requests, out of order and twice: there is no answer before the last piece.
    pieces = client.pieces({"t": "d", "d": {"r": 100, "a": "p", "b": {"p": "pieces", "d": "y" * 4000}}})
    player.note(f"{len(pieces)} pieces")
    held = client.hold(pieces[-1])
    second = client.hold(pieces[0])
    held.answer()
    third = client.hold(pieces[0])
    second.answer()
    client.poll(pieces[1])
    third.answer()
    client.number = 200
    # Pushes while a poll is held.
    client.call("q", {"p": "pushed", "h": ""})
    held = client.hold()
    web.ask("PUT", "/pushed.json", "1")
    held.answer()
    client.poll_wrong()
    client.get(f"disconn=t&id={client.id}&pw={client.password}")
    client.poll()


def play_polling_bad_input(player):
    for data in ("&seg0=0&ts0=1", "&seg0=x&ts0=1&d0=YQ..", "&seg0=0&ts0=0&d0=YQ..", "&seg0=0&ts0=1&d0=%21", "&seg0=0&ts0=1&d0=YQ..", "&seg0=9223372036854775807&ts0=1&d0=YQ.."):
        client = player.polling("lp")
        client.poll(data)
        client.poll()
    client = player.polling("lp")
    client.call("o", {"p": "left", "d": True})
    watcher = player.realtime("ws")
    watcher.call("q", {"p": "left", "h": ""})
    client.get(f"disconn=t&id={client.id}&pw={client.password}")
    watcher.message()
    client.poll()


def play_polling_upgrade(player):
    web = player.http("writer")
    client = player.polling("lp")
    client.call("q", {"p": "x", "h": ""})
    client.call("o", {"p": "left", "d": True})
    socket = player.realtime("ws", f"/.ws?v=5&s={client.id}")
    for _ in range(2):
        socket.say(PING)
        socket.message()
    client.call("p", {"p": "x/a", "d": 1})
    socket.say(READY)
    [piece] = client.pieces(LAST)
    client.poll(piece)
    client.poll_until_over()
    socket.number = 10
    web.ask("PUT", "/x/b.json", "2")
    socket.message()
    socket.call("p", {"p": "x/c", "d": 3})
    client.get(f"disconn=t&id={client.id}&pw={client.password}")
    socket.call("g", {"p": "x", "q": {}})
    client.poll()
    # Declined: the session has a socket already, is unknown, or is a WebSocket's.
    for given in (client.id, "0" * 32, socket.session or "none"):
        declined = player.realtime("declined", f"/.ws?v=5&s={given}")
        while declined.frame()[0] != -1:
            pass
    watcher = player.realtime("watcher")
    watcher.call("q", {"p": "left", "h": ""})
    socket.leave()
    watcher.message()
    # A failed socket leaves polling unchanged.
    client = player.polling("lp2")
    socket = player.realtime("ws2", f"/.ws?v=5&s={client.id}")
    socket.text("nonsense")
    while socket.frame()[0] != -1:
        pass
    client.call("p", {"p": "x", "d": "still"})


