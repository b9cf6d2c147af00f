"""Namespaces in several databases with one gateway: each is in its own database, and no other one has rows of it."""

import json
import signal

import pytest
from harness import cli, sql
from harness.cluster import Cluster
from harness.feeds import Feed
from harness.gateway import SECRET
from harness.scratch import scratch_directory
from harness.sse import Listener
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

ADMIN = {"Authorization": f"Bearer {SECRET}"}


def run(home, *words):
    return cli.succeeds(*words, "--database-url", home)


def named(url: str) -> set[str]:
    return {name for (name,) in sql.rows(url, "SELECT name FROM pathmirror.namespace")}


@pytest.fixture
def other(postgres):
    """Another database on the same server."""
    return postgres.create_database()


@pytest.fixture
def placed(serve, database_url, other):
    """A gateway, and namespaces: `default` and `at-home` in the primary database, `away` and `far` in the database `b`. The first two of
    each have the same ids."""
    gateway = serve("--create-namespaces")
    run(database_url, "namespace", "create", "at-home")
    # While the gateway runs.
    run(database_url, "database", "add", "b", other)
    for name in ("away", "far"):
        run(database_url, "namespace", "create", name, "--in", "b")
    ids = [sql.rows(url, "SELECT min(id) FROM pathmirror.namespace") for url in (database_url, other)]
    assert ids[0] == ids[1], "otherwise mixing them up would not show"
    for name in ("away", "far"):
        wait_until(lambda name=name: gateway.rest.at(ns=name).get("x").status == 200, f"{name} to be served")
    return gateway


def test_each_is_in_its_own_database(placed, database_url, other):
    values = {"default": 1, "at-home": 2, "away": 3, "far": 4}
    for name, value in values.items():
        assert placed.rest.at(ns=name).set("x", value).status == 200
    for name, value in values.items():
        assert placed.rest.at(ns=name).value("x") == value
        assert placed.rest.at(ns=name).get("x").seq == 1
    assert named(database_url) == {"default", "at-home"} and named(other) == {"away", "far"}
    assert sql.log_entries(other, "away") == [(1, {"/x": 3})]
    for name in values:
        cli.verify("--database-url", database_url, "--ns", name)
    listed = cli.objects(run(database_url, "namespace", "ls", "--json"))
    assert [(row["name"], row["database"], row["head"]) for row in listed] == [
        ("at-home", "home", 1), ("away", "b", 1), ("default", "home", 1), ("far", "b", 1)]
    shown = cli.objects(run(database_url, "namespace", "show", "far", "--json"))[0]
    assert (shown["database"], shown["rows"], shown["entries"]) == ("b", 1, 1)


def test_listeners_of_equal_ids_hear_their_own(placed):
    with Listener(placed.rest.at(ns="default")) as here, Listener(placed.rest.at(ns="away")) as there:
        here.next(), there.next()
        for number in range(10):
            placed.rest.at(ns="default").set("x", f"home {number}")
            placed.rest.at(ns="away").set("x", f"away {number}")
        assert [here.next().data for _ in range(10)] == [f"home {number}" for number in range(10)]
        assert [there.next().data for _ in range(10)] == [f"away {number}" for number in range(10)]


def test_a_stream_resumes_from_its_own_log(placed):
    away = placed.rest.at(ns="away")
    with Listener(away) as first:
        first.next()
        away.set("x", 1)
        seen = first.next().id
    away.set("x", 2)
    placed.rest.at(ns="default").set("x", "another's")
    with Listener(away, last_event_id=seen) as second:
        assert second.next().data == 2


def test_a_second_gateway_finds_all_of_it(placed, serve):
    second = serve(name="second")
    placed.rest.at(ns="away").set("x", 1)
    assert second.rest.at(ns="away").value("x") == 1
    seq = second.rest.at(ns="away").set("x", 2).seq
    assert placed.rest.at(ns="away").get("x", headers={"X-Pathmirror-Min-Seq": str(seq)}).json() == 2
    text = second.rest.send("GET", "/.metrics").body.decode()
    assert 'pathmirror_database_up{database="home"} 1' in text and 'pathmirror_database_up{database="b"} 1' in text


def test_commands_find_the_namespace(placed, database_url, other, scratch):
    away = placed.rest.at(ns="away")
    away.set("orders/o1", {"n": 1})
    assert json.loads(run(database_url, "export", "--ns", "away")) == {"orders": {"o1": {"n": 1}}}
    rules = scratch / "away.json"
    rules.write_text(json.dumps({"rules": {".read": True, ".write": False}}))
    run(database_url, "rules", "set", rules, "--ns", "away")
    wait_until(lambda: away.put("x", 1).status == 401, "the rules of the other database to hold")
    assert sql.rows(database_url, "SELECT count(*) FROM pathmirror.rule") == [(0,)]
    run(database_url, "log", "snapshot", "--ns", "away")
    assert sql.rows(other, "SELECT count(*) FROM pathmirror.snapshot") == [(1,)]
    differs = cli.command("diff", "default", "away", "--database-url", database_url)
    assert differs.returncode == 1 and "o1" in differs.stdout


def test_feeds_and_mirrors_are_of_the_other_database(placed, database_url, other, scratch):
    away = placed.rest.at(ns="away")
    feed = Feed(away, ns="away", headers=ADMIN).make("/orders/{order_id}")
    mirror = scratch / "mirror.json"
    mirror.write_text(json.dumps([{
        "name": "orders", "path": "/orders/{id}", "columns": {"n": "bigint"}}]))
    run(database_url, "mirror", "apply", mirror, "--ns", "away", "--yes")
    away.set("orders/o1", {"n": 1})
    assert [message["key"] for message in feed.take()] == ["o1"]
    assert sql.rows(other, "SELECT count(*) FROM pathmirror.feed") == [(1,)]
    assert sql.rows(database_url, "SELECT count(*) FROM pathmirror.feed") == [(0,)]
    wait_until(lambda: sql.rows(other, "SELECT n FROM mirror.orders") == [(1,)], "the mirror")
    assert "orders" in run(database_url, "feed", "status", "orders", "--ns", "away")
    assert run(database_url, "mirror", "ls", "--in", "b").startswith("away  orders")


def test_nobody_makes_a_placed_namespace_at_home(placed, database_url):
    with pytest.raises(Exception, match='lives in the database "b"'):
        sql.execute(database_url, "INSERT INTO pathmirror.namespace (name) VALUES ('away')")
    refused = cli.command("namespace", "create", "default", "--in", "b", "--database-url", database_url)
    assert refused.returncode == 1 and "lives in the home" in refused.stderr
    assert "already" in run(database_url, "namespace", "create", "away", "--in", "b")


def test_removed_and_made_elsewhere(placed, database_url, other):
    away = placed.rest.at(ns="away")
    away.set("x", 1)
    refused = cli.command("namespace", "rm", "away", "--database-url", database_url)
    assert refused.returncode == 1 and "1 row," in refused.stderr and "Nothing was changed" in refused.stderr
    refused = cli.command("namespace", "rm", "away", "--confirm", "far", "--database-url", database_url)
    assert refused.returncode == 1 and away.value("x") == 1
    with Listener(away) as listener:
        listener.next()
        run(database_url, "namespace", "rm", "away", "--confirm", "away")
        listener.wait_for_end()
    assert named(other) == {"far"}
    for table in ("node", "log", "rule", "snapshot"):
        assert sql.rows(other, f"SELECT count(*) FROM pathmirror.{table} WHERE namespace_id = 1") == [(0,)]
    # The gateway may create the namespace in the primary database, because it has no placement now.
    wait_until(lambda: away.put("x", 2).status == 200, "it to be created again")
    assert "away" in named(database_url) and named(other) == {"far"}
    assert away.value("x") == 2


def test_a_gateway_that_missed_it_writes_to_no_former_place(placed, serve, database_url, other):
    """A gateway that stood still during a removal and a creation elsewhere still has the former placement. Its acknowledged writes are in
    the current database of the namespace."""
    late = serve(name="late")
    place = "b"
    for number in range(4):
        assert late.rest.at(ns="away").put("x", number).status == 200
        late.process.child.send_signal(signal.SIGSTOP)
        run(database_url, "namespace", "rm", "away", "--confirm", "away")
        place = "home" if place == "b" else "b"
        run(database_url, "namespace", "create", "away", "--in", place)
        late.process.child.send_signal(signal.SIGCONT)
        first = late.rest.at(ns="away").put("first", number)
        assert first.status in (200, 404, 503), first.status
        wait_until(lambda: late.rest.at(ns="away").put("later", 1).status == 200, "the late gateway to find it", 30)
        url, former = (other, database_url) if place == "b" else (database_url, other)
        assert "away" in named(url) and "away" not in named(former)
        written = {key for _, changes in sql.log_entries(url, "away") for key in changes}
        assert "/later" in written and ("/first" in written) == (first.status == 200)
        for table in ("node", "log"):
            assert sql.rows(former, f"SELECT count(*) FROM pathmirror.{table} WHERE namespace_id NOT IN "
                            "(SELECT id FROM pathmirror.namespace)") == [(0,)], "written to a namespace that is gone"


def test_a_removed_namespace_costs_the_others_nothing(placed, database_url):
    """The gateway closes the realtime sessions of a removed namespace; those of other namespaces of the same database continue."""
    with RealtimeClient(placed.port, ns="away") as gone, RealtimeClient(placed.port, ns="far") as stays:
        for client in (gone, stays):
            client.put("x", 1)
            client.listen("x")
            assert client.ok("o", {"p": "/bye", "d": 1}) == ""
        run(database_url, "namespace", "rm", "away", "--confirm", "away")
        gone.socket.wait_for_close()
        stays.put("x", 2)
        assert placed.rest.at(ns="far").value("x") == 2
        assert placed.ready()
        log = placed.process.err.read_text()
        assert "namespace removed" in log and "LOST A NAMESPACE" not in log, log
        assert placed.rest.at(ns="far").value("bye") is None
    wait_until(lambda: placed.rest.at(ns="far").value("bye") == 1, "the other one's onDisconnect write")


def test_a_drained_database_takes_no_more(placed, database_url):
    run(database_url, "database", "drain", "b")
    refused = cli.command("namespace", "create", "more", "--in", "b", "--database-url", database_url)
    assert refused.returncode == 1 and "drained" in refused.stderr
    assert placed.rest.at(ns="far").set("x", 1).status == 200
    run(database_url, "database", "drain", "b", "--undo")
    run(database_url, "namespace", "create", "more", "--in", "b")
    rows = cli.objects(run(database_url, "database", "ls", "--json"))
    assert [(row["name"], row["namespaces"], row["state"]) for row in rows] == [("home", 2, "open"), ("b", 3, "open")]


def test_what_may_not_be_added(placed, database_url, other, postgres):
    for name, url, why in (("home", other, "reserved"), ("B", other, "a to z"), ("c", database_url, "That is the primary database"),
                           ("c", other, "another name"), ("b", postgres.create_database(), "already")):
        refused = cli.command("database", "add", name, url, "--database-url", database_url)
        assert refused.returncode != 0 and why in refused.stderr, (name, refused.stderr)
    # The same database again, at its current address.
    run(database_url, "database", "add", "b", other)


def test_only_one_copy_of_a_database_takes_writes(placed, database_url, other, postgres):
    """Running gateways keep the address that they know, so the command refuses a database that would have two addresses."""
    clone = postgres.create_database()
    run(clone, "migrate", "up")
    (installation,), = sql.rows(other, "SELECT id::text FROM pathmirror.installation")
    sql.autocommit(clone, f"UPDATE pathmirror.installation SET id = '{installation}'")
    refused = cli.command("database", "add", "b", clone, "--database-url", database_url)
    assert refused.returncode != 0 and "still accepts writes" in refused.stderr, refused.stderr
    assert "127.0.0.1" in other
    # The same database by another host name.
    run(database_url, "database", "add", "b", other.replace("127.0.0.1", "localhost"))
    assert placed.rest.at(ns="away").set("x", 1).status == 200


def test_a_feed_makes_no_namespace_in_another_database(placed, database_url, other):
    # The state after an interrupted `namespace create --in b`, or of a gateway before the notice of a removal.
    sql.autocommit(database_url, "SELECT pathmirror.place('nowhere', 'b')")
    feed = Feed(placed.rest, "f", "nowhere", ADMIN)
    wait_until(lambda: feed.call("PUT", body={"path": "/orders/{id}"}).status == 404, "the gateway to know where it lives")
    assert placed.rest.at(ns="nowhere").put("x", 1).status != 200
    assert "nowhere" not in named(other) and "nowhere" not in named(database_url)


def test_an_outage_is_its_own_only(serve, database_url, logs):
    with scratch_directory("pg") as path:
        cluster = Cluster(path, logs)
        try:
            cluster.start()
            away_url = cluster.create_database()
            run(database_url, "migrate", "up")
            run(database_url, "database", "add", "b", away_url)
            run(database_url, "namespace", "create", "away", "--in", "b")
            gateway = serve()
            away, home = gateway.rest.at(ns="away"), gateway.rest
            assert away.set("x", 1).status == 200
            cluster.stop("immediate")
            wait_until(lambda: away.put("x", 2).status == 503, "writes to be refused")
            assert away.value("x") == 1, "reads continue"
            assert home.set("x", 1).status == 200
            assert gateway.ready()
            health = gateway.rest.send("GET", "/.health/ready").json()
            assert health["databases"] == {"home": "reachable", "b": "unreachable"}
            # A gateway that starts now serves the primary database, and the other one once it is available.
            late = serve(name="late")
            assert late.rest.value("x") == 1
            assert late.rest.at(ns="away").get("x").status == 503
            cluster.start()
            for one in (gateway, late):
                wait_until(lambda one=one: one.rest.at(ns="away").put("x", 3).status == 200, "writes to continue", 60)
        finally:
            cluster.stop("immediate")


def test_no_password_is_kept(serve, database_url, other, scratch):
    url = other.replace("postgres@", "postgres:a-secret-password@")
    run(database_url, "migrate", "up")
    run(database_url, "database", "add", "b", url)
    kept = sql.rows(database_url, "SELECT d::text FROM pathmirror.database d")
    assert len(kept) == 1 and "secret" not in kept[0][0] and "postgres@" not in kept[0][0]
    # A login for this test: the role exists in this cluster only.
    role = "role_" + other.rsplit("_", 1)[1]
    sql.autocommit(other, f"CREATE ROLE {role} LOGIN SUPERUSER")
    try:
        logins = scratch / "logins"
        logins.write_text(f"# NAME CONNINFO\nb user={role} password=x\n")
        logins.chmod(0o600)
        run(database_url, "namespace", "create", "away", "--in", "b")
        gateway = serve("--database-credentials", logins)
        assert gateway.rest.at(ns="away").set("x", 1).status == 200
        users = sql.rows(other, "SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = current_database() "
                         "AND application_name LIKE 'pathmirror committer%%'")
        assert users == [(role,)]
        gateway.stop()
        logins.write_text("b\n")
        refused = cli.command("log", "ls", "--ns", "away", "--database-url", database_url, "--database-credentials", logins)
        assert refused.returncode == 1 and "line 1" in refused.stderr
    finally:
        sql.autocommit(other, f"DROP ROLE {role}")
