"""Gateways shorten logs by the policies of an administrator."""

import urllib.request

from harness import cli, sql
from harness.waiting import wait_until


def backdated(url: str, days: int):
    """Moves the times of all entries back by this number of days."""
    sql.execute(url, f"UPDATE pathmirror.log SET committed_at = committed_at - interval '{days} days'",
                f"UPDATE pathmirror.snapshot SET created_at = created_at - interval '{days} days'")


def listed(url: str, ns: str = "default") -> dict:
    finished = cli.command("retention", "ls", "--json", "--database-url", url)
    return next(line for line in cli.objects(finished.stdout) if line["namespace"] == ns)


def metric(gateway, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/.metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def test_a_gateway_shortens_the_log_by_itself(serve, database_url):
    gateway = serve("--retention-interval", "100ms")
    source = ("--database-url", database_url)
    rest = gateway.unique()
    for number in range(20):
        rest.set("old", number)
    assert listed(database_url)["policy"] is None
    cli.succeeds("retention", "set", "--all", "--keep", "7d", *source)
    wait_until(lambda: listed(database_url)["snapshots"] == 1, "a snapshot is taken")
    backdated(database_url, 8)
    rest.set("new", 1)
    wait_until(lambda: listed(database_url)["retainedFrom"] == 21, "the old entries are gone")
    entries = sql.rows(database_url, "SELECT min(seq), max(seq) FROM pathmirror.log")
    assert entries == [(21, 21)]
    found = listed(database_url)
    assert found["dropped"] == 20 and found["message"] is None and found["policy"] == "--keep 7d" and not found["isOwn"]
    wait_until(lambda: metric(gateway, "pathmirror_retention_dropped_entries_total") == 20, "the metrics say so")
    assert metric(gateway, "pathmirror_retention_failures_total") == 0
    cli.verify(*source)
    # Clients notice nothing.
    assert rest.get().json() == {"old": 19, "new": 1}


def test_a_reader_is_waited_for_and_named(serve, database_url):
    gateway = serve("--retention-interval", "0s")
    source = ("--database-url", database_url)
    rest = gateway.unique()
    rest.set("a", 1)
    sql.execute(database_url, "INSERT INTO pathmirror.cursor (namespace_id, kind, name, seq) "
                "SELECT id, 'reader', 'reports', 1 FROM pathmirror.namespace WHERE name = 'default'")
    rest.set("b", 1)
    cli.succeeds("retention", "set", "--ns", "default", "--keep", "1d", *source)
    cli.succeeds("retention", "run", *source)
    backdated(database_url, 2)
    rest.set("c", 1)
    assert "reader reports still needs more" in cli.succeeds("retention", "run", *source)
    assert listed(database_url)["waitsFor"] == "reader reports"
    assert listed(database_url)["retainedFrom"] == 1
    sql.execute(database_url, "DELETE FROM pathmirror.cursor")
    assert cli.objects(cli.succeeds("retention", "run", "--json", *source))[0]["dropped"] == 2
    cli.verify(*source)
    cli.succeeds("retention", "rm", "--ns", "default", *source)
    assert cli.objects(cli.succeeds("retention", "run", "--json", *source)) == []
    assert cli.command("retention", "rm", "--ns", "default", *source).returncode == 1


def test_what_is_not_said_rightly_is_refused(database_url):
    cli.succeeds("migrate", "up", "--database-url", database_url)
    for words in (["--all"], ["--keep", "7d"], ["--all", "--ns", "x", "--keep", "7d"], ["--all", "--keep", "0d"],
                  ["--all", "--keep", "soon"], ["--all", "--keep", "7d", "--snapshot-every", "9"], ["--all", "--keep", "7d", "--snapshot-every", "90500ms"],
                  ["--all", "--max-size", "0B"], ["--all", "--max-size", "1000"], ["--all", "--keep", "7"]):
        finished = cli.command("retention", "set", *words, "--database-url", database_url)
        assert finished.returncode == 2, (words, finished.stderr)
        assert finished.stderr.startswith("pathmirror retention set: "), finished.stderr


def test_one_namespace(serve, database_url):
    """A policy for one log does not affect other logs."""
    source = ("--database-url", database_url)
    gateway = serve("--retention-interval", "0s", "--ns", "default,other")
    for ns in ("default", "other"):
        for number in range(5):
            gateway.rest.at(ns=ns).set("x", number)
    refused = cli.command("retention", "set", "--all", "--keep", "2 entries", *source)
    assert refused.returncode == 1 and "Add --yes to set this policy without being asked: it drops 6 entries of 2 namespaces." in refused.stderr
    assert listed(database_url)["policy"] is None
    shown = cli.succeeds("retention", "set", "--all", "--keep", "2 entries", "--yes", *source).splitlines()
    assert [line.split() for line in shown[1:3]] == [[ns, *"3 of 5 entries seq 1 to 3".split()] for ns in ("default", "other")]
    assert shown[3] == "Every log without a policy of its own keeps the last 2 entries."
    assert shown[4].endswith("To reverse it: pathmirror retention rm --all")
    assert [line["namespace"] for line in cli.objects(cli.succeeds("retention", "ls", "--ns", "other", "--json", *source))] == ["other"]
    shown = cli.succeeds("retention", "ls", "--ns", "other", *source).splitlines()
    assert [line.split("  ")[0] for line in shown] == ["all others", "other"]
    # The log begins after a snapshot, which the first run takes.
    assert cli.succeeds("retention", "run", "--ns", "other", *source).startswith("other: 0 entries dropped")
    for ns in ("default", "other"):
        for number in range(5):
            gateway.rest.at(ns=ns).set("y", number)
    assert cli.succeeds("retention", "run", "--ns", "other", *source).startswith("other: 5 entries dropped; the log begins at seq 6")
    assert (listed(database_url, "other")["retainedFrom"], listed(database_url)["retainedFrom"]) == (6, 1)
    cli.succeeds("retention", "rm", "--all", *source)
    refused = cli.command("retention", "run", "--ns", "other", *source)
    assert refused.returncode == 1 and "No retention policy is set for other" in refused.stderr
