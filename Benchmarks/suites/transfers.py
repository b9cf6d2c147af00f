"""Import of a million leaves against psql's \\copy of the same rows; export."""

import json
import time

from harness.context import Context
from harness.dataset import dataset
from harness.gateway import Gateway
from harness.load import FOLDER, Wrong
from harness.report import typical

NAME = "import"


def run(context: Context):
    context.progress("making the data (once)")
    data = dataset(context.pick(1_000_000, 200_000))
    imports, copies, exports = [], [], []
    with Gateway() as gateway:
        for number in context.rounds(3, 2, until=60):
            context.progress(f"round {number + 1}")
            # A namespace that nobody has asked for is not in the gateway's memory, so the import is alone.
            namespace = f"import{number}"
            imports.append(timed(gateway, context, lambda: imported(gateway, data, namespace)))
            gateway.sql((FOLDER / "pgbench" / "schema.sql").read_text())
            copies.append(timed(gateway, context, lambda: gateway.sql(
                "alter table pathmirror_bench.node alter namespace_id set default 1, alter version set default 1;\n"
                f"\\copy pathmirror_bench.node (path, value) from '{data.rows}'")))
            exported = gateway.root / "export.json"
            exports.append(timed(gateway, context, lambda: gateway.command(
                "export", "--ns", namespace, "--output", exported)))
        gateway.sql("set client_min_messages = warning; drop schema pathmirror_bench cascade")
        if json.loads(exported.read_bytes()) != json.loads(data.export.read_bytes()):
            raise Wrong("the export is not what was imported")
    context.measure(f"\\copy's time / import's time, {data.leaves:,} leaves", [c / i for c, i in zip(copies, imports)],
                    aim=0.33, absolute=f"{typical(copies)} against {typical(imports)} s")
    context.measure("\\copy's time / export's time", [c / e for c, e in zip(copies, exports)],
                    absolute=f"{typical(copies)} against {typical(exports)} s")
    context.note("\\copy writes the leaf rows with their primary key and no log; the import parses JSON and writes the "
                 "leaf rows and the log; export gave back what was imported")


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
