"""Free TCP ports for servers that are told where to listen."""

import collections
import os
import random
import socket

# Below the kernel's ephemeral range, so that no outgoing connection takes the port before the server does.
_dice = random.Random(os.urandom(8))

# Until a server listens at its port, nothing shows other test processes that it is given away. A UDP socket at the same number does,
# for as long as this process lives; nothing here speaks UDP. Only so many are kept: servers of older ones listen by now, or have ended.
_given = collections.deque(maxlen=200)


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on now, and that is given to nobody else of these tests."""
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
