"""The load generators: wrk for HTTP, pgbench for SQL, clients/writers.c for realtime clients."""

import json
import re
from dataclasses import dataclass
from typing import Protocol

from . import machine, process
from .clients import client
from .gateway import Gateway
from .processor import Meter
from .redis import Redis
from .wrong import Wrong

FOLDER = machine.REPOSITORY / "Benchmarks"


@dataclass(frozen=True)
class Load:
    """The measurements of a generator."""

    per_second: float
    # Milliseconds; of pgbench, which gives no percentiles, the mean stands for the median.
    latency: float
    # Processor time of an operation in microseconds: generator, gateway and PostgreSQL together.
    cost: float
    # The 99th percentile in milliseconds, if the generator has it.
    p99: float = 0


class Server(Protocol):
    """The server's properties that a generator of HTTP requests needs."""

    @property
    def url(self) -> str: ...

    def meter(self) -> Meter: ...


def wrk(server: Server, target: str, seconds: int, connections: int = 64, script: str = "report.lua",
        arguments: tuple = ()) -> Load:
    """Load with keep-alive connections. A single answer that is not 2xx makes the result worthless."""
    meter = server.meter()
    text = process.run(
        [machine.program("wrk"), "-t", min(2, connections), "-c", connections, "-d", f"{seconds}s", "--timeout", "20s",
         "-s", FOLDER / "wrk" / script, server.url + target, "--", *arguments], seconds + 60)
    result = json.loads(re.search(r"^RESULT (.*)$", text, re.MULTILINE).group(1))
    if result["non2xx"] or result["broken"] or not result["requests"]:
        raise Wrong(f"{result['non2xx']} answers were not 2xx and {result['broken']} connections failed on {target}")
    return Load(result["requests"] / result["micros"] * 1e6, result["p50"] / 1e3, meter.used * 1e6 / result["requests"],
                result["p99"] / 1e3)


def writers(gateway: Gateway, seconds: int, connections: int, in_flight: int, keys: int, length: int, seed: int) -> Load:
    """Realtime WebSockets, each with this number of unanswered puts. A single answer but `ok` makes the result worthless."""
    return _pipelined("writers", gateway.port, gateway.meter(), seconds, connections, in_flight, keys, length, seed)


def appends(redis: Redis, seconds: int, connections: int, in_flight: int, keys: int, length: int, seed: int) -> Load:
    """The same values, appended to a stream of Redis."""
    return _pipelined("appends", redis.target, redis.meter(), seconds, connections, in_flight, keys, length, seed)


def _pipelined(program: str, port: int, meter: Meter, seconds: int, *words) -> Load:
    connections, in_flight, *rest = words
    result = json.loads(process.run([client(program), port, connections, in_flight, seconds, *rest], seconds + 60))
    if result["wrong"]:
        raise Wrong(f"{result['wrong']} of {result['answers']} writes of {program} were not answered with ok")
    return Load(result["answers"] / result["micros"] * 1e6, result["p50"] / 1e3, meter.used * 1e6 / result["answers"],
                result["p99"] / 1e3)


def pgbench(gateway: Gateway, script: str, seconds: int, clients: int = 64, **variables) -> Load:
    """The same work by SQL clients, with prepared statements."""
    defines = [word for name, value in variables.items() for word in ("-D", f"{name}={value}")]
    meter = gateway.meter()
    text = process.run(
        [machine.program("pgbench"), "-n", "-M", "prepared", "-c", clients, "-j", min(2, clients), "-T", seconds,
         *defines, "-f", FOLDER / "pgbench" / script], seconds + 60, env=gateway.environment)
    failed = re.search(r"^number of failed transactions: (\d+)", text, re.MULTILINE)
    if failed and int(failed.group(1)):
        raise Wrong(f"{failed.group(1)} transactions of pgbench failed")
    number = {name: float(re.search(pattern, text, re.MULTILINE).group(1)) for name, pattern in {
        "rate": r"^tps = ([\d.]+)", "latency": r"^latency average = ([\d.]+) ms",
        "count": r"^number of transactions actually processed: (\d+)"}.items()}
    return Load(number["rate"], number["latency"], meter.used * 1e6 / number["count"])
