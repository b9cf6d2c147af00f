"""Attacks on followers that succeeded once: lying upstreams, edited rows, slow loads, and limits that leaked."""

import json
import os
import time

import psycopg
import pytest
from harness import cli, sql
from harness.follow import LIVE, TUNE, Following
from harness.gateway import SECRET
from harness.rest import Rest
from harness.waiting import wait_until

OPEN, CLOSED = '{"rules":{".read":true}}', '{"rules":{".read":false,".write":false}}'


def ages(url) -> dict:
    """The seconds since each follower's last report."""
    return dict(sql.rows(url, "select namespace, extract(epoch from now() - reported_at)::float8 from pathmirror.follow_status"))


def follows_too(followed, ns: str, *options, upstream: str | None = None) -> Following:
    cli.succeeds("namespace", "create", ns, "--database-url", followed.url)
    following = Following(followed.url, ns)
    following.add(followed.standin.url(upstream or ns), followed.credentials, *options)
    return following


# Texts of the upstream


def test_a_text_that_postgresql_cannot_store_stops_no_heartbeat(followed):
    followed.standin.put("a", 1, "other")
    other = follows_too(followed, "other")
    other.wait_live()
    followed.begin()
    gateway = other.status()["gateway"]
    followed.standin.do("shutdown", only="shop", reason="bad\0reason\x1b]0;title\x07\nfollowing: a forged line")
    followed.following.wait_trouble("shut down")
    finished = followed.following.command("status", "default")
    assert finished.returncode == 1 and "\x1b" not in finished.stdout + finished.stderr
    assert not any(line.startswith("following: a forged") for line in finished.stdout.splitlines())
    heartbeat = other.status()["heartbeat"]
    wait_until(lambda: other.status()["heartbeat"] >= heartbeat + 4, "four heartbeats", 20)
    assert other.status()["gateway"] == gateway and ages(followed.url)["default"] < 5


def test_no_text_repeats_the_credential(followed, logs):
    followed.begin()
    token = followed.standin.requests("gauth")[0].body["cred"]
    followed.standin.do("error", only="shop", text=f"error about {token}")
    followed.standin.do("shutdown", only="shop", reason=f"no such token {token}")
    status = followed.following.wait_trouble("shut down")
    assert "no such token" in status["message"] and token not in status["message"]
    assert not [path for path in logs.rglob("*") if path.is_file() and token in path.read_text(errors="replace")]


def test_a_message_is_never_long(followed):
    followed.begin()
    followed.standin.namespace("shop").rules = json.dumps({"rules": {f"k{number}": {".read": f"$$(({number}"} for number in range(5_000)}})
    wait_until(lambda: followed.following.status()["message"], "the problem", 30)
    assert len(followed.following.status()["message"]) <= 1_000
    wait_until(lambda: followed.gateway.metric('pathmirror_follower_up{namespace="default"}') == 0, "the metric")


# Rules


def test_rules_behind_a_refused_message_are_adopted(followed):
    """The rules close a database whose follower has just received a message that it cannot store."""
    followed.standin.namespace("shop").rules = OPEN
    followed.standin.put("a", 1)
    followed.begin().wait_equal()
    wait_until(lambda: followed.rest.get("a").status == 200, "the upstream's rules")
    with psycopg.connect(followed.url) as held:
        held.execute("select from pathmirror.namespace where name = 'default' for update")
        followed.standin.do("lie", only="shop", path="v0", data=1)
        followed.standin.do("raw", only="shop", text=json.dumps({"t": "d", "d": {"a": "d", "b": {"p": "none/.priority", "d": 5}}}))
        polls = len(followed.standin.http)
        followed.standin.namespace("shop").rules = CLOSED
        wait_until(lambda: len(followed.standin.http) >= polls + 2, "two polls of the rules", 20)
        held.rollback()
    wait_until(lambda: followed.rest.get("a").status == 401, "the closed rules", 20)
    followed.standin.namespace("shop").rules = OPEN
    wait_until(lambda: followed.rest.get("a").status == 200, "the open rules", 20)


def test_former_data_stays_closed_until_it_is_replaced(serve, upstream, scratch, database_url):
    """The upstream's rules were not made for the data that `--replace` replaces."""
    gateway = serve(rules=None, tune=TUNE)
    anyone = Rest(gateway.port)
    anyone.with_headers(Authorization=f"Bearer {SECRET}").set("salaries", {"ada": 1})
    assert anyone.get("").status == 401
    upstream.namespace("shop").rules = OPEN
    upstream.put("a", 1)
    upstream.set(listen_status="permission_denied")
    following = Following(database_url)
    following.add(upstream.url("shop"), upstream.credentials(scratch / "account.json"), "--replace")
    following.wait_trouble("denied")
    assert anyone.get("").status == 401
    gateway.stop()
    gateway = serve(rules=None, tune=TUNE)
    anyone = Rest(gateway.port)
    following.wait_trouble("denied")
    assert anyone.get("").status == 401
    upstream.behave()
    following.wait_live()
    wait_until(lambda: anyone.get("").status == 200, "the upstream's rules", 20)
    assert anyone.value("") == {"a": 1}


# Claims


@pytest.mark.parametrize("change", ["received = 9223372036854775807", "received_today = 9223372036854775807, received_on = now()",
                                    "entries = 9223372036854775807, resyncs = 9223372036854775807"])
def test_counts_at_the_end_of_their_range(followed, change):
    followed.begin()
    followed.following.pause(followed.standin)
    sql.execute(followed.url, f"update pathmirror.follow set {change}")
    followed.following.resume()
    followed.following.wait_live()
    followed.standin.put("a", 1)
    followed.wait_equal()
    assert followed.gateway.process.running


def test_times_without_an_end(followed):
    followed.begin()
    follows_too(followed, "other").pause()
    sql.execute(followed.url, "update pathmirror.follow set created_at = 'infinity', reported_at = '-infinity' where is_paused")
    heartbeat = followed.following.status()["heartbeat"]
    wait_until(lambda: followed.following.status()["heartbeat"] >= heartbeat + 3, "three heartbeats", 20)
    assert followed.following.command("status").returncode == 0


def test_a_locked_row_stops_no_other_follower(followed):
    followed.standin.put("a", 1, "other")
    other = follows_too(followed, "other")
    other.wait_live()
    followed.begin()
    with psycopg.connect(followed.url) as held:
        held.execute("select from pathmirror.follow where namespace_id = (select id from pathmirror.namespace where name = 'default') for update")
        heartbeat = other.status()["heartbeat"]
        wait_until(lambda: other.status()["heartbeat"] >= heartbeat + 8, "eight heartbeats", 30)
        held.rollback()
    assert followed.following.wait_live()["gateway"] == other.status()["gateway"]


def test_a_pipe_as_credentials(followed, scratch):
    pipe = scratch / "pipe"
    pipe.write_text("a-secret\n")
    followed.standin.account.secrets.add("a-secret")
    followed.credentials = pipe
    followed.begin()
    followed.following.pause(followed.standin)
    pipe.unlink()
    os.mkfifo(pipe)
    followed.following.resume()
    followed.following.wait_trouble("is not a file")
    begin = time.monotonic()
    followed.gateway.stop()
    assert time.monotonic() - begin < 10


# Limits of bytes


def test_no_load_begins_that_was_estimated_too_large(serve, upstream, scratch, database_url):
    gateway = serve(tune=TUNE)
    gateway.stop()
    credentials = upstream.credentials(scratch / "account.json")
    upstream.put("a", 1)
    following = Following(database_url)
    following.add(upstream.url("shop"), credentials, "--max-bytes-per-day", "1MB")
    upstream.put("big", {f"k{number}": "x" * 1_000 for number in range(5_000)})
    serve(tune=TUNE)
    following.wait_trouble("over budget")
    for _ in range(2):
        following.pause()
        following.resume()
        following.wait_trouble("over budget")
    assert not upstream.requests("q")


def test_incomplete_messages_count(followed):
    followed.begin("--max-bytes-per-day", "1MB")
    sessions = len(followed.standin.seen("connected"))
    followed.standin.do("announce_frame", only="shop", size=200 << 20, bytes_sent=8 << 20)
    followed.following.wait_trouble("over budget")
    assert followed.following.status()["received_today"] > 1_000_000
    polls, heartbeat = len(followed.standin.http), followed.following.status()["heartbeat"]
    # The rules are read once a second otherwise.
    wait_until(lambda: followed.following.status()["heartbeat"] >= heartbeat + 4, "four heartbeats", 20)
    assert len(followed.standin.http) <= polls + 1 and len(followed.standin.seen("connected")) == sessions


def test_a_large_message_stops_no_heartbeat(serve, upstream, scratch, database_url):
    """Another namespace's follower reports while a message with 300,000 leaves is committed, and no gateway takes it over."""
    one, two = serve(), serve(name="two")
    credentials = upstream.credentials(scratch / "account.json")
    upstream.put("a", 1, "other")
    for ns in ("other", "shop"):
        cli.succeeds("namespace", "create", ns, "--database-url", database_url)
        Following(database_url, ns).add(upstream.url(ns), credentials)
        Following(database_url, ns).wait_live()
    other, shop = Following(database_url, "other"), Following(database_url, "shop")
    sessions, gateway = len(upstream.seen("connected")), other.status()["gateway"]
    data = {f"z{outer}": {f"c{inner}": inner for inner in range(100)} for outer in range(3_000)}
    upstream.do("raw", only="shop", text=json.dumps({"t": "d", "d": {"a": "d", "b": {"p": "big", "d": data}}}))
    oldest = 0.0
    before = shop.status()["entries"]
    deadline = time.monotonic() + 90
    while shop.status()["entries"] == before and time.monotonic() < deadline:
        oldest = max(oldest, ages(database_url)["other"])
    assert shop.status()["entries"] == before + 1 and shop.state in LIVE
    assert oldest < 4 and other.status()["gateway"] == gateway and len(upstream.seen("connected")) == sessions
    assert one.process.running and two.process.running
