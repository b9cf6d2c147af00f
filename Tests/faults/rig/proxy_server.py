"""TCP proxies that lose and delay data, and break connections. A separate program, so that its work does not wait for the clients.

Takes commands as lines of JSON on standard input and answers each with a line; ends when its input does.

    {"do": "open", "name": N, "to": PORT}           -> {"port": …}
    {"do": "set", "name": N, "up": M, "down": M}    how each direction passes: "pass", "stall", or milliseconds of delay
    {"do": "break", "name": N, "how": "reset"|"close"}   ends the current connections
    {"do": "refuse", "name": N, "on": true}         new connections are reset
    {"do": "arm", "name": N, "way": "up"|"down", "text": T or null, "least": L, "bytes": K, "then": "reset"|"close"|"stall"}
        waits for the next data in this direction with this text and at least L bytes: its first K bytes pass, then "then" applies
        to its connection
    {"do": "call", "name": N, "label": A, "text": T or null, "skip": K, "lost": "before"|"after", "then": "reset"|"close" or null}
        counts the clients' data with this text, on PostgreSQL connections with the application name A: K such calls pass.
        The connection ends before the next call passes, or when its answer comes. With "then": null, the trap is removed
    {"do": "look", "name": N}                       -> {"tripped": …, "connections": …}
"""

import asyncio
import json
import re
import socket
import struct
import sys

CHUNK = 65536
# The parameter in a startup message of PostgreSQL's protocol, which is not encrypted here.
APPLICATION_NAME = re.compile(rb"\0application_name\0([^\0]*)\0")


class Connection:
    """One client's connection and ours to the server."""

    def __init__(self, route: "Route", client: socket.socket, server: socket.socket):
        self.route, self.client, self.server = route, client, server
        self.stalled: set[str] = set()
        # The application name, as soon as the client has sent it; requests for encryption may precede it.
        self.label: str | None = None
        self._unlabelled = 3
        # The end of the connection at its next answer; None if the answer passes.
        self.answer_lost: str | None = None
        self.tasks = [asyncio.ensure_future(self._pump(client, server, "up")),
                      asyncio.ensure_future(self._pump(server, client, "down"))]

    async def _pump(self, source: socket.socket, sink: socket.socket, way: str):
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(source, CHUNK):
                if way == "up":
                    self._read_label(data)
                self._trip_call(way, data)
                trap = self.route.traps.get(way)
                if trap and len(data) >= trap["least"] and (trap["text"] is None or trap["text"] in data):
                    del self.route.traps[way]
                    self.route.tripped += 1
                    await loop.sock_sendall(sink, data[:trap["bytes"]])
                    data = data[trap["bytes"]:]
                    if trap["then"] != "stall":
                        self.end(trap["then"])
                        return
                    self.stalled |= {"up", "down"}
                await self._wait(way)
                await loop.sock_sendall(sink, data)
        except OSError:
            self.end("reset")
            return
        # Forwards the end of one side to the other, unless the network is away.
        await self._wait(way)
        self.end("close")

    def _read_label(self, data: bytes):
        if self.label is None and self._unlabelled:
            self._unlabelled -= 1
            if found := APPLICATION_NAME.search(data):
                self.label = found[1].decode(errors="replace")

    def _trip_call(self, way: str, data: bytes):
        """Counts a call for the trap, and ends the connection before the call that the trap is for, or before its answer."""
        call = self.route.call
        if way == "down" and self.answer_lost:
            self.end(self.answer_lost)
            raise ConnectionResetError
        if way == "down" or call is None or call["label"] != self.label or (call["text"] and call["text"] not in data):
            return
        if call["skip"] > 0:
            call["skip"] -= 1
            return
        self.route.call = None
        self.route.tripped += 1
        if call["lost"] == "after":
            self.answer_lost = call["then"]
            return
        self.end(call["then"])
        raise ConnectionResetError

    async def _wait(self, way: str):
        delay = self.route.ways[way]
        if isinstance(delay, int):
            await asyncio.sleep(delay / 1000)
        while way in self.stalled or self.route.ways[way] == "stall":
            await self.route.news()

    def end(self, how: str):
        if self not in self.route.connections:
            return
        self.route.connections.discard(self)
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        for end in (self.client, self.server):
            try:
                if how == "reset":
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            # The loop must be through with the socket before its number is free for another.
            asyncio.get_running_loop().call_soon(end.close)


class Route:
    """One proxied port."""

    def __init__(self, to: int):
        self.to = to
        self.ways: dict[str, str | int] = {"up": "pass", "down": "pass"}
        self.traps: dict[str, dict] = {}
        self.call: dict | None = None
        self.tripped = 0
        self.refusing = False
        self.connections: set[Connection] = set()
        self._changed = asyncio.Event()
        self.door = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.door.setblocking(False)
        self.port = self.door.getsockname()[1]
        self.task = asyncio.ensure_future(self._accept())

    async def news(self):
        await self._changed.wait()

    def changed(self):
        self._changed.set()
        self._changed = asyncio.Event()

    async def _accept(self):
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self.door)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            asyncio.ensure_future(self._join(client))

    async def _join(self, client: socket.socket):
        loop = asyncio.get_running_loop()
        server = socket.socket()
        server.setblocking(False)
        client.setblocking(False)
        try:
            if self.refusing:
                raise OSError("refused")
            await loop.sock_connect(server, ("127.0.0.1", self.to))
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            server.close()
            return
        self.connections.add(Connection(self, client, server))


class Server:
    def __init__(self):
        self.routes: dict[str, Route] = {}

    async def do(self, command: dict) -> dict:
        name, what = command.get("name"), command["do"]
        if what == "open":
            self.routes[name] = Route(command["to"])
            return {"port": self.routes[name].port}
        route = self.routes[name]
        if what == "set":
            route.ways = {"up": command["up"], "down": command["down"]}
            if route.ways == {"up": "pass", "down": "pass"}:
                for connection in route.connections:
                    connection.stalled.clear()
        elif what == "break":
            for connection in list(route.connections):
                connection.end(command["how"])
        elif what == "refuse":
            route.refusing = command["on"]
        elif what == "arm":
            if command.get("then") is None:
                route.traps.pop(command["way"], None)
            else:
                text = command.get("text")
                route.traps[command["way"]] = {"text": text.encode("latin-1") if text else None, "bytes": command["bytes"],
                                               "least": command["least"], "then": command["then"]}
        elif what == "call":
            text = command.get("text")
            route.call = None if command["then"] is None else {
                **{key: command[key] for key in ("label", "skip", "lost", "then")}, "text": text.encode() if text else None}
        elif what == "look":
            return {"tripped": route.tripped, "connections": len(route.connections)}
        route.changed()
        return {}


async def main():
    server = Server()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        answer = await server.do(json.loads(line))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
