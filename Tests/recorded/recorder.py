"""Plays fixed sessions against a pathmirror binary and records every byte; compares the recordings of two binaries.

    recorder.py record BINARY DIRECTORY     one transcript a play
    recorder.py compare OLD NEW             exits 1 and shows the difference if there is one;
                                            each is a binary, or a directory of `record`
    recorder.py list                        the plays

`--only NAME` (repeated) plays these alone.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "e2e")]

from comparison import SUFFIX, differences, transcripts  # noqa: E402
from plays import PLAYS  # noqa: E402
from stage import Stage, play  # noqa: E402


def record(binary: Path, directory: Path, only: list[str]):
    """Writes the transcripts of all plays, or of these, into a directory."""
    unknown = set(only) - PLAYS.keys()
    if unknown:
        sys.exit(f"recorder: there is no play {', '.join(sorted(unknown))}; see `list`")
    directory.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with Stage(binary) as stage:
        for name, script in PLAYS.items():
            if not only or name in only:
                began = time.monotonic()
                (directory / f"{name}{SUFFIX}").write_text(play(stage, name, script))
                print(f"recorder: {name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
    print(f"recorder: {len(only or PLAYS)} plays of {binary} in {time.monotonic() - start:.0f} s", file=sys.stderr)


def compare(old: Path, new: Path, only: list[str]) -> int:
    """0 where two binaries, or recordings, are the same to their clients; else 1."""
    with tempfile.TemporaryDirectory(prefix="pathmirror-recorded-") as scratch:
        recordings = []
        for label, given in (("old", old), ("new", new)):
            directory = given if given.is_dir() else Path(scratch) / label
            if not given.is_dir():
                record(given, directory, only)
            recordings.append({name: text for name, text in transcripts(directory).items() if not only or name in only})
    found = differences(*recordings)
    for report in found:
        print(report, end="\n\n")
    if found:
        print(f"recorder: {len(found)} of {len(recordings[0])} plays differ")
    elif not recordings[0]:
        print("recorder: there is nothing to compare")
    else:
        lines = sum(text.count("\n") for text in recordings[0].values())
        print(f"recorder: no difference in {len(recordings[0])} plays, {lines} lines")
    return 1 if found or not recordings[0] else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, places in (("record", ("binary", "directory")), ("compare", ("old", "new"))):
        command = commands.add_parser(name)
        for place in places:
            command.add_argument(place, type=Path)
        command.add_argument("--only", action="append", default=[], metavar="NAME")
    commands.add_parser("list")
    given = parser.parse_args(arguments)
    if given.command == "record":
        record(given.binary, given.directory, given.only)
        return 0
    if given.command == "compare":
        return compare(given.old, given.new, given.only)
    print("\n".join(PLAYS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
