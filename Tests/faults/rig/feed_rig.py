"""The rig of the feed campaign: brokers besides PostgreSQL, gateways and proxies, and even shorter times."""

from pathlib import Path

from harness import endpoint

from .kafka import Kafka
from .nats import Nats
from .rig import Rig

# A feed is taken over within two seconds, so that many faults fit into a minute.
TIMING = ("--dead-after", "1500ms", "--session-timeout", "8s", "--shutdown-timeout", "3s", "--commit-deadline", "8s",
          *endpoint.OPTIONS, "--sink-allow", "127.0.0.1")
TUNE = "poll-interval=300ms,stream-keep-alive=1s,feed-takeover=1500ms"


class FeedRig(Rig):
    """Gateways reach NATS by the route `nats`; Kafka's brokers have no proxy, because they send their own address to clients."""

    def __init__(self, root: Path, logs: Path, library: Path | None, template: Path | None, namespaces, options=()):
        super().__init__(root, logs, library, template, options=options, timing=TIMING, tune=TUNE, namespaces=namespaces)
        self.nats, self.kafka = Nats(root, logs), Kafka(logs)
        self.routes: dict[str, int] = {}

    def start(self):
        self.nats.start()
        self.nats.make_stream([f"{namespace}.>" for namespace in self.namespaces])
        for namespace in self.namespaces:
            self.kafka.do("topic", name=namespace, partitions=3)
        self.routes["nats"] = self.proxies.open("nats", self.nats.port)
        super().start()

    def heal(self):
        self.nats.thaw()
        self.nats.start()
        self.kafka.do("up")
        self.kafka.do("slow", ms=0)
        self.proxies.disarm("nats")
        self.proxies.set("nats")
        for name in self.names:
            self.proxies.keep_calls(f"link-{name}")
        super().heal()

    def close(self):
        super().close()
        self.nats.close()
        self.kafka.close()
