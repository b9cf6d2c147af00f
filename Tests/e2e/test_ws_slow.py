"""Realtime clients that read slowly and listen to windows: they skip missed changes, and end with the right value."""

import random
import re

import pytest
from harness.waiting import wait_until
from harness.websocket_client import Holder, RealtimeClient, datum, merge
from test_ws_windows import SEED, window

BUFFER = ("--stream-buffer", "64KiB")
PATIENT = "write-stall=60s"
# Tags belong to a client: the same number may be another query's on another connection.
QUERIES = {
    11: {"i": ".key", "l": 3, "vf": "r"},
    12: {"i": "n", "sp": 100, "ep": 199},
    13: {"i": "n", "l": 2, "vf": "l"},
    14: {"i": ".key", "sp": "b", "ep": "b\uf8ff"},
}


def conflations(gateway) -> int:
    text = gateway.rest.send("GET", "/.metrics").body.decode()
    return sum(int(float(line.split()[-1])) for line in text.splitlines() if re.match(r"pathmirror_\w*conflat\w*(\{| )", line))


def listen(client, base, queries) -> dict[int | None, Holder]:
    holders = {tag: Holder(base, tag) for tag in (None, *queries)}
    for tag, holder in holders.items():
        holder.take(client.listen(base, queries.get(tag), tag))
    return holders


def catch_up(client, holders, wanted: dict, most: int) -> list[dict]:
    """Reads until every listen has its wanted value; returns the pushes. Tags identify the listens, as in SDKs."""
    pushes = []
    while any(holder.value != wanted[tag] for tag, holder in holders.items()):
        push = client.push()
        holders[push["b"].get("t")].take(push)
        pushes.append(push)
        assert len(pushes) < most, "it was sent everything: nothing was conflated"
    return pushes


@pytest.mark.parametrize("round", range(3))
def test_windows_of_a_slow_reader(serve, round):
    """Children enter windows, move within them and leave while the reader is stalled. Once it reads again, the gateway replaces each window
    with its current value under its own tag, and continues from there."""
    dice = random.Random(SEED + round)
    gateway = serve(*BUFFER, tune=PATIENT)
    base, tree = "list", {f"{letter}{number}": {"n": 10 * number, "text": ""} for letter in "abc" for number in range(4)}
    gateway.rest.set(base, tree)
    with RealtimeClient(gateway.port, receive_buffer=4096) as slow, RealtimeClient(gateway.port) as quick:
        late = listen(slow, base, QUERIES)
        # The same queries under other tags, read all the time: both share one encoding, and neither disturbs the other.
        tags = {tag + 100: query for tag, query in QUERIES.items()}
        prompt = listen(quick, base, tags)
        seen, before = 0, conflations(gateway)

        def write(key, value):
            nonlocal tree, seen
            tree = {**tree, key: value} if value else {name: child for name, child in tree.items() if name != key}
            gateway.rest.set(f"{base}/{key}", value)
            for push in quick.pushed():
                prompt[push["b"].get("t")].take(push)
                seen += 1

        for step in range(600):
            value = None if dice.random() < 0.3 else {"n": dice.randrange(300), "text": dice.choice("xyz") * 20_000}
            write(dice.choice("abcz") + str(dice.randrange(6)), value)
            if step > 100 and conflations(gateway) > before:
                break
        # The client lags by now, and stays so: it gets no single change of the next changes of every window.
        for key, number in (("zz", -1), ("aa", 150), ("bb", 5)):
            write(key, {"n": number, "text": ""})
        wanted = {tag: window(tree, query) for tag, query in QUERIES.items()} | {None: tree}
        for tag, holder in prompt.items():
            assert holder.value == wanted[tag - 100 if tag else None]
        assert conflations(gateway) - before >= 5, f"all five listens of the slow one fell behind (seed {SEED})"
        pushes = catch_up(slow, late, wanted, seen)
        # The gap ends with a whole value at the listen's own path, under its own tag.
        for tag in late:
            wholes = [push for push in pushes if push["b"].get("t") == tag and push["a"] == "d" and push["b"]["p"].strip("/") == base]
            assert wholes, f"nothing whole came for tag {tag} (seed {SEED})"
        # From here on the client gets changes as changes.
        assert slow.pushed() == []
        gateway.rest.set(f"{base}/bnew", {"n": 150, "text": "new"})
        tree = {**tree, "bnew": {"n": 150, "text": "new"}}
        wanted = {tag: window(tree, query) for tag, query in QUERIES.items()} | {None: tree}
        found = slow.pushed()
        assert datum(f"{base}/bnew", {"n": 150, "text": "new"}) in found
        assert all(push["a"] == "m" for push in found if "t" in push["b"]), found
        for push in found:
            late[push["b"].get("t")].take(push)
        assert {tag: holder.value for tag, holder in late.items()} == wanted


def test_a_window_that_empties_while_its_reader_looks_away(serve):
    gateway = serve(*BUFFER, tune=PATIENT)
    query = {"i": "n", "sp": 1, "ep": 1}
    gateway.rest.set("list", {"a": {"n": 1, "text": ""}})
    with RealtimeClient(gateway.port, receive_buffer=4096) as slow:
        holder = Holder("list", 3)
        holder.take(slow.listen("list", query, 3))
        assert holder.value == {"a": {"n": 1, "text": ""}}
        before = conflations(gateway)
        for number in range(600):
            gateway.rest.set("list/a/text", f"{number:05}" + "x" * 20_000)
            if conflations(gateway) > before:
                break
        else:
            raise AssertionError("it never lagged")
        gateway.rest.set("list/a/n", 2)
        gateway.rest.set("list/b", {"n": 5})
        wait_until(lambda: holder.take(slow.push()) or holder.value is None, "an empty window", pause=0)
        assert slow.pushed() == []
        gateway.rest.set("list/b/n", 1)
        assert slow.push() in (merge("list", {"b": {"n": 1}}, 3), datum("list", {"b": {"n": 1}}, 3))


def test_a_listen_that_ends_while_it_is_behind(serve):
    """The gateway sends no current value for an ended listen, but one for a listen with the same query under a new tag."""
    gateway = serve(*BUFFER, tune=PATIENT)
    query = {"i": ".key", "l": 1, "vf": "r"}
    gateway.rest.set("list", {"a": 0})
    with RealtimeClient(gateway.port, receive_buffer=4096) as slow:
        slow.listen("list", query, 3)
        slow.listen("list", {"i": ".key", "l": 1, "vf": "l"}, 4)
        before = conflations(gateway)
        for number in range(600):
            gateway.rest.set("list/a", f"{number:05}" + "x" * 20_000)
            if conflations(gateway) >= before + 2:
                break
        else:
            raise AssertionError("it never lagged")
        gateway.rest.set("list/a", "last")
        # Sent without reading: the gateway receives them while the client lags.
        asked = [slow.ask("n", {"p": "list", "q": query, "t": 3}), slow.ask("n", {"p": "list", "q": {"i": ".key", "l": 1, "vf": "l"}, "t": 4}),
                 slow.ask("q", {"p": "list", "q": query, "t": 5, "h": ""})]
        assert [slow.answer(number)["s"] for number in asked] == ["ok"] * 3
        found = slow.pushed()
        assert datum("list", {"a": "last"}, 5) in found
        assert [push for push in found if push["b"]["t"] == 5] == [datum("list", {"a": "last"}, 5)]
        gateway.rest.set("list/a", "again")
        assert slow.push() == merge("list", {"a": "again"}, 5)
        assert slow.pushed() == []
