"""`pathmirror doctor`: its findings for gateways and databases with and without problems."""

import json

from harness import cli, sql
from harness.gateway import start_serve
from psycopg.conninfo import make_conninfo


def found(*words) -> dict[str, dict]:
    """Returns the findings by check, after a check that the exit code agrees with them."""
    finished = cli.command("doctor", "--json", *words)
    findings = {finding["check"]: finding for finding in cli.objects(finished.stdout)}
    problems = [finding for finding in findings.values() if finding["level"] == "problem"]
    assert finished.returncode == (1 if problems else 0), (findings, finished.stderr)
    assert all(finding["fix"] for finding in problems), problems
    return findings


def problems(findings: dict[str, dict]) -> set[str]:
    return {check for check, finding in findings.items() if finding["level"] == "problem"}


def test_a_gateway_of_dev_is_well(dev):
    findings = found("--data", dev.data, "--gateway", f"http://127.0.0.1:{dev.port}")
    assert not problems(findings), findings
    assert findings["gateway.ready"]["level"] == "ok"
    assert findings["clock.gateway"]["level"] == "ok"
    assert findings["disk.free"]["level"] != "note", "the server is on this machine"


def test_a_gateway_that_is_gone_and_something_else_in_its_place(database_url, scratch, logs):
    cli.succeeds("migrate", "up", "--database-url", database_url)
    gateway = start_serve(database_url, scratch, logs)
    url = f"http://127.0.0.1:{gateway.port}"
    try:
        assert found("--database-url", database_url, "--gateway", url)["gateway.ready"]["level"] == "ok"
        elsewhere = found("--database-url", database_url, "--gateway", f"{url}/elsewhere.json?x=")["gateway.ready"]
        assert elsewhere["level"] == "problem", elsewhere
    finally:
        gateway.sweep()
    findings = found("--database-url", database_url, "--gateway", url)
    assert "gateway.ready" in problems(findings)


def test_stored_expressions_that_do_not_compile(database_url, scratch, logs):
    cli.succeeds("migrate", "up", "--database-url", database_url)
    assert found("--database-url", database_url)["expressions.compiled"]["level"] == "ok"
    gateway = start_serve(database_url, scratch, logs)
    try:
        rest = gateway.unique()
        gateway.rest.at(rest.base).set("x", 1)
    finally:
        gateway.sweep()
    rules = scratch / "rules.json"
    rules.write_text(json.dumps({"rules": {".read": "auth.uid.matches(/^a$/)"}}))
    cli.succeeds("rules", "set", rules, "--database-url", database_url)
    definitions = scratch / "mirrors.json"
    columns = {"sku": "text"}
    definitions.write_text(json.dumps([
        {"name": "inch", "path": "/parts/{id}", "filter": "data.child('sku').val() != null", "columns": columns},
        {"name": "other", "path": "/others/{id}", "columns": columns}]))
    cli.succeeds("mirror", "apply", definitions, "--yes", "--database-url", database_url)
    # Rules in the form of a version whose language had no quotation mark.
    bad = json.dumps("data.child('sku').val().matches(/5\"/)")
    for table in ("mirror", "mirror_cursor"):
        sql.execute(database_url, f"UPDATE pathmirror.{table} SET definition = jsonb_set(definition::jsonb, '{{filter}}', $bad${bad}$bad$::jsonb)::json "
                    "WHERE definition ->> 'name' = 'inch'")
    source = json.dumps({"rules": {".read": "auth.uid.matches(/a|/)"}})
    sql.execute(database_url, f"UPDATE pathmirror.rule SET source = convert_to($source${source}$source$, 'UTF8')")
    findings = found("--database-url", database_url)
    assert {"expressions.rules", "expressions.mirrors"} <= problems(findings), findings
    assert "inch" in findings["expressions.mirrors"]["what"] and "filter" in findings["expressions.mirrors"]["what"]
    again = cli.command("migrate", "up", "--database-url", database_url)
    assert again.returncode == 0 and "inch" in again.stderr and "rules of default do not compile" in again.stderr, again
    assert "inch" in cli.succeeds("mirror", "ls", "--database-url", database_url)
    cli.succeeds("mirror", "drop", "inch", "--yes", "--database-url", database_url)
    assert "expressions.mirrors" not in problems(found("--database-url", database_url))


def test_a_role_that_may_not_enough(database_url):
    cli.succeeds("migrate", "up", "--database-url", database_url)
    role = "doctor_" + sql.rows(database_url, "SELECT replace(gen_random_uuid()::text, '-', '')")[0][0]
    sql.execute(database_url, f"CREATE ROLE {role} LOGIN")
    try:
        as_role = make_conninfo(database_url, user=role)
        assert "rights.role" in problems(found("--database-url", as_role))
        sql.execute(database_url, f"GRANT pathmirror_gateway TO {role}")
        findings = found("--database-url", as_role)
        assert findings["rights.role"]["level"] == "ok", findings
        assert findings["postgresql.monitor"]["level"] == "note"
    finally:
        sql.execute(database_url, f"DROP OWNED BY {role}; DROP ROLE {role}")
