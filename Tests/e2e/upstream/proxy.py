"""A TCP proxy between a follower and its upstream: counts bytes, and cuts, delays, freezes and resets connections on command."""

import collections
import socket
import struct
import threading
import time

DOWN, UP = "down", "up"  # towards the follower, and towards the upstream


class Link:
    """One connection through the proxy. `budget` is the number of bytes, in the direction of it, after which the link is reset."""

    def __init__(self, client: socket.socket, server: socket.socket, number: int):
        self.client, self.server, self.number = client, server, number
        self.bytes = {UP: 0, DOWN: 0}
        self.budget: dict[str, int | None] = {UP: None, DOWN: None}
        self.is_over = False

    def reset(self):
        """Ends both sides by a TCP reset."""
        self.is_over = True
        for end in (self.client, self.server):
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # Wakes the thread that reads; closing alone does not.
                end.shutdown(socket.SHUT_RD)
            except OSError:
                pass
            end.close()

    def end(self):
        """Ends both sides in order."""
        self.is_over = True
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class UpstreamProxy:
    """Listens on `port` and leads to a port of 127.0.0.1. Use as a context."""

    def __init__(self, server_port: int):
        self._server_port = server_port
        self._lock = threading.Lock()
        self._links: list[Link] = []
        self._seconds = 2.0
        self._plan: collections.deque[tuple[str, int]] = collections.deque()
        self._frozen: set[str] = set()
        self._refuses = False
        self.delay = {UP: 0.0, DOWN: 0.0}
        self.bytes = {UP: 0, DOWN: 0}
        self.connections = 0
        self.cuts = 0
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.thaw()
        self.cut()

    def url(self, ns: str = "shop") -> str:
        """What a follower is given as the upstream."""
        return f"http://127.0.0.1:{self.port}/?ns={ns}"

    # MARK: commands

    def cut(self, resets: bool = True):
        """Ends all connections now; what was not passed on is lost."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            self.cuts += 1
            link.reset() if resets else link.end()

    def cut_after(self, size: int, direction: str = DOWN):
        """Resets each connection there is once so many more bytes have passed in a direction, at exactly that byte."""
        with self._lock:
            for link in self._links:
                link.budget[direction] = size

    def plan(self, cuts, seconds: float = 2):
        """Gives each connection to come one (direction, bytes), after which it is reset. Without any left, connections stay.

        A connection on which so many bytes do not pass within some seconds is reset then, so that a plan comes to its end.
        """
        with self._lock:
            self._seconds = seconds
            self._plan.extend(cuts)

    @property
    def planned(self) -> int:
        """How many planned cuts have no connection yet."""
        return len(self._plan)

    def forget_plan(self):
        with self._lock:
            self._plan.clear()
            for link in self._links:
                link.budget = {UP: None, DOWN: None}

    def freeze(self, *directions: str):
        """Passes nothing on in these directions, both if none is named; connections stay open."""
        self._frozen = set(directions) or {UP, DOWN}

    def thaw(self):
        """Passes on again, also what was held back."""
        self._frozen = set()

    def refuse(self, refuses: bool = True):
        """Ends every new connection at once, as a port on which nothing listens."""
        self._refuses = refuses

    def switch(self, server_port: int):
        """Leads to another upstream; connections to the old one end."""
        self._server_port = server_port
        self.cut()

    def counted(self) -> tuple[int, int]:
        """(bytes up, bytes down) since the last call."""
        with self._lock:
            found = self.bytes[UP], self.bytes[DOWN]
            self.bytes = {UP: 0, DOWN: 0}
        return found

    @property
    def alive(self) -> int:
        """The number of connections."""
        with self._lock:
            return len(self._links)

    # MARK: passing on

    def _accept(self):
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            try:
                if self._refuses:
                    raise ConnectionRefusedError
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                link = Link(client, server, self.connections)
                if self._plan:
                    direction, size = self._plan.popleft()
                    link.budget[direction] = size
                    late = threading.Timer(self._seconds, self._reset_late, (link,))
                    late.daemon = True
                    late.start()
                self._links.append(link)
            for direction in (UP, DOWN):
                threading.Thread(target=self._pass_on, args=(link, direction), daemon=True).start()

    def _reset_late(self, link: Link):
        with self._lock:
            is_due = link in self._links and any(size is not None for size in link.budget.values())
        if is_due:
            self.cuts += 1
            link.reset()

    def _pass_on(self, link: Link, direction: str):
        source, sink = (link.client, link.server) if direction == UP else (link.server, link.client)
        try:
            while data := source.recv(65536):
                if self.delay[direction]:
                    time.sleep(self.delay[direction])
                while direction in self._frozen and not link.is_over:
                    time.sleep(0.005)
                with self._lock:
                    budget = link.budget[direction]
                    is_cut = budget is not None and budget <= len(data)
                    if is_cut:
                        data = data[:budget]
                    elif budget is not None:
                        link.budget[direction] = budget - len(data)
                    link.bytes[direction] += len(data)
                    self.bytes[direction] += len(data)
                sink.sendall(data)
                if is_cut:
                    self.cuts += 1
                    if direction == DOWN:
                        # A reset would take bytes along that the follower has not read yet; the end is to come after exactly these.
                        sink.shutdown(socket.SHUT_WR)
                        time.sleep(0.05)
                    link.reset()
        except OSError:
            pass
        link.end()
        with self._lock:
            if link in self._links:
                self._links.remove(link)


def random_cuts(dice, count: int, low: int = 1, high: int = 60_000):
    """So many (direction, bytes) for `plan`: half of them in the first 2,000 bytes, where handshakes and hashes are."""
    for _ in range(count):
        if dice.random() < 0.25:
            # A follower sends little: its request, its login and its hashes.
            yield UP, dice.randrange(low, 1_500)
        else:
            yield DOWN, dice.randrange(low, 2_000 if dice.random() < 0.5 else high)
