"""The overlay with three PostgreSQL nodes under Patroni: writes continue without the former primary, and none is lost."""

import json
import time

import pytest
from harness.waiting import Late, wait_until
from load import Load
from stack import GATEWAYS

NODES = ("postgres", "postgres-2", "postgres-3")


def members(cluster) -> dict[str, dict]:
    """Patroni's report about each node, from one that runs."""
    for node in NODES:
        done = cluster.compose("exec", "-T", node, "/etc/pathmirror/ctl", "list", "--format", "json", check=False)
        if done.returncode == 0:
            return {member["Member"]: member for member in json.loads(done.stdout)}
    return {}


def having(cluster, role: str) -> list[str]:
    return [name for name, member in members(cluster).items() if member["Role"] == role and member["State"] in ("running", "streaming")]


def wait_until_whole(cluster):
    """A primary, a synchronous standby, and one more."""
    def whole():
        return [len(having(cluster, role)) for role in ("Leader", "Sync Standby", "Replica")] == [1, 1, 1]

    try:
        wait_until(whole, "all nodes to have joined", 180, 0.5)
    except Late as late:
        raise AssertionError(f"{late}: {members(cluster)}") from late


@pytest.fixture
def clients(cluster, request, figure):
    """Load through the proxy, while the test runs."""
    wait_until_whole(cluster)
    cluster.wait_until_served(120)
    with Load(cluster.rest, cluster.secret) as load:
        yield load
    load.settle()
    figure(f"{request.node.name}: {load.report()}")


def check(cluster, load: Load):
    wait_until_whole(cluster)
    cluster.wait_until_served(120)
    load.run_for(3)
    load.settle()
    assert not load.lost and not load.undead and not load.unheard, load.report()
    # All reads name the last entry that this client has seen. If the primary fails before a gateway has received another one's last
    # write, the gateway waits 10 s and reports this. No read has another error.
    assert load.failed("GET") == len(load.unread), load.report()
    assert all("has not applied seq" in text for text in load.unread), load.unread[:3]
    assert {result for _, result in load.failures} <= {503}, load.report()


def test_the_first_write_finds_a_synchronous_standby(cluster):
    """Without a synchronous standby no write is acknowledged before `up --wait` returns."""
    assert len(having(cluster, "Sync Standby")) == 1
    assert cluster.rest.put("first", 1).status == 200


@pytest.mark.parametrize("turn", [1, 2])
def test_a_killed_primary_is_replaced_and_loses_nothing(cluster, clients, figure, turn):
    (old,), (standby,) = having(cluster, "Leader"), having(cluster, "Sync Standby")
    clients.run_for(3)
    begin = time.monotonic()
    cluster.compose("kill", "--signal", "KILL", old)
    wait_until(lambda: having(cluster, "Leader") not in ([], [old]), "a new primary", 120, 0.5)
    assert having(cluster, "Leader") == [standby], "only the synchronous standby has all that was acknowledged"
    cluster.wait_until_served(120)
    figure(f"{old} killed: writes after {time.monotonic() - begin:.0f} s, to {standby}")
    clients.run_for(3)
    cluster.compose("start", old)
    check(cluster, clients)


def test_a_planned_switchover_loses_nothing(cluster, clients):
    (old,), (new,) = having(cluster, "Leader"), having(cluster, "Sync Standby")
    clients.run_for(3)
    said = cluster.execute(old, "/etc/pathmirror/ctl", "switchover", "--leader", old, "--candidate", new, "--force")
    assert "Successfully switched over" in said, said
    wait_until(lambda: having(cluster, "Leader") == [new], "the new primary", 60, 0.5)
    check(cluster, clients)


def test_the_log_is_whole_after_all_that(cluster):
    for gateway in GATEWAYS:
        cluster.execute(gateway, "pathmirror", "log", "verify")


def test_the_cluster_comes_back_after_a_stop_of_everything(cluster):
    cluster.rest.set("kept", "before")
    cluster.compose("stop")
    cluster.up()
    cluster.wait_until_served(120)
    assert cluster.rest.value("kept") == "before"
