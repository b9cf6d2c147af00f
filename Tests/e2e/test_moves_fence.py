"""`namespace move` until the source releases the namespace: copies do nothing before that, and concurrent acknowledgements move along."""

import json
import signal
import threading
import time

import psycopg
import pytest
from harness import cli, sql
from harness.endpoint import OPTIONS, Endpoint
from harness.endpoint import SECRET as WEBHOOK_SECRET
from harness.feeds import ADMIN, PATIENT, Feed
from harness.moves import Load, check, finished, held, interrupted, move, mover, numbered, waits
from harness.waiting import wait_until
from harness.websocket import Closed
from harness.websocket_client import RealtimeClient

# The point at which the mover has copied everything, and the source has not released the namespace.
FORMER = "LOCK TABLE pathmirror.former_namespace IN SHARE MODE"


@pytest.fixture
def hooked(serve, database_url, postgres):
    """A gateway that delivers to endpoints of this machine, its primary database, and the database `b`."""
    other = postgres.create_database()
    gateway = serve("--create-namespaces", *OPTIONS)
    cli.succeeds("database", "add", "b", other, "--database-url", database_url)
    return gateway, database_url, other


def works(gateway, home, database, endpoint):
    """Waits until the gateway has read a database: it works a feed that this function creates there."""
    name = f"work-{database}-{len(endpoint.deliveries)}"
    cli.succeeds("namespace", "create", name, *(["--in", database] if database != "home" else []), "--database-url", home)
    rest = gateway.rest.at(ns=name).with_headers(**ADMIN)
    wait_until(lambda: rest.put("x", 1).status == 200, "the namespace to be served", 60)
    Feed(gateway.rest, ns=name, headers=ADMIN).make("/orders/{order_id}", webhook=endpoint.hook(secrets=[WEBHOOK_SECRET]))
    rest.set("orders/w", {"of": name})
    wait_until(lambda: any(name.encode() in delivery.body for delivery in endpoint.deliveries), "the database's feeds to be worked", 120)


def orders(endpoint):
    """The deliveries of the moving namespace."""
    return [(delivery.id, message["key"]) for delivery in endpoint.deliveries if b"work-" not in delivery.body
            for message in delivery.messages]


def test_a_copy_does_nothing_before_the_source_has_let_go(hooked):
    gateway, home, other = hooked
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    rest.set("x", 1)
    with Endpoint() as endpoint:
        Feed(gateway.rest, ns="m", headers=ADMIN).make("/orders/{order_id}", webhook=endpoint.hook(secrets=[WEBHOOK_SECRET]))
        rest.set("orders/o1", {"n": 1})
        wait_until(lambda: len(orders(endpoint)) == 1, "the first order", 60)
        with RealtimeClient(gateway.port, ns="m", extra="&pm=1") as client:
            client.ok("o", {"p": "/orders/bye", "d": {"n": "only if the client goes"}})
            interrupted(home, FORMER, home, "m", "b")
            head = sql.rows(other, "SELECT head FROM pathmirror.namespace WHERE name = '.moving/m'")
            assert head == [(sql.head(home, "m"),)] and sql.rows(other, "SELECT count(*) FROM pathmirror.feed") == [(1,)]
            works(gateway, home, "b", endpoint)
            rest.set("orders/o2", {"n": 2})
            wait_until(lambda: len(orders(endpoint)) == 2, "the second order", 60)
            assert [key for _, key in orders(endpoint)] == ["o1", "o2"]
            assert sql.rows(other, "SELECT head FROM pathmirror.namespace WHERE name = '.moving/m'") == head
            assert sql.rows(other, "SELECT count(*) FROM pathmirror.session") == [(1,)]
            assert rest.get("orders/bye").json() is None
            assert "m" not in {feed["namespace"] for feed in cli.objects(cli.succeeds("feed", "ls", "--json", "--database-url", other))}
            assert sql.rows(other, "SELECT count(*) FROM pathmirror.feed_status WHERE namespace LIKE '.moving/%%'") == [(0,)]
            finished(home, "m", "b")
            client.socket.wait_for_close()
        wait_until(lambda: rest.get("orders/bye").status == 200 and rest.value("orders/bye"), "the session's onDisconnect write", 120)
        rest.set("orders/o3", {"n": 3})
        wait_until(lambda: {key for _, key in orders(endpoint)} == {"o1", "o2", "o3", "bye"}, "the others", 120)
        # An id belongs to one message, even if that is delivered twice.
        assert len(set(orders(endpoint))) == len({identity for identity, _ in orders(endpoint)})
    cli.verify("--database-url", home, "--ns", "m")


def test_its_feeds_go_on_in_the_home(hooked):
    gateway, home, other = hooked
    cli.succeeds("namespace", "create", "m", "--in", "b", "--database-url", home)
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    wait_until(lambda: rest.put("x", 1).status == 200, "the namespace to be served", 60)
    with Endpoint() as endpoint:
        feed = Feed(gateway.rest, ns="m", headers=ADMIN).make("/orders/{order_id}", webhook=endpoint.hook(secrets=[WEBHOOK_SECRET]))
        rest.set("orders/o1", {"n": 1})
        wait_until(lambda: len(orders(endpoint)) == 1, "the first order", 60)
        for lock in (FORMER.replace("former_namespace", "rule"), "SELECT FROM pathmirror.placement_version FOR UPDATE"):
            # The copy is in the primary database, and the gateway has read that.
            interrupted(home, lock, home, "m", "home")
            works(gateway, home, "home", endpoint)
        finished(home, "m", "home")
        wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 60)
        rest.set("orders/o2", {"n": 2})
        wait_until(lambda: "o2" in [key for _, key in orders(endpoint)], "the second order", 120)
        feed.ask("GET", "status")
    # Both databases have used the same feed numbers, by which gateways distinguish the feeds of a database.
    (feeds, numbers), = sql.rows(home, "SELECT count(*), count(DISTINCT id) FROM pathmirror.feed")
    assert feeds == numbers == 3


def test_what_administrators_do_meanwhile_goes_along_or_is_refused(two):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    rest.set("x", 1)
    doomed = Feed(gateway.rest, "doomed", ns="m", headers=ADMIN).make("/orders/{order_id}")
    letters = Feed(gateway.rest, "letters", ns="m", headers=ADMIN).make("/d/{key}", max_attempts=1, **PATIENT)
    rest.set("d/1", {"n": 1})
    rest.set("d/2", {"n": 2})
    letters.nack([letters.one()], reason="no")
    letters.nack([letters.one()], reason="no")
    wait_until(lambda: len(letters.dead()) == 2, "two dead letters")
    answers = {}

    def note(name, body):
        answers[name] = body()

    work = {
        "make": lambda: Feed(gateway.rest, "fresh", ns="m", headers=ADMIN).call("PUT", body={"path": "/z/{key}"}).status == 201,
        "remove": lambda: doomed.call("DELETE").status == 200,
        "drop": lambda: letters.call("POST", "dead/drop", {"all": True}).status == 200,
        "retention": lambda: cli.command("retention", "set", "--ns", "m", "--keep", "30d", "--database-url", home).returncode == 0,
    }
    with held(home, FORMER):
        process = mover(home, "m", "b")
        wait_until(lambda: waits(home), "the mover to be there", 60)
        threads = [threading.Thread(target=note, args=item) for item in work.items()]
        for thread in threads:
            thread.start()
        # Each administrator waits for the mover, or came before or after it.
        wait_until(lambda: len(answers) == len(work) or sql.rows(
            home, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%hold_namespace%%' AND wait_event_type = 'Lock'") != [(0,)],
            "the administrators to be there", 60)
    process.communicate(timeout=120)
    for thread in threads:
        thread.join(120)
    finished(home, "m", "b")
    print(answers)
    feeds = {name for (name,) in sql.rows(other, "SELECT name FROM pathmirror.feed")}
    assert ("fresh" in feeds) == answers["make"] and ("doomed" not in feeds) == answers["remove"], (feeds, answers)
    dead = sql.rows(other, "SELECT count(*) FROM pathmirror.feed_message WHERE state = 'dead'")
    assert (dead == [(0,)]) == answers["drop"], (dead, answers)
    assert bool(sql.rows(other, "SELECT FROM pathmirror.retention")) == answers["retention"], answers


def test_nothing_of_a_namespace_that_has_left_is_changed(two):
    """The functions of this version change no remaining rows of a namespace that has left."""
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)
    (former,), = sql.rows(home, "SELECT id FROM pathmirror.namespace WHERE name = 'm'")
    finished(home, "m", "b")
    with pytest.raises(psycopg.Error) as refusal:
        sql.execute(home, f"SELECT pathmirror.hold_namespace({former})")
    assert refusal.value.sqlstate == "PM005"


def test_a_mover_that_stands_still_with_writers_held_up(two):
    gateway, home, other = two
    with Load([gateway.rest.at(ns="m")], 1) as load:
        with held(other, "LOCK TABLE pathmirror.cursor IN SHARE MODE"):
            process = mover(home, "m", "b")
            wait_until(lambda: waits(other), "the mover to be there", 60)
            process.send_signal(signal.SIGSTOP)
            load.goes_on()
        load.goes_on()
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=120)
        finished(home, "m", "b")
        load.goes_on()
    check(load, home, other, "m")


def test_a_long_copy_keeps_no_other_namespace_of_the_target_up(two):
    gateway, home, other = two
    gateway.rest.at(ns="big").set("x", 1)
    # More entries than the shared tables take: the log gets its own partition.
    columns = ", ".join(name for (name,) in sql.rows(
        home, "SELECT attname::text FROM pg_attribute WHERE attrelid = 'pathmirror.log'::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attname <> 'seq' AND attgenerated = ''"))
    sql.execute(home, "SELECT pathmirror.ensure_log_partition(id, 70000, 1000000) FROM pathmirror.namespace WHERE name = 'big'",
                f"INSERT INTO pathmirror.log (seq, {columns}) SELECT number, {columns} FROM pathmirror.log, generate_series(2, 70000) AS number "
                "WHERE seq = 1 AND namespace_id = (SELECT id FROM pathmirror.namespace WHERE name = 'big')",
                "UPDATE pathmirror.namespace SET head = 70000 WHERE name = 'big'")
    with held(other, "LOCK TABLE pathmirror.snapshot IN ACCESS EXCLUSIVE MODE"):
        process = mover(home, "big", "b")
        wait_until(lambda: waits(other), "the mover to be there", 120)
        strong = sql.rows(other, "SELECT relation::regclass::text, mode FROM pg_locks JOIN pg_stat_activity USING (pid) "
                          "WHERE starts_with(application_name, 'pathmirror namespace move') AND granted "
                          "AND relation::regclass::text LIKE 'pathmirror.log%%' AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')")
        process.kill()
        process.communicate()
    assert strong == []
    assert sql.rows(other, "SELECT partitioned_to > 70000 FROM pathmirror.namespace WHERE name = '.moving/big'") == [(True,)]


def test_writers_that_wait_while_it_leaves(two, serve):
    """Waiting writers are refused, and the gateway logs no failure."""
    gateway, home, other = two
    second = serve("--create-namespaces", name="second")
    rests = [gateway.rest.at(ns="m"), second.rest.at(ns="m")]
    with Load(rests, 1, writers=6) as load:
        with held(home, FORMER):
            process = mover(home, "m", "b")
            wait_until(lambda: waits(home), "the mover to be there", 60)
            wait_until(lambda: sql.rows(home, "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
                                        "AND application_name NOT LIKE '%%namespace move%%'"), "a writer to wait", 60)
        process.communicate(timeout=120)
        finished(home, "m", "b")
        load.goes_on()
    assert set(load.refused) <= {503}, load.refusals()
    for one in (gateway, second):
        assert "namespace moved to another database" in one.process.stderr()
        assert " error " not in one.process.stderr()
    check(load, home, other, "m")


def test_what_apps_have_written_meanwhile_is_not_refused(two):
    """Apps give up a refused write; they resend one without an answer after the next connection."""
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)
    client = RealtimeClient(gateway.port, ns="m", extra="&pm=1").greet()
    asked = {}

    def put(number):
        asked[client.ask("p", {"p": f"/app/{number}", "d": {".sv": {"increment": 1}}, "w": f"app-of-this-test.{number}"})] = number

    for number in range(1, 4):
        put(number)
    with held(home, FORMER):
        process = mover(home, "m", "b")
        wait_until(lambda: waits(home), "the mover to be there", 60)
        for number in range(4, 9):
            put(number)
    process.communicate(timeout=120)
    finished(home, "m", "b")
    answers = {}
    try:
        for number in range(9, 200):
            put(number)
            time.sleep(0.01)
    except OSError:
        pass
    with pytest.raises(Closed):
        while True:
            client._take(60)
            answers.update(client.answers)
    client.socket.plain.close()
    assert answers and {answer["s"] for answer in answers.values()} == {"ok"}, answers
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 60)
    with RealtimeClient(gateway.port, ns="m", extra="&pm=1") as again:
        for request, number in asked.items():
            if request not in answers:
                again.put(f"/app/{number}", {".sv": {"increment": 1}}, w=f"app-of-this-test.{number}")
    done = rest.get("app").json()
    assert {int(number): count for number, count in numbered(done)} == dict.fromkeys(asked.values(), 1)


def test_a_program_that_writes_by_sql_while_it_leaves(two):
    gateway, home, other = two
    gateway.rest.at(ns="m").set("x", 1)
    refusals = []

    def write():
        with pytest.raises(psycopg.Error) as refusal:
            sql.execute(home, "SELECT pathmirror.set('m', '/y', '1')")
        refusals.append(refusal.value)

    with held(home, FORMER):
        process = mover(home, "m", "b")
        wait_until(lambda: waits(home), "the mover to be there", 60)
        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: sql.rows(home, "SELECT FROM pg_stat_activity WHERE query LIKE '%%pathmirror.set%%' AND wait_event_type = 'Lock'"),
                   "the program to wait", 60)
    process.communicate(timeout=120)
    writer.join(60)
    finished(home, "m", "b")
    assert refusals[0].sqlstate == "P0002" and "not in this database any more" in str(refusals[0])
    assert sql.execute(other, "SELECT pathmirror.set('m', '/y', '1')") is None
    assert sql.head(other, "m") == 2


def test_a_round_takes_as_long_as_what_it_brings(two):
    """A round does not scan the tree for each written path, although the planner has no statistics of the new table."""
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rows, paths = 40_000, 1_500
    rest.set("", {f"k{number:05}": {"v": number} for number in range(rows)})

    def seconds(count, value):
        interrupted(other, "LOCK TABLE pathmirror.cursor IN SHARE MODE", home, "m", "b")
        changes = {f"k{number * 7:05}/v": value for number in range(count)}
        assert rest.send("PATCH", "/.json?ns=m", json.dumps(changes).encode()).status == 200
        start = time.monotonic()
        move(home, "m", "b")
        taken = time.monotonic() - start
        wait_until(lambda: rest.get("k00000/v").status == 200, "the namespace to be served", 60)
        assert rest.value("k00000/v") == value
        return taken

    one = seconds(1, -1)
    move(home, "m", "home")
    wait_until(lambda: rest.get("k00000/v").status == 200, "the namespace to be served", 60)
    many = seconds(paths, -2)
    # This once took about twenty seconds more.
    assert many < one + 6, (one, many)
    cli.verify("--database-url", home, "--ns", "m")


def test_a_log_that_is_shortened_during_the_last_round_takes_nothing_away(hooked):
    """Entries may be dropped while writers wait: the copy has the affected rows of the tree."""
    gateway, home, other = hooked
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    for number in range(20):
        rest.set(f"k{number}", number)
    number, = sql.rows(home, "SELECT id FROM pathmirror.namespace WHERE name = 'm'")[0]
    with held(home, f"SELECT pg_advisory_xact_lock_shared(706174686, hashint8({number}))") as fence:
        process = mover(home, "m", "b")
        wait_until(lambda: waits(home), "the mover to want the fence", 60)
        for more in range(20, 30):
            rest.set(f"k{more}", more)
        with held(other, "LOCK TABLE pathmirror.rule IN SHARE MODE"):
            fence.rollback()
            wait_until(lambda: waits(other), "the mover to be in its last round", 60)
            sql.execute(home, f"DELETE FROM pathmirror.log WHERE namespace_id = {number} AND seq <= 30")
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    wait_until(lambda: rest.get("k29").status == 200, "the namespace to be served", 60)
    assert rest.value("") == {f"k{number}": number for number in range(30)}
    cli.verify("--database-url", home, "--ns", "m")


def test_a_namespace_that_begins_while_it_moves(hooked):
    """The copy of an empty namespace lacks its first write, but has no other history."""
    gateway, home, other = hooked
    cli.succeeds("namespace", "create", "m", "--database-url", home)
    number, = sql.rows(home, "SELECT id FROM pathmirror.namespace WHERE name = 'm'")[0]
    with held(home, f"SELECT pg_advisory_xact_lock_shared(706174686, hashint8({number}))"):
        process = mover(home, "m", "b")
        wait_until(lambda: waits(home), "the mover to want the fence", 60)
        rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
        rest.set("x", 1)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 60)
    assert rest.value("x") == 1
    cli.verify("--database-url", home, "--ns", "m")


def test_a_log_that_was_shortened_between_two_tries_is_said(hooked):
    gateway, home, other = hooked
    rest = gateway.rest.at(ns="m").with_headers(**ADMIN)
    for number in range(10):
        rest.set(f"k{number}", number)
    interrupted(home, FORMER, home, "m", "b")
    for number in range(10, 20):
        rest.set(f"k{number}", number)
    cli.succeeds("log", "prune", "--keep", "2 entries", "--force", "--yes", "--ns", "m", "--database-url", home)
    done = cli.command("namespace", "move", "m", "--to", "b", "--database-url", home)
    assert done.returncode == 1 and "no longer reaches back to the last entry of the copy in b" in done.stderr
    assert "Delete the copy with --abort" in done.stderr
    move(home, "m", "b", "--abort")
    finished(home, "m", "b")
    wait_until(lambda: rest.get("k0").status == 200, "the namespace to be served", 60)
    assert rest.value("") == {f"k{number}": number for number in range(20)}
    cli.verify("--database-url", home, "--ns", "m")


def test_what_is_not_where_it_is_to_be_is_not_called_there(hooked):
    _, home, other = hooked
    cli.succeeds("namespace", "create", "m", "--in", "b", "--database-url", home)
    sql.execute(other, "UPDATE pathmirror.namespace SET name = '.kept/m' WHERE name = 'm'")
    done = cli.command("namespace", "move", "m", "--to", "b", "--database-url", home)
    assert done.returncode == 1 and '"m" is placed in b, but does not exist there' in done.stderr
