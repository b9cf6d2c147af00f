"""Resident memory of the gateway: a leaf, a connection of each kind."""

import time

from harness import machine
from harness.connections import Connections
from harness.context import Context
from harness.dataset import dataset
from harness.gateway import Gateway
from harness.report import figure

NAME = "memory"
CONNECTIONS = 5_000
FIRST_CONNECTIONS = 1_000
CONNECTED = {
    "an idle HTTP connection": "idle",
    "an SSE listener (one path)": "stream",
    "an idle WebSocket": "socket",
    "a WebSocket with a listen (one path)": "listen",
    "a long-polling session with its waiting request": "poll",
}


def run(context: Context):
    context.progress("loading the data")
    data = dataset(context.pick(1_000_000, 200_000))
    count = min(CONNECTIONS, machine.raise_open_files(CONNECTIONS + FIRST_CONNECTIONS + 500) - FIRST_CONNECTIONS - 500)
    with Gateway() as gateway:
        gateway.command("import", data.export, "--ns", "big")
        # Each figure from a fresh process: memory that an earlier one has freed would hide the use of a later one.
        gateway.restart()
        empty = machine.settled_resident_bytes(gateway.pid)
        start = time.monotonic()
        gateway.request("GET", "/users.json?ns=big&print=silent")
        loading = time.monotonic() - start
        loaded = machine.settled_resident_bytes(gateway.pid)
        context.measure("memory a leaf, after a restart", [(loaded - empty) / data.leaves], unit=" bytes",
                        absolute=f"{data.leaves:,} leaves, {figure(data.export.stat().st_size / data.leaves)} bytes "
                        f"each as JSON, loaded in {figure(loading)} s")
        for text, kind in CONNECTED.items():
            context.progress(f"{count:,} connections: {text}")
            gateway.restart()
            gateway.request("PUT", "/users/u1.json", '{"name":"Ada"}')
            # The first ones may use memory that the start has left free.
            with Connections(gateway.port, "/users/u1", **{kind: FIRST_CONNECTIONS}):
                before = machine.settled_resident_bytes(gateway.pid)
                with Connections(gateway.port, "/users/u1", **{kind: count}):
                    after = machine.settled_resident_bytes(gateway.pid)
            context.measure(f"memory {text}", [(after - before) / count], unit=" bytes",
                            absolute=f"{count:,} of them; the kernel's buffers are not in it")
