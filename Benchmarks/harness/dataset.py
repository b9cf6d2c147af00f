"""A million leaves of made-up records: as a JSON export, and as the same rows for psql. Made once, kept in the
directory for temporary files."""

import json
import os
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

LEAVES_A_RECORD = 8
_VERSION = 1
_FIRST = ["Ada", "Grace", "Edsger", "Barbara", "Tony", "Zoë", "Łukasz", "Niklaus", "Radia", "Ken"]
_LAST = ["Lovelace", "Hopper", "Dijkstra", "Liskov", "Hoare", "Wirth", "Perlman", "Thompson", "Nuñez", "Kay"]
_PUSH = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Dataset:
    leaves: int
    # A JSON export.
    export: Path
    # Rows for \copy: path and value, tab between them.
    rows: Path


def dataset(leaves: int) -> Dataset:
    """The data set with that many leaves, rounded down to whole records."""
    records = leaves // LEAVES_A_RECORD
    user = os.getuid()
    folder = Path(tempfile.gettempdir()) / f"pathmirror-bench-cache-{user}"
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.lstat().st_uid != user:
        raise PermissionError(f"{folder} belongs to another user")
    name = f"v{_VERSION}-{records}"
    made = Dataset(records * LEAVES_A_RECORD, folder / f"{name}.json", folder / f"{name}.tsv")
    if not (made.export.exists() and made.rows.exists()):
        _make(records, made)
    return made


def _push_id(number: int, rng: random.Random) -> str:
    stamp, text = 1_700_000_000_000 + number * 137, ""
    for _ in range(8):
        text = _PUSH[stamp % 64] + text
        stamp //= 64
    return text + "".join(rng.choices(_PUSH, k=12))


def _record(number: int, rng: random.Random) -> dict:
    first, last = rng.choice(_FIRST), rng.choice(_LAST)
    return {
        "active": rng.random() < 0.8,
        "address": {"city": f"City {rng.randrange(5000)}", "street": f"{rng.randrange(1, 300)} {last} Street"},
        "age": rng.randrange(18, 95),
        "balance": round(rng.uniform(-500, 20_000), 2),
        "createdAt": 1_700_000_000_000 + number * 137,
        "email": f"{last.lower()}.{number}@example.com",
        "name": f"{first} {last}",
    }


def _make(records: int, made: Dataset):
    rng = random.Random(records)
    export, rows = made.export.with_suffix(f".json.{os.getpid()}"), made.rows.with_suffix(f".tsv.{os.getpid()}")
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    with open(export, "w", encoding="utf-8") as tree, open(rows, "w", encoding="utf-8") as table:
        tree.write('{"users":{')
        for number in range(records):
            key, record = _push_id(number, rng), _record(number, rng)
            tree.write(("," if number else "") + f'"{key}":{encode(record)}')
            for name, value in record.items():
                leaves = [(f"/{k}", v) for k, v in value.items()] if isinstance(value, dict) else [("", value)]
                for below, leaf in leaves:
                    table.write(f"/users/{key}/{name}{below}\t{encode(leaf)}\n")
        tree.write("}}")
    # Written whole or not at all, also when two runs begin at once.
    export.replace(made.export)
    rows.replace(made.rows)
