"""Free TCP ports for servers that get a fixed port."""

import collections
import os
import random
import socket

# Below the kernel's ephemeral range, so that no outgoing connection takes the port before the server does.
_dice = random.Random(os.urandom(8))

# Until a server listens at its port, other test processes cannot see that the port is reserved. A UDP socket at the same number shows it
# while this process lives; no program here uses UDP. Only the newest sockets are kept: servers with older ports already listen, or have
# ended.
_given = collections.deque(maxlen=200)


def free_port() -> int:
    """Returns a port of 127.0.0.1 without a listener. No other test process gets the same one."""
    for _ in range(200):
        port = _dice.randrange(15_000, 32_000)
        mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            mine.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            mine.close()
            continue
        _given.append(mine)
        return port
    raise RuntimeError("no free port on 127.0.0.1 between 15000 and 32000")
