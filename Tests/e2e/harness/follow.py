"""A namespace that follows an upstream, as an operator sees it.

The names of states and of members of `--json` are only here, as they were not fixed when this was written.
"""

import http.client
import json

from upstream.equality import exact
from upstream.judge import judge, log_entries, upstream_hashes

from . import cli, sql
from .gateway import SECRET
from .rest import Rest
from .waiting import PATIENCE, wait_until
from .websocket_client import RealtimeClient

# Short times of the follower (PATHMIRROR_TUNE): after an invalid message, it waits ten minutes otherwise.
TUNE = ("follow-first-retry=100ms,follow-longest-retry=1s,follow-silence=3s,follow-rules-poll=1s,follow-refusal-pause=1s,"
        "follow-violation-pause=2s,follow-shutdown-retry=8s")
# The follower may wait for a lease of a gateway that died, and back off up to 30 s.
PATIENT = 60.0
# The values of `state` while the follower is connected and has all there is; and what it is not while something is wrong.
LIVE = {"following", "live", "connected"}
READ_ONLY = "The namespace follows an upstream database and is read-only. Write to the upstream."


def is_known() -> bool:
    """Whether the program has the command at all."""
    return cli.command("follow", "add", "--help").returncode == 0


class Following:
    """The commands `follow` for one namespace, and the follower's own figures."""

    def __init__(self, database_url: str, ns: str = "default"):
        self.url, self.ns = database_url, ns

    def run(self, *words, patience: float = 120) -> str:
        return cli.succeeds("follow", *words, "--database-url", self.url, patience=patience)

    def command(self, *words, patience: float = 120):
        """Any command, whatever its exit status."""
        return cli.command("follow", *words, "--database-url", self.url, patience=patience)

    def add(self, upstream: str, credentials, *options) -> str:
        words = ["--credentials", credentials] if credentials else []
        return self.run("add", self.ns, "--upstream", upstream, *words, *options)

    def verify(self, patience: float = 120):
        """The finished command: 0 and "equal at SEQ", or 1 and the paths that differ."""
        return self.command("verify", self.ns, patience=patience)

    def pause(self, standin=None):
        """Pauses following; with a stand-in, waits until the follower has disconnected."""
        self.run("pause", self.ns)
        if standin is not None:
            wait_until(lambda: not standin.sessions, "the follower to disconnect")

    def resume(self):
        self.run("resume", self.ns)

    def remove(self):
        self.run("rm", self.ns, "--yes")

    def told(self) -> dict:
        """This namespace's object of `follow status --json`, which exits with 1 if something is wrong."""
        finished = self.command("status", "--json")
        assert finished.returncode in (0, 1), finished.stderr
        found = [one for one in cli.objects(finished.stdout) if self.ns in (one.get("namespace"), one.get("ns"))]
        assert len(found) == 1, finished.stdout
        return found[0]

    def status(self) -> dict:
        """The row of the view `follow_status`."""
        text = sql.rows(self.url, "select row_to_json(s)::text from pathmirror.follow_status s where namespace = %s", self.ns)
        assert len(text) == 1, text
        return json.loads(text[0][0])

    @property
    def state(self) -> str:
        return self.status()["state"]

    def wait_live(self, patience: float = PATIENT) -> dict:
        """Waits until the follower is connected and listens."""
        return wait_until(lambda: (status := self.status())["state"] in LIVE and status, "the follower to be live", patience, 0.05)

    def wait_trouble(self, *words: str, patience: float = PATIENT) -> dict:
        """Waits until the follower is not live, and its state or message has one of these words, if there are any."""
        def look():
            status = self.status()
            text = f"{status['state']} {status['message']}".lower()
            return status["state"] not in LIVE and (not words or any(word in text for word in words)) and status

        return wait_until(look, f"the follower to be in trouble: {words}", patience, 0.05)


class Followed:
    """A gateway whose namespace follows a namespace of a stand-in from `begin` on."""

    def __init__(self, gateway, standin, credentials, ns: str = "default", upstream_ns: str = "shop"):
        self.gateway, self.standin, self.credentials, self.upstream_ns = gateway, standin, credentials, upstream_ns
        self.url = gateway.database_url
        self.following = Following(self.url, ns)
        self.rest = Rest(gateway.port, params={"ns": ns})
        self.admin = self.rest.with_headers(Authorization=f"Bearer {SECRET}")

    def begin(self, *options, upstream: str | None = None, is_live: bool = True) -> "Followed":
        self.following.add(upstream or self.standin.url(self.upstream_ns), self.credentials, *options)
        if is_live:
            self.following.wait_live()
        return self

    def wait_equal(self, patience: float = PATIENCE, without_priorities_of=()):
        """Waits until the gateway's tree is the upstream's, to the last bit of a number, and its hash is.

        The priorities of some paths may differ; then no hash is compared.
        """
        def seen(tree):
            for path in without_priorities_of:
                node = tree
                for key in filter(None, path.split("/")):
                    node = node.get(key) if isinstance(node, dict) else None
                if isinstance(node, dict):
                    node.pop(".priority", None)
            return exact(tree)

        def look():
            try:
                answer = self.admin.get(format="export")
            except (OSError, http.client.HTTPException):
                # The gateway may just have been replaced by another one on the same port.
                return False
            return answer.status == 200 and seen(answer.json()) == seen(self.standin.export(ns=self.upstream_ns))

        wait_until(look, "the tree to be the upstream's", patience, 0.05)
        if without_priorities_of:
            return
        with RealtimeClient(self.gateway.port, ns=self.following.ns) as client:
            client.ok("gauth", {"cred": SECRET})
            assert client.listen("/", hash=self.standin.hash(ns=self.upstream_ns)) is None, "the hashes differ"

    def judge(self) -> dict:
        """The log holds the upstream's trees only, in its order; and the follower has only read."""
        figures = judge(log_entries(self.url, self.following.ns), upstream_hashes(self.standin.writes(self.upstream_ns)))
        assert self.standin.violations() == [], "the follower sent something that does not only read"
        cli.verify("--ns", self.following.ns, "--database-url", self.url)
        return figures
