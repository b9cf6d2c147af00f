"""The description of an attack."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .wire import CLOSED, Socket, Target, request, segments

# Paths that all callers may read, that the permitted writer writes, and that no caller may change.
RULES = {"rules": {
    "hall": {".read": True},
    "work": {".write": "auth.uid === 'writer'"},
    "judged": {"$one": {".write": True, ".validate": "newData.isString() && newData.val().matches(/^(a|aa|a*)+(b|c*)+$/)"}},
    "vault": {".read": False, ".write": False},
    # Refused as well, but only after the rules have read data, or the gateway the whole message.
    "gate": {".read": "root.child('never').exists()", ".write": "root.child('never').exists()"},
    "sieve": {".write": "newData.hasChild('never') || newData.hasChildren(['never'])"},
    "cells": {".write": True, "$key": {".validate": "newData.val() === 'never'"}},
}}

# The permitted refusals: of the rules, of a limit, for a lack of room, or the end of the connection.
REFUSED = frozenset({"401", "413", "400", "503", "429", CLOSED})
DENIED = frozenset({"permission_denied", "too_big", "unavailable", "failure", CLOSED})


@dataclass
class Attack:
    """`make` builds the payload, `send` sends it and returns the results; every answer must be one of `expected`."""

    name: str
    send: Callable[[Target, object], list[str]]
    expected: frozenset[str]
    make: Callable[[Target], object] = lambda target: None
    prepare: Callable[[Target], None] = lambda target: None
    # The additional memory of the gateway for it, at the most.
    megabytes: int = 512
    # The attack needs the administrator's credential.
    administers: bool = False
    # One of those that a review found in 0.1.0.
    known: bool = False
    tags: tuple = field(default_factory=tuple)

    def __repr__(self):
        return self.name


def rest(name: str, method: str, path: str, make, expected=REFUSED, headers: dict | None = None, query: str = "", **more) -> Attack:
    """One REST request without a credential."""

    def send(target: Target, body) -> list[str]:
        return [target.request(method, target.url(path, query), body, headers)]

    return Attack(name, send, frozenset(expected), lambda target: make(), **more)


def realtime(name: str, action: str, make, expected=DENIED, count: int = 1, **more) -> Attack:
    """One realtime request, in segments, without a credential; `make` returns its body as text."""

    def build(target: Target) -> bytes:
        body = make()
        return b"".join(segments(request(number + 1, action, body)) for number in range(count))

    def send(target: Target, data) -> list[str]:
        with Socket(target) as client:
            client.send(data)
            return client.answers(count)

    return Attack(name, send, frozenset(expected), build, **more)
