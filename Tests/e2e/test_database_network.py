"""A database over a network that isn't asked to prove who it is: a warning at the start, which shows no password."""

import pytest
from harness import cli
from harness.binary import pathmirror
from harness.process import Process
from harness.waiting import wait_until

WARNING = "not asked to prove who it is"
# Nobody answers there, and nobody needs to: the warning comes first.
ABSENT = "192.0.2.1"


def said(logs, url: str, env: dict | None = None) -> str:
    """What `serve` logs before it can connect."""
    process = Process([pathmirror(), "serve", "--database-url", url], "network", logs, env=env)
    try:
        wait_until(lambda: WARNING in process.stderr() or not process.running, "the warning", 20)
    finally:
        process.kill() if process.running else None
    return process.stderr()


@pytest.mark.parametrize("url, env, mode", [
    (f"postgresql://me:hunter2@{ABSENT}/shop", {}, "prefer"), (f"postgresql://me:hunter2@{ABSENT}/shop?sslmode=require", {}, "require"),
    ("dbname=shop password=hunter2", {"PGHOST": ABSENT, "PGSSLMODE": "disable"}, "disable"),
    (f"host=localhost hostaddr={ABSENT} password=hunter2", {}, "prefer")])
def test_over_a_network(logs, url, env, mode):
    text = said(logs, url, {"PGPASSWORD": "hunter3", **env})
    line = next(line for line in text.splitlines() if WARNING in line)
    assert " warning " in line and f"sslmode={mode}" in line and "sslmode=verify-full" in line and "sslrootcert" in line
    assert (ABSENT if "localhost" not in url else "localhost") in line
    assert "hunter" not in text


def test_on_this_machine(serve, database_url):
    assert WARNING not in serve().process.stderr()


@pytest.mark.parametrize("url", ["host=127.0.0.1 port=1", "host=localhost port=1", "host=/nowhere", "host=127.0.0.1 port=1 sslmode=verify-full"])
def test_nothing_to_warn_of(url):
    failed = cli.command("serve", "--database-url", url)
    assert failed.returncode == 1 and WARNING not in failed.stderr
