"""Unread responses: the gateway limits their memory, and leaves room for other namespaces."""

import re

from harness.feeds import ADMIN, PATIENT, Feed
from harness.raw import Unread
from harness.waiting import wait_until

MEBIBYTE = 1 << 20


def queued(gateway) -> int:
    text = gateway.rest.send("GET", "/.metrics").body.decode()
    return int(re.search(r"^pathmirror_output_queued_bytes (\d+)", text, re.MULTILINE)[1])


def test_large_reads_that_nobody_reads(serve):
    gateway = serve("--create-namespaces", "--request-memory", "128MiB")
    for name in ("crowd", "other"):
        answer = gateway.rest.send("PUT", f"/big.json?ns={name}", b'"' + b"x" * 9 * MEBIBYTE + b'"', ADMIN)
        assert answer.status == 200, answer.body[:200]
    with Unread(gateway.port, "/big.json?ns=crowd", ADMIN, 40) as unread:
        statuses = unread.statuses()
        assert set(statuses) == {200, 503} and 2 <= statuses.count(200) <= 14, statuses
        assert 9 * MEBIBYTE < queued(gateway) <= 64 * MEBIBYTE
        answer = gateway.rest.send("GET", "/big.json?ns=other", None, ADMIN)
        assert (answer.status, len(answer.body)) == (200, 9 * MEBIBYTE + 2)
    wait_until(lambda: queued(gateway) == 0, "the unread responses to be released")
    assert gateway.rest.send("GET", "/big.json?ns=crowd", None, ADMIN).status == 200


def test_dead_letters_are_bounded_as_they_are_written(serve):
    """Reasons of control characters are six times as long in JSON; the limit of 8 MiB for an answer still holds."""
    gateway = serve()
    feed = Feed(gateway.rest, headers=ADMIN).make(
        start="beginning", include=["value"], max_attempts=8, **{**PATIENT, "backoff": {"first": "0s", "max": "0s"}})
    count = 1000
    feed.rest.set("orders", {f"k{number:04}": "x" * 7_000 for number in range(count)})
    for _ in range(8):
        messages = feed.next(count, "c1", 60)
        feed.nack(messages, consumer="c1", delay="0s", reason="\u0001" * 2000)
    wait_until(lambda: feed.status()["dead_letters"] == count, "all to be dead letters", 30)
    seen, after = [], {}
    while True:
        answer = feed.call("GET", "dead", limit=1000, **after)
        assert answer.status == 200 and len(answer.body) <= 8 * MEBIBYTE
        letters = answer.json()["dead"]
        if not letters:
            break
        seen += letters
        after = {"after": letters[-1]["id"]}
    assert len(seen) == count == len({letter["id"] for letter in seen})
    for letter in seen:
        assert [error["attempt"] for error in letter["errors"]] == [1, 5, 6, 7, 8] and letter["attempts"] == 8
        assert letter["value"] == "x" * 7_000


def test_a_dead_letter_of_a_large_record_is_cut(serve):
    """The dead letter loses its record and keeps the written value."""
    gateway = serve()
    feed = Feed(gateway.rest, headers=ADMIN).make(
        "/orders/{order}/status", start="now", include=["value", "old", "record"], max_attempts=1, **PATIENT)
    feed.rest.set("orders/a", {"status": "new", "text": "x" * 2 * MEBIBYTE})
    feed.take(1)
    feed.rest.set("orders/a/status", "paid")
    message = feed.one("c1")
    assert len(message["record"]["text"]) == 2 * MEBIBYTE
    feed.nack([message], consumer="c1")
    wait_until(lambda: feed.status()["dead_letters"] == 1, "a dead letter")
    letter, = feed.dead()
    assert letter["truncated"] is True and "record" not in letter
    assert {name: letter[name] for name in ("id", "value", "old", "event")} == {
        "id": message["id"], "value": "paid", "old": "new", "event": "updated"}
    assert feed.retry_dead(all=True) == 1
    again = feed.one("c1")
    assert again["id"] == message["id"] and again["truncated"] is True and again["value"] == "paid"
    feed.ack([again], consumer="c1")
