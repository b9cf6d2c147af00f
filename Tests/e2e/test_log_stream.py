"""`/.log`: the raw log, by the read side of the Durable Streams protocol."""

import asyncio
import contextlib
import itertools
import json
import random
import threading
import time

import durable_streams
import psycopg
import pytest
from harness import cli, sql
from harness.feeds import Feed
from harness.gateway import SECRET, start_serve
from harness.issuer import hs256
from harness.log_stream import ADMIN, LogStream, after, ask, ask_all, read_all
from harness.waiting import wait_until


@pytest.fixture
def gateway(serve):
    return serve(tune="stream-keep-alive=300ms,log-poll=700ms")


def write(gateway, *values, path: str = "a"):
    """Writes the values one after another; returns the seqs."""
    return [gateway.rest.set(path, value).seq for value in values]


def seqs(lines) -> list[int]:
    return [line["seq"] for line in lines]


# Lines


def test_catching_up_and_then_live(gateway):
    write(gateway, 1, 2, 3)
    with LogStream(gateway.port, offset=after(1)) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.headers["X-Pathmirror-Seq"] == "3" and stream.headers["X-Content-Type-Options"] == "nosniff"
        assert stream.headers["Cache-Control"] == "no-store"
        lines = [stream.next(), stream.next()]
        assert seqs(lines) == [2, 3]
        assert lines[0]["op"] == "set" and lines[0]["path"] == "/a" and lines[0]["changes"] == {"/a": 2}
        assert lines[0]["origin"]["via"] == "rest"
        for value in range(4, 8):
            write(gateway, value)
            assert stream.next()["changes"] == {"/a": value}


def test_live_only(gateway):
    write(gateway, 1, 2)
    with LogStream(gateway.port, offset="now") as stream:
        # No earlier entries, and then a keep-alive comment.
        assert stream.event()[0] == "control"
        assert stream.raw().startswith(":")
        write(gateway, 3)
        assert stream.next()["seq"] == 3


def test_up_to_the_head(gateway):
    gateway.rest.patch("", {"a": {"b": 1, "c": "two"}, "d": [1, 2]})
    write(gateway, None, True)
    lines = read_all(gateway.rest)
    assert seqs(lines) == [1, 2, 3]
    # The lines equal those of `replay log`.
    replayed = cli.objects(cli.succeeds("replay", "log", "--from", "1", "--database-url", gateway.database_url))
    assert replayed == lines
    # A request without an offset begins with the oldest entry.
    assert ask(gateway.rest).json() == lines


def test_an_empty_log(gateway):
    answer = ask(gateway.rest, ns="default")
    assert answer.status == 200 and answer.json() == [] and answer.headers["X-Pathmirror-Seq"] == "0"
    # No part of the offset contains the namespace's key, which signs the ids of stream events.
    assert {ask(gateway.rest, method, **params).headers["Stream-Next-Offset"] for method in ("GET", "HEAD")
            for params in ({}, {"offset": "now"}, {"offset": "now", "live": "long-poll"})} == {after(0)}


def test_narrowed_to_a_path(gateway):
    gateway.rest.set("orders/o1", {"total": 5, "by": "ada"})
    gateway.rest.set("users/ada", 1)
    gateway.rest.patch("", {"orders/o1/total": 6, "users/ada": 2})
    gateway.rest.set("", {"orders": {"o2": 1}, "users": 3})
    lines = read_all(gateway.rest, path="/orders/o1")
    assert seqs(lines) == [1, 3, 4]
    assert [line["changes"] for line in lines] == [
        {"/orders/o1": {"total": 5, "by": "ada"}}, {"/orders/o1/total": 6}, {"/orders/o1": None}]
    assert all(line["source"].endswith("/default/orders/o1") for line in lines)


def test_an_import_comes_in_parts(gateway, scratch):
    big = {f"k{number:05}": "x" * 500 for number in range(12_000)}
    (scratch / "big.json").write_text(json.dumps({"in": big, "other": 1}))
    write(gateway, 1)
    cli.succeeds("import", scratch / "big.json", "--path", "/bulk", "--database-url", gateway.database_url)
    # In several answers: an offset inside an entry is valid for the next request.
    answers = ask_all(gateway.rest)
    lines = [line for answer in answers for line in answer.json()]
    assert len(answers) > 2
    assert lines[1]["bulk"] is True and lines[1]["op"] == "import" and seqs(lines[1:]) == [2] * (len(lines) - 1)
    parts = lines[2:-1]
    assert len(parts) > 1 and lines[-1]["parts"] == len(parts)
    got = {path: value for part in parts for path, value in part["changes"].items()}
    assert got["/bulk/in/k11999"] == "x" * 500
    narrow = read_all(gateway.rest, path="/bulk/other")
    assert [line.get("changes") for line in narrow[1:-1]] == [{"/bulk/other": 1}] and narrow[-1]["parts"] == 1
    with LogStream(gateway.port) as stream:
        assert [stream.next() for _ in lines] == lines
    for live in (False, "sse"):
        with durable_streams.stream(url(gateway), offset="-1", live=live, headers=ADMIN) as answer:
            assert list(itertools.islice(answer.iter_json(), len(lines))) == lines


def test_an_entry_that_is_larger_than_a_slice(gateway):
    large = "x" * 9_000_000
    write(gateway, 1, large, 3)
    answers = ask_all(gateway.rest)
    lines = [line for answer in answers for line in answer.json()]
    values = [line["changes"]["/a"] for line in lines if line.get("changes", {}).get("/a") is not None]
    assert len(answers) > 1 and values == [1, large, 3]
    assert sorted(set(seqs(lines))) == [1, 2, 3]
    with LogStream(gateway.port) as stream:
        assert [stream.next() for _ in lines] == lines
    # Another path does not see the entry at all.
    assert read_all(gateway.rest, path="/b") == []


def test_a_reader_that_takes_nothing_is_cut_off(serve):
    gateway = serve("--stream-buffer", "64KiB", tune="write-stall=1s")
    value = "x" * 200_000
    write(gateway, *[f"{number} {value}" for number in range(100)])
    with LogStream(gateway.port, buffer=4096), LogStream(gateway.port, offset=after(100)) as other:
        wait_until(lambda: gateway.metric("pathmirror_log_readers") == 1, "the stream to be cut off")
        # A reader that waits for entries does not count as stalled.
        write(gateway, 1)
        assert other.next()["seq"] == 101


def test_a_slow_reader_gets_everything_and_holds_nobody_up(serve):
    gateway = serve("--stream-buffer", "64KiB")
    value = "x" * 200_000
    with LogStream(gateway.port, buffer=4096) as stream:
        write(gateway, *[f"{number} {value}" for number in range(150)])
        taken = seqs(stream.next() for _ in range(150))
    assert taken == list(range(1, 151))
    # A stalled reader blocks no other reader.
    with LogStream(gateway.port, buffer=4096), LogStream(gateway.port, offset=after(149)) as other:
        assert other.next()["seq"] == 150
        write(gateway, 1)
        assert other.next()["seq"] == 151
        assert gateway.metric("pathmirror_log_readers") == 2
    wait_until(lambda: gateway.metric("pathmirror_log_readers") == 0, "readers to be counted out")


def test_events_tell_of_progress_where_nothing_concerns_the_path(gateway):
    write(gateway, 1)
    with LogStream(gateway.port, path="/elsewhere") as stream:
        write(gateway, 2, 3)
        while stream.event()[1]["streamNextOffset"] < after(3):
            pass


def test_a_place_of_another_history(gateway):
    write(gateway, 1, 2)
    end = ask(gateway.rest).headers["Stream-Next-Offset"]
    assert ask(gateway.rest, offset=end).json() == []
    with LogStream(gateway.port, offset=after(0)) as stream:
        while (event := stream.event())[0] != "control":
            pass
        assert event[1]["streamNextOffset"] == end
    for live in ({}, {"live": "long-poll"}, {"live": "sse"}):
        answer = ask(gateway.rest, offset=after(2) + "AAAAAAAAAAAAAAAAAAAAAA", **live)
        assert answer.status == 410 and "were lost" in answer.error
        answer = ask(gateway.rest, offset=after(9), **live)
        assert answer.status == 410 and answer.headers["X-Pathmirror-Seq"] == "2"


def test_a_copy_begins_with_the_tree(gateway):
    """The tree and the log from an earlier offset fold to the current tree."""
    write(gateway, 1, 2)
    head = ask(gateway.rest, "HEAD")
    write(gateway, 3, path="b")
    tree = gateway.rest.send("GET", "/.json", None, {**ADMIN, "X-Pathmirror-Min-Seq": head.headers["X-Pathmirror-Seq"]})
    write(gateway, 4, path="c")
    copy = tree.json()
    for line in read_all(gateway.rest, offset=head.headers["Stream-Next-Offset"]):
        if line["seq"] > tree.seq:
            copy.update({path[1:]: value for path, value in line["changes"].items()})
    assert copy == gateway.rest.value("") == {"a": 2, "b": 3, "c": 4}


# Pruned


def test_pruned_entries(gateway):
    write(gateway, *range(10))
    assert cli.command("log", "prune", "--keep", "3 entries", "--force", "--yes", "--database-url", gateway.database_url).returncode == 0
    oldest = sql.rows(gateway.database_url, "SELECT retained_from FROM pathmirror.namespace WHERE name = 'default'")[0][0]
    assert oldest > 1
    answer = ask(gateway.rest, offset=after(0))
    assert answer.status == 410 and answer.headers["X-Pathmirror-Oldest-Seq"] == str(oldest)
    assert seqs(read_all(gateway.rest)) == list(range(oldest, 11))
    for live in (False, "long-poll", "sse"):
        with pytest.raises(durable_streams.RetentionGoneError):
            durable_streams.stream(url(gateway), offset=after(1), live=live, headers=ADMIN)


def test_retention_removes_what_a_slow_reader_has_not_read(serve):
    """The stream ends; the next request gives the reason, and the lines so far have no gap."""
    gateway = serve("--stream-buffer", "64KiB")
    value = "x" * 200_000
    write(gateway, *[f"{number} {value}" for number in range(150)])
    with LogStream(gateway.port, buffer=4096) as stream:
        assert stream.next()["seq"] == 1
        sql.forget_up_to(gateway.database_url, 149)
        taken, place = [1], None
        while event := stream.event():
            if event[0] == "data":
                taken += seqs(event[1])
            else:
                place = event[1]["streamNextOffset"]
        taken += seqs(stream.lines)
    taken.sort()
    assert taken == list(range(1, len(taken) + 1)) and len(taken) < 149
    answer = ask(gateway.rest, offset=place or after(len(taken)))
    assert answer.status == 410 and answer.headers["X-Pathmirror-Oldest-Seq"] == "150"
    assert seqs(read_all(gateway.rest)) == [150]


def test_retention_removes_an_import_inside_of_which_a_reader_is(gateway, scratch):
    big = {f"k{number:05}": "x" * 500 for number in range(12_000)}
    (scratch / "big.json").write_text(json.dumps(big))
    cli.succeeds("import", scratch / "big.json", "--path", "/bulk", "--database-url", gateway.database_url)
    write(gateway, 1)
    places = [answer.headers["Stream-Next-Offset"] for answer in ask_all(gateway.rest)]
    places = [place for place in places if place.startswith(f"{0:019}_")]
    assert len(places) > 1
    # Offsets of another history, of none, and after the last part return no part of the import. A signature may contain underscores.
    *position, signature = places[0].split("_", 3)
    position = "_".join(position)
    for wrong in (position + "_AAAAAAAAAAAAAAAAAAAAAA", position + "_", f"{0:019}_{9_999:010}_{5:010}_{signature}"):
        for live in ({}, {"live": "long-poll"}, {"live": "sse"}):
            answer = ask(gateway.rest, offset=wrong, **live)
            assert answer.status == 410 and "X-Pathmirror-Oldest-Seq" not in answer.headers, wrong
    # Parts are removed before their entry, which a reader may see in between.
    for statement in ("UPDATE pathmirror.namespace SET retained_from = 2", "DELETE FROM pathmirror.log_part", "DELETE FROM pathmirror.log WHERE seq = 1"):
        sql.execute(gateway.database_url, statement)
        if statement.startswith("DELETE"):
            for place in places:
                answer = ask(gateway.rest, offset=place)
                assert answer.status == 410 and answer.headers["X-Pathmirror-Oldest-Seq"] == "2"
    assert seqs(read_all(gateway.rest)) == [2]


# Lost connections


def test_connections_to_the_database_that_are_lost_at_any_moment(gateway):
    """Answers are complete or refusals, and streams end or continue: no entry is skipped, repeated or reordered."""
    write(gateway, *range(1, 1_501))
    done, ended = threading.Event(), []

    def end_sessions():
        with psycopg.connect(gateway.database_url, autocommit=True) as connection:
            while not done.wait(random.random() / 20):
                found = connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%log stream%'")
                ended.append(len(found.fetchall()))

    thread = threading.Thread(target=end_sessions)
    thread.start()
    try:
        for live in itertools.cycle(({}, {"live": "long-poll"}, {"live": "sse"})):
            assert thread.is_alive()
            if sum(ended) >= 20:
                break
            got, offset = [], "-1"
            while len(got) < 1_500:
                if live.get("live") == "sse":
                    with LogStream(gateway.port, offset=offset) as stream:
                        if stream.status != 200:
                            assert stream.status == 503
                            continue
                        while len(got) < 1_500 and (event := stream.event()):
                            if event[0] == "data":
                                got += seqs(event[1])
                            else:
                                offset = event[1]["streamNextOffset"]
                                assert int(offset[:19]) == got[-1]
                    continue
                answer = ask(gateway.rest, offset=offset, **live)
                if answer.status == 503:
                    assert answer.headers["Retry-After"]
                    continue
                assert answer.status == 200, answer.body
                got += seqs(answer.json())
                offset = answer.headers["Stream-Next-Offset"]
            assert got == list(range(1, 1_501))
    finally:
        done.set()
        thread.join()
    wait_until(lambda: gateway.metric("pathmirror_log_readers") == 0, "the readers to be counted out")
    assert seqs(read_all(gateway.rest, offset=after(1_499))) == [1_500]


# The protocol's client


def url(gateway, query: str = "") -> str:
    return f"http://127.0.0.1:{gateway.port}/.log{query}"


def test_its_client_reads_all_there_is(gateway):
    write(gateway, *range(1, 801))
    with durable_streams.stream(url(gateway), offset="-1", headers=ADMIN) as answer:
        assert seqs(answer.read_json()) == list(range(1, 801))


def test_its_client_catches_up(gateway):
    write(gateway, *range(1, 1_201))
    with durable_streams.stream(url(gateway), offset="-1", live=False, headers=ADMIN) as answer:
        # In more than one answer.
        lines = list(answer.iter_json())
        assert seqs(lines) == list(range(1, 1_201)) and answer.up_to_date
        offset = answer.offset
    write(gateway, "next")
    with durable_streams.stream(url(gateway), offset=offset, live=False, headers=ADMIN) as answer:
        assert seqs(answer.read_json()) == [1_201]


@pytest.mark.parametrize("live", ["long-poll", "sse", "auto"])
def test_its_client_follows(gateway, live):
    write(gateway, 1, 2)
    got, done = [], threading.Event()

    def read():
        with durable_streams.stream(url(gateway), offset="-1", live=live, headers=ADMIN, timeout=20) as answer:
            for line in answer.iter_json():
                got.append(line["seq"])
                if len(got) == 6:
                    break
        done.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    wait_until(lambda: got == [1, 2], "the existing entries")
    for value in range(3, 7):
        write(gateway, value)
    assert done.wait(20) and got == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_its_asynchronous_client_follows_a_path(gateway, live):
    gateway.rest.set("orders/o1", 1)
    write(gateway, 1)

    async def read() -> list:
        found = []
        async with durable_streams.astream(url(gateway), offset="-1", live=live, headers=ADMIN, params={"path": "/orders"}, timeout=20) as answer:
            async for line in answer.iter_json():
                found.append(line["changes"])
                if len(found) == 3:
                    return found
                write(gateway, 2)
                gateway.rest.set(f"orders/o{len(found) + 1}", 1)

    assert asyncio.run(read()) == [{f"/orders/o{number}": 1} for number in (1, 2, 3)]


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_its_client_goes_on_from_each_place_that_it_was_given(gateway, live):
    write(gateway, 1)
    offset = "-1"
    for number in range(1, 6):
        with durable_streams.stream(url(gateway), offset=offset, live=live, headers=ADMIN, timeout=20) as answer:
            event = next(iter(answer.iter_events(mode="json")))
        assert seqs(event.data) == [number]
        offset = event.next_offset
        write(gateway, number)


def test_its_client_asks_for_the_head(gateway):
    write(gateway, 1, 2)
    with durable_streams.DurableStream(url(gateway), headers=ADMIN) as log:
        head = log.head()
        assert head.content_type.startswith("application/json") and head.cache_control == "no-store"
        write(gateway, 3)
        with log.stream(offset=head.offset, live=False) as answer:
            assert seqs(answer.read_json()) == [3]
    with durable_streams.DurableStream(url(gateway, "?ns=nowhere"), headers=ADMIN) as log, pytest.raises(durable_streams.StreamNotFoundError):
        log.head()


def test_its_client_is_told_what_is_wrong(gateway, scratch):
    for headers, offset, status in ((ADMIN, "5", 400), ({}, "-1", 401), (minted(scratch, "--feed", "none"), "-1", 401)):
        for live in (False, "long-poll", "sse"):
            with pytest.raises(durable_streams.DurableStreamError) as error:
                durable_streams.stream(url(gateway), offset=offset, live=live, headers=headers)
            assert error.value.status == status


def test_headers_of_catching_up(gateway):
    write(gateway, 1, 2)
    answer = ask(gateway.rest, offset="-1")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["Stream-Up-To-Date"] == "true" and answer.headers["Cache-Control"] == "private, no-cache"
    tail, tag = answer.headers["Stream-Next-Offset"], answer.headers["ETag"]
    assert not set(tail) & set(",&=?/")
    same = ask(gateway.rest, headers={"If-None-Match": tag}, offset="-1")
    assert same.status == 304 and same.body == b"" and same.headers["Stream-Next-Offset"] == tail
    write(gateway, 3)
    assert ask(gateway.rest, headers={"If-None-Match": tag}, offset="-1").status == 200
    head = ask(gateway.rest, "HEAD")
    assert head.status == 200 and head.headers["Cache-Control"] == "no-store" and head.body == b""
    assert head.headers["X-Pathmirror-Seq"] == "3"
    end = head.headers["Stream-Next-Offset"]
    empty = ask(gateway.rest, offset=end)
    assert empty.json() == [] and empty.headers["Stream-Next-Offset"] == end and end > tail
    now = ask(gateway.rest, offset="now")
    assert now.json() == [] and now.headers["Stream-Next-Offset"] == end and now.headers["Stream-Up-To-Date"] == "true"
    assert now.headers["Cache-Control"] == "no-store" and "ETag" not in now.headers


def test_long_polls(gateway):
    write(gateway, 1)
    end = ask(gateway.rest, "HEAD").headers["Stream-Next-Offset"]
    started = time.monotonic()
    empty = ask(gateway.rest, offset=end, live="long-poll")
    assert empty.status == 204 and time.monotonic() - started > 0.5
    assert empty.headers["Stream-Next-Offset"] == end and empty.headers["Stream-Up-To-Date"] == "true"
    cursor = int(empty.headers["Stream-Cursor"])
    for start in (end, "now"):
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(ask(gateway.unique(), offset=start, live="long-poll", cursor=cursor)))
        before = gateway.rest.get("a").seq
        thread.start()
        wait_until(lambda: gateway.metric("pathmirror_log_readers") == 1, "the poll to wait")
        write(gateway, 2, path="a" if start == end else "b")
        thread.join(20)
        assert answers[0].status == 200 and seqs(answers[0].json()) == [before + 1]
        assert int(answers[0].headers["Stream-Cursor"]) > cursor
        end = answers[0].headers["Stream-Next-Offset"]


def test_control_events(gateway):
    write(gateway, 1, 2)
    with LogStream(gateway.port) as stream:
        data, control = stream.event(), stream.event()
        assert data[0] == "data" and seqs(data[1]) == [1, 2]
        told = control[1]
        assert control[0] == "control" and told["upToDate"] is True and told["streamCursor"].isdigit()
        write(gateway, 3)
        assert seqs(stream.event()[1]) == [3]
        assert stream.event()[1]["streamNextOffset"] > told["streamNextOffset"]
    with LogStream(gateway.port, offset="now") as stream:
        assert stream.event()[1]["upToDate"] is True
        write(gateway, 4)
        assert seqs(stream.event()[1]) == [4]


@pytest.mark.parametrize("params", [
    {"path": "/a.b"}, {"path": "/" + "a/" * 40}, {"offset": "5"}, {"offset": ""}, {"offset": "0" * 19}, {"live": "sse"},
    {"live": "long-poll"}, {"offset": "-1", "live": "push"}, {"offset": f"{1:019}_{0:010}_{1:010}_"}, {"offset": after(2**63)},
    *[{"offset": f"{2**63 - 1}_{part:010}_{0:010}_", **live} for part in (0, 1) for live in ({}, {"live": "long-poll"}, {"live": "sse"})]])
def test_bad_parameters(gateway, params):
    answer = ask(gateway.rest, **params)
    assert answer.status == 400 and answer.error


@pytest.mark.parametrize("seq", [2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1])
def test_seqs_near_where_numbers_end(gateway, seq):
    """The gateway survives extreme offsets."""
    write(gateway, 1)
    for params in ({"offset": after(seq)}, {"offset": after(seq), "live": "long-poll"}, {"offset": after(seq), "live": "sse"},
                   {"offset": after(seq) + "AAAA"}, {"offset": f"{seq:019}_{2**31 - 1:010}_{0:010}_"}):
        assert ask(gateway.rest, **params).status in (400, 410), params
    write(gateway, 1, path="orders/a")
    feed = Feed(gateway.rest, headers=ADMIN).make(start="beginning")
    message = feed.one()
    ids = [f"default:{one}:{two}" for one in (1, seq) for two in (seq, f"s{seq}", 0)]
    for verb, members in (("ack", {}), ("nack", {}), ("extend", {"delay": "12h"})):
        assert set(feed.settle(verb, [id for id in ids if id != message["id"]], **members).values()) == {"unknown"}
    for id in ids:
        assert feed.call("POST", "pull", {"max": 0, "resume": True, "after": id}).status == 200
        assert feed.call("GET", "dead", after=id).status in (200, 400)
    assert feed.call("POST", "seek", {"seq": seq}).status == 400
    assert gateway.ready()


def test_unknown_parameters_are_ignored(gateway):
    write(gateway, 1)
    for params in ({"limit": "5"}, {"print": "pretty", "form": "1"}):
        answer = ask(gateway.rest, **params)
        assert answer.status == 200 and seqs(answer.json()) == [1]


def test_what_the_headers_let_pages_do(gateway):
    """Pages with `Cross-Origin-Embedder-Policy: require-corp` may read the log and its errors."""
    write(gateway, 1)
    for answer in (ask(gateway.rest, offset="-1"), ask(gateway.rest, "HEAD"), ask(gateway.rest, offset="x"), ask(gateway.rest, offset="-1", ns="nowhere")):
        assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin", answer.status
    with LogStream(gateway.port) as stream:
        assert stream.headers["Cross-Origin-Resource-Policy"] == "cross-origin"


@pytest.mark.parametrize("params", [{}, {"offset": "-1"}, {"offset": "now", "live": "long-poll"}, {"offset": "-1", "live": "sse"}])
def test_reading_a_log_makes_no_namespace(serve, params):
    """A read creates no namespace, even if uses create namespaces, as in `pathmirror dev`."""
    gateway = serve("--create-namespaces")
    for method in ("GET", "HEAD"):
        assert ask(gateway.rest, method, ns="not-there-yet", **params).status == 404
    names = "select count(*) from pathmirror.namespace where name = 'not-there-yet'"
    assert sql.rows(gateway.database_url, names) == [(0,)]
    gateway.rest.at(ns="not-there-yet").set("a", 1)
    answer = ask(gateway.rest, ns="not-there-yet", offset="-1")
    assert answer.status == 200 and seqs(answer.json()) == [1]


def test_other_methods_and_namespaces(gateway):
    for method in ("PUT", "POST", "PATCH", "DELETE"):
        assert ask(gateway.rest, method).status == 405
    assert ask(gateway.rest, offset="-1", ns="nowhere").status == 404


# Rights


def minted(scratch, *words) -> dict:
    return {"Authorization": "Bearer " + cli.succeeds("token", "mint", *words, "--secret-file", scratch / "admin-secret").strip()}


def test_who_may_read_the_log(gateway, scratch):
    write(gateway, 1)
    for headers in ({}, minted(scratch, "--uid", "ada"), minted(scratch, "--admin", "--data-only"),
                    {"Authorization": "Bearer nonsense.or.other"},
                    minted(scratch, "--feed", "orders")):
        for method in ("GET", "HEAD"):
            answer = gateway.rest.send(method, "/.log", None, headers)
            assert answer.status == 401, headers
    assert gateway.rest.send("HEAD", "/.log", None, minted(scratch, "--admin")).status == 200


def test_a_feeds_token_is_good_for_nothing_else(gateway, scratch):
    write(gateway, 1)
    headers = minted(scratch, "--feed", "orders")
    for method, target in (("GET", "/a.json"), ("PUT", "/a.json"), ("GET", "/.settings/rules.json")):
        answer = gateway.rest.send(method, target, b"1" if method == "PUT" else None, headers)
        assert (answer.status, answer.error) == (401, "This token is valid only for a feed")


def test_a_feeds_token_reads_the_log_below_its_feed(gateway, scratch):
    feed = Feed(gateway.rest, headers=ADMIN).make("/orders/{order_id}/status")
    gateway.rest.set("orders/o1", {"status": "new"})
    gateway.rest.set("users/ada", 1)
    headers = minted(scratch, "--feed", feed.name)
    lines = read_all(gateway.rest, headers)
    assert seqs(lines) == [1] and lines[0]["origin"] is None and lines[0]["changes"] == {"/orders/o1": {"status": "new"}}
    assert ask(gateway.rest, headers=headers, offset="-1", path="/orders/o1").status == 200
    for path in ("/", "/users", "/users/ada"):
        assert ask(gateway.rest, headers=headers, offset="-1", path=path).status == 401
    assert feed.by(headers).call("GET", "status").status == 200
    for headers in (minted(scratch, "--feed", "other"), minted(scratch, "--feed", feed.name, "--ns", "elsewhere")):
        assert ask(gateway.rest, headers=headers, offset="-1").status == 401
        assert feed.by(headers).call("GET", "status").status == 401


def test_streams_end_with_their_credential(gateway):
    write(gateway, 1)
    now = int(time.time())
    token = hs256({"v": 0, "iat": now, "admin": True, "exp": now - 28, "d": {}}, SECRET)
    headers = {"Authorization": f"Bearer {token}"}
    with LogStream(gateway.port, headers) as stream:
        assert stream.status == 200 and stream.next()["seq"] == 1
        assert stream.next() is None
    # Long before the stream would have ended by itself.
    assert time.time() < now + 30
    assert ask(gateway.rest, headers=headers).status == 401


def test_streams_end_with_the_gateway(gateway):
    write(gateway, 1)
    streams = [LogStream(gateway.port), LogStream(gateway.port, offset="now")]
    poll = []
    thread = threading.Thread(target=lambda: poll.append(ask(gateway.unique(), offset="now", live="long-poll")))
    thread.start()
    wait_until(lambda: gateway.metric("pathmirror_log_readers") == 3, "two streams and a poll")
    assert gateway.stop() == 0
    for stream in streams:
        while stream.raw() is not None:
            pass
        stream.__exit__()
    thread.join(20)
    assert poll and poll[0].status == 204


def test_an_outage_ends_streams_and_they_go_on_where_they_were(own_postgres, scratch, logs):
    gateway = start_serve(own_postgres.create_database(), scratch, logs, tune="stream-keep-alive=300ms")
    try:
        write(gateway, 1, 2)
        with LogStream(gateway.port) as stream:
            assert seqs([stream.next(), stream.next()]) == [1, 2]
            own_postgres.kill()
            assert stream.next() is None
        answer = ask(gateway.rest, offset=after(2))
        assert answer.status == 503 and answer.headers["Retry-After"]
        own_postgres.start()
        wait_until(lambda: gateway.rest.put("a", 3).status == 200, "writes to work again", 30, 0.05)
        wait_until(lambda: ask(gateway.rest, offset="-1").status == 200, "the log to be read again")
        with LogStream(gateway.port, offset=after(2)) as stream:
            assert stream.next()["seq"] == 3
    finally:
        gateway.sweep()


def test_no_more_readers_than_may_be(serve):
    gateway = serve(tune="max-log-readers=1")
    write(gateway, 1)
    with LogStream(gateway.port) as stream:
        assert stream.next()["seq"] == 1
        answer = ask(gateway.rest, offset="-1")
        assert answer.status == 503 and answer.headers["Retry-After"] == "5"
    wait_until(lambda: ask(gateway.rest, offset="-1").status == 200, "room again")


def test_another_gateways_entries(serve):
    first, second = serve(name="first"), serve(name="second")
    with LogStream(second.port) as stream:
        for value in range(1, 6):
            write(first, value)
            assert stream.next()["seq"] == value


@pytest.mark.parametrize("change", ["removed", "put elsewhere"])
def test_a_feeds_token_reads_no_longer_than_its_feed_lets_it(gateway, scratch, change):
    feed = Feed(gateway.rest, headers=ADMIN).make("/orders/{order_id}")
    with LogStream(gateway.port, minted(scratch, "--feed", feed.name)) as stream, LogStream(gateway.port) as other:
        assert stream.status == 200
        # A change that keeps the path ends no stream.
        feed.apply("/orders/{order_id}/status")
        time.sleep(3)
        write(gateway, 1, path="orders/o1")
        assert "o1" in str(stream.next())
        feed.remove() if change == "removed" else feed.apply("/mails/{mail_id}")
        wait_until(lambda: gateway.metric("pathmirror_log_readers") == 1, "the stream to end")
        write(gateway, "tango-4711", path="orders/o1")
        while (line := stream.raw()) is not None:
            assert "tango" not in line
        # Administrators' streams continue.
        assert [other.next()["seq"], other.next()["seq"]] == [1, 2]


def test_feeds_tokens_leave_room_for_administrators(serve, scratch):
    gateway = serve(tune="max-log-readers=8")
    feed = Feed(gateway.rest, headers=ADMIN).make()
    headers = minted(scratch, "--feed", feed.name)
    with LogStream(gateway.port, headers) as one, LogStream(gateway.port, headers) as two:
        assert (one.status, two.status) == (200, 200)
        with LogStream(gateway.port, headers) as more:
            assert more.status == 503 and more.headers["Retry-After"]
        with contextlib.ExitStack() as streams:
            statuses = [streams.enter_context(LogStream(gateway.port)).status for _ in range(7)]
            assert statuses == 6 * [200] + [503]
    wait_until(lambda: gateway.metric("pathmirror_log_readers") == 0, "the readers to be gone")
    with LogStream(gateway.port, headers) as again:
        assert again.status == 200


def test_a_feeds_token_while_the_database_is_away(own_postgres, scratch, logs):
    gateway = start_serve(own_postgres.create_database(), scratch, logs)
    try:
        feed = Feed(gateway.rest, headers=ADMIN).make()
        headers = minted(scratch, "--feed", feed.name)
        assert ask(gateway.rest, headers=headers, offset="-1").status == 200
        own_postgres.stop("fast")
        answer = ask(gateway.rest, headers=headers, offset="-1")
        assert answer.status == 503 and answer.headers["Retry-After"]
        own_postgres.start()
        wait_until(lambda: ask(gateway.rest, headers=headers, offset="-1").status == 200, "the database to be back", 30)
    finally:
        gateway.sweep()
