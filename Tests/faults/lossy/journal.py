"""Reads the journal of lossy.c: every change of a file, with the former contents, in order."""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"LoSsY\x01\xfe\n"
WRITE, RESIZE, SYNC, CREATE, RENAME, UNLINK, LINK, MKDIR, RMDIR, SYMLINK = range(1, 11)
_HEAD = struct.Struct("<8sIIQQQQQII")


@dataclass(frozen=True)
class Record:
    """One change. `start` is its offset in the journal, `old` the former contents."""

    start: int
    kind: int
    inode: int
    offset: int
    length: int
    before: int
    old: bytes
    first: str
    second: str


def records(path: Path):
    """All complete records. One that a killed process left half written is skipped: its change stays."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        at, end = 0, len(text)
        while 0 <= at <= end - _HEAD.size:
            found = _read(text, at, end)
            if found is None:
                at = text.find(MAGIC, at + 1)
                continue
            record, at = found
            yield record


def _read(text: mmap.mmap, at: int, end: int):
    magic, kind, check, inode, offset, length, before, payload, first, second = _HEAD.unpack_from(text, at)
    low = 0xFFFFFFFF
    wanted = kind ^ (inode & low) ^ (offset & low) ^ (length & low) ^ (before & low) ^ (payload & low) ^ first ^ second
    data = at + _HEAD.size
    after = data + payload + first + second
    if magic != MAGIC or check != wanted or after > end:
        return None
    if after != end and text[after:after + len(MAGIC)] != MAGIC:
        return None
    names = text[data + payload:after]
    return Record(at, kind, inode, offset, length, before, text[data:data + payload], names[:first].decode(),
                  names[first:].decode()), after


@dataclass
class Revocable:
    """The changes without a later fsync: by file its writes and truncations in order, and the changes of directories."""

    files: dict[int, list[Record]]
    names: list[Record]
    records: int
    syncs: int


def revocable(path: Path) -> Revocable:
    """An fsync makes durable all earlier changes of its file, and, as in journalling file systems, all earlier changes of directories."""
    files: dict[int, list[Record]] = {}
    names: list[Record] = []
    count = syncs = 0
    for record in records(path):
        count += 1
        if record.kind == SYNC:
            syncs += 1
            inodes = list(files) if record.length else [record.inode]
            for inode in inodes:
                left = [change for change in files.get(inode, []) if change.start >= record.offset]
                if left:
                    files[inode] = left
                else:
                    files.pop(inode, None)
            names = [change for change in names if change.start >= record.offset]
        elif record.kind in (WRITE, RESIZE):
            files.setdefault(record.inode, []).append(record)
        else:
            names.append(record)
    return Revocable(files, names, count, syncs)
