"""Reading and writing the tree from SQL: `pathmirror.get`, `set`, `update`, `remove`, `wait_for`, the views, and rights."""

import re
import threading

import psycopg
import pytest
from harness import cli, sql
from harness.binary import REPOSITORY
from harness.sse import Listener
from harness.waiting import wait_until
from psycopg.types.json import Jsonb


def call(url, query, *values):
    return sql.rows(url, query, *values)[0][0]


def set_(url, path, value, ns="default"):
    return call(url, "SELECT pathmirror.set(%s, %s, %s)", ns, path, Jsonb(value))


@pytest.fixture
def served(serve, database_url):
    """A gateway's root path, and its database."""
    gateway = serve()
    gateway.rest.set(value={"a": {"b": 1}})
    return gateway, database_url


def test_get_reads_what_rest_wrote(served):
    gateway, url = served
    gateway.rest.set("list", ["x", None, {"y": True}])
    gateway.rest.set("p", {".value": "v", ".priority": 2})
    assert call(url, "SELECT pathmirror.get('default', '/list')") == {"0": "x", "2": {"y": True}}
    assert call(url, "SELECT pathmirror.get('default', '/list', 'plain')") == ["x", None, {"y": True}]
    assert call(url, "SELECT pathmirror.get('default', '/p')") == {".value": "v", ".priority": 2}
    assert call(url, "SELECT pathmirror.get('default', '/p', 'plain')") == "v"
    assert call(url, "SELECT pathmirror.get('default', '/p/.priority')") == 2
    assert call(url, "SELECT pathmirror.get('default', 'a/b')") == 1
    assert call(url, "SELECT pathmirror.get('default', '/nothing') IS NULL")
    assert call(url, "SELECT pathmirror.get('default', '/', 'plain')") == gateway.rest.value()


def test_get_and_u0000(served):
    gateway, url = served
    gateway.rest.set("nul", "a\0b")
    with pytest.raises(psycopg.errors.UntranslatableCharacter, match="U.0000"):
        call(url, "SELECT pathmirror.get('default', '/nul')")
    assert call(url, "SELECT pathmirror.get_json('default', '/nul')::text") == '"a\\u0000b"'


def test_set_is_an_entry_that_listeners_get(served):
    gateway, url = served
    with Listener(gateway.rest.at("a")) as listener:
        listener.wait_for_value({"b": 1})
        seq = set_(url, "/a/c", {"d": [1, 2]})
        listener.wait_for_value({"b": 1, "c": {"d": [1, 2]}})
        call(url, "SELECT pathmirror.update('default', '/a', %s)", Jsonb({"b": None, "c/d/0": "new"}))
        listener.wait_for_value({"c": {"d": ["new", 2]}})
        call(url, "SELECT pathmirror.remove('default', '/a')")
        listener.wait_for_value(None)
    entries = cli.objects(cli.succeeds("log", "ls", "--database-url", url, "--json", "--from", str(seq)))
    assert [entry["op"] for entry in entries] == ["set", "update", "remove"]
    assert [entry["seq"] for entry in entries] == [seq, seq + 1, seq + 2]
    assert entries[0]["origin"] == {"uid": None, "admin": True, "via": "sql", "role": "postgres"}
    assert entries[1]["changes"] == {"/a/b": None, "/a/c/d/0": "new"}
    cli.verify("--database-url", url)


def test_many_writers_of_both_kinds(served):
    """SQL and REST write in parallel: the log has no gap, no write is lost, and a counter of both is right."""
    gateway, url = served
    rounds = 40
    errors = []

    def by_sql(name):
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                for number in range(rounds):
                    connection.execute("SELECT pathmirror.set('default', %s, %s)", (f"/from/{name}/{number}", Jsonb(number)))
                    connection.execute("SELECT pathmirror.set('default', '/sum', %s)", (Jsonb({".sv": {"increment": 1}}),))
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    def by_rest(name):
        try:
            for number in range(rounds):
                gateway.rest.set(f"from/{name}/{number}", number)
                gateway.rest.set("sum", {".sv": {"increment": 1}})
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"{work.__name__}{n}",)) for work in (by_sql, by_rest) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert call(url, "SELECT pathmirror.get('default', '/sum')") == 4 * rounds
    expected = {name: list(range(rounds)) for name in ("by_sql0", "by_sql1", "by_rest0", "by_rest1")}
    assert call(url, "SELECT pathmirror.get('default', '/from', 'plain')") == expected
    assert sql.head(url) == 1 + 8 * rounds
    cli.verify("--database-url", url)


@pytest.mark.parametrize("path, value, reason", [
    ("/a.b", 1, 'the key "a.b" contains "."'), ("/a", {"x": {"": 1}}, "a key is empty"), ("/a/$b", 1, 'contains "\\$"'),
    ("/a", {"x": {".foo": 1}}, 'contains "."'), ("/a", {"k\u0001": 1}, "control character"), ("/a", {"x" * 769: 1}, "769 bytes"),
    ("/" + "d/" * 33, 1, "33 keys"), ("/" + "d/" * 31, {"x": {"y": 1}}, "32 levels"),
    ("/a", {".priority": True, "x": 1}, "priority at /a"), ("/a", {"x": {".value": {"y": 1}}}, ".value at /a/x"),
    ("/a", {"x": {".value": 1, "y": 1}}, "/a/x has a .value"), ("/none/.priority", 1, "nothing at /none"),
    ("/a/.priority", {"x": 1}, "number or a string"), ("/a", {".sv": "now"}, "server value at /a")])
def test_bad_input_is_refused_and_changes_nothing(served, path, value, reason):
    _, url = served
    with pytest.raises(psycopg.Error, match=reason):
        set_(url, path, value)
    assert sql.head(url) == 1
    cli.verify("--database-url", url)


@pytest.mark.parametrize("value, reason", [
    ({"x": 1, "x/y": 2}, "/a/x is an ancestor of /a/x/y"), ({"x": 1, "/x/": 2}, "/a/x is in the update twice"), ([1], "object"),
    ({"": 1}, "a key is empty")])
def test_bad_updates_are_refused(served, value, reason):
    _, url = served
    with pytest.raises(psycopg.Error, match=reason):
        call(url, "SELECT pathmirror.update('default', '/a', %s)", Jsonb(value))
    assert sql.head(url) == 1


def test_null_is_not_guessed_at(served):
    _, url = served
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        call(url, "SELECT pathmirror.set('default', '/a', NULL)")
    with pytest.raises(psycopg.errors.NoDataFound, match="nope"):
        set_(url, "/a", 1, ns="nope")
    assert sql.head(url) == 1


def test_the_views(served):
    gateway, url = served
    gateway.rest.patch("", {"x/y": 1, "a/b": None})
    gateway.rest.patch("", {"n/1": "a\0\\u0000", "n/2": 2})
    assert sql.rows(url, "SELECT seq, op, via, is_admin FROM pathmirror.log_entry WHERE namespace = 'default' ORDER BY seq")[1] \
        == (2, "update", "rest", False)
    assert sql.rows(url, "SELECT seq, position, path, value::text FROM pathmirror.log_change ORDER BY seq, position") == [
        (1, 1, "/", '{"a":{"b":1}}'), (2, 1, "/x/y", "1"), (2, 2, "/a/b", "null"),
        (3, 1, "/n/1", '"a\\u0000\\\\u0000"'), (3, 2, "/n/2", "2")]


def test_wait_for(served):
    """Without mirrors, the function returns at once for committed entries, and waits for later ones."""
    _, url = served
    assert call(url, "SELECT pathmirror.wait_for('default')") == 1
    with pytest.raises(psycopg.Error, match="the head is 1") as failure:
        call(url, "SELECT pathmirror.wait_for('default', 2, '50 ms')")
    assert failure.value.sqlstate == "PM003"
    found = []
    waiter = threading.Thread(target=lambda: found.append(call(url, "SELECT pathmirror.wait_for('default', 2)")))
    waiter.start()
    set_(url, "/w", 1)
    waiter.join(20)
    assert found == [2]
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(psycopg.Error, match="repeatable read"):
            connection.execute("SELECT pathmirror.wait_for('default', 99)")


def test_only_who_is_granted_may(served):
    _, url = served
    names = ["e2e_reader", "e2e_writer", "e2e_nobody"]
    try:
        sql.execute(url, *[f"DROP ROLE IF EXISTS {name}" for name in names], *[f"CREATE ROLE {name} LOGIN" for name in names],
                    "GRANT pathmirror_reader TO e2e_reader", "GRANT pathmirror_writer TO e2e_writer")
        as_role = {name: url.replace("postgres@", f"{name}@") for name in names}
        assert call(as_role["e2e_reader"], "SELECT pathmirror.get('default', '/a')") == {"b": 1}
        assert call(as_role["e2e_reader"], "SELECT count(*) FROM pathmirror.log_change") == 1
        assert call(as_role["e2e_reader"], "SELECT pathmirror.wait_for('default')") == 1
        for refused in ("SELECT pathmirror.set('default', '/a', '1')", "SELECT pathmirror.remove('default', '/a')",
                        "DELETE FROM pathmirror.node", "SELECT target FROM pathmirror.mirror", "SELECT auth FROM pathmirror.session",
                        "SELECT pathmirror.replace_rows(1, 1, '', '{}', '{}')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                sql.rows(as_role["e2e_reader"], refused)
        assert set_(as_role["e2e_writer"], "/w", 1) == 2
        assert sql.rows(url, "SELECT origin ->> 'role' FROM pathmirror.log_entry WHERE seq = 2") == [("e2e_writer",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql.rows(as_role["e2e_writer"], "DELETE FROM pathmirror.node")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql.rows(as_role["e2e_nobody"], "SELECT pathmirror.get('default', '/a')")
    finally:
        sql.execute(url, *[f"DROP ROLE IF EXISTS {name}" for name in names])


def test_the_documentation(served):
    """Every sql block of docs/reference/sql.md runs, in the default namespace."""
    gateway, url = served
    gateway.rest.set(value={"users": {"ada": {"name": "Ada", "stars": 4}}})
    text = (REPOSITORY / "docs" / "reference" / "sql.md").read_text().replace("'directory'", "'default'")
    blocks = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 7
    for block in blocks:
        for statement in block.split(";"):
            if statement.strip():
                sql.rows(url, statement.replace("%", "%%"))
    # The gateway receives the writes of SQL with a delay.
    wait_until(lambda: gateway.rest.at("users/cy").value() == {"name": "Cy", "stars": 2}, "the last SQL write")
    cli.verify("--database-url", url)


def test_log_change_looks_at_each_part_once(served):
    """Facts about a whole part are computed once, not for each of its changes, which took quadratic time."""
    _, url = served
    plan = sql.rows(url, "EXPLAIN (VERBOSE) SELECT seq, path, value FROM pathmirror.log_change WHERE namespace_id = 1 AND seq BETWEEN 2 AND 9")
    outputs = [line for (line,) in plan if "Output:" in line and "strpos" in line]
    assert len(outputs) == 1 and "change." not in outputs[0], "\n".join(line for (line,) in plan)
    assert any("seq >= 2" in line for (line,) in plan)


def test_changes_at_a_path(served):
    gateway, url = served
    gateway.rest.patch(value={"a/b": None, "a/c": 2, "a/.priority": 3, "ab": 1})
    cli.succeeds("import", "-", "--path", "/bulk", "--database-url", url, stdin=b'{"x":{"y":1,"z":"\\u0000"},"xy":2,"\xc3\xa9":3}')
    def at(path, *more):
        return [(row[0], row[1], row[2]) for row in sql.rows(
            url, "SELECT seq, path, step FROM pathmirror.changes_at('default', %s" + ", %s" * len(more) + ")", path, *more)]
    first = sql.head(url) - 1
    assert at("/a", first - 1) == [(first, "/a/c", 0), (first, "/a/b", 1), (first, "/a/.priority", 2)]
    assert at("/a/c/deep", first - 1) == [(first, "/a/c", 0)]
    assert at("/bulk/x") == [(first - 1, "/", 0), (first + 1, "/bulk", 1), (first + 1, "/bulk/x/y", 0), (first + 1, "/bulk/x/z", 0)]
    assert at("/bulk/x/y/below", first) == [(first + 1, "/bulk", 1), (first + 1, "/bulk/x/y", 0)]
    assert at("/bulk/\u00e9", first) == [(first + 1, "/bulk", 1), (first + 1, "/bulk/\u00e9", 0)]
    assert at("/a", first, first + 1) == [] and at("/ab") == [(first - 1, "/", 0), (first, "/ab", 0)]
    assert [path for _, path, _ in at("/")] == [row[0] for row in sql.rows(
        url, "SELECT path FROM pathmirror.log_change ORDER BY seq, part, position")]
    assert call(url, "SELECT value::text FROM pathmirror.changes_at('default', '/bulk/x/z') WHERE part = 1") == '"\\u0000"'
    assert {row[0] for row in sql.rows(url, "SELECT DISTINCT entry_path FROM pathmirror.log_change")} == {"/", "/bulk"}
    with pytest.raises(psycopg.errors.NoDataFound):
        at_nowhere = "SELECT * FROM pathmirror.changes_at('nowhere', '/')"
        call(url, at_nowhere)


def test_seq_at_is_the_head_of_a_moment(served):
    gateway, url = served
    moments = [sql.rows(url, "SELECT clock_timestamp()")[0][0]]
    for number in range(40):
        set_(url, "/n", number)
        moments.append(sql.rows(url, "SELECT clock_timestamp()")[0][0])
    heads = [call(url, "SELECT pathmirror.seq_at('default', %s)", moment) for moment in moments]
    assert heads == list(range(1, 42))
    times = dict(sql.rows(url, "SELECT seq, committed_at FROM pathmirror.log_entry WHERE namespace = 'default'"))
    # At the time of an entry itself, and right before it.
    for seq in (2, 17, 41):
        assert call(url, "SELECT pathmirror.seq_at('default', %s)", times[seq]) == seq
        assert call(url, "SELECT pathmirror.seq_at('default', %s - interval '1 microsecond')", times[seq]) == seq - 1
    assert call(url, "SELECT pathmirror.seq_at('default', '-infinity')") == 0
    assert call(url, "SELECT pathmirror.seq_at('default', 'infinity')") == 41
    assert call(url, "SELECT pathmirror.seq_at('default', NULL) IS NULL")
    with pytest.raises(psycopg.errors.NoDataFound):
        call(url, "SELECT pathmirror.seq_at('nosuch', now())")


def test_seq_at_in_a_log_that_was_pruned(served):
    gateway, url = served
    for number in range(30):
        set_(url, "/n", number)
    cli.succeeds("log", "prune", "--keep", "10 entries", "--yes", "--database-url", url)
    first = sql.rows(url, "SELECT min(seq), max(seq) FROM pathmirror.log_entry WHERE namespace = 'default'")[0]
    assert first[0] > 1, "nothing was pruned"
    assert call(url, "SELECT pathmirror.seq_at('default', '-infinity')") == first[0] - 1
    assert call(url, "SELECT pathmirror.seq_at('default', now())") == first[1]
