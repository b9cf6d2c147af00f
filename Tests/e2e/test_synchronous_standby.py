"""PostgreSQL with a synchronous standby: a failover loses no acknowledged write, and gateways find the primary without help. Two real
servers, without Patroni: the long campaign with it is `make campaign NAME=ha`."""

import threading
from contextlib import contextmanager

import psycopg
import pytest
from harness import cli, sql
from harness.cluster import Cluster
from harness.feeds import ADMIN, Feed
from harness.gateway import start_serve
from harness.mirrored import POSTS, Mirrored
from harness.scratch import scratch_directory
from harness.sse import Listener
from harness.waiting import Late, wait_until
from harness.websocket import Closed
from harness.websocket_client import RealtimeClient

ALONE = "has committed a batch without its synchronous standby"


class Pair:
    """A primary with a synchronous standby, and gateways that know both."""

    def __init__(self, place, logs, primary: Cluster):
        self.primary = primary
        self.database = primary.create_database().rpartition("/")[2]
        self.standby = Cluster(place, logs, primary=primary)
        self.standby.start()
        sql.autocommit(primary.url("postgres"), "alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
        wait_until(lambda: self.on_primary("select count(*) from pg_stat_replication where sync_state = 'sync'") == 1,
                   "the standby to be synchronous", 30)
        self.url = f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{self.standby.port}/{self.database}"

    def on_primary(self, query: str):
        return sql.rows(self.primary.url(self.database), query)[0][0]

    def cut_standby_off(self):
        """Cuts replication; later commits wait for the standby."""
        sql.autocommit(self.standby.url("postgres"), "alter system set primary_conninfo = ''", "select pg_reload_conf()")
        wait_until(lambda: self.on_primary("select count(*) from pg_stat_replication") == 0, "the standby to be cut off", 30)

    def join_standby(self):
        sql.autocommit(self.standby.url("postgres"), f"alter system set primary_conninfo = 'host=127.0.0.1 port={self.primary.port} user=postgres'",
                       "select pg_reload_conf()")

    def waits(self, of: str, what: str = "*") -> int:
        """The number of sessions that wait for the standby, by the beginning of their names."""
        return self.on_primary(f"select count({what}) from pg_stat_activity where wait_event = 'SyncRep' and starts_with(application_name, '{of}')")

    def end_waits(self, function: str, of: str = "") -> int:
        """Cancels such waits, or ends their sessions; returns their number."""
        return self.waits(of, f"{function}(pid)")

    def fail_over(self):
        """Ends the primary for good, and promotes the standby."""
        self.primary.kill()
        # The new primary has no standby of its own.
        sql.autocommit(self.standby.url("postgres"), "alter system set synchronous_standby_names = ''", "select pg_promote()")


@pytest.fixture
def pair(own_postgres, logs):
    with scratch_directory("standby") as place:
        pair = Pair(place, logs, own_postgres)
        try:
            yield pair
        finally:
            pair.standby.kill()


@contextmanager
def served(pair, scratch, logs, *options, tune=""):
    gateway = start_serve(pair.url, scratch, logs, "--commit-deadline", "6s", *options, tune=tune)
    try:
        yield gateway
    finally:
        gateway.sweep()


class Asking(threading.Thread):
    """A request in a thread."""

    def __init__(self, ask):
        super().__init__(daemon=True)
        self.ask, self.answer = ask, None
        self.start()

    def run(self):
        self.answer = self.ask()

    def wait(self):
        self.join(30)
        assert not self.is_alive()
        return self.answer


@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
def test_what_the_primary_committed_alone_is_not_acknowledged(pair, scratch, logs, function):
    with served(pair, scratch, logs) as gateway:
        rest = gateway.rest
        before = rest.set("n", 1).seq
        pair.cut_standby_off()
        asking = Asking(lambda: rest.put("n", 2))
        # Cancels every wait, also repeated ones.
        wait_until(lambda: pair.end_waits(function), "the commit to wait for the standby", 20)
        wait_until(lambda: sql.head(pair.primary.url(pair.database)) > before, "the primary to have it", 20)
        while asking.is_alive():
            pair.end_waits(function)
            asking.join(0.05)
        answer = asking.wait()
        assert answer.status == 503, "acknowledged an entry that only the primary had"
        assert "may have been committed" in answer.body.decode()
        assert function == "pg_terminate_backend" or ALONE in gateway.process.stderr()
        pair.fail_over()
        answer = wait_until(lambda: (tried := rest.put("after", True)).status == 200 and tried, "writes by the new primary", 30)
        # The write was not acknowledged: it is lost, and another write has its seq.
        assert answer.seq == before + 1 and rest.value("n") == 1
    cli.verify("--database-url", pair.url)


def test_a_commit_that_a_standby_gets_in_the_end_is_acknowledged(pair, scratch, logs):
    """After one cancellation the gateway finds the batch on the primary; it answers only once the standby has the batch."""
    with served(pair, scratch, logs, "--commit-deadline", "20s") as gateway:
        rest = gateway.rest
        # The namespace exists, so the write waits next.
        rest.set("n", 1)
        pair.cut_standby_off()
        asking = Asking(lambda: rest.put("n", 2))
        wait_until(lambda: pair.end_waits("pg_cancel_backend", "pathmirror committer"), "the commit to wait for the standby", 20)
        # The gateway's search for the batch waits, too.
        wait_until(lambda: ALONE in gateway.process.stderr() and pair.waits("pathmirror committer"), "the search to wait", 60)
        assert asking.is_alive()
        pair.join_standby()
        answer = asking.wait()
        assert answer.status == 200
        pair.fail_over()
        wait_until(gateway.ready, "the new primary", 30)
        assert wait_until(lambda: (tried := rest.put("after", True)).status == 200 and tried, "a write", 30).seq == answer.seq + 1
        assert rest.value("n") == 2
        assert gateway.metric("pathmirror_taken_back_total") == 0
    cli.verify("--database-url", pair.url)


def test_an_acknowledged_message_stays_acknowledged(pair, scratch, logs):
    """The gateway reports no progress of a feed that only the primary has, even if its writer finds the progress stored."""
    with served(pair, scratch, logs) as gateway:
        rest = gateway.rest
        feed = Feed(rest, "all", headers=ADMIN)
        feed.apply("/posts/{id}", start="beginning", status=201, ack_deadline="2s")
        rest.set("posts/a", 1)

        def pull():
            return feed.ask("POST", "pull", {"max": 10, "wait": "500ms", "consumer": "one"})["messages"]

        message = wait_until(pull, "the message", 30)[0]
        pair.cut_standby_off()
        asking = Asking(lambda: feed.call("POST", "ack", {"ids": [message["id"]]}))
        for _ in range(60):
            pair.end_waits("pg_cancel_backend")
            asking.join(0.05)
        assert asking.is_alive() or b'"done"' not in asking.answer.body, "acknowledged an entry that only the primary had"
        pair.fail_over()
        answer = asking.wait()
        if b'"done"' not in answer.body:
            assert wait_until(pull, "the message once more", 30)[0]["id"] == message["id"]


def test_everything_follows_the_primary(pair, scratch, logs):
    """Writes, listeners, mirrors, feeds and commands use the same URL before and after; the old primary is fenced when it returns."""
    with served(pair, scratch, logs, tune="poll-interval=500ms") as gateway:
        mirrored = Mirrored(lambda: gateway, pair.url, scratch)
        rest = gateway.rest
        mirrored.apply(POSTS)
        feed = Feed(rest, "all", headers=ADMIN)
        feed.apply("/posts/{id}", start="beginning", status=201)
        rest.set("posts/a", {"author": "ada"})
        mirrored.caught_up()
        with Listener(rest.at("posts")) as listener:
            listener.next()
            rest.set("posts/b", {"author": "bob"})
            pair.fail_over()
            wait_until(lambda: rest.put("posts/c", {"author": "cy"}).status == 200, "a write", 30)
            listener.wait_for_value({"a": {"author": "ada"}, "b": {"author": "bob"}, "c": {"author": "cy"}})
            assert [event.change[:2] for event in listener.events][:2] == [("put", "/"), ("put", "/b")], "an event was sent again"
        mirrored.caught_up()
        mirrored.verify()
        taken: set[str] = set()

        def pull():
            answer = feed.call("POST", "pull", {"max": 10, "wait": "500ms", "consumer": "one"})
            if answer.status == 200:
                taken.update(message["key"] for message in answer.json()["messages"])
            return {"a", "b", "c"} <= taken

        wait_until(pull, "all messages of the feed", 30)
        assert gateway.metric("pathmirror_taken_back_total") == 0
        # An operator starts the old primary by hand.
        pair.primary.start()
        for number in range(5):
            assert rest.set("again", number).status == 200
        assert sql.head(pair.primary.url(pair.database)) < sql.head(pair.standby.url(pair.database))
    cli.verify("--database-url", pair.standby.url(pair.database))


def test_what_an_asynchronous_standby_lacked_is_said(pair, scratch, logs):
    """Without the requirement, writes are acknowledged on one disk. A failover loses the last ones; the gateway logs the loss, and all
    clients get the new state."""
    sql.autocommit(pair.primary.url("postgres"), "alter system set synchronous_standby_names = ''", "select pg_reload_conf()")
    with served(pair, scratch, logs, tune="poll-interval=500ms") as gateway:
        mirrored = Mirrored(lambda: gateway, pair.url, scratch)
        rest = gateway.rest
        mirrored.apply(POSTS)
        kept = rest.set("posts/a", {"author": "ada"}).seq
        wait_until(lambda: sql.head(pair.standby.url(pair.database)) == kept, "the standby to have it", 30)
        pair.cut_standby_off()
        with Listener(rest.at("posts")) as listener:
            listener.next()
            lost = [rest.set(f"posts/{name}", {"author": name}).seq for name in ("b", "c")]
            listener.wait_for_id(lost[-1])
            mirrored.caught_up()
            pair.fail_over()
            wait_until(lambda: listener.events[-1].change == ("put", "/", {"a": {"author": "ada"}}), "a fresh put", 30)
            assert listener.events[-1].id == kept
            answer = wait_until(lambda: (tried := rest.put("posts/d", {"author": "dan"})).status == 200 and tried, "a write", 30)
            assert answer.seq == kept + 1
            listener.wait_for_value({"a": {"author": "ada"}, "d": {"author": "dan"}})
        said = [line for line in gateway.process.stderr().splitlines() if "THE DATABASE HAS LOST ENTRIES" in line]
        assert len(said) == 1 and f"lost={lost[0]}...{lost[-1]}" in said[0] and f"head={kept}" in said[0], said
        assert gateway.metric("pathmirror_taken_back_entries_total") == 2
        mirrored.caught_up()
        assert mirrored.rows("select post_id from mirror.posts order by 1") == [("a",), ("d",)]
    cli.verify("--database-url", pair.url)


def test_a_server_that_takes_no_writes_any_more_is_left(pair, scratch, logs):
    """The gateway closes its connections to a server that becomes read-only."""
    with served(pair, scratch, logs) as gateway:
        rest = gateway.rest
        rest.set("n", 1)
        sql.autocommit(pair.primary.url("postgres"), "alter system set default_transaction_read_only = on", "select pg_reload_conf()")
        wait_until(lambda: pair.on_primary("show default_transaction_read_only") == "on", "the setting", 10)
        assert rest.put("n", 2).status == 503
        wait_until(lambda: not gateway.ready(), "the gateway to say that it has no database", 20)
        assert rest.value("n") == 1
        with psycopg.connect(pair.primary.url("postgres"), autocommit=True, options="-c default_transaction_read_only=off") as connection:
            connection.execute("alter system reset default_transaction_read_only")
            connection.execute("select pg_reload_conf()")
        wait_until(lambda: rest.put("n", 3).status == 200, "a write", 30)


def said_by_a_session(gateway, write) -> dict:
    """The answer to a named write in a new session, or in the next one if the gateway ends that one first."""
    try:
        return RealtimeClient(gateway.port, extra="&pm=1").greet().call("p", write)
    except Closed:
        return RealtimeClient(gateway.port, extra="&pm=1").greet().call("p", write)


@pytest.mark.parametrize("way", ["cancelled", "restarted"])
def test_a_named_write_that_only_the_primary_has_is_not_acknowledged_when_it_comes_again(pair, scratch, logs, way):
    """Another gateway finds the write; it answers only once the standby has the write."""
    write = {"p": "/n", "d": 2, "w": "writer-1.1"}
    with served(pair, scratch, logs) as gateway:
        assert gateway.rest.put("n", 1).status == 200
        pair.cut_standby_off()
        client = RealtimeClient(gateway.port, extra="&pm=1").greet()
        client.ask("p", write)
        wait_until(lambda: pair.waits("pathmirror committer"), "the commit to wait", 20)
        gateway.process.kill()
    if way == "cancelled":
        pair.end_waits("pg_cancel_backend")
    else:
        pair.primary.kill()
        pair.primary.start()
    wait_until(lambda: sql.head(pair.primary.url(pair.database)) == 2, "the primary to have it", 30)
    with served(pair, scratch, logs) as gateway:
        client = RealtimeClient(gateway.port, extra="&pm=1").greet()
        number = client.ask("p", write)
        with pytest.raises(Late):
            client.answer(number, 2)
        pair.fail_over()
        wait_until(lambda: gateway.rest.put("after", True).status == 200, "writes by the new primary", 30)
        # The writes that only the old primary had are lost: the new one has repeated them, or they were not acknowledged.
        try:
            status = client.answer(number)["s"]
        except Closed:
            status = "unavailable"
        assert status in ("ok", "unavailable")
        assert gateway.rest.value("n") == (2 if status == "ok" else 1)
        # The gateway ends sessions if the database has lost entries, before the answer or after it; clients reconnect.
        for _ in range(2):
            assert said_by_a_session(gateway, write)["s"] == "ok"
            assert gateway.rest.value("n") == 2
    cli.verify("--database-url", pair.url)
