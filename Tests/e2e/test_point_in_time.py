"""A base backup and the archived write-ahead log are restored to a time, by docs/guides/high-availability.md. The gateway logs the lost
entries, listeners get the restored state, and `replay` copies later entries from the old database."""

import shutil
import subprocess

import pytest
from harness import cli, sql
from harness.cluster import Cluster, postgres_bin
from harness.gateway import start_serve
from harness.scratch import scratch_directory, unprivileged_user
from harness.sse import Listener
from harness.waiting import wait_until


class Restored(Cluster):
    """A server from a base backup and an archive, at a restore point."""

    def __init__(self, root, logs, backup, archive, point: str):
        self.root, self.logs, self.data = root, logs, root / "pgdata"
        self.port, self.server = self.another_port(), None
        self.user = unprivileged_user()
        subprocess.run(["cp", "-a", backup, self.data], check=True)
        with open(self.data / "postgresql.auto.conf", "a") as settings:
            settings.write(f"\nrestore_command = 'cp {archive}/%f %p'\nrecovery_target_name = '{point}'\n"
                           "recovery_target_action = 'promote'\narchive_mode = off\n")
        (self.data / "recovery.signal").touch()


@pytest.fixture
def archived(own_postgres):
    """A server that archives its log, and the archive folder."""
    archive = own_postgres.root / "archive"
    archive.mkdir()
    if own_postgres.user:
        shutil.chown(archive, own_postgres.user)
    sql.autocommit(own_postgres.url("postgres"), "alter system set archive_mode = on",
                   f"alter system set archive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'")
    own_postgres.stop()
    own_postgres.start()
    return own_postgres, archive


def test_back_to_a_moment(archived, scratch, logs):
    old, archive = archived
    url = old.create_database()
    database = url.rpartition("/")[2]
    with scratch_directory("restored") as place:
        gateway = start_serve(url, scratch, logs)
        restored = None
        try:
            rest = gateway.rest
            rest.set("orders/a", {"n": 1})
            backup = old.root / "base"
            backup.mkdir(mode=0o700)
            if old.user:
                shutil.chown(backup, old.user)
            identity = {"user": old.user} if old.user else {}
            subprocess.run([postgres_bin() / "pg_basebackup", "-D", backup, "-d", old.url("postgres"), "-X", "stream", "-c", "fast", "--no-sync"],
                           check=True, capture_output=True, cwd="/", **identity)
            kept = rest.set("orders/b", {"n": 2}).seq
            sql.rows(old.url("postgres"), "select pg_create_restore_point('before_it')")
            with Listener(rest.at("orders")) as listener:
                listener.next()
                # The mistake, and later writes of others, which the recovery keeps.
                assert rest.delete("orders").status == 200
                last = rest.set("letters/x", "kept").seq
                listener.wait_for_id(kept + 1)
                sql.rows(old.url("postgres"), "select pg_switch_wal()")
                wait_until(lambda: sql.rows(old.url("postgres"), "select count(*) from pg_stat_archiver where archived_count > 0 and "
                                            "last_archived_wal >= pg_walfile_name(pg_current_wal_lsn() - 1)") == [(1,)], "the log to be archived", 30)
                wanted = scratch / "wanted.ndjson"
                cli.succeeds("replay", "log", "--from", kept + 2, "--to", last, "--path", "/letters", "--output", wanted, "--database-url", url)
                old.stop()

                restored = Restored(place, logs, backup, archive, "before_it")
                restored.port = old.port
                restored.start()
                there = restored.url(database)
                wait_until(lambda: sql.rows(there, "select pg_is_in_recovery()") == [(False,)], "the end of recovery", 30)
                # Listeners restart with the current value.
                wait_until(lambda: listener.events[-1].change == ("put", "/", {"a": {"n": 1}, "b": {"n": 2}}), "a fresh put", 30)
                assert listener.events[-1].id == kept
            wait_until(gateway.ready, "ready again", 30)
            said = [line for line in gateway.process.stderr().splitlines() if "THE DATABASE HAS LOST ENTRIES" in line]
            assert len(said) == 1 and f"lost={kept + 1}...{last}" in said[0] and f"head={kept}" in said[0], said
            assert "the database was promoted" in gateway.process.stderr()
            # The valid part of the later entries.
            cli.succeeds("replay", "apply", wanted, "--database-url", there)
            wait_until(lambda: rest.value("letters") == {"x": "kept"}, "the entries that were carried over", 30)
            assert rest.value("orders") == {"a": {"n": 1}, "b": {"n": 2}}
            # A second run changes nothing.
            assert "0 entries; 1 was applied before" in cli.succeeds("replay", "apply", wanted, "--database-url", there)
            cli.verify("--database-url", there)
        finally:
            gateway.sweep()
            if restored:
                restored.stop("immediate")
