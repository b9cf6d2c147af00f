"""Import and export: real data, gzip, priorities, atomicity, chunks with a restart."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest
from harness import cli, sql
from harness.binary import pathmirror
from harness.gateway import start_dev
from harness.process import Process
from harness.rest import ordered
from harness.sse import Listener
from harness.waiting import wait_until
from oracle.generate import Trees
from oracle.tree import normal
from vega_datasets import local_data

ISO = Path("/usr/share/iso-codes/json")


def write_json(path: Path, value) -> Path:
    path.write_text(json.dumps(value, ensure_ascii=False))
    return path


@pytest.mark.parametrize("name", sorted(path.name for path in ISO.glob("iso_*.json")))
def test_iso_code_lists(serve, database_url, scratch, name):
    """Debian's lists of languages, countries, currencies and scripts, unchanged."""
    value = json.loads((ISO / name).read_text())
    rest = serve().unique()
    cli.succeeds("import", ISO / name, "--path", f"/{rest.base}", "--database-url", database_url)
    wait_until(lambda: rest.value(shallow="true"), "the gateway to see the import")
    assert normal(rest.value()) == normal(value)
    out = scratch / "out.json"
    cli.succeeds("export", "--path", f"/{rest.base}", "-o", out, "--database-url", database_url)
    assert normal(json.loads(out.read_text())) == normal(value)
    cli.verify("--database-url", database_url)


def test_the_cars_of_vega(serve, database_url):
    cars = json.loads(Path(local_data.cars.filepath).read_text())
    rules = {"rules": {".read": True, ".write": True, "$set": {".indexOn": ["Horsepower", "Origin"]}}}
    rest = serve(rules=rules).unique()
    cli.succeeds("import", local_data.cars.filepath, "--path", f"/{rest.base}", "--database-url", database_url)
    wait_until(lambda: rest.value(shallow="true"), "the gateway to see the import")
    assert normal(rest.value()) == normal(cars)
    strong = rest.value(format="export", **ordered(orderBy="Horsepower", startAt=200))
    assert sorted(car["Name"] for car in strong.values()) == sorted(car["Name"] for car in cars if (car["Horsepower"] or 0) >= 200)
    europe = rest.value(format="export", **ordered(orderBy="Origin", equalTo="Europe"))
    assert len(europe) == sum(car["Origin"] == "Europe" for car in cars)
    unindexed = rest.get(**ordered(orderBy="Name", limitToFirst=1))
    assert unindexed.status == 400
    assert unindexed.error == f'Index not defined, add ".indexOn": "Name", for path "/{rest.base}", to the rules'


def test_from_standard_input_to_standard_output(serve, database_url):
    rest = serve().unique()
    cli.succeeds("import", "-", "--path", f"/{rest.base}/in", "--database-url", database_url, stdin=b'{"a":[1,2,{"b":true}]}')
    text = cli.succeeds("export", "--path", f"/{rest.base}", "--database-url", database_url)
    assert normal(json.loads(text)) == normal({"in": {"a": [1, 2, {"b": True}]}})


def test_gzipped_files_are_read_as_they_are(serve, database_url, scratch):
    rest = serve().unique()
    packed = scratch / "packed.json.gz"
    packed.write_bytes(gzip.compress((ISO / "iso_4217.json").read_bytes()))
    cli.succeeds("import", packed, "--path", f"/{rest.base}", "--database-url", database_url)
    text = cli.succeeds("export", "--path", f"/{rest.base}", "--database-url", database_url)
    assert normal(json.loads(text)) == normal(json.loads((ISO / "iso_4217.json").read_text()))


@pytest.mark.parametrize("seed", range(3))
def test_priorities_and_odd_values_survive(serve, database_url, scratch, seed):
    trees = Trees(7000 + seed)
    value = {f"k{number}": trees.prioritised(4, 6) for number in range(40)}
    rest = serve().unique()
    first, second = write_json(scratch / "1.json", value), scratch / "2.json"
    cli.succeeds("import", first, "--path", f"/{rest.base}/a", "--database-url", database_url)
    cli.succeeds("export", "--path", f"/{rest.base}/a", "-o", second, "--database-url", database_url)
    assert json.loads(second.read_text()) == value, f"seed {trees.seed}"
    cli.succeeds("import", second, "--path", f"/{rest.base}/b", "--database-url", database_url)
    third = cli.succeeds("export", "--path", f"/{rest.base}/b", "--database-url", database_url)
    assert json.loads(third) == value
    wait_until(lambda: rest.value("b", shallow="true"), "the gateway to see the import")
    assert rest.value("b", format="export") == value
    cli.verify("--database-url", database_url)


def test_the_whole_namespace_round_trips(serve, database_url, postgres, scratch):
    rest = serve().unique()
    rest.set(value={"a": {".value": 1, ".priority": 2}, "b": ["x", "\0"]})
    cli.succeeds("export", "-o", scratch / "all.json", "--database-url", database_url)
    other = postgres.create_database()
    gateway = serve(url=other)
    cli.succeeds("import", scratch / "all.json", "--database-url", other)
    wait_until(lambda: gateway.rest.value(rest.base), "the gateway to see the import")
    assert gateway.rest.value(rest.base, format="export") == rest.value(format="export")


def test_an_import_replaces_what_was_there(serve, database_url, scratch):
    rest = serve().unique()
    rest.set(value={"old": 1, "beside": 2})
    cli.succeeds("import", write_json(scratch / "x.json", {"new": 1}), "--path", f"/{rest.base}", "--database-url", database_url)
    wait_until(lambda: rest.value() == {"new": 1}, "the gateway to see the import")


def test_an_import_is_one_entry_for_listeners(serve, database_url, scratch):
    rest = serve().unique()
    value = {f"k{number}": {"n": number} for number in range(3000)}
    with Listener(rest) as listener:
        listener.next()
        head = sql.head(database_url)
        cli.succeeds("import", write_json(scratch / "x.json", value), "--path", f"/{rest.base}", "--database-url", database_url)
        event = listener.next()
        assert event.change == ("put", "/", value)
        assert sql.head(database_url) == event.id == head + 1


@pytest.mark.parametrize("text", [
    b"", b'{"a":1', b'{"a":1}}', b'{"a.b":1}', b'{"a":"\xff"}', b'{"a":1e999}', b'{"a":' * 40 + b"1" + b"}" * 40])
@pytest.mark.parametrize("options", [[], ["--chunked"]])
def test_a_bad_file_is_explained_and_changes_nothing(serve, database_url, scratch, text, options):
    rest = serve().unique()
    rest.set(value="kept")
    path = scratch / "bad.json"
    path.write_bytes(text)
    finished = cli.command("import", path, "--path", f"/{rest.base}", "--database-url", database_url, *options)
    assert finished.returncode == 1
    assert finished.stderr.strip() and "bad.json" in finished.stderr
    if not options:
        assert rest.value() == "kept"
    cli.verify("--database-url", database_url)


def test_a_missing_file_and_wrong_usage(database_url):
    cli.succeeds("migrate", "up", "--database-url", database_url)
    missing = cli.command("import", "/nowhere/file.json", "--database-url", database_url)
    assert missing.returncode == 1 and "/nowhere/file.json" in missing.stderr
    assert cli.command("import", "--database-url", database_url).returncode == 2
    assert cli.command("import", "-", "--path", "/a.b/[", "--database-url", database_url, stdin=b"1").returncode in (1, 2)


def test_export_of_nothing_is_null(serve, database_url):
    serve()
    assert json.loads(cli.succeeds("export", "--path", "/nothing", "--database-url", database_url)) is None


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """About 40 MB in 150,000 records (PATHMIRROR_E2E_LARGE of them)."""
    count = int(os.environ.get("PATHMIRROR_E2E_LARGE", "150000"))
    path = tmp_path_factory.mktemp("large") / "large.json"
    with open(path, "w") as file:
        file.write("{")
        for number in range(count):
            file.write(f'{"," if number else ""}"r{number:07d}":{{"n":{number},"text":"{"x" * 230}"}}')
        file.write("}")
    return path, count


def test_an_interrupted_import_leaves_nothing(serve, database_url, large, logs):
    """An import is atomic by default: if it is killed half way, no value is visible."""
    path, _ = large
    rest = serve().unique()
    rest.set(value="kept")
    importer = Process([pathmirror(), "import", path, "--path", f"/{rest.base}", "--database-url", database_url], "import", logs)
    wait_until(lambda: not importer.running or busy(database_url), "the import to send rows", 60, 0.005)
    importer.kill()
    if importer.child.returncode != 0:
        assert rest.value() == "kept"
    cli.verify("--database-url", database_url)


def busy(url: str) -> bool:
    """Whether a session copies rows now."""
    return sql.rows(url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' "
                    "AND query ILIKE 'copy%%'")[0][0] > 0


def test_chunks_restart_where_they_stopped(serve, database_url, large, logs):
    path, count = large
    gateway = serve()
    rest = gateway.unique()
    arguments = ["import", path, "--path", f"/{rest.base}", "--chunked", "--chunk-rows", "20000",
                 "--database-url", database_url]
    begin = sql.head(database_url)
    importer = Process([pathmirror(), *arguments], "import-chunked", logs)
    wait_until(lambda: not importer.running or sql.head(database_url) > begin + 1, "two chunks", 60, 0.005)
    assert importer.running, "the import was over before it could be killed: raise PATHMIRROR_E2E_LARGE"
    importer.kill()
    interrupted = sql.head(database_url)
    cli.succeeds(*arguments, patience=300)
    resumed = sql.head(database_url) - interrupted
    whole = gateway.unique()
    before = sql.head(database_url)
    cli.succeeds("import", path, "--path", f"/{whole.base}", *arguments[4:], patience=300)
    chunks = sql.head(database_url) - before
    assert resumed < chunks, f"{resumed} chunks after the restart of {chunks}: it started again"
    wait_until(lambda: rest.value(f"r{count - 1:07d}/n") == count - 1, "the gateway to see the import", 60)
    assert len(rest.value(shallow="true")) == count
    assert rest.value("r0000000") == {"n": 0, "text": "x" * 230}


def test_memory_of_import_and_export_is_bounded(serve, database_url, large, logs, scratch):
    path, _ = large
    serve()
    for words in (["import", path, "--path", "/big"], ["export", "--path", "/big", "-o", scratch / "big.json"]):
        program = Process([pathmirror(), *words, "--database-url", database_url], words[0], logs)
        peak = 0
        while program.running:
            try:
                status = Path(f"/proc/{program.pid}/status").read_text()
                peak = max(peak, int(status.partition("VmHWM:")[2].split()[0]) if "VmHWM" in status else 0)
            except (FileNotFoundError, ProcessLookupError):
                break
        assert program.wait(300) == 0, program.tail()
        # Kilobytes: the file alone has 40 MB.
        assert peak < 120_000, f"{words[0]}: {peak / 1000:.0f} MB"
    assert os.path.getsize(scratch / "big.json") > 0.9 * os.path.getsize(path)


def test_dev_imports_at_the_start(scratch, logs):
    gateway = start_dev(scratch / "data", logs, None, "--import", ISO / "iso_3166-1.json")
    try:
        countries = gateway.rest.value("3166-1")
        assert normal(countries) == normal(json.loads((ISO / "iso_3166-1.json").read_text())["3166-1"])
    finally:
        gateway.stop()


@pytest.mark.parametrize("text, said", [
    ("", "is empty"), (" \n\t ", "nothing but white space"), ("null", "holds no data"), ('{"a":{".sv":"timestamp"}}', "a server value (.sv)"),
    ('{"a":1,', "ends too early"), ('{"a":1,"b":oops}', "unexpected"), ('{"a":' + "[" * 40, "levels deep")])
@pytest.mark.parametrize("more", [[], ["--chunked", "--chunk-rows", "100"]])
def test_a_refused_import_leaves_nothing(serve, database_url, scratch, text, said, more):
    serve()
    before = sql.rows(database_url, "SELECT name FROM pathmirror.namespace")
    (scratch / "bad.json").write_text(text)
    finished = cli.command("import", scratch / "bad.json", "--ns", "new", *more, "--database-url", database_url)
    assert finished.returncode == 1 and said in finished.stderr, finished.stderr
    assert "contains" not in finished.stderr
    assert sql.rows(database_url, "SELECT name FROM pathmirror.namespace") == before
    for table in ("log", "log_part", "node", "import_progress"):
        assert sql.rows(database_url, f"SELECT count(*) FROM pathmirror.{table}") == [(0,)], table


def test_a_killed_import_leaves_nothing(serve, database_url):
    """The killed import had already sent 8 MB of rows."""
    serve()
    child = subprocess.Popen([pathmirror(), "import", "-", "--ns", "new", "--database-url", database_url],
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        child.stdin.write(b'{"a":1' + b"".join(b',"k%d":"%s"' % (number, b"x" * 1000) for number in range(8_000)))
        child.stdin.flush()
        wait_until(lambda: sql.rows(database_url, "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
                                    "AND application_name = 'pathmirror import' AND state = 'idle in transaction'"), "the import's transaction")
    finally:
        child.kill()
        child.wait()
    wait_until(lambda: not sql.rows(database_url, "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
                                    "AND application_name = 'pathmirror import'"), "its session to end")
    assert sql.rows(database_url, "SELECT 1 FROM pathmirror.namespace WHERE name = 'new'") == []
    assert sql.rows(database_url, "SELECT count(*) FROM pathmirror.node") == [(0,)]
    cli.succeeds("import", "-", "--ns", "new", "--database-url", database_url, stdin=b'{"a":1}')
    cli.verify("--ns", "new", "--database-url", database_url)
