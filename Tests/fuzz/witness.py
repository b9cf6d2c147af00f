"""Well-behaved clients: their answers and values must be right whatever other clients send."""

import http.client
import threading
import time

from harness.rest import Rest
from harness.sse import Listener
from harness.websocket_client import RealtimeClient

# No case writes to this namespace: none can guess its name.
NAMESPACE = "witness-5f0c7a"
# The longest that a health check may take. Generous: the sanitizer, mutations and other work share the machine.
SLOWEST = 30.0


class Witness:
    """A writer, a reader, a listener, a realtime client and a health probe. `wrong` has the first error."""

    def __init__(self, port: int):
        self.port = port
        self.rest = Rest(port, "w", {"ns": NAMESPACE}, {"Host": "localhost"})
        self.wrong: str | None = None
        self.writes = self.probes = 0
        self.slowest = 0.0
        self.expected: dict[str, dict] = {}
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in (self._write, self._probe, self._talk)]
        self.listener = Listener(self.rest)

    def start(self):
        for thread in self._threads:
            thread.start()

    def finish(self):
        """Ends the work, and compares the stored data and the received events with the writes."""
        self._ended.set()
        for thread in self._threads:
            thread.join(2 * SLOWEST)
        if self.wrong:
            return
        try:
            stored = self.rest.value()
            if stored != self.expected:
                self._note(f"the stored value differs: {stored!r:.500} instead of {self.expected!r:.500}")
            self.listener.wait_for_value(self.expected)
            self.listener.close()
        except Exception as error:
            self._note(f"{type(error).__name__}: {error}")

    def _note(self, text: str):
        self.wrong = self.wrong or text

    def _guarded(self, work):
        try:
            while not self._ended.is_set() and not self.wrong:
                work()
        except Exception as error:
            self._note(f"{work.__name__.strip('_')}: {type(error).__name__}: {error}")

    def _write(self):
        """Writes a record and reads it back; every fifth time with the ETag of a read."""
        key, value = f"k{self.writes % 40}", {"n": self.writes, "text": "é😀" * (self.writes % 50) + "."}
        if self.writes % 5 == 4 and key in self.expected:
            read = self.rest.get(key, headers={"X-Firebase-ETag": "true"})
            answer = self.rest.put(key, value, headers={"if-match": read.etag})
        else:
            answer = self.rest.put(key, value)
        if answer.status != 200:
            return self._note(f"a write was answered {answer.status}: {answer.body[:300]!r}")
        self.expected[key] = value
        self.writes += 1
        if (read := self.rest.value(key)) != value:
            self._note(f"read {read!r:.300} after {value!r:.300} was acknowledged")
        time.sleep(0.02)

    def _probe(self):
        start = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SLOWEST)
        try:
            connection.request("GET", "/.health/live" if self.probes % 2 else "/.health/ready", headers={"Host": "localhost"})
            status = connection.getresponse().status
        finally:
            connection.close()
        self.slowest = max(self.slowest, time.monotonic() - start)
        self.probes += 1
        if status != 200:
            self._note(f"a health check was answered {status}")
        time.sleep(0.1)

    def _talk(self):
        """A realtime session that writes where it listens, and ends."""
        with RealtimeClient(self.port, NAMESPACE, headers={"Host": "localhost"}) as client:
            client.listen("/talk")
            for number in range(20):
                client.put("/talk", {"n": number})
                heard = client.ok("g", {"p": "/talk", "q": {}})
                if heard != {"n": number}:
                    return self._note(f"the realtime client read {heard!r:.300} after writing {number}")
                last = client.pushes[-1]["b"] if client.pushes else None
                # Its own writes come back to it before their answers.
                if last is None or last["d"] != {"n": number}:
                    return self._note(f"the realtime client heard {last!r:.300} of its write {number}")
                client.pushes.clear()
                time.sleep(0.02)
