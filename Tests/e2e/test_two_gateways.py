"""Two gateways on one database: mixed writes, compare-and-set, listeners and reads across them."""

import json
import os
import random
import threading
import time

import pytest
from harness import cli, sql
from harness.gateway import SECRET, start_serve
from harness.proxy import Proxy
from harness.rest import Rest
from harness.sse import Listener
from harness.waiting import wait_until
from oracle.generate import Trees
from oracle.hashes import etag
from oracle.tree import assign, normal

ASK = {"X-Firebase-ETag": "true"}
ADMIN = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def pair(gateway_pair):
    """The same path through each gateway, which only this test uses."""
    here = gateway_pair[0].unique()
    return here, gateway_pair[1].rest.at(here.base)


def read_after(rest: Rest, seq: int, path: str = ""):
    """Read-your-writes on another gateway."""
    response = rest.get(path, headers={"X-Pathmirror-Min-Seq": str(seq)})
    assert response.status == 200 and response.seq >= seq, (response.status, response.body)
    return response.json()


def in_threads(work, count: int):
    """Runs work(0) … work(count - 1) in parallel; the first failure fails the test."""
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_both_migrated_once(gateway_pair):
    versions = sql.rows(gateway_pair[0].database_url, "SELECT count(*) FROM pathmirror.namespace WHERE name = 'default'")
    assert versions == [(1,)]


def test_each_reads_what_the_other_wrote(pair):
    a, b = pair
    for number in range(30):
        writer, reader = (a, b) if number % 2 else (b, a)
        seq = writer.set(f"n{number}", number).seq
        assert read_after(reader, seq, f"n{number}") == number
    assert a.value() == b.value() == {f"n{number}": number for number in range(30)}


def test_seqs_are_common_to_both(pair):
    seqs = [pair[number % 2].set("x", number).seq for number in range(20)]
    assert seqs == sorted(set(seqs))


def test_a_listener_hears_both(pair):
    a, b = pair
    with Listener(a) as at_a, Listener(b) as at_b:
        at_a.next(), at_b.next()
        seqs = [pair[number % 2].set(f"n{number}", number).seq for number in range(20)]
        for listener in (at_a, at_b):
            events = [listener.next() for _ in seqs]
            assert [event.id for event in events] == seqs
            assert [event.change for event in events] == [("put", f"/n{number}", number) for number in range(20)]


def test_a_stream_resumes_on_the_other(pair):
    a, b = pair
    a.set(value={"x": 0})
    with Listener(a) as first:
        first.next()
        a.set("x", 1)
        seen = first.next().id
    missed = [a.set("x", 2).seq, b.set("x", 3).seq]
    with Listener(b, last_event_id=seen) as second:
        assert [second.next().id for _ in missed] == missed


@pytest.fixture
def deaf_pair(own_postgres, scratch, logs):
    """Two gateways. After `deafen` the second one gets no notifications of the first one's writes, and does not poll."""
    url = own_postgres.create_database()
    gateways = []
    with Proxy(own_postgres.port) as proxy:
        try:
            gateways.append(start_serve(url, scratch, logs, name="hears", rules=UNSTEADY))
            through = url.replace(f":{own_postgres.port}/", f":{proxy.port}/")
            gateways.append(start_serve(
                through, scratch, logs, "--ns", "default", name="deaf", tune="poll-interval=60s", rules=UNSTEADY))
            for gateway in gateways:
                assert gateway.rest.get("room").status == 200
            wait_until_heard(gateways[0].rest, gateways[1].rest)
            yield gateways[0], gateways[1], lambda: proxy.deafen(b"pathmirror\0")
        finally:
            for gateway in gateways:
                gateway.sweep()


def wait_until_heard(speaker: Rest, listener: Rest):
    """Waits until a gateway listens. A new gateway polls the heads when it begins to listen, which may be late on a busy machine. It
    listens once it has seen several consecutive writes, which no single poll shows."""
    for number in range(3):
        seq = speaker.set("heard", number).seq
        wait_until(lambda: listener.get("heard").seq >= seq, "the second gateway to hear of a write")


# Access depends on the data.
UNSTEADY = {"rules": {".write": True, ".read": "!root.child('closed').exists()"}}


def is_behind(gateway, path: str, seq: int) -> bool:
    return gateway.rest.get(path).seq < seq


def test_a_stream_that_comes_from_ahead_is_sent_nothing_twice(deaf_pair):
    """The client has seen an entry that this gateway has not: the stream resumes after that entry, not before it."""
    ahead, behind, deafen = deaf_pair
    room = ahead.rest.at("room")
    with Listener(room) as first:
        first.next()
        seq = room.set("a", 1).seq
        first.next()
        read_after(behind.rest, seq)
        deafen()
        # A poll of the log that began before may find the first of these.
        for number in range(100):
            room.set("b", number)
            seen = first.next().id
            if number >= 2 and is_behind(behind, "room", seen):
                break
    assert is_behind(behind, "room", seen)
    with Listener(behind.rest.at("room"), last_event_id=seen, value={"a": 1, "b": number}) as second:
        live = behind.rest.set("room/c", 1).seq
        event = second.next()
        assert (event.id, event.change) == (live, ("put", "/c", 1)), second.events
        assert len(second.events) == 1


def test_a_stream_that_missed_more_than_its_gateway_begins_at_the_newest(deaf_pair):
    ahead, behind, deafen = deaf_pair
    room = ahead.rest.at("room")
    with Listener(room) as first:
        first.next()
        deafen()
        room.set("b", 1)
        seen = first.next().id
    missed = room.set("b", 2).seq
    assert is_behind(behind, "room", seen)
    with Listener(behind.rest.at("room"), last_event_id=seen) as second:
        event = second.next()
        # With rules that depend on data, a resumed stream starts with the current value, because the reader might not have had access
        # before.
        assert event.id >= missed and event.change == ("put", "/", {"b": 2}), second.events
        live = behind.rest.set("room/c", 1).seq
        assert second.next().id == live, second.events


def test_a_stream_under_rules_that_its_gateway_has_not_heard_of(deaf_pair):
    ahead, behind, deafen = deaf_pair
    room = ahead.rest.at("room")
    before = room.set("a", 1).seq
    # The gateway searches the log at each notification: later it would find more entries.
    wait_until(lambda: not is_behind(behind, "room", before), "the second gateway to have seen it")
    deafen()
    rules = json.dumps({"rules": {".read": True, ".write": True}}).encode()
    assert ahead.rest.send("PUT", "/.settings/rules.json", rules, ADMIN).status == 200
    with Listener(room) as first:
        first.next()
        room.set("b", 1)
        seen = first.next().id
        missed = [room.set("b", number).seq for number in (2, 3)]
    assert is_behind(behind, "room", seen)
    with Listener(behind.rest.at("room"), last_event_id=seen, value={"a": 1, "b": 1}) as second:
        assert [second.next().id for _ in missed] == missed, second.events
        assert second.value == {"a": 1, "b": 3}


def test_a_stream_that_waits_is_judged_by_what_it_waited_for(deaf_pair):
    """The entry that ends the reader's access is among those that its gateway had not received."""
    ahead, behind, deafen = deaf_pair
    room = ahead.rest.at("room")
    with Listener(room) as first:
        first.next()
        deafen()
        room.set("a", 1)
        seen = first.next().id
        assert ahead.rest.set("closed", True).seq > seen
        first.wait_for_end()
    ahead.rest.put("room/b", "hidden")
    assert is_behind(behind, "room", seen)
    with Listener(behind.rest.at("room"), last_event_id=seen) as second:
        second.wait_for_end()
        assert [event.kind for event in second.events] == ["cancel"], second.events


def test_compare_and_set_looks_at_the_others_writes(pair):
    a, b = pair
    a.set(value="one")
    assert b.put(value="two", headers={"if-match": etag("one")}).status == 200
    # This gateway may not have received "two" yet; the database has it.
    refused = a.put(value="three", headers={"if-match": etag("one")})
    assert (refused.status, refused.json(), refused.etag) == (412, "two", etag("two"))
    assert a.delete(headers={"if-match": etag("two")}).status == 200
    assert b.put(value="new", headers={"if-match": "null_etag"}).status == 200
    assert a.put(value="newer", headers={"if-match": "null_etag"}).status == 412


def test_of_many_on_both_one_wins(pair):
    a, b = pair
    for round_ in range(10):
        a.set("place", f"free{round_}")
        statuses = []
        in_threads(lambda number: statuses.append(
            pair[number % 2].put("place", f"w{number}", headers={"if-match": etag(f"free{round_}")}).status), 8)
        assert sorted(statuses) == [200] + [412] * 7


def test_increments_across_both(pair):
    def count(number):
        for _ in range(25):
            pair[number % 2].set("counter", {".sv": {"increment": 1}})

    in_threads(count, 8)
    assert read_after(pair[0], pair[1].set("done", True).seq, "counter") == 200


@pytest.mark.acceptance
def test_sixteen_clients_increment_one_counter(gateway_pair, pair):
    """2,000 increments by compare-and-set and 2,000 by `increment`, mixed, over two gateways: the total is exact."""
    each = int(os.environ.get("PATHMIRROR_E2E_INCREMENTS", "2000")) // 16
    a, b = pair
    assert read_after(b, a.set("counter", 0).seq, "counter") == 0
    refusals = []
    begin = time.monotonic()

    def client(number):
        rest = pair[number % 2]
        dice = random.Random(number)
        kinds = ["compare"] * each + ["increment"] * each
        dice.shuffle(kinds)
        for kind in kinds:
            if kind == "increment":
                add_one(rest)
            else:
                refusals.append(compare_and_set(rest, dice))

    def add_one(rest):
        assert rest.put("counter", {".sv": {"increment": 1}}).status == 200

    def compare_and_set(rest, dice) -> int:
        response, refused = rest.get("counter", headers=ASK), 0
        while True:
            response = rest.put("counter", response.json() + 1, headers={"if-match": response.etag})
            if response.status == 200:
                return refused
            assert response.status == 412, (response.status, response.body)
            refused += 1
            time.sleep(dice.random() * 0.002 * min(refused, 10))

    in_threads(client, 16)
    print(f"{32 * each} increments in {time.monotonic() - begin:.1f} s, {sum(refusals)} refused comparisons")
    seq = a.set("done", True).seq
    assert read_after(a, seq, "counter") == read_after(b, seq, "counter") == 32 * each


def test_random_writes_on_both_end_the_same(pair):
    """Each thread has its own subtree and model, all of them share listeners on both gateways."""
    models = [None] * 6
    with Listener(pair[0]) as at_a, Listener(pair[1]) as at_b:
        def work(number):
            trees = Trees(6000 + number)
            for step in range(25):
                rest = pair[(number + step) % 2].at(f"s{number}")
                path, value = trees.dice.choice(["", "a", "a/b", "c/0"]), trees.tree(2)
                if trees.dice.random() < 0.2:
                    rest.patch(path, {"p": value, "q/r": None})
                    models[number] = assign(assign(models[number], f"{path}/p", value), f"{path}/q/r", None)
                else:
                    rest.set(path, value)
                    models[number] = assign(models[number], path, value)

        in_threads(work, 6)
        expected = {f"s{number}": model for number, model in enumerate(models)}
        seq = pair[0].set("done", True).seq
        assert normal(read_after(pair[1], seq)) == {**expected, "done": True}
        at_a.wait_for_value({**expected, "done": True})
        at_b.wait_for_value({**expected, "done": True})



def test_the_log_is_gapless_and_verifies(gateway_pair):
    url = gateway_pair[0].database_url
    gateway_pair[0].unique().set(value=1)
    seqs = [seq for seq, _ in sql.log_entries(url)]
    assert seqs == list(range(1, sql.head(url) + 1))
    cli.verify("--database-url", url)
