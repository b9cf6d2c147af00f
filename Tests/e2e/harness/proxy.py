"""A proxy between a gateway and PostgreSQL: it loses data as a network can, and leads to another server after a failover."""

import socket
import threading

from .waiting import PATIENCE, Late


def _end(*ends: socket.socket):
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Proxy:
    """Listens on `port` and forwards everything until a test makes it lose data. Use as a context."""

    def __init__(self, server_port: int):
        self._server_port = server_port
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._wanted: bytes | None = None
        self._unheard: bytes | None = None
        self._lost = threading.Event()
        self._held: bytes | None = None
        self._is_held = threading.Event()
        self._swallows = False
        self._dead: set[socket.socket] = set()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Closing alone does not wake the thread that accepts.
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.let_go()
        self.cut()

    def lose_answer(self, text: bytes, patience: float = PATIENCE):
        """Waits for an answer of the server that contains a text, drops this answer, and then cuts all connections."""
        self._lost.clear()
        self._wanted = text
        if not self._lost.wait(patience):
            raise Late(f"the server did not answer {text!r}")
        self.cut()

    def deafen(self, text: bytes):
        """Drops all further data of the server on a connection whose answer contains `text`, without closing the connection."""
        self._unheard = text

    def hold(self, text: bytes):
        """Holds back the answer that contains `text`, and all data after it on that connection, until `let_go` releases them."""
        self._held = text
        self._is_held.clear()

    def let_go(self):
        self._held = None
        self._is_held.set()

    def switch(self, server_port: int):
        """Leads to another server from now on, and ends the current connections."""
        self._server_port = server_port
        self.cut()

    def swallow(self, swallows: bool = True):
        """Accepts all connections and their data from now on, and forwards nothing in either direction. A connection that has lost data
        loses all of it, even once others are served again."""
        self._swallows = swallows

    def cut(self):
        """Ends the current connections."""
        with self._lock:
            ends, self._sockets = self._sockets, []
        _end(*ends)

    def _accept(self):
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets += [client, server]
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True).start()

    def _pass_on(self, source, sink, is_answer=False):
        try:
            while data := source.recv(65536):
                with self._lock:
                    if self._swallows:
                        self._dead |= {source, sink}
                    is_dead = source in self._dead
                if is_dead:
                    continue
                if not is_answer:
                    self._heard(data)
                elif self._loses(data):
                    return
                sink.sendall(data)
        except OSError:
            pass
        _end(source, sink)

    def _heard(self, data: bytes):
        """A client has sent this."""

    def _loses(self, data: bytes) -> bool:
        held = self._held
        if held is not None and held in data:
            self._is_held.wait()
        if self._unheard is not None and self._unheard in data:
            return True
        with self._lock:
            if self._wanted is None or self._wanted not in data:
                return False
            self._wanted = None
        self._lost.set()
        return True
