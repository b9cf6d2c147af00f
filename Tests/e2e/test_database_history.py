"""PostgreSQL loses commits while gateways stay up: an operator restores a backup, or a standby without some commits takes over. All clients
then see the state of the database, and the gateway logs the loss."""

import re
from contextlib import contextmanager

import pytest
from harness import cli, sql
from harness.cluster import Cluster
from harness.gateway import start_serve
from harness.mirrored import POSTS, Mirrored
from harness.proxy import Proxy
from harness.scratch import scratch_directory
from harness.sse import Listener
from harness.waiting import wait_until

LOST = "THE DATABASE HAS LOST ENTRIES"


@contextmanager
def served(url, scratch, logs, *options):
    gateway = start_serve(url, scratch, logs, *options)
    try:
        yield gateway
    finally:
        gateway.sweep()


def written(url: str, count: int):
    """Other gateways write, not this one."""
    for number in range(count):
        sql.execute(url, f"select pathmirror.set('default', '/others/{number}', '{number}')")


def check_lines(gateway, lost: str, head: int):
    """Checks that the log line names the lost entries."""
    lines = [line for line in gateway.process.stderr().splitlines() if LOST in line and "mirror" not in line]
    assert len(lines) == 1 and " error " in lines[0], lines
    assert f"lost={lost}" in lines[0] and "namespace=default" in lines[0] and f"head={head}" in lines[0], lines


@pytest.mark.parametrize("others", [0, 5, 8])
def test_a_backup_is_put_back(own_postgres, postgres, scratch, logs, others):
    """Restores a backup with fewer entries than the gateway has seen, with as many, and with more, which others wrote meanwhile."""
    url = own_postgres.create_database()
    elsewhere = postgres.create_database()
    with served(url, scratch, logs) as gateway:
        mirrored = Mirrored(lambda: gateway, url, scratch)
        rest = gateway.rest
        rest.send("PUT", "/posts/a.json", b'{"author": "ada", "starCount": 1}')
        mirrored.apply(POSTS, {**POSTS, "name": "far_posts", "target": elsewhere})
        mirrored.caught_up()
        kept = sql.head(url)
        own_postgres.stop()
        copy = own_postgres.keep_copy()
        own_postgres.start()
        wait_until(gateway.ready, "ready again", 30)
        with Listener(rest.at("posts")) as listener:
            first = listener.next()
            for number in range(5):
                last = rest.set("posts/b", {"author": "bob", "starCount": number}).seq
            listener.wait_for_id(last)
            lost_id, early_id = listener.events[-1].id, first.id
            mirrored.caught_up()
            assert sql.rows(elsewhere, "select count(*) from mirror.far_posts") == [(2,)]

            own_postgres.stop()
            own_postgres.put_back(copy)
            # The server runs at another port, which this gateway does not reach.
            home = own_postgres.port
            own_postgres.port = Cluster.another_port()
            own_postgres.start()
            written(url.replace(str(home), str(own_postgres.port)), others)
            own_postgres.stop()
            own_postgres.port = home
            seen = len(listener.events)
            own_postgres.start()

            head = kept + others
            fresh = wait_until(lambda: listener.events[seen:], "a fresh put", 30)[0]
            assert fresh.change == ("put", "/", {"a": {"author": "ada", "starCount": 1}}) and fresh.id == head
            wait_until(gateway.ready, "ready again", 30)
            answer = wait_until(lambda: (tried := rest.put("posts/c", {"author": "cy"})).status == 200 and tried, "a write", 30)
            assert answer.seq == head + 1
            listener.wait_for_value({"a": {"author": "ada", "starCount": 1}, "c": {"author": "cy"}})
        check_lines(gateway, f"{kept + 1}...{kept + 5}", head)
        assert gateway.metric("pathmirror_taken_back_total") == 1
        assert gateway.metric("pathmirror_taken_back_entries_total") == 5
        wait_until(lambda: sql.rows(elsewhere, "select post_id from mirror.far_posts order by 1") == [("a",), ("c",)],
                   "the mirror in the other database to be rebuilt", 60)
        mirrored.caught_up()
        mirrored.verify()
        assert "mirror=far_posts" in gateway.process.stderr()
        now = rest.value("posts")
        # The id of a lost entry: its seq has another entry now, or none.
        with Listener(rest.at("posts"), last_event_id=lost_id) as late:
            assert late.next().change == ("put", "/", now)
        # The id of a kept entry still works.
        with Listener(rest.at("posts"), last_event_id=early_id, value={"a": now["a"]}) as late:
            assert late.next().path == "/c"
            late.wait_for_value(now)
        assert rest.value("others") == ({str(n): n for n in range(others)} and [*range(others)] or None)
    cli.verify("--database-url", url)


def test_a_standby_takes_over_that_lacked_entries(own_postgres, scratch, logs):
    url = own_postgres.create_database()
    with scratch_directory("standby") as place, Proxy(own_postgres.port) as proxy:
        with served(url.replace(str(own_postgres.port), str(proxy.port)), scratch, logs) as gateway:
            rest = gateway.rest
            rest.set("n", 1)
            standby = Cluster(place, logs, primary=own_postgres)
            try:
                standby.start()
                wait_until(lambda: sql.rows(own_postgres.url("postgres"), "select count(*) from pg_stat_replication where state = "
                                            "'streaming'") == [(1,)], "the standby to stream", 30)
                kept = rest.set("n", 2).seq
                there = standby.url(url.rpartition("/")[2])
                wait_until(lambda: sql.head(there) == kept, "the standby to have it", 30)
                # The standby receives nothing more, and cannot know its gap.
                sql.autocommit(standby.url("postgres"), "alter system set primary_conninfo = ''", "select pg_reload_conf()")
                wait_until(lambda: sql.rows(own_postgres.url("postgres"), "select count(*) from pg_stat_replication") == [(0,)],
                           "the standby to be cut off", 30)
                for number in range(3, 6):
                    rest.set("n", number)
                with Listener(rest.at("n")) as listener:
                    assert listener.next().data == 5
                    own_postgres.kill()
                    proxy.switch(standby.port)
                    # Not promoted yet: the standby refuses writes, so the gateway does not accept it as primary.
                    wait_until(lambda: "standby" in gateway.process.stderr(), "a word about the standby", 30)
                    assert not gateway.ready() and rest.put("n", 0).status == 503
                    assert rest.value("n") == 5
                    sql.autocommit(standby.url("postgres"), "select pg_promote()")
                    wait_until(lambda: listener.events[-1].data == 2, "a fresh put", 30)
                    assert listener.events[-1].change == ("put", "/", 2) and listener.events[-1].id == kept
                    wait_until(gateway.ready, "ready again", 30)
                    assert rest.set("n", 9).seq == kept + 1
                    listener.wait_for_value(9)
                check_lines(gateway, f"{kept + 1}...{kept + 3}", kept)
                assert re.search(r"the database was promoted.*timeline=2", gateway.process.stderr())
                cli.verify("--database-url", there)

                # The old primary returns without having been stopped. The gateway does not return to it.
                own_postgres.start()
                proxy.switch(own_postgres.port)
                wait_until(lambda: "has replaced it" in gateway.process.stderr(), "a word about the old primary", 30)
                assert not gateway.ready() and rest.put("n", 10).status == 503 and rest.value("n") == 9
                proxy.switch(standby.port)
                wait_until(gateway.ready, "ready again", 30)
                assert rest.set("n", 11).seq == kept + 2
                cli.verify("--database-url", there)
            finally:
                standby.stop("immediate")
