"""Callers do not learn data that the rules forbid by REST: each operation by each caller, in worlds that differ in unreadable parts."""

import http.client
import json
import re
from urllib.parse import quote

import pytest
from disclosure.rest_rows import ROWS
from disclosure.verdicts import judge
from disclosure.worlds import CALLERS, plain
from harness.rest import query_string

DENIED = '{\n  "error" : "Permission denied"\n}\n'


def exchange(world, row, caller) -> tuple:
    """All observations of the caller: status, headers, body, and whether the connection ends. Seqs count from the world's base."""
    path = row.path[1:] if row.path.startswith("!") else f"/{quote(row.path)}.json"
    params = {"ns": world.ns, **row.params, **caller.params}
    connection = http.client.HTTPConnection("127.0.0.1", world.gateway.port, timeout=60)
    try:
        connection.request(row.method, f"{path}?{query_string(params)}", row.body, row.headers)
        answer = connection.getresponse()
        body = answer.read().decode("utf-8", "backslashreplace")
    finally:
        connection.close()
    headers = {name: value for name, value in answer.headers.items() if name != "Date"}
    if "X-Pathmirror-Seq" in headers:
        headers["X-Pathmirror-Seq"] = f"+{int(headers['X-Pathmirror-Seq']) - world.base}"
    # Push ids are random.
    body = re.sub(r'"-[-_0-9A-Za-z]{19}"', '"PUSHED"', body)
    return answer.status, sorted(headers.items()), plain(body, world), answer.will_close


def is_denial(seen) -> bool:
    """Whether the answer is a refusal as documented; half a refusal fails the test."""
    status, headers, body, _ = seen
    if status != 401:
        return False
    assert body in (DENIED, ""), body
    assert not {"ETag", "X-Pathmirror-Seq"} & {name for name, _ in headers}, headers
    return True


@pytest.mark.parametrize("caller", CALLERS, ids=repr)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_rest(worlds, row, caller):
    seen = {}
    for name, world in worlds.items():
        seen[name] = exchange(world, row, caller)
        written = world.restore()
        assert not written or not is_denial(seen[name]), f"refused, and written in the world '{name}'"
    judge(row.needs, caller, seen, f"{row.body} {row.headers} {json.dumps(row.params)}", is_denial)
