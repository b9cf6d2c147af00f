"""`namespace move` while clients write: no write is lost or doubled, and listeners resume."""

import json
import random
import signal
import subprocess

import pytest
from harness import cli, sql
from harness.feeds import PATIENT, Feed
from harness.gateway import SECRET
from harness.moves import Load, check, ended, finished, held, interrupted, move, mover, random_path, random_value, waits
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

ADMIN = {"Authorization": f"Bearer {SECRET}"}


def has_nothing_of(url, name):
    """Checks that the source database has no rows of the namespace, which was the only one with data."""
    assert sql.rows(url, "SELECT count(*) FROM pathmirror.namespace WHERE name LIKE %s", f"%{name}") == [(0,)]
    for table in ("node", "log", "feed", "feed_owner", "feed_progress", "session", "named_write", "rule", "namespace_copy", "mirror"):
        assert sql.rows(url, f"SELECT count(*) FROM pathmirror.{table}") == [(0,)], table
    assert sql.rows(url, "SELECT count(*) FROM pathmirror.namespace_move") == [(0,)]


def test_there_and_back_while_clients_write(two):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    dice = random.Random(1)
    for _ in range(100):
        rest.put("tree/" + random_path(dice), random_value(dice))
    with Load([rest], 1) as load:
        for number in range(4):
            target = "b" if number % 2 == 0 else "home"
            moved = move(home, "m", target)
            assert (moved["database"], moved["to"]) == (target, target)
            print(moved, round(load.longest, 3), load.refusals())
            load.goes_on()
            place, former = (other, home) if number % 2 == 0 else (home, other)
            assert sql.rows(place, "SELECT count(*) FROM pathmirror.namespace WHERE name = 'm'") == [(1,)]
            has_nothing_of(former, "m")
    assert set(load.refused) <= {503}, load.refusals()
    check(load, home, home, "m")


def test_what_is_of_it_moves_along(two, scratch):
    """A move takes rules, retention, feeds with done, dead and future messages, onDisconnect writes, named writes, event ids and former
    trees."""
    gateway, home, other = two
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    rest.set("orders/o1", {"n": 1})
    feed = Feed(gateway.rest, ns="m", headers=ADMIN).make("/orders/{order_id}", max_attempts=1, ack_deadline="2s")
    rest.set("orders/o2", {"n": 2})
    dead = feed.one()
    feed.nack([dead], reason="no")
    wait_until(feed.dead, "a dead letter")
    rest.set("orders/o3", {"n": 3})
    assert [message["key"] for message in feed.take()] == ["o3"]
    last = rest.set("orders/o4", {"n": 4}).seq
    cli.succeeds("retention", "set", "--ns", "m", "--keep", "30d", "--database-url", home)
    assert rest.send("PUT", "/.settings/rules.json?ns=m", b'{"rules": {".read": true, ".write": true}}', ADMIN).status == 200

    def past(name):
        cli.succeeds("replay", "tree", "--ns", "m", "--at", last, "--output", scratch / name, "--database-url", home)
        return json.loads((scratch / name).read_text())

    before = past("before.json")
    with RealtimeClient(gateway.port, ns="m", extra="&pm=1") as client:
        assert client.put("/counter", {".sv": {"increment": 1}}, w="writer-of-a-test.1") is not None
        client.ok("o", {"p": "/bye", "d": {".sv": {"increment": 1}}})
        move(home, "m", "b")
        client.socket.wait_for_close()
    wait_until(lambda: rest.get("bye").status == 200 and rest.value("bye") == 1, "the session's onDisconnect write", 60)
    with RealtimeClient(gateway.port, ns="m", extra="&pm=1") as client:
        client.put("/counter", {".sv": {"increment": 1}}, w="writer-of-a-test.1")
        assert rest.value("counter") == 1, "the write was done twice"
        client.put("/counter", {".sv": {"increment": 1}}, w="writer-of-a-test.2")
        assert rest.value("counter") == 2
    assert [message["key"] for message in feed.take()] == ["o4"]
    seq = rest.set("orders/o5", {"n": 5}).seq
    assert [message["key"] for message in feed.take()] == ["o5"]
    assert [letter["key"] for letter in feed.dead()] == ["o2"]
    feed.drained()
    assert rest.get("orders/o5", headers={"X-Pathmirror-Min-Seq": str(seq)}).json() == {"n": 5}
    assert past("after.json") == before
    assert rest.value("bye") == 1
    assert sql.rows(other, "SELECT keep_seconds FROM pathmirror.retention") == [(30 * 86400,)]
    assert sql.rows(other, "SELECT count(*) FROM pathmirror.rule") == [(1,)]
    cli.verify("--database-url", home, "--ns", "m")
    has_nothing_of(home, "m")


def test_a_log_that_begins_late_takes_one_table(two):
    """After fifty million entries of which the last ten remain, the copy has no tables for the removed ones."""
    _, home, other = two
    sql.execute(
        home, "INSERT INTO pathmirror.namespace (name, head, retained_from, partitioned_to) VALUES ('old', 50000010, 50000001, 50000001)",
        "SELECT pathmirror.ensure_log_partition(id, 50000011, 1000000) FROM pathmirror.namespace WHERE name = 'old'",
        "INSERT INTO pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes) SELECT id, 50000000 + n, now(), "
        "gen_random_uuid(), 'set', '/a', json_build_object('/a', n) FROM pathmirror.namespace, generate_series(1, 10) AS n WHERE name = 'old'",
        "INSERT INTO pathmirror.node (namespace_id, path, value, version) SELECT id, '/a', '10', 50000010 FROM pathmirror.namespace WHERE name = 'old'",
        "INSERT INTO pathmirror.snapshot (namespace_id, seq, row_count, made_by) SELECT id, 50000000, 0, 'retention' FROM pathmirror.namespace "
        "WHERE name = 'old'")
    move(home, "old", "b")
    (namespace, head, end), = sql.rows(other, "SELECT id, head, partitioned_to FROM pathmirror.namespace WHERE name = 'old'")
    tables = sql.rows(other, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ %s", f"^log_{namespace}_[0-9]+$")
    assert (head, end, tables) == (50_000_010, 51_000_001, [(f"log_{namespace}_50000001",)])
    cli.verify("--database-url", home, "--ns", "old")


# The steps at which the mover waits: the database, the lock, and whether the namespace is still served.
STEPS = {
    "copying": ("target", "LOCK TABLE pathmirror.node IN SHARE MODE", True),
    "writers are held up": ("target", "LOCK TABLE pathmirror.cursor IN SHARE MODE", False),
    "the copy is whole": ("source", "LOCK TABLE pathmirror.former_namespace IN SHARE MODE", False),
    "it has left": ("home", "SELECT FROM pathmirror.placement_version FOR UPDATE", False),
    "the home says where it is": ("source", "LOCK TABLE pathmirror.rule IN SHARE MODE", True),
}


@pytest.mark.parametrize("direction", ["there", "back"])
@pytest.mark.parametrize("step", STEPS)
def test_a_mover_that_is_killed_at_a_step_is_gone_on_with(two, step, direction):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    if direction == "back":
        cli.succeeds("namespace", "create", "m", "--in", "b", "--database-url", home)
        wait_until(lambda: rest.put("x", 1).status == 200, "the namespace to be served")
    source, target, to = (home, other, "b") if direction == "there" else (other, home, "home")
    where, lock, is_served = STEPS[step]
    url = {"source": source, "target": target, "home": home}[where]
    with Load([rest], 1) as load:
        with held(url, lock):
            process = mover(home, "m", to)
            wait_until(lambda: waits(url), "the mover to be there", 60)
            if is_served:
                load.goes_on()
            ended(process)
            if step == "writers are held up":
                load.goes_on()
        if step not in ("it has left",):
            load.goes_on()
        finished(home, "m", to)
        load.goes_on()
    assert set(load.refused) <= {503}, load.refusals()
    check(load, home, target, "m")
    has_nothing_of(source, "m")


@pytest.mark.parametrize("step", ["copying", "writers are held up", "the copy is whole"])
def test_a_move_is_aborted(two, step):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    where, lock, _ = STEPS[step]
    url = other if where == "target" else home
    with Load([rest], 1) as load:
        with held(url, lock):
            process = mover(home, "m", "b")
            wait_until(lambda: waits(url), "the mover to be there", 60)
            ended(process)
        for words in (("namespace", "rm", "m", "--confirm", "m"), ("namespace", "create", "m", "--in", "b")):
            refused = cli.command(*words, "--database-url", home)
            assert refused.returncode == 1 and "is being moved from home to b" in refused.stderr, refused.stderr

        def abort():
            return cli.command("namespace", "move", "m", "--abort", "--database-url", home).returncode == 0

        wait_until(abort, "the move to be aborted", 60)
        has_nothing_of(other, "m")
        load.goes_on()
        assert move(home, "m", "b")["database"] == "b"
        load.goes_on()
    assert set(load.refused) <= {503}, load.refusals()
    check(load, home, other, "m")


def test_it_is_too_late_to_abort(two):
    gateway, home, other = two
    cli.succeeds("namespace", "create", "m", "--in", "b", "--database-url", home)
    rest = gateway.rest.at(ns="m")
    wait_until(lambda: rest.put("x", 1).status == 200, "the namespace to be served")
    with held(home, STEPS["it has left"][1]):
        process = mover(home, "m", "home")
        wait_until(lambda: waits(home), "the mover to be there", 60)
        ended(process)
    # The mover may have reached the primary database just then.
    abort = cli.command("namespace", "move", "m", "--abort", "--database-url", home)
    if abort.returncode != 0:
        assert "has already left b" in abort.stderr or "moving" in abort.stderr, abort.stderr
    finished(home, "m", "home")
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 60)
    assert rest.value("x") == 1


def test_a_second_mover_is_refused(two):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)
    with held(other, STEPS["copying"][1]):
        first = mover(home, "m", "b")
        wait_until(lambda: waits(other), "the mover to be there", 60)
        second = cli.command("namespace", "move", "m", "--to", "b", "--database-url", home)
        assert second.returncode == 1 and "Another process is moving" in second.stderr, second.stderr
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 0, errors
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served")
    assert rest.value("x") == 1


@pytest.mark.parametrize("step", ["writers are held up", "the copy is whole"])
def test_a_mover_that_loses_its_connections_says_so(two, step):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    where, lock, _ = STEPS[step]
    url = other if where == "target" else home
    with Load([rest], 1) as load:
        with held(url, lock):
            process = mover(home, "m", "b")
            wait_until(lambda: waits(url), "the mover to be there", 60)
            sql.autocommit(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                           "starts_with(application_name, 'pathmirror namespace move') AND wait_event_type = 'Lock' AND datname = current_database()")
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 1 and "The same command resumes" in errors, errors
        load.goes_on()
        finished(home, "m", "b")
        load.goes_on()
    check(load, home, other, "m")


def test_a_gateway_that_is_killed_meanwhile(two, serve):
    gateway, home, other = two
    second = serve("--create-namespaces", name="second")
    with Load([gateway.rest.at(ns="m"), second.rest.at(ns="m")], 1) as load:
        with held(other, STEPS["writers are held up"][1]):
            process = mover(home, "m", "b")
            wait_until(lambda: waits(other), "the mover to be there", 60)
            gateway.process.kill()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        load.goes_on()
    check(load, home, other, "m")


def test_ctrl_c(two):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    with Load([rest], 1) as load:
        with held(other, STEPS["writers are held up"][1]):
            process = mover(home, "m", "b")
            wait_until(lambda: waits(other), "the mover to be there", 60)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 130 and "--abort removes the copy" in errors, errors
            load.goes_on()
        finished(home, "m", "b")
        load.goes_on()
    check(load, home, other, "m")


def test_what_can_not_be_moved(two, postgres):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)

    def refused(*words):
        done = cli.command("namespace", "move", *words, "--database-url", home)
        assert done.returncode in (1, 2), done.stdout
        return done.stderr

    assert "no database" in refused("m", "--to", "nowhere")
    assert "no namespace" in refused("none", "--to", "b")
    assert "--to is missing" in refused("m")
    assert "no namespace" in refused("none", "--to", "b", "--abort")
    assert move(home, "m", "home")["milliseconds"] is None
    sql.execute(other, "INSERT INTO pathmirror.namespace (name) VALUES ('m')")
    other_of_its_name = refused("m", "--to", "b")
    # A removal of "m" would remove the served copy.
    assert "of its own" in other_of_its_name and "rm" not in other_of_its_name.split()
    sql.execute(other, "DELETE FROM pathmirror.namespace")
    cli.succeeds("database", "drain", "b", "--database-url", home)
    assert "being drained" in refused("m", "--to", "b")
    cli.succeeds("database", "drain", "b", "--undo", "--database-url", home)
    sql.execute(other, "CREATE TABLE newest AS SELECT * FROM pathmirror.migration ORDER BY version DESC LIMIT 1",
                "DELETE FROM pathmirror.migration WHERE version IN (SELECT version FROM newest)")
    assert "migrate up" in refused("m", "--to", "b")
    sql.execute(other, "INSERT INTO pathmirror.migration SELECT * FROM newest", "DROP TABLE newest")
    assert sql.rows(home, "SELECT count(*) FROM pathmirror.namespace_move") == [(0,)]
    assert move(home, "m", "b")["database"] == "b"
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served")
    assert rest.value("x") == 1


def test_a_target_without_space_keeps_nobody_up(two):
    gateway, home, other = two
    sql.execute(other, """CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING errcode = '53100'; END $$""")
    with Load([gateway.rest.at(ns="m")], 1) as load:
        # The mover copies the tree while clients write, and named writes while it blocks writers.
        for table in ("node", "named_write"):
            sql.execute(home, "INSERT INTO pathmirror.named_write (namespace_id, writer, done, seq) SELECT id, 'a-writer', '{[1,2)}', 1 "
                        "FROM pathmirror.namespace WHERE name = 'm' ON CONFLICT DO NOTHING")
            sql.execute(other, f"CREATE TRIGGER is_full BEFORE INSERT ON pathmirror.{table} FOR EACH ROW EXECUTE FUNCTION is_full()")
            failed = cli.command("namespace", "move", "m", "--to", "b", "--database-url", home)
            assert failed.returncode == 1 and "No space left" in failed.stderr, failed.stderr
            load.goes_on()
            sql.execute(other, f"DROP TRIGGER is_full ON pathmirror.{table}")
        assert move(home, "m", "b")["database"] == "b"
        load.goes_on()
    check(load, home, other, "m")


def test_all_of_a_database_move(two):
    gateway, home, other = two
    for name in ("m1", "m2", "m3"):
        cli.succeeds("namespace", "create", name, "--in", "b", "--database-url", home)
        wait_until(lambda name=name: gateway.rest.at(ns=name).put("x", name).status == 200, "the namespace to be served")
    # A mirror without a table.
    sql.execute(other, "INSERT INTO pathmirror.mirror (namespace_id, name, definition) "
                "SELECT id, 'orders', '{\"name\": \"orders\", \"path\": \"/o/{id}\", \"columns\": {}}' FROM pathmirror.namespace WHERE name = 'm2'")
    drain = ("database", "drain", "b", "--move", "--json", "--database-url", home)
    first = cli.command(*drain)
    assert first.returncode == 1 and "Not moved: m2." in first.stderr, first.stderr
    assert "\npathmirror mirror drop orders --ns m2 --yes &&\npathmirror namespace move m2 --to home &&\n" in first.stderr, first.stderr
    assert [moved["name"] for moved in cli.objects(first.stdout)] == ["m1", "m3"]
    sql.execute(other, "DELETE FROM pathmirror.mirror")
    assert [moved["name"] for moved in cli.objects(cli.succeeds(*drain))] == ["m2"]
    for name in ("m1", "m2", "m3"):
        rest = gateway.rest.at(ns=name)
        wait_until(lambda rest=rest: rest.get("x").status == 200, "the namespace to be served")
        assert rest.value("x") == name and rest.set("y", 1).seq == 2
        cli.verify("--database-url", home, "--ns", name)
    assert "b" not in {row["database"] for row in cli.objects(
        cli.succeeds("namespace", "ls", "--json", "--database-url", home))}


def test_what_is_on_its_way_to_a_database_that_is_drained(two):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)
    interrupted(other, STEPS["writers are held up"][1], home, "m", "b")
    moved = cli.objects(cli.succeeds("database", "drain", "b", "--move", "--json", "--database-url", home))
    assert [(row["name"], row["database"]) for row in moved] == [("m", "home")]
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served")
    assert rest.value("x") == 1
    has_nothing_of(other, "m")


def test_keys_that_are_the_same_text(two):
    """Keys with the same Unicode text are distinct, and so is a mark that combines with the slash before it."""
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", {"k": 0})
    rest.set("a", 5)
    interrupted(other, STEPS["writers are held up"][1], home, "m", "b")
    rest.set("x/caf\u00e9", 1)
    rest.set("x/cafe\u0301", 2)
    rest.set("a/\u0301b", 1)
    before = rest.get("").json()
    finished(home, "m", "b")
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served")
    assert rest.get("").json() == before
    cli.verify("--database-url", home, "--ns", "m")


@pytest.mark.parametrize("seed", range(3))
def test_a_mover_that_is_killed_at_any_moment_is_gone_on_with(two, seed):
    gateway, home, other = two
    dice = random.Random(seed)
    rest = gateway.rest.at(ns="m")
    for _ in range(100):
        rest.put("tree/" + random_path(dice), random_value(dice))
    with Load([rest], seed) as load:
        place = "home"
        for _ in range(3):
            place = "b" if place == "home" else "home"
            patience = 0.5
            while True:
                process = mover(home, "m", place)
                try:
                    process.communicate(timeout=dice.uniform(0.02, patience))
                except subprocess.TimeoutExpired:
                    ended(process)
                    # The patience grows, so that a move finishes on a slow machine as well.
                    patience *= 1.3
                else:
                    if process.returncode == 0:
                        break
            load.goes_on()
    assert set(load.refused) <= {503}, load.refusals()
    check(load, home, home if place == "home" else other, "m")
