"""Which records rightly have no row, as another row has the values that a unique index allows once; which of them has the row is open."""


def refused(definition: dict, wanted: dict, found) -> set:
    """Keys of records that make a row and have none.

    `wanted` has the columns' values by keys, `found` the keys of the rows that are there. Fails where a record has no row and no
    other row has its values, and where two rows have the same."""
    indexes = [index["columns"] for index in definition.get("indexes", []) if isinstance(index, dict) and index.get("unique")]
    parts = [part.strip("{}") for part in definition["path"].split("/") if part.startswith("{")]

    def values(keys, columns):
        cells = {**dict(zip(parts, keys)), **wanted[keys]}
        picked = tuple(cells[name] for name in columns)
        return None if None in picked else picked

    missing = wanted.keys() - found if indexes else set()
    for columns in indexes:
        held = [values(keys, columns) for keys in wanted.keys() & found]
        held = [picked for picked in held if picked is not None]
        assert len(held) == len(set(held)), f"two rows have the same {columns}"
    held = [{values(keys, columns) for keys in wanted.keys() & found} - {None} for columns in indexes]
    for keys in missing:
        assert any(values(keys, columns) in values_held for columns, values_held in zip(indexes, held)), \
            f"no row {keys}, and no other row has its values"
    return missing


def record(definition: dict, keys) -> str:
    """The path of the record with these keys."""
    left = list(keys)
    return "/".join(str(left.pop(0)) if part.startswith("{") else part for part in definition["path"].split("/"))
