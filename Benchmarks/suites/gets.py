"""GETs of a small value against the same server's constant answer, alone and beside idle connections."""

import json

from harness import machine
from harness.connections import Connections
from harness.context import Context
from harness.gateway import Gateway
from harness.load import wrk
from harness.report import typical

NAME = "get"
IDLE = 8_000
# Files that the gateway has open besides idle connections, with room.
OTHER_FILES = 500


def run(context: Context):
    idle = min(IDLE, machine.raise_open_files(IDLE + OTHER_FILES) - OTHER_FILES)
    if idle < IDLE:
        context.note(f"only {idle:,} idle connections, as no more open files are allowed here")
    seconds = context.pick(2, 1)
    constant, small, constant_beside, small_beside = [], [], [], []
    with Gateway() as gateway:
        users = {f"u{n}": {"name": f"Ada {n}", "age": n} for n in range(1000)}
        gateway.request("PUT", "/users.json", json.dumps(users))

        def load(target: str) -> float:
            context.quiet.wait()
            return wrk(gateway, target, seconds).per_second

        load("/users/u7/name.json")
        for number in context.rounds(5, 2, until=65):
            context.progress(f"round {number + 1}")
            constant.append(load("/.health/live"))
            small.append(load("/users/u7/name.json"))
            with Connections(gateway.port, idle=idle):
                small_beside.append(load("/users/u7/name.json"))
                constant_beside.append(load("/.health/live"))

    def ratio(text: str, over: list[float], under: list[float], **options):
        context.measure(text, [a / b for a, b in zip(over, under)],
                        absolute=f"{typical(over)} against {typical(under)} a second", **options)

    ratio("GETs of a small value / of a constant", small, constant, aim=0.6)
    ratio(f"the same beside {idle:,} idle connections", small_beside, constant_beside, aim=0.6)
    # Two equal measurements differ by five in a hundred.
    ratio(f"GETs beside {idle:,} idle connections / alone", small_beside, small, aim=0.95)
