"""`/.openapi.json` is valid OpenAPI, and answers match it."""

import json

import pytest
from harness import cli
from harness.feeds import Feed
from harness.gateway import SECRET
from harness.log_stream import ADMIN, after, ask
from harness.waiting import wait_until
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate


@pytest.fixture
def gateway(serve):
    return serve()


@pytest.fixture
def document(gateway) -> dict:
    answer = gateway.rest.send("GET", "/.openapi.json")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("application/json")
    return answer.json()


def conforms(document: dict, schema: dict, value):
    """Checks a value against a schema of the document."""
    Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def resolved(document: dict, node: dict) -> dict:
    if "$ref" in node:
        found = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return found
    return node


def answer_schema(document: dict, path: str, method: str, status: int) -> dict:
    """The schema of an operation's answer with a status; fails if the document lacks it."""
    response = resolved(document, document["paths"][path][method]["responses"][str(status)])
    return response["content"]["application/json"]["schema"]


def test_it_is_openapi_and_for_everybody(gateway, document):
    validate(document)
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == json.loads(cli.succeeds("version", "--json"))["version"]
    assert gateway.rest.send("HEAD", "/.openapi.json").status == 200
    assert gateway.rest.send("PUT", "/.openapi.json", b"{}").status == 405
    assert SECRET not in json.dumps(document)


def test_everything_described_is_there(gateway, document):
    missing = []
    for path, operations in document["paths"].items():
        target = path.replace("{path}", "a/b").replace("{feed}", "orders")
        for method in {"get", "head", "put", "post", "patch", "delete"} & set(operations):
            answer = gateway.rest.send(method.upper(), target, b"{}" if method in ("put", "post", "patch") else None)
            if answer.status == 404 and b"nothing at this path" in answer.body:
                missing.append((method, path))
            described = operations[method]["responses"]
            # Refusals by the session protocols have another form.
            if path not in ("/.ws", "/.lp"):
                assert str(answer.status) in described, (method, path, answer.status)
    assert not missing


def test_lines_of_the_log_are_as_described(gateway, document):
    gateway.rest.set("a", {"b": [1, None, "x"]})
    gateway.rest.patch("", {"a/b": None, "c": {".value": 1, ".priority": 2}})
    gateway.rest.send("PUT", "/.settings/rules.json", b'{"rules":{".read":true,".write":true}}', ADMIN)
    answer = ask(gateway.rest, offset="-1")
    assert len(answer.json()) == 3
    conforms(document, answer_schema(document, "/.log", "get", 200), answer.json())
    for name in ("Stream-Next-Offset", "Stream-Up-To-Date", "X-Pathmirror-Seq", "ETag"):
        assert name in document["paths"]["/.log"]["get"]["responses"]["200"]["headers"] and answer.headers[name]


@pytest.mark.parametrize("method, target, path, status", [
    ("GET", "/.log?offset=x", "/.log", 400), ("GET", f"/.log?offset={after(99)}", "/.log", 410), ("GET", "/.health/ready", "/.health/ready", 200),
    ("GET", "/.health/live", "/.health/live", 200), ("GET", "/a.json?print=x", "/{path}.json", 400),
    ("GET", "/a.json?auth=x.y.z", "/{path}.json", 401), ("POST", "/a.json", "/{path}.json", 200),
    ("PUT", "/.settings/rules.json", "/.settings/rules.json", 400),
    ("POST", "/.oauth2/token", "/.oauth2/token", 400)])
def test_answers_are_as_described(gateway, document, method, target, path, status):
    headers = {} if "auth=" in target else ADMIN
    answer = gateway.rest.send(method, target, b"{\"x\":1}" if method in ("POST", "PUT") else None, headers)
    assert answer.status == status, answer.body
    conforms(document, answer_schema(document, path, method.lower(), status), answer.json())


def test_feeds_are_as_described(gateway, document):
    feed = Feed(gateway.rest, headers=ADMIN)

    def ask(method: str, what: str = "", body=None, status: int = 200, **params):
        answer = feed.call(method, what, body, **params)
        # For a moment after its creation, no gateway works the feed.
        if answer.status == 503 and status != 503:
            answer = wait_until(lambda: (again := feed.call(method, what, body, **params)).status != 503 and again, "the feed to be worked")
        assert answer.status == status, answer.body
        path = "/.feeds/{feed}" + (what and f"/{what}")
        conforms(document, answer_schema(document, path, method.lower(), status), answer.json())
        return answer.json()

    definition = {"path": "/orders/{order_id}", "max_attempts": 1, "include": ["value", "old", "record"], "filter": "newData.val() != 'no'"}
    conforms(document, {"$ref": "#/components/schemas/FeedDefinition"}, definition)
    ask("PUT", body=definition, status=201)
    ask("PUT", body=definition)
    ask("GET")
    gateway.rest.set("orders", {"o1": {"total": 5}, "o2": "yes", "o3": 3})
    messages = ask("POST", "pull", {"wait": "20s", "consumer": "c"})["messages"]
    assert len(messages) == 3
    ids = [message["id"] for message in messages]
    ask("POST", "extend", {"ids": ids, "delay": "60s"})
    ask("POST", "ack", {"ids": [ids[0], "default:9:9"], "consumer": "c"})
    ask("GET", "status")
    ask("POST", "nack", {"ids": ids[1:], "reason": "no"})

    def all_dead() -> bool:
        # Nacks repeated messages, which come again if the feed restarted meanwhile.
        again = [message["id"] for message in ask("POST", "pull", {})["messages"]]
        ask("POST", "nack", {"ids": again})
        return {letter["id"] for letter in ask("GET", "dead")["dead"]} >= set(ids[1:])

    wait_until(all_dead, "dead letters")
    ask("GET", "status")
    ask("POST", "dead/drop", {"ids": ids[1:2]})
    ask("POST", "dead/retry", {"all": True})
    ask("POST", "seek", {"to": "now"})
    for bad in ({"ids": 5}, {"what": 1}):
        ask("POST", "ack", bad, 400)
    listed = gateway.rest.send("GET", "/.feeds", None, ADMIN)
    conforms(document, answer_schema(document, "/.feeds", "get", 200), listed.json())
    ask("DELETE")
    ask("DELETE", status=404)


def test_the_schemas_refuse_what_is_none(document):
    """Shows that the tests above can fail."""
    for schema, bad in [("LogLine", {"seq": 0, "source": "x"}), ("LogLine", {"source": "x"}), ("Error", {}),
                        ("Message", {"id": "a"}), ("FeedDefinition", {"path": "/a", "order": "none"}), ("Readiness", {"status": "fine"})]:
        assert list(Draft202012Validator(
            {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}).iter_errors(bad)), schema
