"""Server values: timestamps, increments, and values that look like one."""

import math
import sys
import threading
import time

import pytest
from harness.sse import Listener

NOW = {".sv": "timestamp"}


def plus(number):
    return {".sv": {"increment": number}}


def test_a_timestamp_is_milliseconds_now(at):
    before = time.time() * 1000
    echo = at.put(value=NOW).json()
    after = time.time() * 1000
    assert isinstance(echo, int) and before - 1000 <= echo <= after + 1000
    assert at.value() == echo


def test_all_timestamps_of_one_write_are_one_instant(at):
    at.set(value={"a": NOW, "b": {"c": NOW}, "d": {".value": 1, ".priority": NOW}, "e": {".value": NOW, ".priority": 1}})
    value = at.value(format="export")
    assert value["a"] == value["b"]["c"] == value["d"][".priority"] == value["e"][".value"]


def test_timestamps_in_every_method(at):
    name = at.post("list", {"at": NOW}).json()["name"]
    assert isinstance(at.value(f"list/{name}/at"), int)
    at.patch(value={"x": NOW, "deep/er": NOW})
    assert at.value("x") == at.value("deep/er")
    at.set("y", 1)
    at.set("y/.priority", NOW)
    assert isinstance(at.value("y/.priority"), int)


@pytest.mark.parametrize("base, number, result", [
    (5, 3, 8), (5, -8, -3), (1.5, 1, 2.5), (1, 0.5, 1.5), (None, 7, 7), ("text", 7, 7), (True, 7, 7), ({"a": 1}, 7, 7), (2**53, 1, 2**53 + 1),
    (2**63 - 2, 1, 2**63 - 1), (0.1, 0.2, 0.1 + 0.2)])
def test_increment(at, base, number, result):
    at.set(value=base)
    assert at.put(value=plus(number)).json() == result
    assert at.value() == result and isinstance(at.value(), type(result))


def test_an_increment_beyond_int64_becomes_a_double(at):
    at.set(value=2**63 - 1)
    at.set(value=plus(1))
    assert at.value() == 2.0**63
    assert b"e" in at.get().body.lower() or b"." in at.get().body


@pytest.mark.parametrize("number", [1.7e308, -1.7e308])
def test_an_increment_beyond_every_double_is_the_largest_double(at, number):
    """The result is never an infinity, which no client can read."""
    largest = math.copysign(sys.float_info.max, number)
    at.set(value=number)
    assert at.put(value=plus(number)).json() == largest
    assert at.value() == largest
    at.set(value=plus(number))
    assert at.value() == largest


def test_increments_anywhere_in_a_write(at):
    at.set(value={"a": 1, "b": {"c": 2}, "old": 1})
    at.set(value={"a": plus(1), "b": {"c": plus(2)}, "new": plus(3)})
    assert at.value() == {"a": 2, "b": {"c": 4}, "new": 3}
    at.patch(value={"b/c": plus(-1), "a": plus(10)})
    assert at.value() == {"a": 12, "b": {"c": 3}, "new": 3}


def test_a_priority_can_be_incremented(at):
    at.set(value={".value": 1, ".priority": 0})
    at.set(".priority", plus(1))
    at.set(".priority", plus(1.5))
    assert at.value(format="export") == {".value": 1, ".priority": 2.5}


@pytest.mark.parametrize("value", [
    {".sv": "unknown"}, {".sv": 1}, {".sv": None}, {".sv": {"increment": "1"}}, {".sv": {"increment": None}}, {".sv": {"decrement": 1}}, {".sv": {}},
    {".sv": "timestamp", "a": 1}, {".sv": {"increment": 1, "x": 2}}])
def test_what_is_no_server_value_is_refused(at, value):
    at.set(value="before")
    response = at.put(value=value)
    assert response.status == 400 and response.error
    assert at.put("child", {"x": value}).status == 400
    assert at.value() == "before"


def test_listeners_get_the_resolved_value(at):
    at.set(value={"n": 1})
    with Listener(at) as listener:
        listener.next()
        at.patch(value={"n": plus(1), "t": NOW})
        event = listener.next()
        assert event.data["n"] == 2 and isinstance(event.data["t"], int)


def test_increments_beside_each_other_all_count(at):
    def count():
        for _ in range(25):
            at.set("counter", plus(1))

    threads = [threading.Thread(target=count) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert at.value("counter") == 400
