"""A relay between a follower and its upstream that can hold back what the upstream sends."""

import socket
import threading


class Relay:
    """Listens on `port` and leads to a port of 127.0.0.1. Use as a context.

    It always reads what the upstream sends, so that the upstream never waits; what is held comes in one go with `release`."""

    def __init__(self, server_port: int):
        self._server_port = server_port
        self._passes = threading.Event()
        self._passes.set()
        self._ends: list[socket.socket] = []
        # Connections so far, and bytes that are held.
        self.connections = 0
        self.held = 0
        self._news = threading.Condition()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_):
        self._passes.set()
        _end(self._door, socket.SHUT_RDWR)
        self.cut()
        for end in (self._door, *self._ends):
            end.close()

    def cut(self):
        """Ends all connections."""
        for end in self._ends:
            _end(end, socket.SHUT_RDWR)

    def hold(self):
        """Holds back from now on."""
        self._passes.clear()

    def release(self):
        """Sends on what was held, and everything after it."""
        self._passes.set()

    def _accept(self):
        while True:
            try:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                return
            self.connections += 1
            self._ends += [client, server]
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pieces: list[bytes] = []
            for work in ((self._up, client, server), (self._read, server, pieces), (self._send, client, pieces)):
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    @staticmethod
    def _up(client: socket.socket, server: socket.socket):
        try:
            while data := client.recv(1 << 16):
                server.sendall(data)
        except OSError:
            pass
        _end(server)

    def _read(self, server: socket.socket, pieces: list[bytes]):
        data = b"begin"
        while data:
            try:
                data = server.recv(1 << 18)
            except OSError:
                data = b""
            with self._news:
                pieces.append(data)
                self.held += len(data)
                self._news.notify_all()

    def _send(self, client: socket.socket, pieces: list[bytes]):
        """Empty data is the end."""
        while True:
            with self._news:
                self._news.wait_for(lambda: pieces)
            self._passes.wait()
            with self._news:
                held = pieces[:]
                pieces.clear()
                self.held -= sum(map(len, held))
            try:
                client.sendall(b"".join(held))
            except OSError:
                return
            if held[-1] == b"":
                return _end(client)


def _end(connection: socket.socket, how: int = socket.SHUT_WR):
    try:
        connection.shutdown(how)
    except OSError:
        pass
