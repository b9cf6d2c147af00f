"""The servers that tests share. Each test writes under its own key, so that two runs can use one machine at once."""

import json
import uuid

import pytest
from disclosure.worlds import NAMESPACES, RULES, World, make_worlds
from harness import cli, process
from harness.cluster import Cluster
from harness.feeds import Feed
from harness.follow import TUNE, Followed, is_known
from harness.gateway import start_dev, start_serve
from harness.mirrored import Mirrored
from harness.scratch import scratch_directory
from upstream.standin import Standin


@pytest.fixture(scope="session")
def logs(tmp_path_factory):
    """The folder for the output of every program; pytest keeps the last three runs."""
    return tmp_path_factory.mktemp("logs")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for program in process.started[-4:]:
            report.sections.append((f"output of {program.name} ({program.pid})", program.tail()))


@pytest.fixture
def scratch():
    with scratch_directory("test") as path:
        yield path


@pytest.fixture(scope="session")
def dev(logs):
    """One `pathmirror dev` for the whole run, open and without rules. It also accepts host names other than this machine's."""
    with scratch_directory("dev") as path:
        gateway = start_dev(path / "data", logs, None, "--allow-origin", "https://app.example,http://example.com,http://*.example.com")
        try:
            yield gateway
        finally:
            gateway.stop()


@pytest.fixture
def at(dev):
    """A path in `dev` that only this test uses."""
    return dev.unique()


@pytest.fixture
def ns():
    """The name of a namespace that only this test uses."""
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def feed(dev, ns):
    """A feed that does not exist yet, in its own namespace."""
    feed = Feed(dev.rest.at("", ns=ns), ns=ns)
    yield feed
    for name in [entry["name"] for entry in json.loads(dev.rest.send("GET", f"/.feeds?ns={ns}", None, feed.headers).body)["feeds"]]:
        feed.named(name).remove()


@pytest.fixture
def tree(feed):
    """The tree that the feed reads."""
    return feed.rest


@pytest.fixture(scope="session")
def postgres(logs):
    """A PostgreSQL for `serve`, shared: take a database of your own, and never stop it."""
    yield from _cluster(logs)


@pytest.fixture
def own_postgres(logs):
    """A PostgreSQL that this test may stop and kill."""
    yield from _cluster(logs)


def _cluster(logs):
    with scratch_directory("pg") as path:
        cluster = Cluster(path, logs)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop("immediate")


@pytest.fixture
def database_url(postgres):
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
def serve(database_url, scratch, logs):
    """Starts gateways on this test's own database: serve("--flag", …, rules=…)."""
    gateways = []

    def start(*options, url=database_url, **settings):
        gateway = start_serve(url, scratch, logs, *options, **settings)
        gateways.append(gateway)
        return gateway

    yield start
    for gateway in gateways:
        gateway.sweep()


@pytest.fixture
def two(serve, database_url, postgres):
    """A gateway that creates namespaces, the URL of its primary database, and the URL of database `b`."""
    other = postgres.create_database()
    gateway = serve("--create-namespaces")
    cli.succeeds("database", "add", "b", other, "--database-url", database_url)
    return gateway, database_url, other


@pytest.fixture
def mirrored(serve, database_url, scratch):
    return Mirrored(serve, database_url, scratch)


@pytest.fixture(scope="session")
def follows():
    """Skips where the program does not follow upstreams."""
    if not is_known():
        pytest.skip("the program has no command `follow`")


@pytest.fixture
def upstream():
    """A stand-in for the Realtime Database, for this test alone."""
    with Standin() as standin:
        yield standin


@pytest.fixture
def followed(follows, upstream, serve, scratch):
    """A gateway that follows the stand-in once a test calls `begin`."""
    return Followed(serve(tune=TUNE), upstream, upstream.credentials(scratch / "account.json"))


@pytest.fixture(scope="module")
def gateway_pair(postgres, logs):
    """Two gateways on one database, shared by the tests of a module."""
    url = postgres.create_database()
    with scratch_directory("pair") as path:
        gateways = []
        try:
            # Both start at once on an empty database, and only one may migrate it.
            for name in ("serve-a", "serve-b"):
                gateways.append(start_serve(url, path, logs, name=name, wait=False))
            for gateway in gateways:
                gateway.wait_ready()
            yield gateways
        finally:
            for gateway in gateways:
                gateway.sweep()


@pytest.fixture(scope="module")
def worlds(postgres, logs) -> dict[str, World]:
    """Namespaces that differ in a part that most callers may not read. Each test restores them."""
    with scratch_directory("disclosure") as path:
        gateway = start_serve(postgres.create_database(), path, logs, rules=RULES, ns=NAMESPACES)
        try:
            yield make_worlds(gateway)
        finally:
            gateway.sweep()
