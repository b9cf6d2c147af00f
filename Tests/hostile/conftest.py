"""One gateway for all attacks, started as in the end-to-end tests, and a table of the effects of each attack."""

import time

import pytest
from attacks.attack import RULES
from attacks.feeds import HONEST, administer, ask
from attacks.watch import Watch
from attacks.wire import Target
from harness import process
from harness.cluster import Cluster
from harness.gateway import SECRET, start_serve
from harness.issuer import hs256, legacy
from harness.scratch import scratch_directory
from harness.waiting import wait_until

_figures = pytest.StashKey[list]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for program in process.started[-2:]:
            report.sections.append((f"output of {program.name} ({program.pid})", program.tail()))


def pytest_configure(config):
    config.stash[_figures] = []


@pytest.fixture
def figures(request) -> list:
    """Lines of the table at the end: measured values without a verdict."""
    return request.config.stash[_figures]


def pytest_terminal_summary(terminalreporter, config):
    lines = config.stash[_figures]
    if lines:
        terminalreporter.section("worst latencies of health checks, a writer and a feed's consumer (ms), memory at its worst (MB more), answers")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def logs(tmp_path_factory):
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="session")
def postgres(logs):
    with scratch_directory("pg") as path:
        cluster = Cluster(path, logs)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop("immediate")


def feed_token(feed: str, ns: str) -> str:
    """A token like those of `pathmirror token mint --feed`."""
    now = int(time.time())
    return hs256({"v": 0, "iat": now, "exp": now + 86_400, "feed": feed, "ns": ns}, SECRET)


class Siege:
    """A gateway, the attackers' knowledge of it, and the watch over it. A gateway that has ended is replaced."""

    def __init__(self, postgres, logs):
        self.postgres, self.logs = postgres, logs
        self.gateway = self.watch = None

    def ready(self) -> "Siege":
        if self.gateway is None:
            self.start()
        return self

    def start(self):
        self.root = scratch_directory("siege")
        path = self.root.__enter__()
        # The attackers' addresses are those of a proxy's clients: this machine's own is not limited.
        self.gateway = start_serve(self.postgres.create_database(), path, self.logs, "--trusted-proxies", "127.0.0.1",
                                   "--loops", "2", "--session-timeout", "10s", tune="max-feed-waits=1000", rules=RULES)
        self.target = Target(self.gateway.port, SECRET, address="198.51.100.7", token=feed_token)
        assert administer(self.target, "PUT", HONEST, {"path": "/work/{key}"}) == "201"
        wait_until(lambda: ask(self.target, "POST", "pull", b"{}", feed_token(HONEST, "default"), HONEST) == "200", "the honest feed to run")
        self.watch = Watch(self.gateway.port, "/work/number.json?ns=default", legacy("writer", SECRET),
                           feed=(HONEST, feed_token(HONEST, "default")))
        self.watch.__enter__()

    def stop(self):
        if self.watch:
            self.watch.__exit__()
        if self.gateway:
            self.gateway.sweep()
            self.root.__exit__(None, None, None)
        self.gateway = self.watch = None


@pytest.fixture(scope="session")
def siege_of_all(postgres, logs):
    siege = Siege(postgres, logs)
    try:
        yield siege
    finally:
        siege.stop()


@pytest.fixture
def siege(siege_of_all, request):
    yield siege_of_all.ready()
    if request.node.stash.get(failed, True):
        # The next attack gets a gateway that this one has not affected.
        siege_of_all.stop()


failed = pytest.StashKey[bool]()
