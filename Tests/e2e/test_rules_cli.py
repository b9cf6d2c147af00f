"""The command line: `pathmirror rules …`."""

import json
from pathlib import Path

import pytest
from harness import cli
from harness.gateway import SECRET
from harness.sse import Listener
from harness.waiting import wait_until

TABLE = Path(__file__).parents[1] / "RulesTests" / "Fixtures" / "rules-conformance.json"
OPEN = '// open\n{"rules": {".read": true, ".write": true}}\n'
CLOSED = '{"rules": {".read": "auth != null", ".write": false}}'


@pytest.fixture
def files(scratch):
    (scratch / "open.json").write_text(OPEN)
    (scratch / "closed.json").write_text(CLOSED)
    (scratch / "bad.json").write_text('{\n  "rules": {".read": "tru"}\n}')
    return scratch


def test_set_get_history_and_rollback(serve, files):
    gateway = serve(rules=None)
    rest, source = gateway.rest, ("--database-url", gateway.database_url)
    assert cli.command("rules", "get", *source).returncode == 1
    assert rest.put("x", 1).status == 401
    assert json.loads(cli.succeeds("rules", "set", files / "open.json", "--json", *source))["seq"] == 1
    wait_until(lambda: rest.put("x", 1).status == 200, "the rules to hold")
    assert cli.succeeds("rules", "get", *source) == OPEN
    assert json.loads(cli.succeeds("rules", "get", "--strict", *source)) == {"rules": {".read": True, ".write": True}}
    with Listener(rest.at("x")) as listener:
        assert listener.next().kind == "put"
        cli.succeeds("rules", "set", files / "closed.json", *source)
        assert listener.next().kind == "cancel"
        listener.wait_for_end()
    assert rest.put("x", 2).status == 401
    # Changes by REST are in the same history.
    assert rest.send("PUT", f"/.settings/rules.json?auth={SECRET}", CLOSED.encode()).status == 200
    history = cli.objects(cli.succeeds("rules", "history", "--json", *source))
    assert [entry["origin"]["via"] for entry in history] == ["cli", "cli", "rest"]
    first = history[0]["seq"]
    assert cli.succeeds("rules", "get", "--seq", str(first), *source) == OPEN
    answer = json.loads(cli.succeeds("rules", "rollback", str(first), "--json", *source))
    assert answer["from"] == first
    wait_until(lambda: rest.put("x", 3).status == 200, "the earlier rules to hold")
    assert cli.succeeds("rules", "get", *source) == OPEN
    cli.succeeds("rules", "rollback", *source)
    assert cli.succeeds("rules", "get", *source).strip() == CLOSED
    assert cli.command("rules", "rollback", "9999", *source).returncode == 1
    assert [entry["op"] for entry in cli.objects(cli.succeeds("log", "ls", "--json", *source))].count("rules") == 5
    cli.verify(*source)


def test_clear(serve, files):
    """The gateways return to the rules of their start, also one that loads the namespace later, and their streams end."""
    gateway = serve(rules=None)
    rest, source = gateway.rest, ("--database-url", gateway.database_url)
    cli.succeeds("rules", "set", files / "open.json", *source)
    wait_until(lambda: rest.put("x", 1).status == 200, "the rules to hold")
    with Listener(rest.at("x")) as listener:
        assert listener.next().kind == "put"
        cli.succeeds("rules", "clear", *source)
        assert listener.next().kind == "cancel"
        listener.wait_for_end()
    assert rest.put("x", 2).status == 401
    other = serve(rules=None)
    assert other.rest.get("x").status == 401
    for one in (gateway, other):
        assert "can't be used" not in one.process.stderr()
    cli.succeeds("rules", "rollback", *source)
    wait_until(lambda: rest.put("x", 3).status == 200, "the rules to hold again")
    cli.verify(*source)


def test_check(files):
    assert "is valid" in cli.succeeds("rules", "check", files / "open.json")
    finished = cli.command("rules", "check", files / "bad.json")
    assert finished.returncode == 1 and ":2:23: Unknown variable 'tru'." in finished.stderr
    finished = cli.command("rules", "check", files / "bad.json", "--json")
    assert finished.returncode == 1
    assert json.loads(finished.stdout)["errors"] == [{"line": 2, "column": 23, "message": "Unknown variable 'tru'."}]


def test_a_table_of_cases(files):
    assert "533 cases: 533 passed, 0 failed" in cli.succeeds("rules", "test", TABLE)
    table = {"cases": [
        {"name": "holds", "rules": json.loads(CLOSED), "data": None, "auth": None, "now": 0, "op": "read", "path": "",
         "expect": "deny"},
        {"name": "does not", "rules": json.loads(CLOSED), "data": None, "auth": None, "now": 0, "op": "read", "path": "",
         "expect": "allow"}]}
    (files / "table.json").write_text(json.dumps(table))
    finished = cli.command("rules", "test", files / "table.json")
    assert finished.returncode == 1
    assert "FAIL does not" in finished.stdout and "2 cases: 1 passed, 1 failed" in finished.stdout
    results = json.loads(cli.command("rules", "test", files / "table.json", "--json").stdout)
    assert [result["outcome"] for result in results["results"]] == ["passed", "failed"]


def test_explain(serve, files):
    (files / "r.json").write_text(json.dumps({"rules": {"rooms": {"$room": {
        ".read": "auth != null && data.child('members').hasChild(auth.uid)",
        "topic": {".write": "auth.uid == 'ada'", ".validate": "newData.isString() && newData.val().length < 5"}}}}}))
    (files / "d.json").write_text(json.dumps({"rooms": {"a": {"members": {"ada": True}}}}))
    given = ("--rules", files / "r.json", "--root", files / "d.json", "--auth", '{"uid":"ada"}')
    text = cli.succeeds("rules", "explain", *given, "--path", "rooms/a")
    assert "Allowed, by .read of /rooms/$room" in text and "auth.uid" in text and '"ada"' in text
    text = cli.succeeds("rules", "explain", *given, "--op", "write", "--path", "rooms/a/topic", "--value", '"too long"')
    assert "Denied: /rooms/a/topic is not valid, by .validate of /rooms/$room/topic" in text
    answer = json.loads(cli.succeeds("rules", "explain", *given, "--op", "update", "--path", "rooms/a", "--value",
                                     '{"topic":"ok"}', "--json"))
    assert answer["allowed"] is True and len(answer["steps"]) == 2
    assert cli.command("rules", "explain", "--path", "x").returncode == 2
    # Options that name a namespace: one for its rules, and one for its data.
    gateway = serve()
    source = ("--database-url", gateway.database_url)
    gateway.rest.set("rooms", {"b": {"members": {"eve": True}}})
    cli.succeeds("rules", "set", files / "r.json", *source)
    text = cli.succeeds("rules", "explain", "--ns", "default", "--auth", '{"uid":"eve"}', "--path", "rooms/b", *source)
    assert "Allowed" in text
