"""The rights of containers, the database's roles and secrets, and their limits."""

import json

import pytest
from harness.waiting import wait_until
from stack import GATEWAYS, SERVERS

MIRROR = {"name": "people", "path": "/people/{id}", "columns": {"name": "text"}}


@pytest.mark.parametrize("service", SERVERS)
def test_containers_have_no_capabilities_and_cannot_write_to_their_images(stack, service):
    host = stack.inspect(service)["HostConfig"]
    assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    status = stack.execute(service, "cat", "/proc/1/status")
    fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    assert fields["Uid"].split()[0] != "0"
    assert stack.compose("exec", "-T", service, "sh", "-c", "echo > /etc/written", check=False).returncode != 0


@pytest.mark.parametrize("service", GATEWAYS)
def test_gateways_have_a_disk_for_parts_of_large_trees(stack, service):
    assert "no page file:" not in stack.compose("logs", service).stdout
    # Open, and without a name.
    files = stack.execute(service, "sh", "-c", "ls -l /proc/1/fd | grep -c '/var/tmp/.*(deleted)'")
    assert int(files) == 1
    assert stack.execute(service, "ls", "-A", "/var/tmp") == ""


def test_only_gateways_reach_the_database(stack):
    assert stack.compose("exec", "-T", "proxy", "curl", "-s", "-m", "3", "telnet://postgres:5432", check=False).returncode == 6


def test_gateways_connect_as_a_role_that_cannot_rewrite_the_log(stack):
    roles = stack.sql("select distinct usename from pg_stat_activity where application_name like 'pathmirror%'")
    assert roles == "pathmirror_gateways"
    assert stack.sql("select rolsuper or rolcreaterole or rolcreatedb from pg_roles where rolname = 'pathmirror_gateways'") == "f"
    assert stack.sql("select distinct tableowner from pg_tables where schemaname = 'pathmirror'") == "pathmirror_owner"
    for statement in ("delete from pathmirror.log", "update pathmirror.log set path = '/'", "drop table pathmirror.node",
                      "create table pathmirror.mine (x int)", "create role mine", "select pg_read_file('/etc/passwd')"):
        done = stack.compose("exec", "-T", "postgres", "psql", "-U", "pathmirror_gateways", "-d", "pathmirror", "-c", statement,
                             check=False)
        assert "permission denied" in done.stderr or "must be owner" in done.stderr, (statement, done.stderr)


def test_partitions_mirrors_snapshots_and_pruning_have_the_rights_they_need(stack):
    """All of it with the gateways' role; dropping entries takes the owner."""
    stack.rest.set("people/ada", {"name": "Ada"})
    definition = json.dumps(MIRROR)
    stack.execute("gateway-a", "sh", "-c", f"echo '{definition}' | pathmirror mirror apply - --yes")
    wait_until(lambda: stack.sql("select name from mirror.people where id = 'ada'") == "Ada", "the mirror's row")
    stack.rest.set("people/bob", {"name": "Bob"})
    wait_until(lambda: stack.sql("select count(*) from mirror.people") == "2", "the second row")

    # The call of a gateway when the log outgrows the shared tables, and at each million entries after that.
    stack.sql("select pathmirror.ensure_log_partition(id, 2000000, 1000000) from pathmirror.namespace where name = 'default'",
              user="pathmirror_gateways")
    owners = stack.sql("select tableowner, count(*) from pg_tables where tablename like 'log\\_1\\_%' group by tableowner")
    assert owners == "pathmirror_owner|2"
    stack.execute("gateway-a", "pathmirror", "log", "snapshot")
    stack.execute("gateway-a", "pathmirror", "log", "verify")
    refused = stack.compose("exec", "-T", "gateway-a", "pathmirror", "log", "prune", "--keep", "5 entries", "--yes", check=False)
    assert refused.returncode == 1 and "permission denied" in refused.stderr
    stack.compose("run", "--rm", "--no-deps", "-T", "migrate", "log", "prune", "--keep", "5 entries", "--force", "--yes")
    stack.execute("gateway-a", "pathmirror", "log", "verify")
    assert stack.rest.value("people/ada/name") == "Ada"


def test_a_secret_can_be_added_and_taken_away_while_all_runs(stack):
    added = "another-secret-of-the-administrator"
    stack.credentials.append(added)
    bearer = {"Authorization": f"Bearer {added}"}
    asked = stack.anybody
    assert asked.get("x", headers=bearer).status == 401
    text = stack.secret_file.read_text()
    try:
        stack.secret_file.write_text(f"{text}{added}\n")
        wait_until(lambda: all(asked.get("x", headers=bearer).status == 200 for _ in range(10)), "the second secret")
        assert stack.rest.get("x").status == 200
    finally:
        stack.secret_file.write_text(text)
    wait_until(lambda: all(asked.get("x", headers=bearer).status == 401 for _ in range(10)), "its end")


def test_a_secret_that_the_gateway_cannot_read_is_explained(stack, tmp_path):
    unreadable = stack.directory / "unreadable"
    unreadable.write_text("a-secret-that-cannot-be-read")
    unreadable.chmod(0)
    done = stack.compose("run", "--rm", "--no-deps", "-T", "gateway-a", check=False, PATHMIRROR_ADMIN_SECRET_FILE=str(unreadable))
    assert done.returncode == 1
    assert "runs as uid 10001" in done.stderr and "chown 10001" in done.stderr


def test_roles_can_be_made_again_with_new_passwords(stack):
    stack.execute("postgres", "/docker-entrypoint-initdb.d/roles.sh")
    for gateway in GATEWAYS:
        stack.execute(gateway, "pathmirror", "log", "ls", "--limit", "1")
