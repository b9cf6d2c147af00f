"""`pathmirror migrate`, and `serve` on databases old, new, and newer than itself."""

from harness import cli, sql
from harness.gateway import start_serve
from harness.waiting import wait_until


def test_migrate_up_and_status(database_url):
    before = cli.command("migrate", "status", "--database-url", database_url)
    assert before.stdout.strip()
    cli.succeeds("migrate", "up", "--database-url", database_url)
    cli.succeeds("migrate", "up", "--database-url", database_url)
    after = cli.succeeds("migrate", "status", "--database-url", database_url)
    assert after != before.stdout
    tables = {name for name, in sql.rows(database_url, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'pathmirror'")}
    assert {"namespace", "log", "node"} <= tables


def test_many_that_migrate_at_once_migrate_once(database_url, scratch, logs):
    gateways = []
    try:
        for number in range(4):
            directory = scratch / str(number)
            directory.mkdir()
            gateways.append(start_serve(database_url, directory, logs, wait=False))
        for gateway in gateways:
            gateway.wait_ready()
        rest = gateways[0].unique()
        seqs = [gateway.rest.at(rest.base).set("x", number).seq for number, gateway in enumerate(gateways)]
        assert seqs == [1, 2, 3, 4]
    finally:
        for gateway in gateways:
            gateway.sweep()
    cli.verify("--database-url", database_url)


def migration_table(url: str) -> tuple[str, str]:
    """(table, version column) of the recorded migrations, found without their names."""
    return sql.rows(url, "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'pathmirror' "
                    "AND table_name LIKE '%%migration%%' AND data_type IN ('integer', 'bigint') ORDER BY ordinal_position LIMIT 1")[0]


def test_a_newer_schema_is_refused(database_url, scratch, logs):
    cli.succeeds("migrate", "up", "--database-url", database_url)
    table, column = migration_table(database_url)
    columns = [name for name, in sql.rows(
        database_url, "SELECT column_name FROM information_schema.columns WHERE table_schema = 'pathmirror' AND table_name = %s", table)]
    others = [name for name in columns if name != column]
    sql.execute(database_url, f"INSERT INTO pathmirror.{table} ({', '.join([column, *others])}) SELECT {', '.join(['9999', *others])} "
                f"FROM pathmirror.{table} ORDER BY {column} DESC LIMIT 1")
    gateway = start_serve(database_url, scratch, logs, wait=False)
    try:
        assert gateway.process.wait(20) == 1
        assert "9999" in gateway.process.stderr() and "newer" in gateway.process.stderr()
    finally:
        gateway.sweep()
    assert cli.command("migrate", "up", "--database-url", database_url).returncode == 1
    assert cli.command("import", "-", "--database-url", database_url, stdin=b"1").returncode == 1


def test_a_wrong_database_is_explained_without_its_password(scratch, logs):
    gateway = start_serve("postgresql://someone:hunter2secret@127.0.0.1:1/none", scratch, logs, wait=False)
    try:
        # The gateway may retry, but it logs the reason, and is not ready.
        wait_until(lambda: gateway.process.stderr().strip(), "an explanation")
        assert not gateway.ready()
        assert "hunter2secret" not in gateway.process.stderr() + gateway.process.stdout()
    finally:
        gateway.sweep()
