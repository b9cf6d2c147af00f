"""`namespace move` after the restore of a backup, or with an id of another namespace: no step confuses two namespaces."""

import pytest
from harness import cli, sql
from harness.feeds import ADMIN, Feed
from harness.moves import back_up, finished, held, interrupted, move, mover, restore, waits
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

FENCE = "LOCK TABLE pathmirror.cursor IN SHARE MODE"
PLACES = "SELECT FROM pathmirror.placement_version FOR UPDATE"


def moved(home, *words):
    return cli.command("namespace", "move", "m", *words, "--database-url", home)


def paths(url, name):
    """The rows of the namespace's tree in a database; None if the database has no such namespace."""
    ids = sql.rows(url, "SELECT id FROM pathmirror.namespace WHERE name = %s", name)
    return [path for (path,) in sql.rows(url, "SELECT path FROM pathmirror.node WHERE namespace_id = %s ORDER BY 1", *ids[0])] if ids else None


def served(rest, path, value):
    wait_until(lambda: rest.put(path, value).status == 200, "the namespace to be served", 120)


def created(gateway, home, name, database):
    """A namespace with a paid order."""
    wait_until(lambda: cli.command("namespace", "create", name, "--in", database, "--database-url", home).returncode == 0,
               "the namespace to be made", 120)
    rest = gateway.rest.at(ns=name)
    served(rest, "orders", {"o1": "paid"})
    return rest


@pytest.mark.parametrize("words", [("--to", "b"), ("--abort",)])
def test_the_target_went_back_and_gave_the_copy_s_id_to_another(two, words):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)
    back_up(other)
    interrupted(other, FENCE, home, "m", "b")
    (copy,), = sql.rows(other, "SELECT namespace_id FROM pathmirror.namespace_copy")
    restore(other)
    shop = created(gateway, home, "shop", "b")
    assert sql.rows(other, "SELECT id FROM pathmirror.namespace WHERE name = 'shop'") == [(copy,)]
    done = moved(home, *words)
    assert done.returncode == 0, done.stderr
    assert paths(other, "shop") == ["/orders/o1"]
    wait_until(lambda: shop.get("orders").status == 200, "the other one to be served", 60)
    assert shop.get("orders").json() == {"o1": "paid"}
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 60)
    assert rest.value("x") == 1
    cli.verify("--database-url", home, "--ns", "shop")


def test_two_movers_to_two_targets(two, postgres):
    gateway, home, other = two
    third = postgres.create_database()
    cli.succeeds("database", "add", "c", third, "--database-url", home)
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)
    shop = created(gateway, home, "shop", "c")
    # One mover has checked the target and is slow to continue; the other one begins later.
    with held(third, "LOCK TABLE pathmirror.migration IN ACCESS EXCLUSIVE MODE"):
        slow = mover(home, "m", "c")
        wait_until(lambda: waits(third), "the slow one to be there", 60)
        with held(other, FENCE):
            fast = mover(home, "m", "b")
            wait_until(lambda: waits(other), "the fast one to be there", 60)
            fast.kill()
            fast.communicate()
    _, errors = slow.communicate(timeout=120)
    assert slow.returncode == 1 and "being moved" in errors, errors
    assert paths(third, "shop") == ["/orders/o1"]
    finished(home, "m", "b")
    assert shop.get("orders").json() == {"o1": "paid"}
    assert paths(other, "m") == ["/x"] and paths(third, "m") is None


@pytest.mark.parametrize("words", [("--to", "home"), ("--abort",)])
def test_the_source_went_back_to_before_it_was_made(two, words):
    gateway, home, other = two
    back_up(other)
    cli.succeeds("namespace", "create", "m", "--in", "b", "--database-url", home)
    rest = gateway.rest.at(ns="m")
    served(rest, "x", 1)
    interrupted(home, "LOCK TABLE pathmirror.cursor IN SHARE MODE", home, "m", "home")
    restore(other)
    for attempt in range(2):
        refused = moved(home, *words)
        assert refused.returncode == 1 and "b has no record of" in refused.stderr, refused.stderr
        if attempt == 0:
            # Another namespace has its id by now.
            shop = created(gateway, home, "shop", "b")
    assert paths(home, ".moving/m") == ["/x"] and paths(other, "shop") == ["/orders/o1"]
    # A manual step of docs/guides/placement.md.
    sql.execute(home, "UPDATE pathmirror.namespace SET name = 'm' WHERE name = '.moving/m'",
                "UPDATE pathmirror.namespace_copy SET is_dormant = false WHERE namespace = 'm' AND is_dormant")
    finished(home, "m", "home")
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 120)
    assert rest.value("x") == 1
    assert paths(other, "shop") == ["/orders/o1"] and shop.get("orders").json() == {"o1": "paid"}


def test_the_source_went_back_after_it_has_left(two):
    """The copy has all rows that the source has lost."""
    gateway, home, other = two
    cli.succeeds("namespace", "create", "m", "--in", "b", "--database-url", home)
    rest = gateway.rest.at(ns="m")
    served(rest, "x", 1)
    back_up(other)
    served(rest, "y", 2)
    interrupted(home, PLACES, home, "m", "home")
    # The result does not depend on whether the copy was active: the placements of the primary database block the move.
    restore(other)
    refused = moved(home, "--to", "home")
    assert refused.returncode == 1, refused.stdout
    assert "a database was restored from an older backup" in refused.stderr or "has entries that b does not have" in refused.stderr, refused.stderr
    assert (paths(home, "m") or paths(home, ".moving/m")) == ["/x", "/y"] and paths(other, "m") == ["/x"]


def test_the_home_went_back_to_the_middle_of_a_move(two):
    """The primary database is the source: the namespace is active in both then, and no rows are removed."""
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)
    interrupted(other, FENCE, home, "m", "b")
    back_up(home)
    finished(home, "m", "b")
    for day in range(3):
        served(rest, f"day2/{day}", day)
    restore(home)
    for words in (("--to", "b"), ("--abort",)):
        refused = moved(home, *words)
        assert refused.returncode == 1 and "is in home (up to entry 1) and in b (up to entry 4)" in refused.stderr, refused.stderr
    assert paths(other, "m") == ["/day2/0", "/day2/1", "/day2/2", "/x"] and paths(home, "m") == ["/x"]
    # A manual step of docs/guides/placement.md.
    sql.execute(home, "UPDATE pathmirror.namespace SET name = '.kept/m' WHERE name = 'm'")
    finished(home, "m", "b")
    assert paths(other, "m") == ["/day2/0", "/day2/1", "/day2/2", "/x"] and paths(home, ".kept/m") == ["/x"]
    assert sql.rows(home, "SELECT database FROM pathmirror.placement WHERE namespace = 'm'") == [("b",)]


def test_the_home_alone_went_back_to_the_middle_of_a_move(two, postgres):
    """The primary database is neither source nor target: the same command resumes."""
    gateway, home, other = two
    third = postgres.create_database()
    cli.succeeds("database", "add", "c", third, "--database-url", home)
    cli.succeeds("namespace", "create", "m", "--in", "b", "--database-url", home)
    rest = gateway.rest.at(ns="m")
    served(rest, "x", 1)
    interrupted(third, FENCE, home, "m", "c")
    back_up(home)
    finished(home, "m", "c")
    served(rest, "y", 2)
    restore(home)
    wait_until(lambda: moved(home, "--to", "c").returncode == 0, "the move", 60)
    assert paths(third, "m") == ["/x", "/y"] and paths(other, "m") is None
    wait_until(lambda: rest.get("y").status == 200, "the namespace to be served", 120)
    assert rest.value("y") == 2


def test_the_home_went_back_to_before_the_move(two):
    gateway, home, other = two
    rest = gateway.rest.at(ns="m")
    rest.set("x", 1)
    back_up(home)
    interrupted(other, FENCE, home, "m", "b")
    restore(home)
    # The copy names its move.
    finished(home, "m", "b")
    assert paths(other, "m") == ["/x"] and paths(home, "m") is None
    wait_until(lambda: rest.get("x").status == 200, "the namespace to be served", 120)


def test_it_is_removed_while_it_is_moved(two):
    gateway, home, other = two
    gateway.rest.at(ns="m").set("x", 1)
    # The transaction of `namespace rm`.
    with held(home, "WITH gone AS (DELETE FROM pathmirror.namespace WHERE name = 'm' RETURNING id, name, stream_key) "
              "INSERT INTO pathmirror.former_namespace (id, name, stream_key) SELECT id, name, stream_key FROM gone") as removing:
        process = mover(home, "m", "b")
        wait_until(lambda: waits(home), "the mover to be there", 60)
        removing.commit()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "was removed or replaced in home during the move" in errors, errors
    again = moved(home, "--to", "b")
    assert again.returncode == 1 and "was removed from home during the move" in again.stderr, again.stderr
    assert sql.rows(home, "SELECT count(*) FROM pathmirror.namespace_move") == [(0,)]
    assert sql.rows(other, "SELECT count(*) FROM pathmirror.namespace") == [(0,)]


def test_the_home_has_forgotten_a_move_to_a_database_that_is_drained(two):
    gateway, home, other = two
    gateway.rest.at(ns="m").set("x", 1)
    back_up(home)
    interrupted(other, FENCE, home, "m", "b")

    def doctor():
        return cli.command("doctor", "--database-url", home).stdout

    assert "m is being moved from home to b since" in doctor()
    restore(home)
    assert "b: inactive copies of moves that the primary database does not know: m" in doctor()
    cli.succeeds("database", "drain", "b", "--database-url", home)
    refused = moved(home, "--abort")
    assert refused.returncode == 1 and "has no move of m" in refused.stderr, refused.stderr
    refused = moved(home, "--to", "b")
    assert refused.returncode == 1 and "being drained" in refused.stderr, refused.stderr
    done = moved(home, "--to", "b", "--abort")
    assert done.returncode == 0, done.stderr
    assert paths(home, "m") == ["/x"] and sql.rows(other, "SELECT count(*) FROM pathmirror.node") == [(0,)]
    said = doctor()
    assert "is being moved" not in said and "inactive copies" not in said


def test_what_was_put_aside_does_nothing(two, serve):
    """No gateway works the feeds of a namespace that was set aside, or executes its onDisconnect writes."""
    gateway, home, other = two
    for name in ("m", "n"):
        gateway.rest.at(ns=name).set("x", 1)
        Feed(gateway.rest, ns=name, headers=ADMIN).make("/orders/{order_id}")
    with RealtimeClient(gateway.port, ns="m", extra="&pm=1") as aside, RealtimeClient(gateway.port, ns="n", extra="&pm=1") as other_one:
        for client in (aside, other_one):
            client.ok("o", {"p": "/orders/bye", "d": 1})
        gateway.process.kill()
    sql.execute(home, "UPDATE pathmirror.namespace SET name = '.kept/m' WHERE name = 'm'")
    second = serve(name="second")
    rest = second.rest.at(ns="n")
    wait_until(lambda: rest.get("orders/bye").status == 200 and rest.value("orders/bye") == 1, "the other session's onDisconnect write", 120)
    feed = Feed(second.rest, ns="n", headers=ADMIN)
    assert [message["key"] for message in feed.take()] == ["bye"]
    assert sql.head(home, ".kept/m") == 1 and sql.rows(home, "SELECT count(*) FROM pathmirror.session") == [(1,)]
    assert sql.rows(home, "SELECT DISTINCT namespace FROM pathmirror.feed_status") == [("n",)]
    assert "m" not in {row["name"].split("/")[-1] for row in cli.objects(cli.succeeds("namespace", "ls", "--json", "--database-url", home))}
    assert {row["namespace"] for row in cli.objects(cli.succeeds("feed", "ls", "--json", "--database-url", home))} == {"n"}
    assert second.rest.at(ns="m").get("x").status == 404
    assert "set aside: .kept/m" in cli.command("doctor", "--database-url", home).stdout


def test_one_that_came_back_and_was_removed_is_nowhere_else(two, serve):
    gateway, home, other = two
    rest = created(gateway, home, "m", "b")
    for place in ("home", "b"):
        move(home, "m", place)
        wait_until(lambda: rest.get("orders").status == 200, "the namespace to be served", 60)
    # A gateway with this database as its primary one reads no other placements.
    own = serve(url=other, name="own").rest.at(ns="m")
    wait_until(lambda: own.get("orders").status == 200, "the namespace to be served", 60)
    cli.succeeds("namespace", "rm", "m", "--confirm", "m", "--database-url", home)
    wait_until(lambda: own.get("orders").status == 404, "it to be gone", 60)
