"""Gateways that were frozen, cut off or declared dead do not repeat the pending work of their sessions."""

import signal

import psycopg
from harness import sql
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

PLUS = {".sv": {"increment": 1}}
QUICK = ("--dead-after", "1500ms")


def blocked(database_url) -> bool:
    """Whether a gateway's thread of the sessions waits for a lock in its database."""
    return bool(sql.rows(database_url, "select 1 from pg_stat_activity where datname = current_database() "
                         "and application_name = 'pathmirror sessions' and wait_event_type = 'Lock'"))


def sessions_of(database_url) -> int:
    return sql.rows(database_url, "select count(*) from pathmirror.session")[0][0]


def test_what_a_frozen_gateway_had_queued_is_thrown_away(serve):
    """A save waits in the gateway's queue when it is stopped; another gateway ends the session; then the first one resumes."""
    frozen, other = serve(*QUICK, name="frozen"), serve(*QUICK, name="other")
    with RealtimeClient(frozen.port) as first, RealtimeClient(frozen.port) as second:
        second.ok("o", {"p": "n", "d": PLUS})
        with psycopg.connect(frozen.database_url) as holder:
            holder.execute("lock table pathmirror.session in exclusive mode")
            # The gateway's thread of the sessions is blocked here, with the later requests in its queue.
            first.ask("o", {"p": "m", "d": PLUS})
            wait_until(lambda: blocked(frozen.database_url), "the first order to be on its way")
            second.ask("o", {"p": "late", "d": PLUS})
            # A read after the request: its answer shows that the request is in the queue.
            second.ok("g", {"p": "n", "q": {}})
            frozen.process.freeze()
        try:
            wait_until(lambda: other.rest.value() == {"n": 1, "m": 1}, "the other to carry both out", 30)
            wait_until(lambda: sessions_of(other.database_url) == 0, "both to be forgotten")
        finally:
            frozen.process.send(signal.SIGCONT)
        for client in (first, second):
            assert client.socket.wait_for_close() in (1001, None)
    # Requests of a new session follow all remaining ones of the old sessions.
    with RealtimeClient(frozen.port) as new:
        new.ok("o", {"p": "new", "d": PLUS})
    wait_until(lambda: other.rest.value("new") == 1, "the new session's end")
    assert other.rest.value() == {"n": 1, "m": 1, "new": 1}
    wait_until(lambda: sessions_of(other.database_url) == 0, "no session to be left")


def test_a_session_that_was_ended_elsewhere_is_closed_at_its_next_order(serve):
    """The old gateway still has half a connection of a client that has reconnected to another one."""
    first, second = serve(*QUICK, name="first"), serve(*QUICK, name="second")
    with RealtimeClient(first.port) as old:
        old.ok("o", {"p": "n", "d": PLUS})
        with RealtimeClient(second.port, ls=old.session) as new:
            new.put("here", 1)
            assert second.rest.value("n") == 1
            old.ask("o", {"p": "ghost", "d": 1})
            assert old.socket.wait_for_close() in (1001, None)
            new.ok("o", {"p": "here", "d": None})
    wait_until(lambda: second.rest.value() == {"n": 1}, "the end of the new session alone")
    wait_until(lambda: sessions_of(second.database_url) == 0, "no session to be left")


def test_orders_that_were_cancelled_leave_nothing(serve):
    gateway = serve(*QUICK)
    with RealtimeClient(gateway.port) as client:
        client.ok("o", {"p": "n", "d": 1})
        client.ok("oc", {"p": "n"})
        client.ok("o", {"p": "m", "d": 1})
        client.ok("oc", {"p": "m"})
        assert sessions_of(gateway.database_url) == 1
    wait_until(lambda: sessions_of(gateway.database_url) == 0, "the session to be forgotten")
    assert gateway.rest.value() is None


def test_all_gateways_die_and_one_comes_back(serve):
    first, second = serve(*QUICK, name="first"), serve(*QUICK, name="second")
    with RealtimeClient(first.port) as one, RealtimeClient(second.port) as two:
        one.ok("o", {"p": "n", "d": PLUS})
        two.ok("o", {"p": "m", "d": PLUS})
        first.process.kill()
        second.process.kill()
    # By PostgreSQL's clock, they die only tomorrow.
    sql.execute(first.database_url, "update pathmirror.gateway set seen_at = now() + interval '1 day'")
    again = serve(*QUICK, name="again")
    wait_until(lambda: again.rest.value() == {"n": 1, "m": 1}, "both to be executed", 30)
    wait_until(lambda: sql.rows(again.database_url, "select count(*) from pathmirror.gateway") == [(1,)], "the dead to be forgotten")


def test_everybody_frozen_at_once_is_no_reason_to_take_the_others_for_dead(serve):
    """A suspended machine: the gateway that resumes first has not observed that the others stood still."""
    patient = ("--dead-after", "4s")
    gateways = [serve(*patient, name="one"), serve(*patient, name="two")]
    with RealtimeClient(gateways[0].port) as client:
        client.ok("o", {"p": "n", "d": PLUS})
        for gateway in gateways:
            gateway.process.freeze()
        # Longer than --dead-after by the watchers' own clocks.
        sql.rows(gateways[0].database_url, "select pg_sleep(5)")
        beats = sql.rows(gateways[0].database_url, "select sum(beat) from pathmirror.gateway")[0][0]
        gateways[1].process.send(signal.SIGCONT)
        # The other gateway has polled again, but much less often than a death requires.
        wait_until(lambda: sql.rows(gateways[0].database_url, "select sum(beat) from pathmirror.gateway")[0][0] > beats, "a look")
        gateways[0].process.send(signal.SIGCONT)
        client.ok("o", {"p": "m", "d": PLUS})
        assert gateways[1].rest.value() is None


def waits_for_a_lock(database_url, application: str) -> bool:
    return bool(sql.rows(database_url, "select 1 from pg_stat_activity where datname = current_database() "
                         f"and starts_with(application_name, '{application}') and wait_event_type = 'Lock'"))


def test_the_end_comes_behind_a_large_write(serve):
    """Writes of other clients may overtake a large write, but those of its own client may not."""
    gateway = serve("--log-level", "debug")
    client = RealtimeClient(gateway.port).greet()
    client.ok("o", {"p": "big", "d": "bye"})
    with psycopg.connect(gateway.database_url) as holder:
        holder.execute("lock table pathmirror.log_part in share mode")
        client.ask("p", {"p": "big", "d": {f"k{number}": "x" * 100 for number in range(15_000)}})
        wait_until(lambda: waits_for_a_lock(gateway.database_url, "pathmirror large write"), "the large write to be kept")
        client.socket.plain.close()
        # Other clients continue, and the gateway has noticed the disconnect.
        with RealtimeClient(gateway.port) as other:
            other.put("small", 1)
        wait_until(lambda: gateway.metric("pathmirror_sessions") == 0, "the sessions to be gone")
    wait_until(lambda: gateway.rest.value("big") == "bye", "the end to come")
    order = sql.rows(gateway.database_url, "select op from pathmirror.log where path = '/big' order by seq")
    assert order == [("set",), ("onDisconnect",)]
