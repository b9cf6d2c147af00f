"""Import and export of a million leaves, and loading them after a start, against psql's \\copy of the same rows."""

import json
import time

from harness.context import Context
from harness.dataset import dataset
from harness.gateway import Gateway
from harness.load import FOLDER, Wrong
from harness.report import typical

NAME = "import"
TITLE = "Import, export, load"
TEXT = """A JSON export of a million leaves is imported into a namespace and exported from it.
The gateway then loads it into memory, by the first GET of the namespace after a restart.
`\\copy` transfers the same leaf rows: into a table with their primary key, out of that table, and out of it in the order of the paths.
An export has that order, too.
`\\copy` has no JSON document, no log and no tree."""


def run(context: Context):
    context.progress("making the data (once)")
    data = dataset(context.pick(1_000_000, 200_000))
    found: dict[str, list[float]] = {name: [] for name in ("import", "export", "load", "in", "out", "ordered")}

    def note(name: str, work):
        found[name].append(timed(gateway, context, work))

    with Gateway() as gateway:
        exported, rows = gateway.root / "export.json", gateway.root / "rows"
        for number in context.rounds(3, 2, until=75):
            context.progress(f"round {number + 1}")
            # The gateway has not loaded an unused namespace, so the import is alone.
            namespace = f"import{number}"
            note("import", lambda: imported(gateway, data, namespace))
            gateway.sql((FOLDER / "pgbench" / "schema.sql").read_text())
            note("in", lambda: gateway.sql(
                "alter table pathmirror_bench.node alter namespace_id set default 1, alter version set default 1;\n"
                f"\\copy pathmirror_bench.node (path, value) from '{data.rows}'"))
            note("export", lambda: gateway.command("export", "--ns", namespace, "--output", exported))
            note("out", lambda: gateway.sql(f"\\copy pathmirror_bench.node (path, value) to '{rows}'"))
            note("ordered", lambda: gateway.sql(
                f"\\copy (select path, value from pathmirror_bench.node where namespace_id = 1 order by path) to '{rows}'"))
            gateway.restart()
            note("load", lambda: gateway.request("GET", f"/.json?shallow=true&ns={namespace}"))
        gateway.sql("set client_min_messages = warning; drop schema pathmirror_bench cascade")
        if json.loads(exported.read_bytes()) != json.loads(data.export.read_bytes()):
            raise Wrong("the export differs from the import")

    def against(text: str, other: str, name: str, **options):
        context.measure(text, [theirs / ours for theirs, ours in zip(found[other], found[name])],
                        absolute=f"{typical(found[other])} against {typical(found[name])} s", **options)

    against(f"\\copy's time into a table / import's time, {data.leaves:,} leaves", "in", "import", aim=0.6)
    against("\\copy's time out of the table, ordered / export's time", "ordered", "export", aim=0.8)
    against("  in any order", "out", "export")
    against("  \\copy's time into the table / export's time", "in", "export")
    against("\\copy's time out of the table, ordered / time of the first GET after a start, which loads the tree", "ordered", "load", aim=0.8)
    against("  \\copy's time into the table / that time", "in", "load")
    context.note("the export equals the imported data")


def timed(gateway: Gateway, context: Context, work) -> float:
    gateway.checkpoint()
    context.quiet.wait()
    start = time.monotonic()
    work()
    return time.monotonic() - start


def imported(gateway: Gateway, data, namespace: str):
    result = json.loads(gateway.command("import", data.export, "--ns", namespace, "--json"))
    if result["rows"] != data.leaves:
        raise Wrong(f"{result['rows']} of {data.leaves} leaves were imported")
