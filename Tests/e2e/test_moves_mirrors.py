"""`namespace move` of a namespace with mirrors is refused; the commands that it prints move it and apply the mirrors again."""

import json
import os
import subprocess
from pathlib import Path

from harness import cli, sql
from harness.binary import pathmirror
from harness.mirrored import POSTS
from harness.moves import move
from harness.waiting import wait_until

SOFT = {**POSTS, "name": "soft", "table": "mirror.soft", "deleted": "soft"}


def put(gateway, ns, path, value):
    wait_until(lambda: gateway.rest.at(ns=ns).put(path, value).status == 200, "a write", 60)


def apply(home, scratch, *definitions):
    path = scratch / "mirrors.json"
    path.write_text(json.dumps(list(definitions)))
    cli.succeeds("mirror", "apply", path, "--yes", "--ns", "m", "--database-url", home)


def test_the_printed_commands_move_it(two, scratch):
    gateway, home, other = two
    for number in range(5):
        put(gateway, "m", f"posts/p{number}", {"author": "ada", "title": "it's \"$HOME\""})
    # Quotes and dollars go through the shell as they are.
    apply(home, scratch, {**POSTS, "filter": "data.child('author').val() == 'ada'", "comment": "`what` $people 'wrote'"}, SOFT)
    refused = cli.command("namespace", "move", "m", "--to", "b", "--database-url", home)
    assert refused.returncode == 1 and refused.stdout == "", refused.stdout
    assert sql.rows(home, "SELECT count(*) FROM pathmirror.namespace_move") == [(0,)]
    (before, comment), = sql.rows(home, "SELECT count(*), obj_description('mirror.posts'::regclass) FROM mirror.posts")
    why, commands = refused.stderr.split("\n", 1)
    assert '"m" has mirrors' in why
    folder = scratch / "bin"
    folder.mkdir()
    (folder / "pathmirror").symlink_to(Path(pathmirror()).resolve())
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PATHMIRROR_DATABASE_URL": home}
    done = subprocess.run(["bash", "-ec", commands], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (commands, done.stdout, done.stderr)
    assert sql.rows(home, "SELECT to_regclass('mirror.posts') IS NULL AND to_regclass('mirror.soft') IS NULL") == [(True,)]
    assert sql.rows(home, "SELECT count(*) FROM pathmirror.mirror") == [(0,)]
    after = sql.rows(other, "SELECT count(*), obj_description('mirror.posts'::regclass) FROM mirror.posts")
    assert after == [(before, comment)] and before == 5
    put(gateway, "m", "posts/p1", None)
    wait_until(lambda: sql.rows(other, "SELECT count(*) FROM mirror.soft WHERE _deleted_at IS NOT NULL") == [(1,)], "the mirror", 60)
    assert cli.verify("--database-url", home, "--ns", "m").count("clean") >= 1


def test_a_namespace_of_the_same_number(two, scratch):
    """A database has mirror tables of `m`, and a namespace with the number that `m` has elsewhere. A move of the latter keeps these rows."""
    gateway, home, other = two
    for number in range(3):
        put(gateway, "m", f"posts/p{number}", {"author": "ada"})
    number = sql.rows(home, "SELECT id FROM pathmirror.namespace WHERE name = 'm'")[0][0]
    for name in [f"x{count}" for count in range(number)]:
        cli.succeeds("namespace", "create", name, "--in", "b", "--database-url", home)
    rival = sql.rows(other, "SELECT name FROM pathmirror.namespace WHERE id = %s", number)[0][0]
    apply(home, scratch, {**SOFT, "target": other})
    put(gateway, "m", "posts/p1", None)

    def gone(times):
        wait_until(lambda: sql.rows(other, "SELECT count(*) FROM mirror.soft WHERE _deleted_at IS NOT NULL") == [(times,)], "the mirror", 60)

    def versions():
        return sql.rows(other, "SELECT x::text FROM pathmirror.mirror_version AS x ORDER BY 1")

    gone(1)
    before = versions()
    move(home, rival, "home")
    assert versions() == before
    put(gateway, "m", "posts/p2", None)
    gone(2)
    for name in ("m", rival):
        assert cli.verify("--database-url", home, "--ns", name).count("clean") >= 1
