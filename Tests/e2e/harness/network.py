"""A client's network that can be cut without a notice: a network namespace of its own, joined to ours by a pair of interfaces."""

import ctypes
import os
import subprocess
import uuid
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000


def _run(*words):
    subprocess.run(words, check=True, capture_output=True)


class Network:
    """`server` is the address under which the client's side reaches this machine."""

    def __init__(self):
        tag = uuid.uuid4().hex[:8]
        self.name, self._ours, self._theirs = f"pm{tag}", f"pma{tag}", f"pmb{tag}"
        subnet = f"10.{200 + os.getpid() % 50}.{int(tag[:2], 16)}"
        self.server, self._client = f"{subnet}.1", f"{subnet}.2"

    def open(self):
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", self._ours, "type", "veth", "peer", "name", self._theirs, "netns", self.name)
        _run("ip", "addr", "add", f"{self.server}/24", "dev", self._ours)
        _run("ip", "link", "set", self._ours, "up")
        _run("ip", "-n", self.name, "addr", "add", f"{self._client}/24", "dev", self._theirs)
        _run("ip", "-n", self.name, "link", "set", self._theirs, "up")

    @contextmanager
    def inside(self):
        """Sockets that this thread opens in this context are on the client's side."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.name}") as there:
            if libc.setns(there.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                libc.setns(home.fileno(), _CLONE_NEWNET)

    def cut(self):
        """Drops all packets from now on, in both directions."""
        _run("ip", "-n", self.name, "link", "set", self._theirs, "down")

    def close(self):
        subprocess.run(["ip", "link", "del", self._ours], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


@contextmanager
def network():
    """Returns None if this machine does not allow a network namespace."""
    made = Network()
    try:
        made.open()
    except (OSError, subprocess.CalledProcessError):
        made.close()
        yield None
        return
    try:
        yield made
    finally:
        made.close()
