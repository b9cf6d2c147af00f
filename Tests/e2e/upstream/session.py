"""One WebSocket session of the stand-in: greeting, requests, pushes, and tokens that expire."""

import asyncio
import json
import socket
import struct
import time
import uuid

from . import hashing, misbehaviour, query
from .database import Listen
from .tree import Invalid, at, dump, export, parse, split_path
from .wire import CLOSE, PING, PONG, FrameReader, Gone, accept_key, frame, response, segments

# All that a client may ask without changing data.
READ_ACTIONS = {"s", "q", "n", "l", "u", "g", "auth", "gauth", "unauth", "appcheck", "unappcheck", "unappeck"}


class Session:
    def __init__(self, standin, request, reader, writer, is_first_port: bool):
        self._standin, self._request, self._writer = standin, request, writer
        self.is_first_port = is_first_port
        self.id = uuid.uuid4().hex
        self.number = standin.next_session()
        self.namespace = standin.namespace(request.params.get("ns") or request.headers.get("host", "").split(".")[0])
        self.listens: list[Listen] = []
        self.bytes_in = self.bytes_out = self.pings = self.keep_alives = self.waiting = 0
        self.is_over = False
        self.expires: float | None = None
        self.is_admin = not standin.settings.requires_auth
        self._expiry: asyncio.TimerHandle | None = None
        self._frames = FrameReader(reader, self._count_in)
        self._outbox: asyncio.Queue = asyncio.Queue()
        self._tasks: list[asyncio.Task] = []

    # MARK: sending

    def _count_in(self, size: int):
        self.bytes_in += size
        self._standin.bytes_in += size

    def write(self, data: bytes):
        """Queues bytes."""
        self.waiting += len(data)
        self._outbox.put_nowait(data)

    def send(self, text: str):
        """Queues a message, in segments where it is long."""
        settings = self._standin.settings
        for piece in segments(text, settings.segment, settings.always_counted):
            self.write(frame(piece.encode()))

    def control(self, kind: str, data):
        self.send(dump({"t": "c", "d": {"t": kind, "d": data}}))

    def push(self, action: str, body: dict):
        if action in ("d", "m") and self._standin.settings.lost_pushes > 0:
            self._standin.settings.lost_pushes -= 1
            return
        self.send(dump({"t": "d", "d": {"b": body, "a": action}}))

    def answer(self, number, status: str, data):
        self.send(dump({"t": "d", "d": {"r": number, "b": {"s": status, "d": data}}}))

    def begin(self, work):
        self._tasks.append(asyncio.ensure_future(work))

    async def _sender(self):
        settings = self._standin.settings
        try:
            while True:
                data = await self._outbox.get()
                if data is None:
                    break
                while settings.freeze in ("answers", "everything") and self.number >= settings.freeze_from:
                    await asyncio.sleep(0.02)
                step = settings.trickle_bytes or len(data) or 1
                for start in range(0, len(data), step):
                    piece = data[start:start + step]
                    if settings.cut_after is not None and len(piece) >= settings.cut_after:
                        piece = piece[:settings.cut_after]
                        settings.cut_after = None
                        self._sent(piece)
                        await self._writer.drain()
                        self._standin.log_event("cut", session=self.number)
                        return self.abort()
                    if settings.cut_after is not None:
                        settings.cut_after -= len(piece)
                    self._sent(piece)
                    await self._writer.drain()
                    if settings.trickle_bytes:
                        await asyncio.sleep(settings.trickle_pause)
                self.waiting -= len(data)
        except (ConnectionError, OSError):
            pass
        self._writer.close()

    def _sent(self, piece: bytes):
        self._writer.write(piece)
        self.bytes_out += len(piece)
        self._standin.bytes_out += len(piece)

    def close(self, code: int = 1000, reason: str = ""):
        """Ends the session in order, after what is queued."""
        self.write(frame(struct.pack(">H", code) + reason.encode(), CLOSE))
        self._outbox.put_nowait(None)

    def abort(self):
        """Resets the connection."""
        self.is_over = True
        plain = self._writer.get_extra_info("socket")
        if plain is not None:
            try:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass
        self._writer.transport.abort()

    # MARK: life

    async def run(self):
        """Serves the session to its end."""
        standin, settings = self._standin, self._standin.settings
        standin.sessions.append(self)
        standin.log_event("connected", session=self.number, ns=self.namespace.name, ls=self._request.params.get("ls"))
        self.begin(self._sender())
        try:
            while settings.freeze in ("accept", "everything"):
                await asyncio.sleep(0.02)
            self.write(response(101, headers={"Upgrade": "websocket", "Connection": "Upgrade",
                                              "Sec-WebSocket-Accept": accept_key(self._request.headers.get("sec-websocket-key", ""))}))
            while settings.freeze == "greeting":
                await asyncio.sleep(0.02)
            if settings.redirects_sockets and self.is_first_port:
                self.control("r", settings.redirect_to or f"127.0.0.1:{standin.other_port}")
            else:
                host = settings.greeting_host or self._request.headers.get("host", "")
                self.control("h", {"ts": int(time.time() * 1000), "v": "5", "h": host, "s": self.id})
            while True:
                opcode, payload = await self._frames.frame()
                if opcode == CLOSE:
                    self.write(frame(payload[:2], CLOSE))
                    break
                if opcode in (PING, PONG):
                    if opcode == PING:
                        self.pings += 1
                        self.write(frame(payload, PONG))
                    continue
                message = self._frames.message(payload.decode("utf-8", "replace"))
                if message == "0":
                    self.keep_alives += 1
                elif message is not None:
                    self._take(message)
        except Gone:
            pass
        finally:
            self.is_over = True
            standin.log_event("disconnected", session=self.number)
            standin.sessions.remove(self)
            for listen in self.listens:
                self.namespace.listens.remove(listen)
            self.listens.clear()
            if self._expiry:
                self._expiry.cancel()
            self._outbox.put_nowait(None)
            await asyncio.wait(self._tasks[:1], timeout=1)
            for task in self._tasks:
                task.cancel()

    # MARK: requests

    def _take(self, text: str):
        try:
            message = parse(text)
            layer, data = message["t"], message["d"]
        except (Invalid, KeyError, TypeError):
            self._standin.log_event("bad_message", session=self.number, text=text[:200])
            return
        if layer == "c":
            if data.get("t") == "p":
                self.control("o", None)
            return
        number, action, body = data.get("r"), data.get("a"), data.get("b") or {}
        self._standin.record(self, action, body, len(text))
        method = getattr(self, f"_do_{action}", None)
        if method is None:
            return self.answer(number, "failure", f"unknown action {action}")
        try:
            method(number, body)
        except (Invalid, KeyError, TypeError, AttributeError) as failure:
            self.answer(number, "failure", str(failure))

    def _do_s(self, number, body):
        self.answer(number, "ok", "")

    _do_appcheck = _do_unappcheck = _do_unappeck = _do_s

    def _denied(self, number) -> bool:
        if self.is_admin:
            return False
        self.answer(number, "permission_denied", "Permission denied")
        return True

    def _do_q(self, number, body):
        standin, settings = self._standin, self._standin.settings
        if self._denied(number):
            return
        listen = Listen(self, split_path(body["p"]), body.get("q"), body.get("t"))
        if listen.query is not None:
            query.window(None, listen.query)
        if settings.listen_status:
            return self.answer(number, settings.listen_status, "refused on command")
        node = listen.view(self.namespace.root)
        if self._is_too_big(node):
            if settings.too_big_closes:
                self.control("e", "payload is too large")
                return self.close(1009)
            return self.answer(number, "too_big", "Data requested exceeds the maximum size that can be accessed with a single request.")
        for other in [one for one in self.listens if one.identity == listen.identity]:
            self._forget(other)
        self.listens.append(listen)
        self.namespace.listens.append(listen)
        self._initial(listen, node, body)
        if settings.on_listen and settings.on_listen_times > 0:
            settings.on_listen_times -= 1
            standin.misbehaviour.run(settings.on_listen, [self], **settings.on_listen_options)
        if not settings.withholds_answer:
            self.answer(number, "ok", {})

    def _initial(self, listen: Listen, node, body: dict):
        """Sends what the client lacks."""
        settings = self._standin.settings
        is_equal = body.get("h", "") == hashing.view_hash(node, listen.query is not None)
        if settings.hash_lies:
            is_equal = settings.hash_lies == "equal"
        if is_equal:
            self._standin.log_event("equal", session=self.number)
            return
        if "ch" in body and settings.range_merges:
            found = hashing.differences(node, body["ch"])
            if found:
                self._standin.log_event("ranges", session=self.number, count=len(found))
                return listen.push("rm", listen.path, found)
        self._standin.log_event("whole", session=self.number)
        if settings.split_bytes:
            for path, data in misbehaviour.parts(listen, node, settings.split_bytes):
                self.send(misbehaviour.text_of(path, data, listen.tag))
        else:
            listen.push("d", listen.path, export(node))

    def _is_too_big(self, node) -> bool:
        limit = self._standin.settings.too_big_bytes
        return limit is not None and node is not None and node.size > limit

    def grown(self, listen: Listen):
        """Revokes a listen whose data has become too large."""
        if self._standin.settings.too_big_bytes is not None and self._is_too_big(listen.view(self.namespace.root)):
            self.cancel(listen)

    def cancel(self, listen: Listen):
        """Revokes a listen."""
        self._forget(listen)
        self.push("c", {"p": "/".join(listen.path)} | ({} if listen.query is None else {"q": [listen.query]}))

    def _forget(self, listen: Listen):
        self.listens.remove(listen)
        self.namespace.listens.remove(listen)

    def _do_n(self, number, body):
        wanted = Listen(self, split_path(body["p"]), body.get("q"), body.get("t")).identity
        for listen in [one for one in self.listens if one.identity == wanted]:
            self._forget(listen)
        self.answer(number, "ok", "")

    _do_l, _do_u = _do_q, _do_n

    def _do_g(self, number, body):
        if self._denied(number):
            return
        node = at(self.namespace.root, split_path(body["p"]))
        if body.get("q"):
            node = query.filtered(node, body["q"])
        if self._is_too_big(node):
            return self.answer(number, "too_big", "Data requested exceeds the maximum size that can be accessed with a single request.")
        self.answer(number, "ok", export(node))

    def _do_p(self, number, body):
        self._write(number, self.namespace.put, body)

    def _do_m(self, number, body):
        self._write(number, self.namespace.merge, body)

    def _write(self, number, write, body):
        if self._denied(number):
            return
        if write(split_path(body["p"]), body["d"], body.get("h"), f"session {self.number}"):
            self.answer(number, "ok", "")
        else:
            self.answer(number, "datastale", "Transaction hash does not match")

    # MARK: tokens

    def _do_gauth(self, number, body):
        status, expires = self._standin.account.judge(body.get("cred"))
        if status != "ok":
            self.answer(number, status, "the credential is not valid")
            return
        self.is_admin, self.expires = True, expires
        if self._expiry:
            self._expiry.cancel()
        self._expiry = None
        if expires is not None:
            delay = max(0, expires - time.time()) + self._standin.settings.expiry_grace
            self._expiry = asyncio.get_running_loop().call_later(delay, self._expired)
        self.answer(number, "ok", {"auth": None, "expires": None if expires is None else int(expires)})

    _do_auth = _do_gauth

    def _do_unauth(self, number, body):
        self.is_admin = not self._standin.settings.requires_auth
        if not self.is_admin:
            for listen in list(self.listens):
                self.cancel(listen)
        self.answer(number, "ok", "unauthenticated")

    def revoke(self, status: str, text: str):
        """Notifies the client that its token counts no longer."""
        self._standin.log_event("revoked", session=self.number)
        self.is_admin = not self._standin.settings.requires_auth
        self.push("ac", {"s": status, "d": text})

    def _expired(self):
        self.revoke("expired_token", "Auth token is expired.")
        self.close(1000)

    def state(self) -> dict:
        return {"number": self.number, "ns": self.namespace.name, "listens": [
            {"p": "/".join(one.path), "q": one.query, "t": one.tag} for one in self.listens], "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out, "expires": self.expires, "keep_alives": self.keep_alives, "pings": self.pings}


def shortened(body) -> str:
    """A request for a log."""
    text = json.dumps(body, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"
