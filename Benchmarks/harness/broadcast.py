"""The least cost of a fan-out: the same bytes by plain send() loops (clients/broadcast.c)."""

import subprocess

from . import process
from .clients import client


class Broadcast:
    """A server that does nothing but send to `count` connections; see `put`."""

    def __init__(self, count: int, threads: int):
        self._child = process.start([client("broadcast"), count, threads], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)
        self.port = int(self._child.stdout.readline())
        self.count = 0

    def __enter__(self) -> "Broadcast":
        return self

    def __exit__(self, *_):
        self._child.stdin.close()
        process.stop(self._child)

    @property
    def pid(self) -> int:
        return self._child.pid

    def accepted(self):
        """Waits until all connections are there."""
        if self._child.stdout.readline() != "ready\n":
            raise process.Failed("the broadcast's connections could not be accepted")

    def put(self):
        """Sends one event to each connection: the bytes of the gateway for one PUT, in either protocol."""
        self.count += 1
        value = f'"message {self.count}"'
        event = f'event: put\ndata: {{"path":"/","data":{value}}}\n\n'.encode()
        push = f'{{"t":"d","d":{{"a":"d","b":{{"p":"room/topic","d":{value}}}}}}}'.encode()
        self._child.stdin.write(f"{event.hex()} {(bytes([0x81, len(push)]) + push).hex()}\n")
        self._child.stdin.flush()
        if self._child.stdout.readline() != "sent\n":
            raise process.Failed("the broadcast ended early")
