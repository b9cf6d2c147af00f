"""The cost of rules for writers, and the gain of a declared index for readers: each against the same server without."""

import base64
import http.client
import json
import random
import time

from harness.context import Context
from harness.gateway import Gateway
from harness.load import wrk
from harness.report import typical

NAME = "rules"
KEYS = 10_000
CHILDREN = 100_000

CHAT = {"rules": {
    "members": {".read": "auth != null"},
    "rooms": {"$room": {
        ".read": "root.child('members').child($room).child(auth.uid).exists()",
        "messages": {"$message": {
            ".write": "auth != null && root.child('members').child($room).child(auth.uid).val() === true"
                      " && (!root.child('last').child(auth.uid).exists()"
                      " || now - root.child('last').child(auth.uid).val() > 500)",
            ".validate": "newData.hasChildren(['from', 'text', 'kind', 'likes', 'at'])",
            "from": {".validate": "newData.val() === auth.uid"},
            "text": {".validate": "newData.isString() && newData.val().length > 0 && newData.val().length <= 2000"},
            "kind": {".validate": "newData.val().matches(/^(text|image|link)$/)"},
            "likes": {".validate": "newData.isNumber() && newData.val() >= 0"},
            "at": {".validate": "newData.isNumber() && newData.val() <= now"},
            "$other": {".validate": False}}}}}}}
OPEN = {"rules": {".read": True, ".write": True}}


def run(context: Context):
    with Gateway() as gateway:
        writes(gateway, context)
        queries(gateway, context)


def writes(gateway: Gateway, context: Context):
    token = unsigned({"sub": "ada", "user_id": "ada", "iat": 0, "exp": 3600})
    for namespace, rules in (("chat", CHAT), ("open", OPEN)):
        gateway.request("PUT", f"/.json?ns={namespace}&auth=owner", json.dumps(
            {"members": {"r1": {"ada": True}}, "last": {"ada": 1}}))
        gateway.request("PUT", f"/.settings/rules.json?ns={namespace}&auth=owner", json.dumps(rules))
    judged, free, seed = [], [], 0
    for number in context.rounds(5, 2, until=60):
        context.progress(f"chat messages, round {number + 1}")
        seed += 1
        for namespace, loads in (("chat", judged), ("open", free)):
            gateway.checkpoint()
            context.quiet.wait()
            loads.append(wrk(gateway, "/", context.pick(4, 2), 64, "chat.lua",
                             (f"ns={namespace}&auth={token}&print=silent", KEYS, seed)))
    context.measure("PUTs of chat messages under rules / under open rules, 64 connections",
                    [one.per_second / other.per_second for one, other in zip(judged, free)], aim=0.7,
                    absolute=f"{typical([load.per_second for load in judged])} against "
                    f"{typical([load.per_second for load in free])} a second")


def queries(gateway: Gateway, context: Context):
    context.progress(f"a node of {CHILDREN:,} children")
    dice = random.Random(1)
    people = {f"p{number}": {"name": f"person {number}", "height": dice.randrange(10**6)} for number in range(CHILDREN)}
    for namespace, rules in (("indexed", {"rules": {".read": True, "people": {".indexOn": "height"}}}),
                             ("plain", None)):
        gateway.request("PUT", f"/people.json?ns={namespace}&auth=owner&print=silent", json.dumps(people))
        if rules:
            gateway.request("PUT", f"/.settings/rules.json?ns={namespace}&auth=owner", json.dumps(rules))
    query = "/people.json?ns={}&orderBy=%22height%22&limitToLast=10&auth=owner"
    assert json.loads(gateway.request("GET", query.format("indexed"))) == json.loads(
        gateway.request("GET", query.format("plain")))
    for text, writing in (("the ten highest of 100,000 by a declared index: time without it / with it", False),
                          ("  with a write to the node before every query", True)):
        ratios, pairs = [], []
        for _ in range(context.pick(5, 3)):
            slow, fast = (timed(gateway, namespace, query.format(namespace), count, writing)
                          for namespace, count in (("plain", 10), ("indexed", 200)))
            ratios.append(slow / fast)
            pairs.append((slow, fast))
        context.measure(text, ratios, aim=None if writing else 50, absolute=f"{typical([slow * 1e3 for slow, _ in pairs])} "
                        f"against {typical([fast * 1e3 for _, fast in pairs])} ms, one keep-alive connection")


def timed(gateway: Gateway, namespace: str, target: str, count: int, writing: bool) -> float:
    """Seconds a query, the writes between not counted."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    spent = 0.0
    for number in range(count):
        if writing:
            connection.request("PUT", f"/people/p{number}/height.json?ns={namespace}&auth=owner&print=silent", str(number))
            connection.getresponse().read()
        start = time.perf_counter()
        connection.request("GET", target)
        connection.getresponse().read()
        spent += time.perf_counter() - start
    connection.close()
    return spent / count


def unsigned(claims: dict) -> str:
    """A token that `dev` accepts from this machine."""
    def part(value: dict) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return f"{part({'alg': 'none', 'type': 'JWT'})}.{part(claims)}."
