"""A namespace that follows an upstream, as an operator sees it.

The names of states and of members of `--json` are in one place here, as they were not fixed when this was written.
"""

import json

from . import cli, sql
from .waiting import PATIENCE, wait_until

# The follower may wait for a lease of a gateway that died, and back off up to 30 s.
PATIENT = 60.0
# What `state` may be while the follower is connected and has all there is; and what it is not while something is wrong.
LIVE = {"following", "live", "connected", "equal"}
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

    def pause(self):
        self.run("pause", self.ns)

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


def wait_equal(rest, standin, ns: str | None = None, patience: float = PATIENCE):
    """Waits until a gateway's tree is the stand-in's."""
    wait_until(lambda: rest.value(format="export") == standin.export(ns=ns), "the tree to be the upstream's", patience, 0.05)
