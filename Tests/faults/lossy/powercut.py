"""Cuts the power: reverts a part of the changes without an fsync. No program may use the files meanwhile."""

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from .journal import CREATE, LINK, MKDIR, RENAME, RESIZE, RMDIR, SYMLINK, UNLINK, WRITE, Record, revocable

SECTOR = 512
# The changes without an fsync that the disk keeps: none; all; all until some time; for each sector, those until some time.
MANNERS = ("nothing", "until", "sectors", "sectors", "pages", "all")


@dataclass
class Loss:
    """The losses of a power cut."""

    manner: str
    records: int
    syncs: int
    open_writes: int
    taken_back: int
    names: int

    def __str__(self):
        return (f"kept {self.manner}: {self.taken_back} of {self.open_writes} unsynced writes and {self.names} changes of names "
                f"taken back ({self.records} changes, {self.syncs} fsyncs noted)")


def cut(root: Path, journal: Path, dice: random.Random, manner: str | None = None) -> Loss:
    """Changes the files below `root` to a state that a disk could have after a power cut now, and empties the journal."""
    manner = manner or dice.choice(MANNERS)
    left = revocable(journal / "journal")
    places = _places(root, journal / "grave")
    starts = [change.start for changes in left.files.values() for change in changes] + [change.start for change in left.names]
    first, last = min(starts, default=0), max(starts, default=0)
    moment = {"nothing": -1, "all": last + 1}.get(manner, dice.randint(first, last + 1))
    loss = Loss(manner, left.records, left.syncs, sum(map(len, left.files.values())), 0, 0)
    for inode in sorted(left.files):
        if inode not in places:
            continue
        changes = left.files[inode]
        with open(places[inode], "r+b") as file:
            if manner in ("sectors", "pages") and all(change.kind == WRITE for change in changes):
                loss.taken_back += _by_sectors(file, changes, dice, SECTOR if manner == "sectors" else 4096)
            else:
                kept = dice.randint(0, len(changes)) if manner in ("sectors", "pages") else None
                back = [change for number, change in enumerate(changes)
                        if (number >= kept if kept is not None else change.start >= moment)]
                for change in reversed(back):
                    _take_back(file, change)
                loss.taken_back += len(back)
    if manner in ("sectors", "pages"):
        back = left.names[dice.randint(0, len(left.names)):]
    else:
        back = [change for change in left.names if change.start >= moment]
    for change in reversed(back):
        _take_name_back(change, journal / "grave")
    loss.names = len(back)
    forget(journal)
    return loss


def forget(journal: Path):
    """Empties the journal, so that the current state is durable."""
    os.truncate(journal / "journal", 0) if (journal / "journal").exists() else None
    for entry in (journal / "grave").iterdir():
        entry.unlink()


def _places(root: Path, grave: Path) -> dict[int, str]:
    found = {}
    for top in (grave, root):
        for folder, _, files in os.walk(top):
            for name in files:
                path = os.path.join(folder, name)
                found[os.lstat(path).st_ino] = path
    return found


def _take_back(file, change: Record):
    """Undoes a whole change, after all later ones of the file."""
    if change.kind == RESIZE:
        os.ftruncate(file.fileno(), change.before)
        os.pwrite(file.fileno(), change.old, change.offset)
        return
    os.pwrite(file.fileno(), change.old, change.offset)
    if change.before < change.offset + change.length:
        os.ftruncate(file.fileno(), change.before)


def _by_sectors(file, changes: list[Record], dice: random.Random, unit: int) -> int:
    """Gives each sector its contents before one of the writes, or the current ones, independent of other sectors."""
    sectors: dict[int, list[tuple[Record, int, int]]] = {}
    for change in changes:
        at, end = change.offset, change.offset + change.length
        while at < end:
            stop = min(end, (at // unit + 1) * unit)
            sectors.setdefault(at // unit, []).append((change, at, stop))
            at = stop
    size, durable = os.fstat(file.fileno()).st_size, changes[0].before
    reached, touched = durable, set()
    for number in sorted(sectors):
        pieces = sectors[number]
        kept = dice.randint(0, len(pieces))
        for change, at, stop in reversed(pieces[kept:]):
            old = change.old[at - change.offset:stop - change.offset]
            # The file had no data after its former end: zeros, if the file stays this long.
            os.pwrite(file.fileno(), old.ljust(stop - at, b"\0"), at)
            touched.add(change.start)
        if kept:
            reached = max(reached, *(stop for _, _, stop in pieces[:kept]))
    os.ftruncate(file.fileno(), min(size, max(reached, durable)))
    return len(touched)


def _take_name_back(change: Record, grave: Path):
    first = Path(change.first)
    if change.kind in (CREATE, LINK, SYMLINK):
        first.unlink(missing_ok=True)
    elif change.kind == RENAME:
        new, _, buried = change.second.partition("\n")
        os.rename(new, first)
        if buried:
            os.link(grave / buried, new)
    elif change.kind == UNLINK:
        if change.second:
            os.link(grave / change.second, first)
    elif change.kind == MKDIR:
        shutil.rmtree(first, ignore_errors=True)
    elif change.kind == RMDIR:
        first.mkdir(exist_ok=True)
