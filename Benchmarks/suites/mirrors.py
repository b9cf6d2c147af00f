"""Mirrors: a rebuilt table against COPY of the same rows; the log and a mirror against hand-written SQL for both."""

import json
import re
import time

from harness import machine, process
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong, wrk
from harness.report import typical

NAME = "mirrors"
TITLE = "Mirrors"
TEXT = """A mirror's table is built from a tree, and compared with `\\copy` of the same rows with their primary key.
`replay mirror` builds it again and compares every row.
A mirror that follows the log, and the whole path from HTTP requests to the table, are compared with hand-written SQL (log insert and upsert)."""
ROWS_A_TRANSACTION = 100
CONNECTIONS = 8

# Both sides write this table.
COLUMNS = {"author": "text", "title": "text", "star_count": {"type": "bigint", "path": "starCount"},
           "created_at": {"type": "timestamptz", "path": "createdAt"}}
TABLE = """create table bench.posts (post_id text collate "C" primary key, author text, title text, star_count bigint,
    created_at timestamptz, _seq bigint not null, _updated_at timestamptz, _misfits text[]);"""

# A namespace as after an import, written by SQL so that neither side pays for it.
TREE = """
insert into pathmirror.namespace (name, head) values ('bench', 1);
select pathmirror.ensure_log_partition(id, 1, 1000000) from pathmirror.namespace where name = 'bench';
insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
    select id, 1, now(), gen_random_uuid(), 'set', '/', '{{}}' from pathmirror.namespace where name = 'bench';
insert into pathmirror.node (namespace_id, path, value, version)
    select id, '/posts/p' || to_char(n, 'FM0000000') || '/' || field.name, field.value, 1
    from pathmirror.namespace, generate_series(1, {rows}) as n, lateral (values
        ('author', to_json('user' || n % 1000)), ('createdAt', to_json(1760000000000 + n)),
        ('starCount', to_json(n % 50)), ('title', to_json('The title of post number ' || n))) as field (name, value)
    where namespace.name = 'bench' order by 2;
analyze pathmirror.node;
"""

ENTRIES = """
insert into pathmirror.namespace (name) values ('follow');
select pathmirror.ensure_log_partition(id, {rows}, 1000000) from pathmirror.namespace where name = 'follow';
insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
    select id, n, now(), gen_random_uuid(), 'set', '/posts/p' || n, json_build_object('/posts/p' || n, json_build_object(
        'author', 'user' || n % 1000, 'createdAt', 1760000000000 + n, 'starCount', n % 50,
        'title', 'The title of post number ' || n))
    from pathmirror.namespace, generate_series(1, {rows}) as n where name = 'follow';
analyze pathmirror.log;
"""

# The mirror before all entries. A cursor with the batch of an entry would show that it came from another log: the gateway would then
# rebuild the table from the tree, which has none of these rows.
BEGINNING = """
truncate mirror.follow;
update pathmirror.namespace set head = {rows} where name = 'follow';
update pathmirror.mirror_cursor set seq = 0, batch = null
from pathmirror.namespace where namespace_id = namespace.id and namespace.name = 'follow';
"""

# A developer's solution: one transaction, both inserts, 100 rows at once.
BEGIN = """
\\set base :client_id * 100000000 + random(1, 1000000) * 100
begin;
"""
LOG_INSERT = """
insert into bench.log (seq, committed_at, path, changes)
    select nextval('bench.seq'), clock_timestamp(), '/posts/p' || n, json_build_object('/posts/p' || n, json_build_object(
        'author', 'user' || n % 1000, 'createdAt', 1760000000000 + n, 'starCount', n % 50,
        'title', 'The title of post number ' || n))
    from generate_series(:base + 1, :base + 100) as n;
"""
# The same as one entry of the log, like an update of 100 records.
ONE_ENTRY = """
insert into bench.log (seq, committed_at, path, changes)
    select nextval('bench.seq'), clock_timestamp(), '/posts', json_object_agg('/posts/p' || n, json_build_object(
        'author', 'user' || n % 1000, 'createdAt', 1760000000000 + n, 'starCount', n % 50,
        'title', 'The title of post number ' || n))
    from generate_series(:base + 1, :base + 100) as n;
"""
UPSERT = """
insert into bench.posts (post_id, author, title, star_count, created_at, _seq, _updated_at)
    select 'p' || n, 'user' || n % 1000, 'The title of post number ' || n, n % 50,
        to_timestamp((1760000000000 + n) / 1000.0), n, now()
    from generate_series(:base + 1, :base + 100) as n
    on conflict (post_id) do update set author = excluded.author, title = excluded.title,
        star_count = excluded.star_count, created_at = excluded.created_at, _seq = excluded._seq,
        _updated_at = excluded._updated_at;
"""
COMMIT = "commit;"


def run(context: Context):
    rows = context.pick(1_000_000, 100_000)
    with Gateway() as gateway:
        rebuilding(context, gateway, rows)
        following(context, gateway, context.pick(300_000, 50_000))
        through_the_gateway(context, gateway)


def definition(gateway: Gateway, namespace: str):
    path = gateway.root / f"{namespace}.json"
    path.write_text(json.dumps({"name": "posts", "namespace": namespace, "path": "/posts/{post_id}",
                                "table": f"mirror.{namespace}", "columns": COLUMNS}))
    return path


def must_have_all(gateway: Gateway, namespace: str, rows: int):
    """The error includes the position of the mirror's cursor, and the generation, which shows a rebuild meanwhile."""
    found = gateway.sql(f"select count(*) from mirror.{namespace} where title like 'The title%'")
    if found != str(rows):
        cursor = gateway.sql("select 'seq ' || seq || ', generation ' || generation from pathmirror.mirror_cursor "
                             f"where namespace_id = pathmirror.namespace_id('{namespace}')")
        raise Wrong(f"the mirror has {found} of {rows} rows; its cursor: {cursor}")


def timed(context: Context, gateway: Gateway, work) -> float:
    gateway.checkpoint()
    context.quiet.wait()
    start = time.monotonic()
    work()
    return time.monotonic() - start


def rebuilding(context: Context, gateway: Gateway, rows: int):
    context.progress(f"making a tree of {rows:,} records")
    gateway.sql(TREE.format(rows=rows), patience=600)
    file, text = definition(gateway, "bench"), gateway.root / "rows"
    builds, copies, replays = [], [], []
    for number in context.rounds(3, 1, until=75):
        context.progress(f"rebuild, round {number + 1}")
        if number:
            gateway.command("mirror", "drop", "posts", "--ns", "bench", "--yes")
        builds.append(timed(context, gateway, lambda: gateway.command("mirror", "apply", file, "--yes", patience=600)))
        must_have_all(gateway, "bench", rows)
        if not number:
            gateway.sql(f"\\copy mirror.bench to '{text}'", patience=600)
        if number < 2:
            replays.append(timed(context, gateway, lambda: gateway.command("replay", "mirror", "posts", "--ns", "bench", patience=600)))
        gateway.sql("set client_min_messages = warning; drop schema if exists bench cascade; create schema bench; " + TABLE)
        copies.append(timed(context, gateway, lambda: gateway.sql(f"\\copy bench.posts from '{text}'", patience=600)))
    context.measure(f"\\copy's time / time of making the mirror, {rows:,} rows", [c / b for c, b in zip(copies, builds)],
                    aim=0.6, absolute=f"{typical(copies)} against {typical(builds)} s")
    context.measure(f"\\copy's time / time of replay mirror, which also compares every row, {rows:,} rows",
                    [c / b for c, b in zip(copies, replays)], aim=0.4, absolute=f"{typical(copies)} against {typical(replays)} s")


def by_hand(context: Context, gateway: Gateway, *parts: str, clients: int = 1) -> float:
    """Rows a second that clients' transactions write."""
    gateway.sql("set client_min_messages = warning; drop schema if exists bench cascade; create schema bench; "
                "create sequence bench.seq; create table bench.log (seq bigint primary key, committed_at timestamptz, "
                "path text collate \"C\", changes json);" + TABLE)
    script = gateway.root / "by-hand.sql"
    script.write_text(BEGIN + "".join(parts) + COMMIT)
    gateway.checkpoint()
    context.quiet.wait()
    out = process.run([machine.program("pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", "1", "-T", str(context.pick(4, 2)),
                       "-f", script], 60, env=gateway.environment)
    return float(re.search(r"tps = ([0-9.]+)", out).group(1)) * ROWS_A_TRANSACTION


def following(context: Context, gateway: Gateway, rows: int):
    """Both sides insert into the log: other code does this for a mirror alone."""
    context.progress(f"making {rows:,} entries")
    gateway.sql(ENTRIES.format(rows=rows), patience=600)
    gateway.command("mirror", "apply", definition(gateway, "follow"), "--yes")
    hand, logged, followed = [], [], []
    for number in context.rounds(3, 1, until=190):
        context.progress(f"following, round {number + 1}")
        gateway.command("mirror", "pause", "posts", "--ns", "follow")
        gateway.sql(BEGINNING.format(rows=rows))
        seconds = timed(context, gateway, lambda: gateway.sql(
            "update pathmirror.mirror set is_paused = false, updated_at = clock_timestamp(); "
            "notify pathmirror_mirror; "
            f"select pathmirror.wait_for('follow', {rows}, '300 s')", patience=400))
        must_have_all(gateway, "follow", rows)
        followed.append(rows / seconds)
        logged.append(by_hand(context, gateway, LOG_INSERT))
        hand.append(by_hand(context, gateway, LOG_INSERT, UPSERT))
    both = [1 / (1 / l + 1 / f) for l, f in zip(logged, followed)]
    context.measure("rows a second of log insert by hand and then a mirror / of hand-written SQL with log insert and upsert",
                    [b / h for b, h in zip(both, hand)], aim=0.9,
                    absolute=f"{typical(both)} (mirror alone {typical(followed)}, log insert alone {typical(logged)}) "
                             f"against {typical(hand)} rows a second")
    context.note(f"by hand: one client writes {ROWS_A_TRANSACTION} log rows and {ROWS_A_TRANSACTION} table rows a transaction, and the server "
                 "generates the values. The mirror finds one entry for each row in the log, parses and projects it. The sum adds the time of "
                 "the log insert to the mirror's time, although the two overlap on a second core")


def through_the_gateway(context: Context, gateway: Gateway):
    """Everything: HTTP and JSON in, log, the tree's four rows a record, and the mirror, until the last row is in it."""
    file, text = definition(gateway, "default"), "select head from pathmirror.namespace where name = 'default'"
    gateway.request("PUT", "/posts/first.json", '{"author": "user1"}')
    gateway.command("mirror", "apply", file, "--yes")
    ways, hand = [], []
    for number in context.rounds(3, 1, until=230):
        context.progress(f"through the gateway, round {number + 1}")
        gateway.checkpoint()
        context.quiet.wait()
        before = int(gateway.sql(text))
        start = time.monotonic()
        wrk(gateway, "/posts.json", context.pick(4, 2), connections=CONNECTIONS, script="patch.lua",
            arguments=(number, ROWS_A_TRANSACTION))
        gateway.sql("select pathmirror.wait_for('default', timeout => '300 s')", patience=400)
        seconds = time.monotonic() - start
        ways.append((int(gateway.sql(text)) - before) * ROWS_A_TRANSACTION / seconds)
        hand.append(by_hand(context, gateway, ONE_ENTRY, UPSERT, clients=CONNECTIONS))
    context.measure("rows a second from HTTP request to mirror / of hand-written SQL with log insert and upsert",
                    [w / h for w, h in zip(ways, hand)], aim=0.5, absolute=f"{typical(ways)} against {typical(hand)} rows a second")
    context.note(f"through the gateway: {CONNECTIONS} connections send PATCHes of {ROWS_A_TRANSACTION} records, each one entry of the log. By "
                 f"hand {CONNECTIONS} clients write one log row and {ROWS_A_TRANSACTION} table rows a transaction. The gateway's side also "
                 "has HTTP, JSON, an ordered log, and four rows of the tree for each record, and its transactions hold several requests")
