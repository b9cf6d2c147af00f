"""The brokers of the feed campaign keep the published messages, and return them in order."""

import json
import shutil
import time

import pytest
from harness.scratch import scratch_directory
from harness.waiting import wait_until
from rig.kafka import Kafka
from rig.nats import Nats, Session


@pytest.fixture
def place():
    with scratch_directory("brokers") as place:
        yield place


@pytest.mark.skipif(not shutil.which("nats-server"), reason="no nats-server here (scripts/install-dependencies test)")
def test_a_stream_has_what_was_published_and_keeps_it_over_a_restart(place):
    nats = Nats(place, place)
    try:
        nats.start()
        nats.make_stream(["one.>", "two.>"])
        for number in range(300):
            with_id = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % (number // 2)
            body = json.dumps({"n": number}).encode()
            with Session(nats.port) as session:
                session.send(b"HPUB one.k answer %d %d\r\n%s%s\r\n" % (len(with_id), len(with_id) + len(body), with_id, body))
                session.take()
        # Every second message repeats one by its id.
        assert [message["n"] for message in nats.messages("one.>")] == list(range(0, 300, 2))
        assert nats.messages("two.>") == []
        nats.stop()
        nats.start()
        assert len(nats.messages("one.>")) == 150
        nats.freeze()
        with pytest.raises(OSError):
            with Session(nats.port, timeout=0.3) as session:
                session.request("$JS.API.INFO", b"")
        nats.thaw()
        assert nats.ask("INFO", {})["streams"] == 1
    finally:
        nats.close()


def test_the_kafka_brokers_start_and_are_steered(place):
    kafka = Kafka(place)
    try:
        host, _, port = kafka.brokers.partition(":")
        assert host == "127.0.0.1" and int(port) > 0
        kafka.do("topic", name="t", partitions=2)
        for what in ({"do": "down"}, {"do": "up"}, {"do": "errors", "numbers": [19]}, {"do": "slow", "ms": 0}):
            assert kafka.do(**{"what": what.pop("do"), **what}) == {}
        assert kafka.messages("t") == []
    finally:
        kafka.close()
