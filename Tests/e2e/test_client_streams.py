"""Streams of public REST clients: firebase-admin and Pyrebase when a token expires, and clients that read line by line."""

import datetime
import json
import os
import threading
from types import SimpleNamespace

import firebase_admin
import google.auth.credentials
import pyrebase
import pytest
from firebase_admin import _sseclient, db
from harness.gateway import SECRET
from harness.issuer import Issuer
from harness.raw import raw_connection
from harness.waiting import wait_until

RULES = {"rules": {"users": {"$uid": {".read": "auth.uid === $uid"}}}}


@pytest.fixture(scope="module")
def issuer():
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def gateway(serve, issuer):
    gateway = serve(*issuer.options, "--clock-skew", "0s", rules=RULES)
    gateway.rest.set("users/ada", {"n": 1}, auth=SECRET)
    return gateway


class Tokens:
    """Issues ID tokens that last three seconds, as a service account issues ones of an hour."""

    def __init__(self, issuer):
        self._issuer, self.count = issuer, 0

    def next(self) -> str:
        self.count += 1
        return self._issuer.token("ada", lasts=3)

    def get_access_token(self):
        """Credentials in the form of oauth2client, for Pyrebase."""
        return SimpleNamespace(access_token=self.next())


class Credentials(google.auth.credentials.Credentials):
    """Credentials in the form of google-auth, for firebase-admin."""

    def __init__(self, tokens: Tokens):
        super().__init__()
        self._tokens = tokens

    def refresh(self, request):
        self.token = self._tokens.next()
        self.expiry = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=3)


def outlives_its_token(gateway, heard: list, tokens: Tokens, is_alive):
    """Checks that the listener receives the value, connects again when its token expires, and receives later writes."""
    wait_until(lambda: ("put", "/", {"n": 1}) in heard, f"the first value, heard {heard}")
    wait_until(lambda: tokens.count > 1 and heard.count(("put", "/", {"n": 1})) > 1, f"a second connection, heard {heard}")
    assert is_alive()
    gateway.rest.set("users/ada/n", 2, auth=SECRET)
    wait_until(lambda: heard[-1] in (("put", "/n", 2), ("put", "/", {"n": 2})), f"the change, heard {heard}")


def test_firebase_admin_outlives_its_token(gateway, issuer, monkeypatch):
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", f"127.0.0.1:{gateway.port}")
    app = firebase_admin.initialize_app(options={"databaseURL": "https://default.firebaseio.com"}, name=f"streams-{os.getpid()}")
    heard, tokens = [], Tokens(issuer)
    # `listen` with a session of ours: the client's own has the emulator's credential, which does not end.
    registration = db.reference("users/ada", app)._listen_with_session(
        lambda event: heard.append((event.event_type, event.path, event.data)), _sseclient.KeepAuthSession(Credentials(tokens)))
    try:
        outlives_its_token(gateway, heard, tokens, registration._thread.is_alive)
    finally:
        closing = threading.Thread(target=registration.close, daemon=True)
        closing.start()
        number = 2
        # The client's close waits for its reader, which blocks in a read.
        while closing.is_alive():
            number += 1
            gateway.rest.set("users/ada/n", number, auth=SECRET)
            closing.join(0.05)
        firebase_admin.delete_app(app)


# The client's thread ends by an exception once the gateway is gone.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_pyrebase_outlives_its_token(gateway, issuer):
    app = pyrebase.initialize_app(
        {"apiKey": "none", "authDomain": "none", "databaseURL": f"http://127.0.0.1:{gateway.port}", "storageBucket": "none"})
    heard, tokens = [], Tokens(issuer)
    app.credentials = tokens
    stream = app.database().child("users/ada").stream(lambda message: heard.append((message["event"], message["path"], message["data"])))
    try:
        outlives_its_token(gateway, heard, tokens, stream.thread.is_alive)
    finally:
        # Without a connection to reopen, the client's thread ends.
        gateway.stop()
        stream.thread.join(30)


def test_clients_that_read_line_by_line(serve):
    """FireSharp, firego, firebase-arduino, GodotFirebase and FB4D expect a line `event:` and then a line `data:`."""
    gateway = serve(tune="stream-keep-alive=200ms")
    at = gateway.unique()
    at.set(value={"a": 1})
    with raw_connection(gateway.port) as plain, plain.makefile("rb") as lines:
        plain.sendall(f"GET {at.url()} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nUser-Agent: firebase-arduino\r\n\r\n".encode())
        while lines.readline() != b"\r\n":
            pass

        def event() -> tuple[bytes, bytes]:
            name, data, end = (lines.readline() for _ in range(3))
            assert name.startswith(b"event: ") and data.startswith(b"data: ") and end == b"\n", (name, data, end)
            return name[7:-1], data[6:-1]

        seen = [event()]
        at.set("b", 2)
        at.patch(value={"a": None, "c": 3})
        while len(seen) < 3 or seen[-1][0] != b"keep-alive":
            seen.append(event())
        assert [(name, json.loads(data)) for name, data in seen if name != b"keep-alive"] == [
            (b"put", {"path": "/", "data": {"a": 1}}), (b"put", {"path": "/b", "data": 2}), (b"patch", {"path": "/", "data": {"a": None, "c": 3}})]
        assert (b"keep-alive", b"null") in seen
