"""GETs of parts of a large namespace that is being loaded: they don't wait for the whole."""

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from harness import cli, sql
from harness.gateway import SECRET, start_serve
from harness.proxy import Proxy
from harness.rest import Rest
from harness.waiting import wait_until

ROWS = 70_000
# It comes behind everything else in the order of paths: who is held there has read more than a large tree's beginning.
END = "the-very-end"
RULES = {"rules": {
    "rooms": {"$room": {".read": "data.child('owner').val() === auth.uid || root.child('staff').hasChildren([auth.uid])",
                        "log": {".indexOn": ["at"]}}},
    "notes": {".read": "auth != null"},
    "many": {".read": "auth != null"},
    "staff": {".read": False}}}
ROOM = {"owner": "u", "title": "A room", "log": {f"-M{number:04}": {"at": (number * 7) % 100, "text": f"{number}"}
                                                 for number in range(100)}}
CONTENT = {"many": {str(number): number for number in range(ROWS)},
           "notes": {"leaf": {".value": "x", ".priority": 4}, "long": {"k" * 700: {"l" * 700: {"m" * 700: 1, "n": 2}}}},
           "rooms": {"r": ROOM, "s": {"owner": "v"}},
           "staff": {"boss": True},
           "zzz": {"end": END}}


def user(rest: Rest, uid: str) -> Rest:
    return rest.at(auth_variable_override=json.dumps({"uid": uid}))


@pytest.fixture
def held(postgres, scratch, logs):
    """A gateway that has begun to load a large namespace, and does not come to its end before `let_go`; and who waits for all."""
    url = postgres.create_database()
    cli.succeeds("migrate", "up", "--database-url", url)
    cli.succeeds("import", "--database-url", url, "--ns", "large", "-", stdin=json.dumps(CONTENT).encode())
    with Proxy(postgres.port) as proxy:
        proxy.hold(END.encode())
        gateway = start_serve(url.replace(f":{postgres.port}/", f":{proxy.port}/"), scratch, logs, rules=RULES)
        rest = Rest(gateway.port, params={"ns": "large"}, headers={"Authorization": f"Bearer {SECRET}"})
        try:
            with ThreadPoolExecutor(20) as threads:
                try:
                    whole = threads.submit(rest.get)
                    yield SimpleNamespace(gateway=gateway, rest=rest, url=url, proxy=proxy, threads=threads, whole=whole)
                finally:
                    proxy.let_go()
        finally:
            gateway.sweep()
    postgres.drop_database(url)


def parts(held) -> int:
    return held.gateway.metric("pathmirror_part_reads_total")


QUERIES = [
    {}, {"shallow": "true"}, {"print": "pretty"}, {"format": "export"}, {"callback": "go"},
    {"orderBy": '"at"', "equalTo": "7"}, {"orderBy": '"$key"', "limitToFirst": "3"}, {"orderBy": '"at"', "limitToLast": "5"}]


def test_a_part_is_read_before_the_whole(held):
    rest, boss = held.rest, user(held.rest, "boss")
    assert rest.value("rooms/r") == ROOM
    assert rest.value("rooms/r/title") == "A room"
    assert rest.value("rooms/r/none") is None and rest.value("nothing/here") is None
    assert rest.value("notes/leaf") == "x"
    assert rest.value("notes/leaf", format="export") == {".value": "x", ".priority": 4}
    assert rest.value("notes") == {"leaf": "x", "long": CONTENT["notes"]["long"]}
    assert rest.value("notes/long/" + "k" * 700 + "/" + "l" * 700) == {"m" * 700: 1, "n": 2}
    assert boss.value("rooms/s") == {"owner": "v"}
    early = [boss.get("rooms/r/log", headers={"X-Firebase-ETag": "true"}, **query) for query in QUERIES]
    tag = early[0].etag
    assert tag and boss.get("rooms/r/log", headers={"If-None-Match": tag}).status == 304
    assert parts(held) >= 9 + len(QUERIES)
    assert held.gateway.metric("pathmirror_namespace_loads_total") == 0 and not held.whole.done()
    held.proxy.let_go()
    assert held.whole.result(60).json()["zzz"] == {"end": END}
    before = parts(held)
    for query, was in zip(QUERIES, early):
        now = boss.get("rooms/r/log", headers={"X-Firebase-ETag": "true"}, **query)
        assert (now.status, now.body, now.etag, now.seq) == (was.status, was.body, was.etag, was.seq), query
    assert parts(held) == before


def test_rules_are_asked_first(held):
    rest = held.rest
    owner, stranger, boss = user(rest, "u"), user(rest, "w"), user(rest, "boss")
    assert owner.value("rooms/r/title") == "A room" and boss.value("rooms/r/title") == "A room"
    for refused in [stranger.get("rooms/r/title"), owner.get("rooms/s"), owner.get("rooms/none"), boss.get("staff"),
                    Rest(rest.port, params={"ns": "large"}).get("notes")]:
        assert refused.status == 401 and refused.error == "Permission denied"
    missing = owner.get("rooms/r/log", orderBy='"text"', equalTo='"1"')
    assert missing.status == 400 and "index" in missing.error.lower()
    assert parts(held) >= 8 and not held.whole.done()


def test_what_is_written_meanwhile_is_seen_and_stays(held, serve):
    """By another gateway: on this one writes wait."""
    rest = held.rest
    other = Rest(serve("--ns", "large", url=held.url).port, params=rest.params, headers=rest.headers)
    for number in range(20):
        written = other.set("rooms/r/number", number)
        early = rest.get("rooms/r")
        assert early.json()["number"] == number and early.seq >= written.seq
    waits = held.threads.submit(rest.put, "rooms/r/late", 1)
    assert rest.value("rooms/r/late") is None and not held.whole.done()
    held.proxy.let_go()
    whole = held.whole.result(60)
    assert whole.seq >= early.seq and whole.json()["rooms"]["r"]["number"] == 19
    assert waits.result(60).status == 200 and rest.value("rooms/r/late") == 1


def test_the_whole_is_not_as_old_as_its_load(held, serve):
    """Also where no part was answered: who asks has been told of writes that came after the load began."""
    other = Rest(serve("--ns", "large", url=held.url).port, params=held.rest.params, headers=held.rest.headers)
    written = other.set("rooms/r/number", 5)
    held.proxy.let_go()
    whole = held.whole.result(60)
    assert whole.seq >= written.seq and whole.json()["rooms"]["r"]["number"] == 5
    assert parts(held) == 0


def test_a_large_part_waits(held):
    many = [held.threads.submit(held.rest.get, "many") for _ in range(4)]
    shallow = held.threads.submit(held.rest.get, "many", shallow="true")
    assert held.rest.value("many/7") == 7
    # They were asked for before this, of the one who reads parts.
    before = parts(held)
    assert held.rest.value("rooms/s") == {"owner": "v"} and parts(held) == before + 1
    assert not any(each.done() for each in many + [shallow, held.whole])
    held.proxy.let_go()
    for each in many:
        assert each.result(60).json() == list(range(ROWS))
    assert len(shallow.result(60).json()) == ROWS


def test_streams_and_those_who_wait_for_a_seq_get_no_part(held):
    waits = held.threads.submit(held.rest.get, "rooms/s", headers={"X-Pathmirror-Min-Seq": "1"})
    assert held.rest.value("rooms/s") == {"owner": "v"}
    assert not waits.done()
    held.proxy.let_go()
    assert waits.result(60).json() == {"owner": "v"}
