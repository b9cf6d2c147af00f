"""The command line: help, output and exit status of commands; SQL; a gateway's own output; `dev`."""

import json

import psycopg
from harness.cli import objects
from harness.gateway import SECRET
from harness.issuer import unsigned
from harness.waiting import wait_until

COMMANDS = ["dev", "serve", "migrate up", "migrate status", "import", "export", "log ls", "log show", "log tail", "log verify", "log blame", "log undo", "log snapshot", "log prune",
            "replay tree", "replay log", "replay apply", "replay mirror", "diff", "rules get", "rules set", "rules check", "rules test", "rules history", "rules rollback", "rules clear",
            "rules explain", "token mint", "token inspect", "mirror apply", "mirror infer", "mirror ls", "mirror status", "mirror pause", "mirror resume", "mirror drop",
            "mirror errors", "version", "migrate", "log", "replay", "rules", "token", "service-account", "mirror"]


def play_commands_help(player):
    player.command("--help", source=False)
    player.command(source=False)
    player.command("help", source=False)
    for command in COMMANDS:
        player.command(*command.split(), "--help", source=False)
    for command in ("serve", "dev", "doctor"):
        player.command(command, "--help", "all", source=False)
    for words in (["nonsense"], ["log", "nonsense"], ["log", "ls", "--nonsense"], ["log", "ls", "--limit"], ["log", "ls", "--limit", "x"], ["log", "show"], ["log", "show", "1", "2"],
                  ["log", "show", "x"], ["version"], ["version", "--json"], ["version", "x"], ["--version"], ["-h"], ["export", "--database-url", "nonsense"],
                  ["log", "ls", "--data", "/nonexistent"], ["serve"], ["serve", "--listen", "nonsense", "--database-url", "postgresql://127.0.0.1:1/x"],
                  ["serve", "--database-url", "postgresql://127.0.0.1:1/x", "--rate-limit-per-address", "fast"], ["serve", "--config", "/nonexistent"], ["dev", "--port", "x"],
                  ["dev", "--port", "99999"], ["dev", "--log-level", "loud", "--log-format", "x"], ["token", "mint"], ["token", "inspect", "x"], ["rules", "check", "/nonexistent"],
                  ["diff", "a"], ["replay", "tree"], ["import"], ["import", "/nonexistent"], ["mirror", "apply"], ["log", "prune"]):
        player.command(*words, source=False)
    player.command("log", "ls", "--json", source=False, env={"PATHMIRROR_LIMIT": "x"})
    config = player.directory / "config"
    config.write_text("limit = x\n# text\nnonsense = 1\n")
    player.command("serve", "--config", config, source=False)


def _entries(player) -> str:
    """Entries of every kind in the namespace of the play."""
    web = player.http()
    for method, target, body in (("PUT", "/users.json", '{"ada":{"name":"Ada","stars":3},"bob":{"name":"Bob"}}'), ("PATCH", "/.json", '{"users/ada/stars":4,"posts/p1":{"by":"ada","tags":["a","b"]}}'),
                                 ("DELETE", "/users/bob.json", None), ("PUT", "/odd.json", '{"é🎈":"\\u0000\\"<","p":{".value":1,".priority":"x"},"n":-0.0,"big":9007199254740993}'),
                                 ("POST", "/list.json", '{"t":{".sv":"timestamp"}}'), ("PUT", "/long.json", json.dumps("x" * 3000))):
        web.ask(method, target, body)
    player.rules({"rules": {".read": True, ".write": True}})
    return player.name


def play_commands_log(player):
    ns = ["--ns", _entries(player)]
    export = player.directory / "export.json"
    export.write_text(json.dumps({"many": {f"k{number:03}": number for number in range(200)}, "p": {".value": True, ".priority": 2}}))
    player.command("import", export, "--path", "/imported", *ns)
    player.command("import", export, "--path", "/imported", "--chunked", "--chunk-rows", "50", "--json", *ns)
    player.command("import", "-", "--path", "/stdin", *ns, stdin=b'{"a":[1,2,{"b":null}]}')
    player.command("import", "-", "--path", "/stdin", *ns, stdin=b'{"a":')
    player.command("import", "-", "--path", "/std.in", *ns, stdin=b"1")
    player.command("export", *ns)
    player.command("export", "--path", "/users", *ns)
    player.command("export", "--path", "/none", *ns)
    player.command("export", "--ns", "no-such-namespace")
    player.command("export", "-o", player.directory / "out.json", *ns)
    for options in ([], ["--json"], ["--from", "2", "--to", "3"], ["--path", "/users/ada"], ["--limit", "2", "--json"], ["--from", "99"]):
        player.command("log", "ls", *options, *ns)
    for seq in ("1", "2", "4", "7", "8", "9", "99", "0"):
        player.command("log", "show", seq, *ns)
        player.command("log", "show", seq, "--json", *ns)
    for path in ("/users/ada", "/users", "/", "/odd/p", "/none", "/bad.path"):
        player.command("log", "blame", path, *ns)
        player.command("log", "blame", path, "--json", *ns)
    player.command("log", "verify", *ns)
    player.command("log", "verify", "--json", *ns)
    for options in ([], ["--at", "3"], ["--list"], ["--list", "--json"], ["--drop", "3"], ["--drop", "99"], ["--at", "99"]):
        player.command("log", "snapshot", *options, *ns)
    for left, right in ((f"{player.name}@1", f"{player.name}@2"), (f"{player.name}@2", player.name), (player.name, player.name), (f"{player.name}@99", player.name), ("none@1", player.name)):
        player.command("diff", left, right)
        player.command("diff", left, right, "--json")
    player.command("diff", f"{player.name}@1", player.name, "--path", "/users")
    player.command("log", "prune", "--keep", "4 entries", "--yes", *ns)
    player.command("log", "prune", "--keep", "x", *ns)
    player.command("log", "ls", *ns)
    player.command("log", "show", "1", *ns)
    player.command("log", "verify", *ns)
    player.command("diff", f"{player.name}@1", player.name)
    player.command("log", "verify", "--ns", "no-such-namespace")
    player.sql("update pathmirror.node set value = '5' where path = '/users/ada/stars' and namespace_id = (select id from pathmirror.namespace where name = %s)", player.name)
    player.command("log", "verify", *ns)
    player.command("log", "verify", "--json", *ns)


def play_commands_replay(player):
    ns = ["--ns", _entries(player)]
    entries, tree = player.directory / "entries.ndjson", player.directory / "tree.json"
    for options in (["--at", "1", "--output", "-"], ["--at", "3", "--output", "-", "--path", "/users"], ["--at", "head", "--output", tree], ["--at", "99", "--output", "-"], ["--at", "1", "--into", "replayed-tree"],
                    ["--at", "2", "--into", "replayed-tree"], ["--at", "2", "--into", "replayed-tree", "--replace", "--yes"], ["--at", "1", "--into", "replayed-tree", "--replace", "--yes", "--chunked"],
                    ["--at", "3", "--into", "replayed-tree", "--replace"], ["--at", "3", "--into", "replayed-tree", "--missing-only"],
                    ["--at", "2000-01-01", "--output", "-"], ["--at", "x", "--output", "-"]):
        player.command("replay", "tree", *options, *ns)
    for options in ([], ["--from", "2", "--to", "3"], ["--path", "/users"], ["--output", entries]):
        player.command("replay", "log", *options, *ns)
    copy = ["--ns", f"{player.name}-copy"]
    player.command("replay", "apply", entries, "--dry-run", *copy)
    player.command("replay", "apply", entries, *copy)
    player.command("replay", "apply", entries, *copy)
    player.command("replay", "apply", "-", *copy, stdin=b"nonsense\n")
    player.command("replay", "apply", "-", "--ns", "never-made", stdin=b"{}\n")
    player.command("export", *copy)
    player.command("log", "ls", "--json", *copy)
    player.command("diff", player.name, f"{player.name}-copy")
    player.command("log", "verify", *copy)
    for words in (["2"], ["3"], ["3", "--yes"], ["3", "--yes"], ["7"], ["99"], ["x"]):
        player.command("log", "undo", *words, *ns)


def play_commands_rules(player):
    ns = ["--ns", player.name]
    player.http().ask("PUT", "/rooms.json", '{"a":{"members":{"ada":true},"topic":"x"}}')
    good, bad, table = (player.directory / name for name in ("good.json", "bad.json", "table.json"))
    good.write_text('// text\n' + json.dumps({"rules": {"rooms": {"$room": {".read": "auth != null && data.child('members').hasChild(auth.uid)",
                                                                  "topic": {".write": "auth.uid == 'ada'", ".validate": "newData.isString() && newData.val().length < 5"}}}}}, indent=2))
    bad.write_text('{\n  "rules": {".read": "tru", "a": {".write": "1 +", "$b": 5}}\n}')
    table.write_text(json.dumps({"cases": [
        {"name": "holds", "rules": {"rules": {}}, "data": None, "auth": None, "now": 0, "op": "read", "path": "", "expect": "deny"},
        {"name": "does not", "rules": {"rules": {".read": "auth != null"}}, "data": None, "auth": None, "now": 0, "op": "read", "path": "x", "expect": "allow"}]}))
    for words in (["get"], ["check", good], ["check", bad], ["check", bad, "--json"], ["check", good, "--json"], ["set", bad], ["set", good], ["get"], ["get", "--strict"], ["history"],
                  ["set", good, "--json"], ["history"], ["rollback"], ["rollback", "2"], ["rollback", "99"], ["get", "--seq", "2"], ["get", "--seq", "99"]):
        player.command("rules", *words, *(ns if words[0] not in ("check",) else []), source=words[0] != "check")
    history = player.command("rules", "history", "--json", *ns)
    player.note(f"{len(objects(history))} versions")
    player.command("rules", "test", table, source=False)
    player.command("rules", "test", table, "--json", source=False)
    player.command("rules", "check", "-", source=False, stdin=b"{}")
    data = player.directory / "data.json"
    data.write_text('{"rooms":{"a":{"members":{"ada":true}}}}')
    given = ["--rules", good, "--root", data, "--now", "1000"]
    for options in (["--path", "rooms/a"], ["--path", "rooms/a", "--auth", '{"uid":"ada"}'], ["--path", "rooms/a", "--auth", '{"uid":"ada"}', "--json"],
                    ["--path", "rooms/a/topic", "--op", "write", "--auth", '{"uid":"ada"}', "--value", '"too long"'], ["--path", "rooms/a", "--op", "update", "--auth", '{"uid":"ada"}', "--value", '{"topic":"ok"}', "--json"],
                    ["--path", "rooms", "--query", 'orderBy="x"&limitToLast=2'], ["--path", "x.y"], ["--op", "other"], ["--value", "{"], ["--auth", "x"]):
        player.command("rules", "explain", *given, *options, source=False)
    player.command("rules", "explain", *ns, "--path", "rooms/a", "--auth", '{"uid":"ada"}')


def play_commands_mirrors(player):
    web = player.http()
    ns = ["--ns", player.name]
    web.ask("PUT", "/posts.json", json.dumps({
        "p1": {"author": "ada", "title": "One", "starCount": 3, "createdAt": 1700000000000, "stars": {"bob": True, "cy": False}, "extra": [1, {"x": None}]},
        "p2": {"author": "bob", "title": 5, "starCount": "many", "createdAt": "2001-02-03T04:05:06+01:00", "stars": ["x", "y"]}, "p3": {"title": "no author"}, "p4": "leaf",
        "p5": {"author": "é🎈", "title": None, "starCount": 1.5, "createdAt": "nonsense", "price": "12.50", "id": "00000000-0000-0000-0000-00000000000a", "day": "1999-12-31", "ok": True}}))
    definition, bad = player.directory / "posts.json", player.directory / "bad.json"
    definition.write_text(json.dumps({"name": "posts", "path": "/posts/{post_id}", "table": "recorded.posts", "comment": "What people wrote", "keys": {"post_id": {"type": "text", "comment": "A push id"}},
                                      "columns": {"author": {"type": "text", "not null": "skip"}, "title": "text", "star_count": {"type": "bigint", "path": "starCount", "default": 0},
                                                  "created_at": {"type": "timestamptz", "path": "createdAt"}, "stars": "text[]", "price": "numeric", "id": "uuid", "day": "date", "ok": "boolean",
                                                  "rank": {"type": "double precision", "path": "starCount"}, "raw": {"type": "jsonb", "path": "extra"}},
                                      "rest": "rest", "indexes": [["author"], ["stars"]]}, indent=2))
    bad.write_text('{"name": "bad name", "path": "/posts/{a}/{a}", "columns": {"x": {"type": "txt"}, "y": {"path": "$"}}, "indexes": [["z"]], "more": 1}')
    columns = "post_id, author, title, star_count, created_at at time zone 'utc', stars, price, id, day, ok, rank, raw::text, rest::text, _seq, _misfits"

    def caught_up():
        """Waits until the table has all committed entries."""
        with psycopg.connect(player.stage.url, autocommit=True) as connection:
            query = "select lag_entries from pathmirror.mirror_status where namespace = %s"
            wait_until(lambda: connection.execute(query, (player.name,)).fetchall() == [(0,)], "the mirror to follow")

    for words in (["apply", bad], ["apply", definition, "--dry-run"], ["apply", definition, "--dry-run", "--json"], ["infer", "/posts"], ["infer", "/posts", "--json"], ["infer", "/none"]):
        player.command("mirror", *words, *ns)
    player.command("mirror", "apply", definition, "--yes", *ns)
    caught_up()
    player.sql(f"select {columns} from recorded.posts order by post_id")
    player.command("mirror", "errors", "posts", *ns)
    player.command("mirror", "errors", "posts", "--json", *ns)
    for method, target, body in (("PATCH", "/posts.json", '{"p1/starCount":4,"p2/createdAt":5,"p3/author":"cy","p6":{"author":"new","starCount":"x"}}'), ("PUT", "/posts/p5/title.json", '"T"'),
                                 ("DELETE", "/posts/p4.json", None), ("PUT", "/posts/p1/stars/dee.json", "true")):
        web.ask(method, target, body)
    caught_up()
    player.sql(f"select {columns} from recorded.posts order by post_id")
    player.sql("select column_name, data_type, is_nullable, column_default from information_schema.columns where table_schema = 'recorded' order by ordinal_position")
    player.sql("select indexdef from pg_indexes where schemaname = 'recorded' order by indexname")
    for words in (["apply", definition, "--yes"], ["ls"], ["ls", "--json"], ["pause", "posts"], ["pause", "none"], ["resume", "posts"], ["errors", "posts", "--retry"], ["errors", "none"]):
        player.command("mirror", *words, *ns)
    caught_up()
    player.command("log", "verify", *ns)
    player.command("replay", "mirror", "posts", "--dry-run", *ns)
    player.command("replay", "mirror", "posts", *ns)
    player.command("replay", "mirror", "posts", "--from", "2", *ns)
    player.command("mirror", "drop", "posts", *ns)
    player.command("mirror", "drop", "posts", *ns)
    player.command("mirror", "ls", *ns)


def play_commands_tokens(player):
    secret = player.directory / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    for options in (["--uid", "ada", "--secret-file", secret], ["--uid", "ada", "--claims", '{"a":[1]}', "--admin", "--data-only", "--secret-file", secret, "--expires-in", "7d"],
                    ["--uid", "ada", "--unsigned"], ["--admin", "--secret-file", secret, "--json"]):
        token = player.quiet_command("token", "mint", *options)
        text = json.loads(token)["token"] if "--json" in options else token.strip()
        player.names.learn(text, player.names.number("minted"))
        player.transcript.came("out", token.encode())
        player.command("token", "inspect", text, source=False)
        player.command("token", "inspect", text, "--json", source=False)
        player.command("token", "inspect", "-", "--secret-file", secret, source=False, stdin=text.encode())
    for options in (["--uid", "x" * 2000, "--secret-file", secret], ["--uid", "a", "--claims", "[]", "--secret-file", secret], ["--uid", "a", "--secret-file", "/nonexistent"],
                    ["--uid", "a", "--expires-in", "x", "--secret-file", secret], ["--secret-file", secret]):
        player.command("token", "mint", *options, source=False)
    open_secret = player.directory / "open"
    open_secret.write_text("short\n")
    player.command("token", "mint", "--uid", "a", "--secret-file", open_secret, source=False)


def play_commands_sql(player):
    """The functions and views for reports, and the gateway's events for writes by SQL."""
    name = _entries(player)
    stream = player.events("stream", "/users.json")
    stream.expect()
    for query in (
            "select pathmirror.get(%s, '/users')", "select pathmirror.get_json(%s, '/odd')::text", "select pathmirror.get(%s, '/none')", "select pathmirror.get(%s, '/bad.path')",
            "select pathmirror.set(%s, '/users/cy', '{\"name\": \"Cy\", \"tags\": [\"a\", null], \"e\": {}}')", "select pathmirror.update(%s, '/', '{\"users/cy/name\": null, \"users/x\": {\".value\": 1, \".priority\": 2}}')",
            "select pathmirror.set(%s, '/users/cy/stars', '{\".sv\": {\"increment\": 2}}')", "select pathmirror.remove(%s, '/users/cy/tags')", "select pathmirror.set(%s, '/users/cy', null)",
            "select pathmirror.set(%s, '/a.b', '1')", "select pathmirror.update(%s, '/', '{\"a\": 1, \"a/b\": 2}')", "select pathmirror.set(%s, '/users/t', '{\".sv\": \"other\"}')",
            "select pathmirror.set(%s || 'x', '/a', '1')", "select pathmirror.wait_for(%s, 3)", "select head, retained_from, shared_to from pathmirror.namespace where name = %s",
            "select path, rest, value::text, version from pathmirror.node where namespace_id = (select id from pathmirror.namespace where name = %s) order by path",
            "select l.seq, op, path, changes::text, parts, origin::text from pathmirror.log l join pathmirror.namespace n on n.id = l.namespace_id where n.name = %s order by seq",
            "select seq, part, step, path, value::text from pathmirror.log_change where namespace = %s order by seq, part, step, path"):
        player.sql(query, name)
    while (events := stream.expect()) and b"tags" not in events[-1].partition(b'"path"')[2][:20]:
        pass
    player.sql("select table_name, column_name, data_type, is_nullable from information_schema.columns where table_schema = 'pathmirror' and table_name !~ '_[0-9]+(_[0-9]+)?$' "
               "order by table_name, ordinal_position")
    player.sql("select p.proname, pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'pathmirror' order by 1, 2")
    player.sql("select grantee, table_name, privilege_type from information_schema.role_table_grants where table_schema = 'pathmirror' and grantee like 'pathmirror%%' "
               "and table_name !~ '_[0-9]+(_[0-9]+)?$' order by 1, 2, 3")
    player.command("migrate", "status")
    player.command("migrate", "status", "--json")
    player.command("migrate", "up")


def play_commands_tail(player):
    """Output that follows the log while others write."""
    name = _entries(player)
    tail = player.program("log", "tail", "--from", "1", "--ns", name)
    objects_tail = player.program("log", "tail", "--json", "--path", "/users", "--ns", name, "--from", "1")
    for program in (tail, objects_tail):
        program.wait_for_output(r"users")
    web = player.http()
    web.ask("PUT", "/users/tail.json", '"the end"')
    for program in (tail, objects_tail):
        program.wait_for_output(r"the end")
        status = program.stop(2)
        player.transcript.came(program.name, program.stdout().encode())
        player.transcript.came(f"{program.name} err", program.stderr().encode())
        player.transcript.event(program.name, f"exit {status}")


def play_gateway_output(player):
    """The output and log lines of gateways, from their start to their end."""
    secret = player.directory / "open-secret"
    secret.write_text("another-administrator-secret-0123456789\n")
    secret.chmod(0o644)
    loud = player.serve("--log-level", "debug", "--database-secret-file", f"default={secret}", name="loud", own_database=True)
    web = player.http(gateway=loud, host="127.0.0.1")
    web.ask("PUT", "/a.json", "1")
    web.ask("GET", "/a.json")
    web.ask("PUT", "/a.json?auth=wrong", "1")
    web.close()
    loud.stop()
    player.output(loud)
    for options in (["--rules", "/nonexistent"], ["--strict-secrets", "--admin-secret-file", secret], ["--tls-certificate", "/nonexistent"]):
        player.command("serve", "--listen", "127.0.0.1:0", *options)
    empty = player.database("empty database")
    for words in (["migrate", "status"], ["serve", "--listen", "127.0.0.1:0", "--no-migrate"], ["log", "ls"], ["migrate", "up"], ["log", "ls"], ["log", "verify"]):
        player.command(*words, "--database-url", empty, source=False)
    broken = player.directory / "rules.json"
    broken.write_text('{"rules": {".read": "x"}}')
    player.command("serve", "--listen", "127.0.0.1:0", "--rules", broken)


def play_gateway_dev(player):
    """`pathmirror dev`: open to this machine, its pages, its credentials."""
    data = player.directory / "first.json"
    data.write_text('{"imported":{"x":[1,2]}}')
    dev = player.dev("--import", data, "--allow-origin", "https://app.example")
    web = player.http(gateway=dev, host="127.0.0.1")
    unsigned_token = unsigned({"sub": "u1", "iat": 0, "exp": 4102444800, "user_id": "u1"})
    web.ask("GET", "/.json")
    for headers in ({}, {"Origin": "http://localhost:3000"}, {"Origin": "https://app.example"}, {"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Host": "app.example"},
                    {"Authorization": "Bearer owner"}, {"Authorization": f"Bearer {unsigned_token}"}, {"Authorization": "Bearer wrong"}, {"X-Forwarded-For": "203.0.113.1", "Authorization": "Bearer owner"},
                    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}):
        web.ask("PUT", "/a.json", "1", headers)
        web.ask("GET", "/.settings/rules.json", None, headers)
        web.ask("OPTIONS", "/a.json", None, {**headers, "Access-Control-Request-Method": "PUT"})
    web.ask("PUT", "/.settings/rules.json", '{"rules":{"$uid":{".read":"auth.uid === $uid",".write":true}}}', {"Authorization": "Bearer owner"})
    web.ask("GET", f"/u1.json?auth={unsigned_token}")
    web.ask("GET", "/u1.json")
    client = player.realtime("ws", gateway=dev, host="127.0.0.1")
    for action, body in (("auth", {"cred": "owner"}), ("g", {"p": "u1", "q": {}}), ("auth", {"cred": unsigned_token}), ("g", {"p": "u1", "q": {}}), ("g", {"p": "u2", "q": {}})):
        client.call(action, body)
    client.leave()
    player.command("log", "ls", "--data", player.directory / "data", source=False)
    dev.stop()
    player.output(dev)
    player.command("log", "ls", "--data", player.directory / "data", source=False)


