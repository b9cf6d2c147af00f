"""The largest paths and the widest nodes."""

import gzip
import json
import statistics
import time
import uuid

import psycopg
import pytest
from harness.rest import ordered
from harness.sse import Listener

WIDE = 100_000


def longest_path() -> list[str]:
    return [f"{uuid.uuid4().hex}-{level:02d}".ljust(768, "k") for level in range(32)]


def test_the_longest_path_is_written_read_listened_to_and_deleted(dev):
    keys = longest_path()
    path = "/".join(keys)
    rest = dev.rest.at(keys[0])
    below = "/".join(keys[1:])
    with Listener(dev.rest.at(path)) as deep, Listener(rest) as above:
        assert deep.next().data is None and above.next().data is None
        assert dev.rest.put(path, "deep").status == 200
        assert deep.next().change == ("put", "/", "deep")
        assert above.next().change == ("put", f"/{below}", "deep")
        assert dev.rest.value(path) == "deep"
        assert rest.value(below) == "deep"
        # A sibling that differs in the last byte of the last key only.
        sibling = path[:-1] + "z"
        assert dev.rest.put(sibling, "sibling").status == 200
        assert dev.rest.value(path) == "deep"
        assert len(dev.rest.value("/".join(keys[:-1]))) == 2
        assert dev.rest.put(path + "/.priority", 5).status == 200
        assert dev.rest.value(path, format="export") == {".value": "deep", ".priority": 5}
        assert dev.rest.delete(path).status == 200
        assert dev.rest.value(path) is None and dev.rest.value(sibling) == "sibling"
        assert dev.rest.delete(keys[0]).status == 200
        above.wait_for_value(None)
        deep.wait_for_value(None)
    assert rest.value() is None


def test_the_longest_path_in_bytes_of_several_a_character(dev, at):
    keys = [chr(0x4E00 + level) * 256 for level in range(31)]
    value = "deep"
    for key in reversed(keys):
        value = {key: value}
    at.set(value=value)
    assert at.value() == value
    assert at.value("/".join(keys[:5])) is not None
    at.delete(keys[0])
    assert at.value() is None


@pytest.fixture(scope="module")
def wide(dev):
    rest = dev.unique()
    rest.set(value={f"c{number:06d}": number for number in range(WIDE)})
    yield rest
    rest.delete()


def test_much_is_removed_soon_after_a_small_beginning(serve):
    """PostgreSQL's statistics are of the tiny table, and it has chosen a plan for such writes when the table has grown."""
    gateway = serve()
    gateway.rest.set("first", value=1)
    with psycopg.connect(gateway.database_url, autocommit=True) as connection:
        connection.execute("vacuum analyze pathmirror.node")
        for number in range(20):
            gateway.rest.set("x", value={"a": number})
            gateway.rest.delete("x/a")
        gateway.rest.set("wide", value={f"c{number:06d}": number for number in range(3 * WIDE)})
        # This took minutes, because each row was compared with each path.
        gateway.rest.delete("wide")
        assert connection.execute("select count(*) from pathmirror.node").fetchone() == (1,)


def test_a_hundred_thousand_children(wide):
    value = wide.value()
    assert len(value) == WIDE and value["c099999"] == 99_999
    assert wide.value(**ordered(orderBy="$key", limitToLast=1)) == {"c099999": 99_999}
    assert wide.value(**ordered(orderBy="$value", startAt=5, endAt=6)) == {"c000005": 5, "c000006": 6}


def test_one_more_child_costs_no_copy_of_the_others(dev, wide):
    """The same write below a wide node and below a narrow one takes about the same time."""
    narrow = dev.unique()

    def median(rest):
        times = []
        for number in range(40):
            begin = time.perf_counter()
            rest.set(f"extra{number}", number)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    slow, fast = median(wide), median(narrow)
    for number in range(40):
        wide.delete(f"extra{number}")
    assert slow < 3 * fast + 0.003, f"wide {slow * 1000:.2f} ms, narrow {fast * 1000:.2f} ms"


def test_a_listener_below_a_wide_node_gets_one_child(wide):
    with Listener(wide) as listener:
        assert len(listener.next().data) == WIDE
        wide.set("c000001", "changed")
        assert listener.next().change == ("put", "/c000001", "changed")
        wide.set("c000001", 1)
        assert listener.next().change == ("put", "/c000001", 1)


def test_a_large_value_goes_through(at):
    value = {f"k{number}": "x" * 1000 for number in range(15_000)}
    at.set(value=value)
    assert at.value() == value
    at.delete()
    assert at.value() is None


def test_administrators_may_send_more_than_others(at):
    value = {f"k{number}": "x" * 1000 for number in range(20_000)}
    body = json.dumps(value).encode()
    refused = at.send("PUT", at.url(), body)
    assert refused.status == 413 and refused.error
    # Without a length in the header, the gateway measures the body while it reads. Compression makes no difference.
    packed = at.send("PUT", at.url(), gzip.compress(body), {"Content-Encoding": "gzip"})
    assert packed.status == 413 and at.value() is None
    for headers, sent in (({}, body), ({"Content-Encoding": "gzip"}, gzip.compress(body))):
        answer = at.send("PUT", at.url(print="silent"), sent, {"Authorization": "Bearer owner", **headers})
        assert answer.status == 204
        assert at.value() == value
        at.delete()
