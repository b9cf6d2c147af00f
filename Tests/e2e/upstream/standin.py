"""A stand-in for Google's Realtime Database that misbehaves on command and remembers everything that clients send.

From the shell: `python3 -m upstream.standin --port 9100 --service-account account.json`, then for example
`curl -d '{"do": "cut"}' http://127.0.0.1:9100/control`. See `controlled` for what the control port takes.
"""

import argparse
import asyncio
import dataclasses
import json
import threading
import time
from pathlib import Path

from . import hashing
from .account import Account
from .database import Namespace
from .misbehaviour import INVALID, Misbehaviour
from .rest import Rest
from .session import READ_ACTIONS, Session
from .tree import Invalid, at, dump, export, parse, split_path
from .wire import Request, read_request, response


@dataclasses.dataclass
class Settings:
    """How the stand-in behaves from now on; the defaults are those of a good server."""

    requires_auth: bool = False
    # Namespaces that exist; None: each exists as soon as a client names it.
    namespaces: list | None = None
    # "accept": sends not even the answer to an upgrade; "greeting": upgrades, but does not greet; "answers": sends nothing more on
    # sessions from number `freeze_from` on; "everything": the same, and no answers to REST requests. Ended by "".
    freeze: str = ""
    freeze_from: int = 0
    greeting_host: str | None = None
    # Of the first port only; the second one always serves.
    redirects_sockets: bool = False
    redirects_rest: bool = False
    redirect_to: str | None = None
    # A listen with more data than this is refused, or revoked when it grows.
    too_big_bytes: int | None = None
    too_big_rest_bytes: int | None = None
    # Refuses such a listen by a control error and by closing the connection.
    too_big_closes: bool = False
    listen_status: str | None = None
    withholds_answer: bool = False
    range_merges: bool = True
    # "equal" or "different": what every hash of a listen is judged to be.
    hash_lies: str = ""
    # Initial data comes as `d` messages of about so many bytes.
    split_bytes: int | None = None
    segment: int = 16384
    always_counted: bool = False
    trickle_bytes: int | None = None
    trickle_pause: float = 0.01
    # After so many more bytes the session that sends is reset; then None again.
    cut_after: int | None = None
    # The next so many pushes are not sent.
    lost_pushes: int = 0
    # A command that runs between the data and the answer of the next `on_listen_times` listens.
    on_listen: str = ""
    on_listen_options: dict = dataclasses.field(default_factory=dict)
    on_listen_times: int = 1
    rest_status: int | None = None
    # Seconds between the end of a token and that of the session that did not renew it.
    expiry_grace: float = 0


@dataclasses.dataclass
class Received:
    """A request of a session."""

    session: int
    action: str
    body: dict
    size: int
    time: float


class Standin:
    """A server with two ports, on a thread of its own. Use as a context."""

    def __init__(self, port: int = 0, other_port: int = 0, ns: str = "shop", **settings):
        self.settings = Settings(**settings)
        self.account = Account()
        self.misbehaviour = Misbehaviour(self)
        self.ns = ns
        self.namespaces: dict[str, Namespace] = {}
        self.sessions: list[Session] = []
        self.received: list[Received] = []
        self.http: list[dict] = []
        self.events: list[dict] = []
        self.bytes_in = self.bytes_out = 0
        self._sessions_made = 0
        self._asked_ports = (port, other_port)
        self._rest = Rest(self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set = set()

    # MARK: life

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._wait(self._open())
        return self

    def __exit__(self, *_):
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    async def _open(self):
        self._servers = [await asyncio.start_server(lambda reader, writer, first=index == 0: self._serve(reader, writer, first),
                                                    "127.0.0.1", port, limit=1 << 20) for index, port in enumerate(self._asked_ports)]
        self.port, self.other_port = (server.sockets[0].getsockname()[1] for server in self._servers)

    async def _end(self):
        for server in self._servers:
            server.close()
        self.settings.freeze = ""
        for session in list(self.sessions):
            session.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def call(self, work):
        """Runs a function on the loop's thread and returns its result."""
        async def run():
            return work()

        return self._wait(run())

    async def _serve(self, reader, writer, is_first_port: bool):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while (request := await read_request(reader)) is not None:
                if request.headers.get("upgrade", "").lower() == "websocket" and request.path == "/.ws":
                    return await Session(self, request, reader, writer, is_first_port).run()
                writer.write(await self._rest.answer(request, is_first_port))
                await writer.drain()
        except (ConnectionError, OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    # MARK: where it is

    def url(self, ns: str | None = None, port: int | None = None) -> str:
        """What a follower is given as the upstream."""
        return f"http://127.0.0.1:{port or self.port}/?ns={ns or self.ns}"

    @property
    def token_uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    def credentials(self, file: Path | str) -> Path:
        """Writes the file of a service account that this stand-in believes, and demands credentials from now on."""
        self.settings.requires_auth = True
        return self.account.write(file, self.token_uri)

    def namespace(self, name: str) -> Namespace:
        return self.namespaces.setdefault(name, Namespace(name))

    def next_session(self) -> int:
        self._sessions_made += 1
        return self._sessions_made

    # MARK: data, from the test's thread

    def put(self, path: str, data, ns: str | None = None):
        """Writes directly, and notifies listens."""
        self.call(lambda: self.namespace(ns or self.ns).put(split_path(path), data))

    def merge(self, path: str, data: dict, ns: str | None = None):
        self.call(lambda: self.namespace(ns or self.ns).merge(split_path(path), data))

    def export(self, path: str = "", ns: str | None = None):
        return self.call(lambda: export(at(self.namespace(ns or self.ns).root, split_path(path))))

    def hash(self, path: str = "", ns: str | None = None) -> str:
        """The hash of what is at a path."""
        return self.call(lambda: hashing.node_hash(at(self.namespace(ns or self.ns).root, split_path(path))))

    def size(self, ns: str | None = None) -> int:
        """The bytes of the whole tree, about."""
        root = self.namespace(ns or self.ns).root
        return root.size if root else 4

    def writes(self, ns: str | None = None) -> list:
        """All writes that were executed, in order."""
        return self.call(lambda: list(self.namespace(ns or self.ns).writes))

    # MARK: behaviour, from the test's thread

    def set(self, **settings):
        """Changes settings."""
        self.call(lambda: self._set(settings))

    def _set(self, settings: dict):
        for name, value in settings.items():
            if name not in {field.name for field in dataclasses.fields(Settings)}:
                raise KeyError(f"no setting {name!r}")
            setattr(self.settings, name, value)

    def behave(self):
        """Takes all settings back but the demand for credentials."""
        fresh = Settings(requires_auth=self.settings.requires_auth)
        self.set(**{field.name: getattr(fresh, field.name) for field in dataclasses.fields(Settings)})

    def do(self, command: str, only: str | None = None, **options):
        """Runs a command of `Misbehaviour` on all sessions that are alive, or on those of one namespace."""
        self.call(lambda: self.misbehaviour.run(command, self.alive(only), **options))

    def alive(self, ns: str | None = None) -> list[Session]:
        """The sessions of all namespaces, or of one."""
        return [one for one in list(self.sessions) if ns in (None, one.namespace.name)]

    # MARK: records

    def record(self, session, action: str, body: dict, size: int):
        self.received.append(Received(session.number, action, body, size, time.monotonic()))

    def record_http(self, request: Request, status: int):
        credential = "bearer" if request.bearer else next((name for name in ("access_token", "auth") if name in request.params), None)
        self.http.append({"method": request.method, "path": request.path, "params": {name: value for name, value in request.params.items()
                          if name not in ("access_token", "auth")}, "credential": credential, "status": status, "size": len(request.body)})

    def log_event(self, event: str, **fields):
        self.events.append({"event": event, "time": time.monotonic(), **fields})

    def requests(self, *actions: str) -> list[Received]:
        """The requests of sessions, all or those of some actions."""
        return [one for one in list(self.received) if not actions or one.action in actions]

    def seen(self, event: str) -> list[dict]:
        return [one for one in list(self.events) if one["event"] == event]

    def violations(self) -> list:
        """Everything a client sent that was not for reading."""
        http = [one for one in list(self.http) if not (one["method"] in ("GET", "HEAD", "OPTIONS") or one["path"] == "/token")]
        return [one for one in self.requests() if one.action not in READ_ACTIONS] + http

    # MARK: the control port

    def state(self) -> dict:
        counts: dict[str, int] = {}
        for one in self.received:
            counts[one.action] = counts.get(one.action, 0) + 1
        return {"port": self.port, "other_port": self.other_port, "bytes_in": self.bytes_in, "bytes_out": self.bytes_out,
                "requests": counts, "sessions_made": self._sessions_made, "sessions": [one.state() for one in self.sessions],
                "token_requests": len(self.account.token_requests), "http_requests": len(self.http), "violations": len(self.violations()),
                "settings": dataclasses.asdict(self.settings), "account": {"lifetime": self.account.lifetime, "mode": self.account.mode},
                "commands": self.misbehaviour.names, "invalid": list(INVALID),
                "namespaces": {name: {"writes": one.count, "bytes": one.root.size if one.root else 4, "hash": hashing.node_hash(one.root)}
                               for name, one in self.namespaces.items()}}

    def controlled(self, request: Request) -> bytes:
        """GET /control, /control/requests, /control/http, /control/events, /control/writes?ns=; and POST /control with
        {"set": {…}}, {"account": {…}}, {"behave": true}, {"do": "…", "options": {…}}, or {"put" or "merge": "path", "data": …, "ns": "…"}."""
        try:
            if request.method == "GET":
                what = request.path[len("/control"):].strip("/")
                ns = self.namespace(request.params.get("ns", self.ns))
                found = {"": self.state, "requests": lambda: [dataclasses.asdict(one) for one in self.received], "http": lambda: self.http,
                         "events": lambda: self.events, "writes": lambda: [dataclasses.asdict(one) for one in ns.writes]}[what]()
                return response(200, json.dumps(found, indent=1, ensure_ascii=False).encode() + b"\n")
            asked = parse(request.body)
            for name, value in asked.get("account", {}).items():
                setattr(self.account, name, value)
            if asked.get("behave"):
                self._set(dataclasses.asdict(Settings(requires_auth=self.settings.requires_auth)))
            self._set(asked.get("set", {}))
            if "do" in asked:
                self.misbehaviour.run(asked["do"], **asked.get("options", {}))
            for kind in ("put", "merge"):
                if kind in asked:
                    getattr(self.namespace(asked.get("ns", self.ns)), kind)(split_path(asked[kind]), asked["data"])
            return response(200, b'{"ok": true}\n')
        except (Invalid, KeyError, TypeError, AttributeError) as failure:
            return response(400, dump({"error": str(failure)}).encode() + b"\n")


def main():
    parser = argparse.ArgumentParser(description="Stands in for a Realtime Database on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--other-port", type=int, default=0, help="where redirects lead")
    parser.add_argument("--ns", default="shop")
    parser.add_argument("--service-account", metavar="FILE", help="write credentials there, and demand them")
    parser.add_argument("--token-lifetime", type=float, default=3600, help="seconds")
    parser.add_argument("--data", metavar="FILE", help="JSON in export form to begin with")
    options = parser.parse_args()
    with Standin(options.port, options.other_port, options.ns) as standin:
        standin.account.lifetime = options.token_lifetime
        if options.service_account:
            standin.credentials(options.service_account)
        if options.data:
            standin.put("", parse(Path(options.data).read_text()))
        print(f"standin: ready on {standin.url()}, control at http://127.0.0.1:{standin.port}/control", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
