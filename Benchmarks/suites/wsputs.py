"""Durable writes over realtime WebSockets, several in flight on each, against HTTP PUTs and pgbench."""

from harness.context import Context
from harness.gateway import Gateway
from harness.load import FOLDER, Load, writers
from harness.report import typical
from suites.puts import KEYS, LENGTH, Sides, filled, verify

NAME = "wsput"
CONNECTIONS = 64
IN_FLIGHT = 16


def run(context: Context):
    with Gateway() as gateway:
        gateway.sql((FOLDER / "pgbench" / "schema.sql").read_text())
        filled(gateway, context)
        compare(RealtimeSides(gateway, context, context.pick(3, 1)), context)
        gateway.sql("set client_min_messages = warning; drop schema pathmirror_bench cascade")
        verify(gateway, context)


class RealtimeSides(Sides):
    def write(self, in_flight: int) -> Load:
        self.settle()
        return writers(self.gateway, self.seconds, CONNECTIONS, in_flight, KEYS, LENGTH, self.seed)


def compare(sides: RealtimeSides, context: Context):
    puts, many, single, pipelined = [], [], [], []
    for number in context.rounds(4, 1, until=45):
        context.progress(f"{CONNECTIONS} connections, round {number + 1}")
        puts.append(sides.put(connections=CONNECTIONS))
        many.append(sides.write(IN_FLIGHT))
        single.append(sides.write(1))
        pipelined.append(sides.sql("write_pipelined.sql", clients=CONNECTIONS))

    def against(text: str, ours: list[Load], others: list[Load]):
        rates = [load.per_second for load in ours], [load.per_second for load in others]
        context.measure(text, [a / b for a, b in zip(*rates)],
                        absolute=f"{typical(rates[0])} against {typical(rates[1])} a second, p50 "
                        f"{typical([load.latency for load in ours])} against "
                        f"{typical([load.latency for load in others])} ms")

    against(f"WebSocket writes a second, {CONNECTIONS} connections with {IN_FLIGHT} in flight each / HTTP PUTs, {CONNECTIONS}",
            many, puts)
    context.measure("  processor time of a write: HTTP PUT's / WebSocket's", [a.cost / b.cost for a, b in zip(puts, many)],
                    absolute=f"{typical([load.cost for load in puts])} against "
                    f"{typical([load.cost for load in many])} microseconds, load generators included")
    against(f"  / pgbench, {CONNECTIONS} clients, each transaction in one round trip (pipelined)", many, pipelined)
    against("  one in flight each / HTTP PUTs", single, puts)
