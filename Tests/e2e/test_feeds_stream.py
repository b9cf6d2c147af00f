"""A feed as an event stream: the same messages, a limit for unacknowledged ones, and resumption by Last-Event-ID."""

import pytest
from harness.feeds import ADMIN, PATIENT, Feed, FeedStream, told
from harness.waiting import wait_until


def test_messages_arrive_as_they_are_written(feed, tree):
    feed.make(**PATIENT)
    with FeedStream(feed, consumer="c1") as stream:
        tree.set("orders/a", 1)
        assert told(stream.wait_for_count(1)) == [("a", "created", 1)]
        feed.ack(stream.messages, consumer="c1")
        tree.set("orders/a", 2)
        tree.set("orders/b", 1)
        found = stream.wait_for_count(3)[1:]
        assert told(found) == [("a", "updated", 2), ("b", "created", 1)]
        assert [message["attempt"] for message in stream.messages] == [1, 1, 1]
        feed.ack(found, consumer="c1")
    assert feed.has_nothing_else()


def test_a_stream_has_what_a_pull_has(feed, tree):
    feed.make(include=["value", "old", "record"], **PATIENT)
    other = feed.named("other").make(include=["value", "old", "record"], **PATIENT)
    tree.set("orders/a", {"x": "line\nfeed", "y": "ä\u2028"})
    with FeedStream(feed) as stream:
        assert stream.wait_for_count(1) == other.take(1)


def test_no_more_than_max_are_unacknowledged(feed, tree):
    feed.make(start="beginning", **PATIENT)
    tree.set("orders", {f"k{number:02}": number for number in range(10)})
    with FeedStream(feed, consumer="c1", max=3) as stream:
        stream.wait_for_count(3)
        wait_until(lambda: feed.status()["held_messages"] == 3, "three messages to be held")
        for number in range(10):
            stream.wait_for_count(number + 1)
            assert len(stream.messages) <= number + 3
            feed.ack([stream.messages[number]], consumer="c1")
        assert sorted(message["value"] for message in stream.messages) == list(range(10))


def test_what_was_not_acknowledged_goes_back_at_once(feed, tree):
    """The return of an unacknowledged message counts as no attempt."""
    feed.make(start="beginning", **PATIENT)
    tree.set("orders", {"a": 1, "b": 2, "c": 3})
    with FeedStream(feed, consumer="c1") as stream:
        messages = stream.wait_for_count(3)
        feed.ack(messages[1:2], consumer="c1")
    again = feed.next(2, "c2")
    assert sorted(message["id"] for message in again) == sorted(message["id"] for message in (messages[0], messages[2]))
    assert [message["attempt"] for message in again] == [1, 1]
    assert feed.settle("ack", messages[:1], consumer="c1") == {messages[0]["id"]: "expired"}


def test_last_event_id_acknowledges_what_was_sent_up_to_it(feed, tree):
    feed.make(start="beginning", **PATIENT)
    for number in range(5):
        tree.set(f"orders/k{number}", number)
    with FeedStream(feed, consumer="c1") as stream:
        messages = stream.wait_for_count(5)
    with FeedStream(feed, last_event_id=messages[2]["id"], consumer="c1") as stream:
        assert [message["id"] for message in stream.wait_for_count(2)] == [message["id"] for message in messages[3:]]
        feed.ack(stream.messages, consumer="c1")
    assert feed.has_nothing_else()


def test_last_event_id_of_another_consumer_acknowledges_nothing(feed, tree):
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    with FeedStream(feed, consumer="c1") as stream:
        message, = stream.wait_for_count(1)
    with FeedStream(feed, last_event_id=message["id"], consumer="c2") as stream:
        assert stream.wait_for_count(1)[0]["id"] == message["id"]


@pytest.mark.parametrize("strange", ["x", "other:1:0", "0", "ä" * 50, "9" * 30, ":", "1:2:3:4"])
def test_a_last_event_id_that_is_none(feed, tree, strange):
    feed.make(start="beginning", **PATIENT)
    tree.set("orders/a", 1)
    answer = None
    try:
        with FeedStream(feed, last_event_id=strange.encode().decode("latin-1"), consumer="c1") as stream:
            assert stream.wait_for_count(1)[0]["key"] == "a"
    except AssertionError as refusal:
        answer = str(refusal)
        assert "400" in answer, answer
    assert feed.status()["acknowledged"] == 0


def test_a_nack_in_a_stream(feed, tree):
    feed.make(**PATIENT)
    with FeedStream(feed, consumer="c1") as stream:
        tree.set("orders/a", 1)
        stream.wait_for_count(1)
        feed.nack(stream.messages, consumer="c1")
        again = stream.wait_for_count(2)[1]
        assert again == {**stream.messages[0], "attempt": 2}
        feed.ack([again], consumer="c1")


def test_streams_and_pulls_share_a_feed(feed, tree):
    """One consumer at a time holds a key, and each message goes to one consumer."""
    feed.make(**PATIENT)
    with FeedStream(feed, consumer="s1", max=5) as first, FeedStream(feed, consumer="s2", max=5) as second:
        for number in range(30):
            tree.set(f"orders/k{number % 6}", number)

        def all_there():
            for name, stream in (("s1", first), ("s2", second)):
                for message in stream.messages[len(settled[name]):]:
                    settled[name].append(message)
                    feed.ack([message], consumer=name)
            pulled = feed.pull(2, "0s", "p")
            settled["p"] += pulled
            feed.ack(pulled, consumer="p")
            return sum(map(len, settled.values())) >= 30

        settled: dict[str, list] = {"s1": [], "s2": [], "p": []}
        wait_until(all_there, "30 messages")
    found = [message for messages in settled.values() for message in messages]
    assert sorted(message["value"] for message in found) == list(range(30))
    for messages in settled.values():
        for key in {message["key"] for message in messages}:
            seqs = [message["seq"] for message in messages if message["key"] == key]
            assert seqs == sorted(seqs), key
    assert feed.has_nothing_else()


def test_a_stream_of_a_feed_that_is_removed_ends(feed, tree):
    feed.make(**PATIENT)
    with FeedStream(feed) as stream:
        tree.set("orders/a", 1)
        stream.wait_for_count(1)
        feed.remove()
        stream.wait_for_end()


def test_streams_that_are_refused(feed):
    feed.make()
    for params in ({"max": 0}, {"max": 1001}, {"max": "x"}):
        answer = feed.call("GET", "stream", **params)
        assert (answer.status, list(answer.json())) == (400, ["error"]), params
    assert feed.named("none").call("GET", "stream").status == 404


def test_a_quiet_stream_is_kept_alive(serve):
    gateway = serve(tune="stream-keep-alive=200ms")
    feed = Feed(gateway.rest, headers=ADMIN).make(**PATIENT)
    with FeedStream(feed) as stream:
        stream.wait_for(lambda: stream.comments >= 3, "comments")
        gateway.rest.set("orders/a", 1)
        stream.wait_for_count(1)
