"""The real firebase-admin client, with nothing changed but the host."""

import os
import threading
import uuid

import firebase_admin
import pytest
from firebase_admin import db, exceptions
from harness.waiting import wait_until

# The data that Firebase's own guides and integration tests use.
DINOSAURS = {
    "bruhathkayosaurus": {"appeared": -70000000, "height": 25, "length": 44, "order": "saurischia", "vanished": -70000000, "weight": 135000, "ratings": {"pos": 1}},
    "lambeosaurus": {"appeared": -76000000, "height": 2.1, "length": 12.5, "order": "ornithischia", "vanished": -75000000, "weight": 5000, "ratings": {"pos": 2}},
    "linhenykus": {"appeared": -85000000, "height": 0.6, "length": 1, "order": "theropoda", "vanished": -75000000, "weight": 3, "ratings": {"pos": 3}},
    "pterodactyl": {"appeared": -150000000, "height": 0.6, "length": 0.8, "order": "pterosauria", "vanished": -148500000, "weight": 2, "ratings": {"pos": 4}},
    "stegosaurus": {"appeared": -155000000, "height": 4, "length": 9, "order": "ornithischia", "vanished": -150000000, "weight": 2500, "ratings": {"pos": 5}},
    "triceratops": {"appeared": -68000000, "height": 3, "length": 8, "order": "ornithischia", "vanished": -66000000, "weight": 11000, "ratings": {"pos": 6}}}
SCORES = {"bruhathkayosaurus": 55, "lambeosaurus": 21, "linhenykus": 80, "pterodactyl": 93, "stegosaurus": 5, "triceratops": 22}


@pytest.fixture(scope="module")
def app(dev):
    """An app of the client; its namespace is new to the server."""
    before = os.environ.get("FIREBASE_DATABASE_EMULATOR_HOST")
    os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = f"127.0.0.1:{dev.port}"
    name = f"admin-{uuid.uuid4().hex[:12]}"
    app = firebase_admin.initialize_app(options={"databaseURL": f"https://{name}.firebaseio.com"}, name=name)
    try:
        db.reference("dinos", app).set(DINOSAURS)
        db.reference("scores", app).set(SCORES)
        yield app
    finally:
        firebase_admin.delete_app(app)
        if before is None:
            del os.environ["FIREBASE_DATABASE_EMULATOR_HOST"]
        else:
            os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = before


@pytest.fixture
def ref(app):
    """A reference of this test only."""
    return db.reference(f"t{uuid.uuid4().hex}", app)


@pytest.fixture
def dinos(app):
    return db.reference("dinos", app)


@pytest.fixture
def scores(app):
    return db.reference("scores", app)


@pytest.mark.parametrize("value", ["", "text", "日本 \U0001f600", 0, -5, 1.5, 2**62, True, False, ["a", {"b": 1}], {"a": {"b": [1, 2, 3]}}])
def test_set_and_get(ref, value):
    ref.set(value)
    assert ref.get() == value


def test_children_and_parents(ref):
    ref.child("users/alice").set({"name": "Alice"})
    assert ref.child("users").child("alice/name").get() == "Alice"
    assert ref.child("users/alice").parent.get() == {"alice": {"name": "Alice"}}
    assert ref.child("nobody").get() is None


def test_push(ref):
    first, second = ref.child("users").push({"name": "A"}), ref.child("users").push()
    assert first.get() == {"name": "A"} and second.get() == ""
    assert first.key < second.key
    assert list(ref.child("users").get()) == [first.key, second.key]


def test_update(ref):
    ref.set({"a": {"x": 1}, "b": 2})
    ref.update({"a/y": 2, "c/d": 3, "b": None})
    assert ref.get() == {"a": {"x": 1, "y": 2}, "c": {"d": 3}}


def test_delete(ref):
    ref.set({"a": 1})
    ref.delete()
    assert ref.get() is None


def test_shallow(ref):
    ref.set({"a": {"b": 1}, "c": 2})
    assert ref.get(shallow=True) == {"a": True, "c": True}


def test_etags(ref):
    ref.set({"a": 1})
    value, tag = ref.get(etag=True)
    assert value == {"a": 1} and isinstance(tag, str) and tag
    assert ref.get_if_changed(tag) == (False, None, None)
    ref.set({"a": 2})
    changed, value, newer = ref.get_if_changed(tag)
    assert (changed, value) == (True, {"a": 2}) and newer not in (tag, None)
    assert ref.set_if_unchanged(tag, {"a": 3}) == (False, {"a": 2}, newer)
    done, value, newest = ref.set_if_unchanged(newer, {"a": 3})
    assert (done, value) == (True, {"a": 3}) and newest == ref.get(etag=True)[1]


def test_null_has_a_tag(ref):
    value, tag = ref.get(etag=True)
    assert (value, tag) == (None, "null_etag")
    assert ref.set_if_unchanged(tag, 1)[0] is True
    assert ref.set_if_unchanged(tag, 2)[0] is False


def test_transaction(ref):
    ref.child("count").set(5)
    assert ref.child("count").transaction(lambda count: count + 1) == 6
    assert ref.child("new").transaction(lambda value: (value or 0) + 1) == 1
    assert ref.get() == {"count": 6, "new": 1}


def test_a_transaction_that_changes_its_mind(ref):
    ref.set(1)
    with pytest.raises(ValueError, match="enough"):
        ref.transaction(lambda value: (_ for _ in ()).throw(ValueError("enough")))
    assert ref.get() == 1


def test_transactions_beside_each_other(app, ref):
    """Four clients; each of the 25 tries of one transaction loses to another client."""
    failures = []

    def work():
        try:
            for _ in range(5):
                db.reference(ref.path, app).transaction(lambda value: (value or 0) + 1)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ref.get() == 20


def test_server_values(ref):
    ref.set({"at": {".sv": "timestamp"}, "n": 1})
    ref.update({"n": {".sv": {"increment": 2}}})
    value = ref.get()
    assert isinstance(value["at"], int) and value["n"] == 3


@pytest.mark.parametrize("query, expected", [
    (lambda d: d.order_by_child("height").limit_to_first(2), ["linhenykus", "pterodactyl"]),
    (lambda d: d.order_by_child("height").limit_to_last(2), ["stegosaurus", "bruhathkayosaurus"]),
    (lambda d: d.order_by_child("height").start_at(3.5), ["stegosaurus", "bruhathkayosaurus"]),
    (lambda d: d.order_by_child("height").end_at(3.5), ["linhenykus", "pterodactyl", "lambeosaurus", "triceratops"]),
    (lambda d: d.order_by_child("height").start_at(2.5).end_at(5), ["triceratops", "stegosaurus"]),
    (lambda d: d.order_by_child("height").equal_to(0.6), ["linhenykus", "pterodactyl"]),
    (lambda d: d.order_by_child("order").equal_to("ornithischia"), ["lambeosaurus", "stegosaurus", "triceratops"]),
    (lambda d: d.order_by_child("ratings/pos").start_at(4), ["pterodactyl", "stegosaurus", "triceratops"]),
    (lambda d: d.order_by_child("ratings/pos"), list(DINOSAURS)),
    (lambda d: d.order_by_key().limit_to_first(2), ["bruhathkayosaurus", "lambeosaurus"]),
    (lambda d: d.order_by_key().start_at("pterodactyl"), ["pterodactyl", "stegosaurus", "triceratops"]),
    (lambda d: d.order_by_key().end_at("linhenykus"), ["bruhathkayosaurus", "lambeosaurus", "linhenykus"]),
    (lambda d: d.order_by_key().equal_to("triceratops"), ["triceratops"])])
def test_queries_of_children_and_keys(dinos, query, expected):
    result = query(dinos).get()
    assert list(result) == expected
    assert all(result[name] == DINOSAURS[name] for name in expected)


@pytest.mark.parametrize("query, expected", [
    (lambda s: s.order_by_value(), ["stegosaurus", "lambeosaurus", "triceratops", "bruhathkayosaurus", "linhenykus", "pterodactyl"]),
    (lambda s: s.order_by_value().limit_to_first(2), ["stegosaurus", "lambeosaurus"]),
    (lambda s: s.order_by_value().limit_to_last(2), ["linhenykus", "pterodactyl"]),
    (lambda s: s.order_by_value().start_at(22).end_at(80), ["triceratops", "bruhathkayosaurus", "linhenykus"]),
    (lambda s: s.order_by_value().equal_to(5), ["stegosaurus"])])
def test_queries_of_values(scores, query, expected):
    assert list(query(scores).get()) == expected


def test_priorities_are_dropped_on_reading(ref):
    """The client can write priorities, but has no query for them, and reads plain values."""
    ref.set({"a": {".value": 1, ".priority": 3}, "b": {".value": 2, ".priority": 1}, "c": {".value": 3, ".priority": 2}})
    assert ref.get() == {"a": 1, "b": 2, "c": 3}


def test_nothing_matches(dinos):
    assert not dinos.order_by_child("height").equal_to(1000).get()


class Heard:
    """Collects the events of a listener of the client."""

    def __init__(self, ref):
        self.ref = ref
        self.events = []
        self.registration = ref.listen(lambda event: self.events.append((event.event_type, event.path, event.data)))

    def wait_for(self, count):
        wait_until(lambda: len(self.events) >= count, f"{count} events, heard {self.events}")
        return self.events

    def close(self):
        """Closes the listener. The client's close waits for its reader, which blocks in a read, so this writes a value first."""
        closing = threading.Thread(target=self.registration.close, daemon=True)
        closing.start()
        number = 0
        while closing.is_alive():
            number += 1
            self.ref.set(number)
            closing.join(0.05)


def test_listen(ref):
    ref.set({"a": 1})
    heard = Heard(ref)
    try:
        assert heard.wait_for(1) == [("put", "/", {"a": 1})]
        child = ref.child("users").push("")
        assert heard.wait_for(2)[1] == ("put", f"/users/{child.key}", "")
        ref.update({"b": 2, "a": None})
        assert heard.wait_for(3)[2] == ("patch", "/", {"b": 2, "a": None})
        ref.child("text").set("日本 \U0001f600")
        assert heard.wait_for(4)[3] == ("put", "/text", "日本 \U0001f600")
        ref.set("gone")
        assert heard.wait_for(5)[4] == ("put", "/", "gone")
    finally:
        heard.close()


def test_listen_to_nothing_then_something(ref):
    heard = Heard(ref)
    try:
        assert heard.wait_for(1) == [("put", "/", None)]
        ref.child("deep/er").set(1)
        assert heard.wait_for(2)[1] == ("put", "/deep/er", 1)
    finally:
        heard.close()


def test_many_listeners(app, ref):
    heard = [Heard(db.reference(f"{ref.path}/{number}", app)) for number in range(5)]
    try:
        for one in heard:
            one.wait_for(1)
        ref.set({str(number): number for number in range(5)})
        for number, one in enumerate(heard):
            assert one.wait_for(2)[1] == ("put", "/", number)
    finally:
        for one in heard:
            one.close()


def test_errors_reach_the_client(dinos, ref):
    with pytest.raises(exceptions.InvalidArgumentError) as failure:
        ref.update({"a": 1, "a/b": 2})
    assert str(failure.value)
    with pytest.raises(exceptions.InvalidArgumentError):
        ref.set({"bad.key": 1})
