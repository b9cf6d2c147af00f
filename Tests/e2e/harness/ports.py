"""Free TCP ports for servers that are told where to listen."""

import os
import random
import socket

# Below the kernel's ephemeral range, so that no outgoing connection takes the port before the server does.
_dice = random.Random(os.urandom(8))


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on now."""
    for _ in range(200):
        port = _dice.randrange(15_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port on 127.0.0.1 between 15000 and 32000")
