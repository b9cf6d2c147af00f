"""The gateway of one suite: `pathmirror dev` with a private PostgreSQL, at a distance where the suite needs one."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from harness.gateway import Gateway, start_dev
from harness.scratch import scratch_directory

OWNER = {"Authorization": "Bearer owner"}


class Distance:
    """Forwards connections, with all data delayed by a fixed time, in both directions."""

    def __init__(self, server_port: int, seconds: float):
        self._server_port, self._seconds = server_port, seconds
        self._loop = asyncio.new_event_loop()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._open.wait()

    def _serve(self):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._open.set()
        self._loop.run_forever()

    async def _connected(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))

    async def _carry(self, reader, writer):
        waiting: asyncio.Queue = asyncio.Queue()

        async def read():
            try:
                while data := await reader.read(65536):
                    waiting.put_nowait((self._loop.time() + self._seconds, data))
            except OSError:
                pass
            waiting.put_nowait((self._loop.time() + self._seconds, b""))

        async def write():
            try:
                while True:
                    due, data = await waiting.get()
                    await asyncio.sleep(max(0, due - self._loop.time()))
                    if not data:
                        break
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass
            writer.close()

        await asyncio.gather(read(), write())

    async def _end(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loop.stop()

    def close(self):
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        self._thread.join(5)


class _TokenHandler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps({"access_token": "owner", "token_type": "Bearer", "expires_in": 3600}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Tokens:
    """Stands in for the endpoint at which a service account gets its token: each gets `owner`, the administrator of an emulator."""

    def __init__(self):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _TokenHandler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Gateways:
    """Starts gateways for a suite and stops them. Use as a context."""

    def __init__(self, logs: Path, latency: float = 0):
        self._logs, self._latency = logs, latency
        self._started: list[tuple[Gateway, object]] = []
        self._helpers: list[Distance | Tokens] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for helper in self._helpers:
            helper.close()
        for gateway, scratch in self._started:
            gateway.stop()
            scratch.__exit__(None, None, None)

    def start(self, ns: str = "default", rules: dict | None = None) -> int:
        """A new, empty gateway; returns the port at which the suite reaches it."""
        scratch = scratch_directory("public")
        path = scratch.__enter__()
        try:
            gateway = start_dev(path / "data", self._logs, None, ns=ns)
        except BaseException:
            scratch.__exit__(None, None, None)
            raise
        self._started.append((gateway, scratch))
        if rules is not None:
            response = gateway.rest.send("PUT", f"/.settings/rules.json?ns={ns}", json.dumps(rules).encode(), OWNER)
            if response.status != 200:
                raise RuntimeError(f"the gateway refuses the suite's rules: {response.status} {response.body!r}")
        if not self._latency:
            return gateway.port
        distance = Distance(gateway.port, self._latency)
        self._helpers.append(distance)
        return distance.port

    def account(self, file: Path) -> dict:
        """The service account of a suite, of the project `fake-project-id`, and with an endpoint for tokens on this machine."""
        tokens = Tokens()
        self._helpers.append(tokens)
        return {**json.loads(file.read_text()), "project_id": "fake-project-id", "token_uri": tokens.url}
