"""The victim's process: a tenant that pulls, acknowledges, asks for status, reads the log and has a webhook, each at a fixed pace.

Every operation has a due time, from which its latency counts: a stall affects all operations that were due during it, not one. A refused
operation (429, 503) is repeated after a moment, and its latency ends with the success. An unfinished one counts in a report with its
time so far."""

import asyncio
import json
import select
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

METRICS = ("pull", "wait", "ack", "status", "webhook", "log")
HOOK = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
# Seconds between two operations of one kind, and before the repetition of a refused one.
PERIOD, AGAIN = 0.05, 0.05
# Messages that are held for single acknowledgements, and the number of messages of a fetch.
SUPPLY, FETCH = 300, 1_000
KEYS = 500
FOLDER = Path(__file__).resolve().parents[1]


class Metric:
    """The latencies of one kind of operation since the last mark."""

    def __init__(self):
        self.found: list[tuple[float, float]] = []
        self.due: dict[object, float] = {}
        self.refused, self.errors, self.mark = 0, [], 0.0

    def begin(self, key, due: float):
        self.due[key] = due

    def end(self, key):
        due = self.due.pop(key, None)
        if due is not None and due >= self.mark:
            self.found.append((due, time.monotonic() - due))

    def since(self):
        self.mark = time.monotonic()
        self.found, self.refused, self.errors = [], 0, []

    def report(self) -> dict:
        now = time.monotonic()
        open_ones = [now - due for due in self.due.values() if self.mark <= due < now]
        values = sorted([latency for _, latency in self.found] + open_ones)

        def at(part: float):
            return round(values[min(len(values) - 1, int(part * len(values)))] * 1e3, 2) if values else None

        return {"count": len(values), "open": len(open_ones), "p50": at(0.5), "p99": at(0.99), "worst": at(1.0), "refused": self.refused,
                "errors": len(self.errors), "examples": self.errors[:3]}


class Channel:
    """One kept-alive connection to the gateway; a new one if it has ended."""

    def __init__(self, victim: "Operations", metric: Metric | None = None):
        self.victim, self.metric, self.streams = victim, metric, None

    async def once(self, method: str, target: str, token: str, body: bytes | None = None) -> tuple[int, bytes, bytes]:
        """Status, head and body of one exchange."""
        try:
            if self.streams is None:
                self.streams = await asyncio.open_connection("127.0.0.1", self.victim.port, limit=1 << 24)
            reader, writer = self.streams
            length = "" if body is None else f"Content-Length: {len(body)}\r\n"
            writer.write(f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{length}\r\n".encode() + (body or b""))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"transfer-encoding: chunked" in head:
                data = b""
                while size := int(await reader.readline(), 16):
                    data += (await reader.readexactly(size + 2))[:-2]
                await reader.readline()
            else:
                at = head.find(b"content-length: ")
                data = await reader.readexactly(int(head[at + 16:].split(b"\r\n", 1)[0])) if at >= 0 else b""
            if b"connection: close" in head:
                self.close()
            return int(head[9:12]), head, data
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            self.close()
            raise ConnectionError(repr(error)) from error

    def close(self):
        if self.streams:
            self.streams[1].close()
        self.streams = None

    async def ask(self, method: str, target: str, token: str, body: bytes | None = None) -> tuple[bytes, bytes]:
        """Head and body of the first answer that is no refusal, at any time."""
        while True:
            try:
                status, head, data = await self.once(method, target, token, body)
                if status in (200, 204):
                    return head, data
                if self.metric and status in (429, 503):
                    self.metric.refused += 1
                elif self.metric:
                    self.metric.errors.append(f"{method} {target.split('?')[0]}: {status} {data[:100]!r}")
            except ConnectionError as error:
                if self.metric:
                    self.metric.errors.append(str(error))
            await asyncio.sleep(AGAIN)


class Operations:
    """The victim's operations, and their measurements."""

    def __init__(self, spec: dict):
        self.port, self.ns, self.secret, self.tokens = spec["port"], spec["ns"], spec["secret"], spec["tokens"]
        self.receiver, self.period = spec["receiver"], spec.get("period", PERIOD)
        self.metrics = {name: Metric() for name in METRICS}
        self.seq, self.written = 1, 0

    async def paced(self, metric: Metric | None, action, records: bool = True):
        """Calls `action(number, due)` at each due time; late ones follow one another at once."""
        start, number = time.monotonic(), 0
        waiting: deque[tuple[int, float]] = deque()
        arrived = asyncio.Event()

        async def clock():
            # Records due times as they pass, also during an operation.
            nonlocal number
            while True:
                due = start + number * self.period
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if metric and records:
                    metric.begin(number, due)
                waiting.append((number, due))
                arrived.set()
                number += 1

        ticking = asyncio.create_task(clock())
        try:
            while True:
                while not waiting:
                    arrived.clear()
                    await arrived.wait()
                one, due = waiting.popleft()
                await action(one, due)
                if metric and records:
                    metric.end(one)
        finally:
            ticking.cancel()

    def feed(self, name: str, what: str) -> str:
        return f"/.feeds/{name}/{what}?ns={self.ns}"

    async def put(self, channel: Channel, path: str, value) -> int:
        head, _ = await channel.ask("PUT", f"/{path}.json?ns={self.ns}&print=silent", self.secret, json.dumps(value).encode())
        at = head.find(b"x-pathmirror-seq: ")
        if at >= 0:
            self.seq = max(self.seq, int(head[at + 18:].split(b"\r\n", 1)[0]))
        return self.seq

    # MARK: operations

    async def pull(self):
        """Pulls without waiting. Another task acknowledges the messages."""
        channel, later = Channel(self, self.metrics["pull"]), Channel(self)
        ids: deque[str] = deque()

        async def acknowledge():
            while True:
                await asyncio.sleep(self.period)
                if ids:
                    some = [ids.popleft() for _ in range(min(len(ids), 500))]
                    await later.ask("POST", self.feed("pulled", "ack"), self.tokens["pulled"], json.dumps({"ids": some}).encode())

        async def once(number: int, due: float):
            _, data = await channel.ask("POST", self.feed("pulled", "pull"), self.tokens["pulled"], b'{"max":20}')
            ids.extend(message["id"] for message in json.loads(data)["messages"])

        await asyncio.gather(acknowledge(), self.paced(self.metrics["pull"], once))

    async def wait(self):
        """Pulls that wait; latency from the due time of the write to the message's arrival."""
        metric = self.metrics["wait"]
        writing, pulling = Channel(self), Channel(self, metric)

        async def write(number: int, due: float):
            metric.begin(number, due)
            await self.put(writing, f"waited/k{number % KEYS}", number)

        async def consume():
            while True:
                _, data = await pulling.ask("POST", self.feed("waited", "pull"), self.tokens["waited"], b'{"max":100,"wait":"20s"}')
                messages = json.loads(data)["messages"]
                for message in messages:
                    metric.end(message["value"])
                if messages:
                    ids = [message["id"] for message in messages]
                    await pulling.ask("POST", self.feed("waited", "ack"), self.tokens["waited"], json.dumps({"ids": ids}).encode())

        await asyncio.gather(self.paced(None, write), consume())

    async def ack(self, supplied: asyncio.Event):
        """Acknowledges one held message at a time; the supply is written and pulled beforehand, without measurement."""
        metric = self.metrics["ack"]
        channel, supplying = Channel(self, metric), Channel(self)
        ids: deque[str] = deque()
        more = asyncio.Event()

        async def supply():
            round_ = 0
            while True:
                if len(ids) < SUPPLY:
                    round_ += 1
                    body = json.dumps({f"k{number}": f"{round_}-{number}" for number in range(FETCH)}).encode()
                    await supplying.ask("PATCH", f"/acked.json?ns={self.ns}&print=silent", self.secret, body)
                    wanted = FETCH
                    while wanted > 0:
                        _, data = await supplying.ask("POST", self.feed("acked", "pull"), self.tokens["acked"], b'{"max":1000,"wait":"1s"}')
                        found = [message["id"] for message in json.loads(data)["messages"]]
                        ids.extend(found)
                        wanted -= len(found)
                        # A key whose message is still held gives no more yet.
                        if not found and len(ids) >= SUPPLY:
                            break
                    supplied.set()
                    more.set()
                await asyncio.sleep(0.2)

        async def once(number: int, due: float):
            while not ids:
                more.clear()
                await more.wait()
            body = json.dumps({"ids": [ids.popleft()]}).encode()
            await channel.ask("POST", self.feed("acked", "ack"), self.tokens["acked"], body)

        async def when_supplied():
            await supplied.wait()
            await self.paced(metric, once)

        await asyncio.gather(supply(), when_supplied())

    async def status(self):
        channel = Channel(self, self.metrics["status"])

        async def once(number: int, due: float):
            await channel.ask("GET", self.feed("pulled", "status"), self.tokens["pulled"])

        await self.paced(self.metrics["status"], once)

    async def log(self):
        channel = Channel(self, self.metrics["log"])

        async def once(number: int, due: float):
            await channel.ask("GET", f"/.log?ns={self.ns}&offset={self.seq - 1:019}_{0:010}_{0:010}_", self.secret)

        await self.paced(self.metrics["log"], once)

    async def webhook(self):
        """From the due time of the write to the request's arrival at a receiver that answers at once."""
        metric, writing = self.metrics["webhook"], Channel(self)

        async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
            try:
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    body = await reader.readexactly(int(head.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0]))
                    metric.end(json.loads(body)["value"])
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            except (OSError, asyncio.IncompleteReadError):
                writer.close()

        async def write(number: int, due: float):
            metric.begin(number, due)
            await self.put(writing, f"hooked/k{number % KEYS}", number)

        server = await asyncio.start_server(receive, "127.0.0.1", self.receiver)
        async with server:
            await self.paced(None, write)

    async def write_for_pulls(self):
        channel = Channel(self)

        async def once(number: int, due: float):
            if number % 4 == 0:
                await self.put(channel, f"pulled/k{number % KEYS}", number)

        await self.paced(None, once)

    # MARK: commands

    async def run(self):
        supplied = asyncio.Event()
        tasks = [asyncio.create_task(task) for task in (
            self.pull(), self.wait(), self.ack(supplied), self.status(), self.log(), self.webhook(), self.write_for_pulls())]
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while command := (await reader.readline()).decode().strip():
            for task in tasks:
                if task.done():
                    task.result()
            if command == "supplied":
                await supplied.wait()
            if command == "mark":
                for metric in self.metrics.values():
                    metric.since()
            print(json.dumps({name: metric.report() for name, metric in self.metrics.items()}), flush=True)


class Victim:
    """The process, from the campaign's side."""

    def __init__(self, spec: dict):
        self.child = subprocess.Popen([sys.executable, "-m", "fairness.victim", json.dumps(spec)], cwd=FOLDER, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            self._ask("supplied")
        except BaseException:
            self.close()
            raise

    def _ask(self, command: str, patience: float = 60) -> dict:
        self.child.stdin.write(command + "\n")
        self.child.stdin.flush()
        ready, _, _ = select.select([self.child.stdout], [], [], patience)
        said = self.child.stdout.readline() if ready else ""
        if not said:
            raise RuntimeError(f"the victim did not answer to {command!r}")
        return json.loads(said)

    def mark(self):
        """Discards the measurements so far. Operations that are due from now on count."""
        self._ask("mark")

    def report(self) -> dict:
        """By metric: the measurements since the last mark."""
        return self._ask("report")

    def close(self):
        self.child.kill()
        self.child.wait()


if __name__ == "__main__":
    asyncio.run(Operations(json.loads(sys.argv[1])).run())
