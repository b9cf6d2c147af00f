"""`pathmirror dev --follow URL`: one command from nothing to a namespace that follows an upstream."""

import pytest
from harness import cli
from harness.binary import pathmirror
from harness.follow import PATIENT, READ_ONLY
from harness.gateway import end_private_postgres, start_dev
from harness.ports import free_port
from harness.process import Process
from harness.waiting import wait_until

pytestmark = pytest.mark.usefixtures("follows")

SHOP = {"orders": {"k1": {"total": 5}}, "stock": {"7": 1}}


@pytest.fixture
def start(scratch, logs):
    """Starts `dev` on this test's data directory, and ends the remaining processes after the test."""
    gateways = []

    def begin(*options, **settings):
        gateway = start_dev(scratch / "data", logs, None, *options, **settings)
        gateways.append(gateway)
        return gateway

    yield begin
    for gateway in gateways:
        gateway.sweep()
    end_private_postgres(scratch / "data")


@pytest.fixture
def account(upstream, scratch):
    """A service account's file that the stand-in accepts."""
    return upstream.credentials(scratch / "account.json")


def fails(scratch, logs, *options) -> str:
    """The last line of `dev`, which has to end with exit code 1."""
    process = Process([pathmirror(), "dev", "--port", free_port(), "--data", scratch / "data", *options], "dev", logs)
    assert process.wait(60) == 1, process.tail()
    assert "ready on" not in process.stdout()
    end_private_postgres(scratch / "data")
    return next(line for line in reversed(process.stderr().splitlines()) if line.startswith("pathmirror: "))


def equals(gateway, data, ns: str = "default"):
    wait_until(lambda: gateway.rest.value(ns=ns) == data, f"the tree to be {data}", PATIENT, 0.05)


def test_one_command_follows_and_a_restart_continues(start, upstream, account, scratch):
    upstream.put("", SHOP)
    gateway = start("--follow", upstream.url("shop"), "--credentials", account)
    equals(gateway, SHOP)
    wait_until(lambda: "psql" in gateway.process.stdout(), "the greeting")
    greeting = gateway.process.stdout()
    assert f'namespace "default" follows {upstream.url("shop")}' in greeting, greeting
    assert f"pathmirror follow status --data {scratch / 'data'} default" in greeting, greeting
    assert "PUT" not in greeting, "no example that fails"
    # The rules are this machine's own, and writes are the upstream's.
    refused = gateway.rest.put("orders/k1/total", 6)
    assert (refused.status, refused.error) == (405, READ_ONLY)
    assert gateway.rest.value("other", ns="free") is None and gateway.rest.set("x", 1, ns="free")
    upstream.put("orders/k2", {"total": 7})
    equals(gateway, {**SHOP, "orders": {"k1": {"total": 5}, "k2": {"total": 7}}})
    # Gateways report once a second.
    wait_until(lambda: "default: following" in cli.succeeds("follow", "status", "--data", scratch / "data"), "the status", PATIENT, 0.1)
    assert gateway.stop() == 0
    # It continues with the same upstream, with or without the options, and needs no new check.
    upstream.put("orders/k1", None)
    gateway = start("--follow", upstream.url("shop"))
    equals(gateway, {**SHOP, "orders": {"k2": {"total": 7}}})
    assert gateway.stop() == 0
    gateway = start()
    wait_until(lambda: 'namespace "default" follows' in gateway.process.stdout(), "the greeting")
    upstream.put("orders", None)
    equals(gateway, {"stock": {"7": 1}})
    assert upstream.violations() == []


def test_another_namespace(start, upstream, account):
    upstream.put("", SHOP)
    gateway = start("--follow", upstream.url("shop"), "--credentials", account, ns="copy")
    equals(gateway, SHOP, "copy")
    assert gateway.rest.put("x", 1, ns="default").status == 200


def test_other_credentials_replace_the_stored_ones(start, upstream, account, scratch):
    upstream.put("", SHOP)
    gateway = start("--follow", upstream.url("shop"), "--credentials", account)
    equals(gateway, SHOP)
    assert gateway.stop() == 0
    other = account.rename(scratch / "renamed.json")
    upstream.put("stock", None)
    gateway = start("--follow", upstream.url("shop"), "--credentials", other)
    equals(gateway, {"orders": SHOP["orders"]})


def test_another_upstream_is_an_error_with_the_remedy(start, upstream, account, scratch, logs):
    gateway = start("--follow", upstream.url("shop"), "--credentials", account)
    assert gateway.stop() == 0
    line = fails(scratch, logs, "--follow", upstream.url("other"), "--credentials", account)
    assert upstream.url("shop") in line and f"'pathmirror follow rm default --data {scratch / 'data'}'" in line, line


def test_data_is_an_error_with_the_remedy(start, upstream, account, scratch, logs):
    gateway = start()
    gateway.rest.set("mine", 1)
    assert gateway.stop() == 0
    line = fails(scratch, logs, "--follow", upstream.url("shop"), "--credentials", account)
    assert "has data" in line and "--replace" in line and "--data" in line, line
    gateway = start()
    assert gateway.rest.value() == {"mine": 1} and gateway.rest.set("mine", 2)


def test_an_upstream_that_refuses_is_an_error_and_nothing_follows(start, upstream, scratch, logs):
    upstream.credentials(scratch / "account.json")
    fails(scratch, logs, "--follow", upstream.url("shop"))
    gateway = start()
    assert gateway.rest.set("x", 1)


def test_wrong_usage(scratch, upstream):
    for words in (["--credentials", "owner"], ["--follow", upstream.url(), "--import", scratch / "x.json"]):
        finished = cli.command("dev", "--port", free_port(), "--data", scratch / "data", *words)
        assert finished.returncode == 2 and "--follow" in finished.stderr, finished
    finished = cli.command("dev", "--port", free_port(), "--data", scratch / "data", "--follow", "shop")
    assert finished.returncode == 1 and "https://" in finished.stderr, finished
    assert not (scratch / "data").exists()
