"""Namespaces that are larger than the memory for trees: clients only notice that a part comes from the disk."""

import http.client
import json
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import cli
from harness.feeds import PATIENT, Feed
from harness.gateway import SECRET, start_serve
from harness.ports import free_port
from harness.proxy import Proxy
from harness.rest import Rest
from harness.sse import Listener
from harness.waiting import wait_until

ADMIN = {"Authorization": f"Bearer {SECRET}"}
BUDGET = 2 << 20
RECORDS = 20_000


def record(number: int) -> dict:
    return {"name": f"record {number}", "number": number, "tags": {"even": number % 2 == 0, "text": "x" * (number % 40)}}


@pytest.fixture
def large(serve, database_url, scratch):
    """A gateway with a namespace of 80,000 leaves, about ten megabytes, and two megabytes for trees; also returns the content."""
    content = {"messages": {f"-N{number:08}": record(number) for number in range(RECORDS)},
               "numbers": {str(number): number for number in range(3_000)},
               "notes": {"a": "y" * 300_000, "b": "z" * 300_000}}
    cli.succeeds("migrate", "up", "--database-url", database_url)
    cli.succeeds("import", "--database-url", database_url, "--ns", "large", "-", stdin=json.dumps(content).encode())
    pages = scratch / "pages"
    pages.mkdir()
    gateway = serve("--tree-memory", f"{BUDGET}B", "--page-directory", str(pages), "--create-namespaces")
    assert gateway.rest.value("numbers/0", ns="large") == 0
    yield gateway, content
    assert list(pages.iterdir()) == [], "the file has no name"


def within(gateway):
    wait_until(lambda: gateway.metric("pathmirror_tree_bytes") <= BUDGET * 5 / 4, "the trees in memory to fit the limit")


def test_all_of_it_is_read_and_written(large):
    gateway, content = large
    rest = gateway.rest
    random.seed(7)
    for number in random.sample(range(RECORDS), 150):
        assert rest.value(f"messages/-N{number:08}", ns="large") == record(number)
    assert gateway.metric("pathmirror_page_file_bytes") > 1 << 20
    assert gateway.metric("pathmirror_page_reads_total") > 20
    within(gateway)
    for number in random.sample(range(RECORDS), 60):
        key = f"-N{number:08}"
        if number % 3 == 0:
            rest.delete(f"messages/{key}", ns="large")
            del content["messages"][key]
        else:
            rest.patch(f"messages/{key}", {"name": "changed", "new": number}, ns="large")
            content["messages"][key] |= {"name": "changed", "new": number}
    rest.set("numbers/2999/below", "a leaf becomes a branch", ns="large")
    content["numbers"]["2999"] = {"below": "a leaf becomes a branch"}
    whole = rest.value(ns="large")
    numbers = whole.pop("numbers")
    assert numbers == [content["numbers"][str(number)] for number in range(3_000)]
    assert whole == {key: content[key] for key in ("messages", "notes")}
    within(gateway)
    assert "than --tree-memory and stays in memory" not in gateway.process.tail()


def test_requests_alone_do_not_have_it_read_again(large):
    """Clients that only send requests do not use the namespace between them. It stays in memory, and the rest fits the limit."""
    gateway, _ = large
    place = gateway.rest.at("messages", ns="large")
    loads = gateway.metric("pathmirror_namespace_loads_total")
    random.seed(11)
    # Half of the records, as all of them in memory would take more than four times the budget.
    for number in random.sample(range(RECORDS // 2), 600):
        key = f"-N{number:08}"
        place.patch(key, {"name": "changed"})
        assert place.value(key) == record(number) | {"name": "changed"}
        if number % 10 == 0:
            assert list(place.value(orderBy='"$key"', startAt=f'"{key}"', limitToFirst=1)) == [key]
    assert gateway.metric("pathmirror_namespace_loads_total") == loads
    within(gateway)


def test_queries_and_listeners(large):
    gateway, content = large
    place = gateway.rest.at("messages", ns="large")
    newest = place.value(orderBy='"$key"', limitToLast=3)
    assert newest == {key: content["messages"][key] for key in sorted(content["messages"])[-3:]}
    middle = place.value(orderBy='"$key"', startAt='"-N00010000"', limitToFirst=2)
    assert list(middle) == ["-N00010000", "-N00010001"]
    assert place.value(shallow="true") == dict.fromkeys(content["messages"], True)
    with Listener(gateway.rest.at("messages/-N00000007", ns="large")) as listener:
        assert listener.next().change == ("put", "/", record(7))
        # Other pages enter and leave memory meanwhile.
        for number in range(0, RECORDS, 97):
            place.at(f"-N{number:08}").value()
        gateway.rest.set("messages/-N00000007/name", "heard", ns="large")
        assert listener.next().change == ("put", "/name", "heard")
    within(gateway)


def test_another_gateway_that_holds_all_of_it_agrees(large, serve):
    gateway, _ = large
    other = serve("--page-directory", "none", name="other")
    for number in range(0, RECORDS, 371):
        (gateway if number % 2 else other).rest.patch(f"messages/-N{number:08}", {"by": number}, ns="large")
    seq = other.rest.set("last", True, ns="large").seq
    wait = {"X-Pathmirror-Min-Seq": str(seq)}
    assert gateway.rest.get(ns="large", headers=wait).json() == other.rest.get(ns="large", headers=wait).json()
    cli.verify("--database-url", gateway.database_url, "--ns", "large")


def test_a_feed_that_another_gateway_takes_over_behind_the_head(large, serve, scratch):
    """The gateway builds the tree at the feed's position from the import and the log, within the same memory limit. Writes during the use
    of the namespace stay in memory until the namespace is idle."""
    gateway, content = large
    feed = Feed(gateway.rest, "names", "large", ADMIN).make("/messages/{id}/name", start="now", include=["value", "old"], **PATIENT)
    feed.drained()
    random.seed(3)
    changed = random.sample(range(RECORDS), 300)
    for number in changed[:150]:
        gateway.rest.set(f"messages/-N{number:08}/name", f"new {number}", ns="large")
    taken = feed.take(100)
    gateway.process.stop()
    (scratch / "other").mkdir()
    other = serve("--tree-memory", f"{BUDGET}B", "--page-directory", str(scratch / "other"), name="other")
    feed = feed.through(other.rest)
    taken += feed.take(50)
    within(other)
    for number in changed[150:]:
        other.rest.set(f"messages/-N{number:08}/name", f"new {number}", ns="large")
    while len(taken) < 300:
        taken += feed.take(min(50, 300 - len(taken)))
    assert [(message["value"], message["old"]) for message in taken] == [(f"new {number}", f"record {number}") for number in changed]
    feed.drained()
    assert other.metric("pathmirror_page_file_bytes") > 1 << 20
    feed.remove()
    within(other)


def test_a_feed_that_nobody_takes_messages_of(large, scratch):
    """A feed begins with all records at its start, in spite of later writes; old records leave memory."""
    gateway, content = large
    feed = Feed(gateway.rest, "records", "large", ADMIN).make("/messages/{id}", start="snapshot", include=["value"], **PATIENT)
    first = feed.next(5)
    changes = {f"messages/-N{number:08}/name": "changed" for number in range(0, RECORDS, 2)}
    gateway.rest.patch("", changes, ns="large")
    again = {f"-N{number:08}": {"name": "imported"} for number in range(0, RECORDS, 4)}
    cli.succeeds("import", "--database-url", gateway.database_url, "--ns", "large", "--path", "/messages", "-", stdin=json.dumps(again).encode())
    wait_until(lambda: gateway.rest.value("messages/-N00000004", ns="large") == {"name": "imported"}, "the import to be there")
    within(gateway)
    feed.ack(first)
    count = RECORDS + RECORDS // 2 + RECORDS
    messages = first
    while len(messages) < count:
        some = feed.pull(1_000, "1s")
        feed.ack(some)
        messages += some
    assert len(messages) == count
    began = messages[:RECORDS]
    assert {message["key"]: message["value"] for message in began} == content["messages"]
    now = {}
    for message in messages[RECORDS:]:
        now[message["key"]] = message["value"]
    assert {key: value for key, value in now.items() if value is not None} == again
    feed.drained()
    within(gateway)


def test_it_grows_beyond_the_budget_while_clients_write_all_the_time(large):
    """Writes stay in memory while the namespace is in use. Clients read their own writes throughout, and the next load writes pages of
    them."""
    gateway, content = large
    messages = gateway.rest.at("messages", ns="large")
    ended = threading.Event()

    def write(writer: int):
        dice = random.Random(writer)
        for step in range(250):
            key = f"-N{dice.randrange(writer, RECORDS, 4):08}"
            change = {"name": f"writer {writer}, step {step}", f"new-{step % 3}": "w" * dice.randrange(2_000)}
            messages.patch(key, change)
            content["messages"][key] |= change
            assert messages.value(key) == content["messages"][key]

    def read() -> int:
        dice, count = random.Random(99), 0
        while not ended.is_set():
            assert messages.value(f"-N{dice.randrange(RECORDS):08}/number") is not None
            count += 1
        return count

    with Listener(gateway.rest.at("notes/a", ns="large")) as listener, ThreadPoolExecutor(5) as threads:
        listener.next()
        reads = threads.submit(read)
        try:
            for writer in [threads.submit(write, number) for number in range(4)]:
                writer.result(300)
        finally:
            ended.set()
        assert reads.result(60) > 0
        wait_until(lambda: gateway.metric("pathmirror_tree_bytes") > 2 * BUDGET, "the changed records to count")
        assert gateway.metric("pathmirror_namespaces_evicted_total") == 0
    wait_until(lambda: gateway.metric("pathmirror_namespaces_evicted_total") == 1, "the idle namespace to leave memory", 60)
    wait_until(lambda: gateway.metric("pathmirror_page_file_bytes") == 0, "its pages to be free")
    assert gateway.rest.value("messages", ns="large") == content["messages"]
    assert gateway.metric("pathmirror_page_file_bytes") > 1 << 20
    within(gateway)
    cli.verify("--database-url", gateway.database_url, "--ns", "large")


def test_a_load_that_fails_half_way_leaves_nothing(postgres, scratch, logs):
    """The pages of the failed load are freed, and the next load is complete."""
    # The last path in the order: a load that waits for it has read nearly all of the tree.
    end = "the-very-end"
    content = {"messages": {f"-N{number:08}": record(number) for number in range(RECORDS)}, "zzz": {"end": end}}
    url = postgres.create_database()
    cli.succeeds("migrate", "up", "--database-url", url)
    cli.succeeds("import", "--database-url", url, "--ns", "large", "-", stdin=json.dumps(content).encode())
    with Proxy(postgres.port) as proxy, ThreadPoolExecutor(1) as threads:
        gateway = start_serve(url.replace(f":{postgres.port}/", f":{proxy.port}/"), scratch, logs, "--tree-memory", f"{BUDGET}B")
        rest = Rest(gateway.port, params={"ns": "large"}, headers=ADMIN)
        try:
            for _ in range(3):
                proxy.hold(end.encode())
                answers = [threads.submit(rest.get)]

                def is_mostly_in_pages():
                    # A loader that has just lost the database refuses at once.
                    if answers[-1].done():
                        answers.append(threads.submit(rest.get))
                    return gateway.metric("pathmirror_page_file_bytes") > 1 << 20

                wait_until(is_mostly_in_pages, "most of it to be in pages")
                within(gateway)
                proxy.switch(free_port())
                proxy.let_go()
                assert {answer.result(60).status for answer in answers} == {503}
                wait_until(lambda: gateway.metric("pathmirror_page_file_bytes") == 0, "the pages to be free")
                assert gateway.metric("pathmirror_tree_bytes") < BUDGET / 4
                proxy.switch(postgres.port)
            assert wait_until(lambda: (found := rest.get()).status == 200 and found.json(), "the namespace to be there") == content
            within(gateway)
        finally:
            proxy.let_go()
            gateway.sweep()
    postgres.drop_database(url)


def test_a_page_file_that_is_damaged_ends_the_program(large):
    gateway, _ = large
    assert gateway.rest.value("messages/-N00000007", ns="large") == record(7)
    descriptors = Path(f"/proc/{gateway.process.child.pid}/fd")
    files = [each for each in descriptors.iterdir() if "/pages/" in os.readlink(each)]
    assert len(files) == 1
    os.truncate(files[0], 0)
    with pytest.raises((OSError, http.client.HTTPException)):
        for number in range(0, RECORDS, 97):
            gateway.rest.value(f"messages/-N{number:08}", ns="large")
    assert gateway.process.child.wait(timeout=30) == 1
    assert "the program ends: a part of a tree can't be read from the page file" in gateway.process.tail()


def test_a_directory_that_was_named_has_to_be_there(database_url, scratch):
    answer = cli.command("serve", "--database-url", database_url, "--listen", "127.0.0.1:0", "--page-directory", str(scratch / "none"))
    assert answer.returncode != 0
    assert "--page-directory: " in answer.stderr and "No such file or directory" in answer.stderr
