#!/usr/bin/env python3
"""An endpoint of webhooks: notes how long each value took to come here, by the time in it (clients/queues.h).

    endpoint.py         prints its port; then, for each line on its input, a line of JSON: {path: [milliseconds, …]}, and forgets them

/ok/… answers at once, /slow/… after five seconds with 500, /refused/… at once with 500.
"""

import asyncio
import json
import re
import sys
import time

TIME = re.compile(rb"@(\d+)@")
found: dict[str, list[float]] = {}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            body = await reader.readexactly(int(length.group(1))) if length else b""
            now = time.monotonic_ns()
            path = head.split(b" ", 2)[1].decode()
            found.setdefault(path, []).extend((now - int(sent)) / 1e6 for sent in TIME.findall(body))
            status = b"200 OK"
            if path.startswith("/slow/"):
                await asyncio.sleep(5)
            if not path.startswith("/ok/"):
                status = b"500 Internal Server Error"
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        print(json.dumps(found), flush=True)
        found.clear()


asyncio.run(main())
