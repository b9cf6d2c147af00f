"""The lossy disk keeps data after an fsync, and may lose other data. PostgreSQL on it loses nothing, except without fsync, which the test
shows."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from harness.scratch import scratch_directory
from lossy import powercut
from lossy.journal import revocable
from rig.server import Clock, Server, build_library


@pytest.fixture(scope="module")
def tools():
    with scratch_directory("lossy-tools") as path:
        yield path


@pytest.fixture(scope="module")
def library(tools):
    return build_library("lossy", tools)


class Disk:
    """A small tree of files, and programs that work on it."""

    def __init__(self, place: Path, library: Path):
        self.root, self.journal, self.library = place / "files", place / "journal", library
        self.root.mkdir()
        (self.journal / "grave").mkdir(parents=True)

    def run(self, program: str):
        head = "import os\nR, W, C = os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT\n"
        subprocess.run([sys.executable, "-S", "-c", head + program], check=True, cwd=self.root, env={
            **os.environ, "LD_PRELOAD": str(self.library), "LOSSY_ROOT": str(self.root), "LOSSY_JOURNAL": str(self.journal)})

    def cut(self, manner: str, seed: int = 1) -> powercut.Loss:
        return powercut.cut(self.root, self.journal, random.Random(seed), manner)

    def files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.root)): path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}


@pytest.fixture
def disk(library):
    with scratch_directory("lossy") as place:
        yield Disk(place, library)


BEGIN = "f = os.open('a', C); os.pwrite(f, b'1' * 2000, 0); os.fsync(f)\n"
CHANGES = {
    "a write": ("os.pwrite(f, b'2' * 700, 300)", {"a": b"1" * 300 + b"2" * 700 + b"1" * 1000}),
    "a write by the file's position": ("os.lseek(f, 500, 0); os.write(f, b'2' * 10)", {"a": b"1" * 500 + b"2" * 10 + b"1" * 1490}),
    "a longer file": ("os.pwrite(f, b'2' * 5000, 1000)", {"a": b"1" * 1000 + b"2" * 5000}),
    "many pieces": ("os.pwritev(f, [b'2' * 600, b'3' * 600], 100)", {"a": b"1" * 100 + b"2" * 600 + b"3" * 600 + b"1" * 700}),
    "a cut": ("os.ftruncate(f, 100)", {"a": b"1" * 100}),
    "a cut by name": ("os.truncate('a', 100)", {"a": b"1" * 100}),
    "a cut, and other data": ("os.ftruncate(f, 0); os.pwrite(f, b'3' * 10, 0)", {"a": b"3" * 10}),
    "a cut at opening": ("os.open('a', W | os.O_TRUNC)", {"a": b""}),
    "room": ("os.posix_fallocate(f, 0, 9000)", {"a": b"1" * 2000 + b"\0" * 7000}),
    "a new file": ("g = os.open('b', C); os.write(g, b'new')", {"a": b"1" * 2000, "b": b"new"}),
    "another name": ("os.rename('a', 'b')", {"b": b"1" * 2000}),
    "an end": ("os.unlink('a')", {}),
    "a second name": ("os.link('a', 'b')", {"a": b"1" * 2000, "b": b"1" * 2000}),
    "in the place of another": ("g = os.open('b', C); os.write(g, b'new'); os.rename('b', 'a')", {"a": b"new"}),
    "a directory": ("os.mkdir('d'); g = os.open('d/b', C); os.write(g, b'new'); os.rename('a', 'd/a')",
                    {"d/a": b"1" * 2000, "d/b": b"new"}),
}
SYNC = "\nfor folder, _, names in os.walk('.'):\n    for name in [*names, '.']: os.fsync(os.open(os.path.join(folder, name), R))\n"


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_not_synced_can_go_or_stay(disk, name):
    change, after = CHANGES[name]
    disk.run(BEGIN + change)
    assert disk.files() == after
    loss = disk.cut("nothing")
    assert disk.files() == {"a": b"1" * 2000} and loss.taken_back + loss.names > 0
    disk.run("f = os.open('a', W)\n" + change)
    disk.cut("all")
    assert disk.files() == after


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("manner", sorted({*powercut.MANNERS}))
def test_what_was_synced_stays(disk, name, manner):
    change, after = CHANGES[name]
    disk.run(BEGIN + change + SYNC)
    loss = disk.cut(manner)
    assert disk.files() == after and (loss.taken_back, loss.names) == (0, 0)


def test_a_sync_of_one_file_is_none_of_another(disk):
    disk.run("f, g = os.open('a', C), os.open('b', C); os.write(f, b'one'); os.write(g, b'two'); os.fdatasync(g)")
    disk.cut("nothing")
    assert disk.files() == {"a": b"", "b": b"two"}


def test_a_sync_covers_what_was_written_before_it_and_no_more(disk):
    disk.run("f = os.open('a', C); os.pwrite(f, b'1' * 512, 0); os.fdatasync(f); os.pwrite(f, b'2' * 512, 0)")
    assert [len(changes) for changes in revocable(disk.journal / "journal").files.values()] == [1]
    disk.cut("nothing")
    assert disk.files() == {"a": b"1" * 512}


def test_sectors_go_each_for_itself(disk):
    disk.run("f = os.open('a', C); os.pwrite(f, b'1' * 8192, 0); os.fsync(f)\nfor text in b'23': os.pwrite(f, bytes([text]) * 8192, 0)")
    disk.cut("sectors", 5)
    text = disk.files()["a"]
    sectors = [text[at:at + 512] for at in range(0, 8192, 512)]
    assert len(text) == 8192 and {sector[:1] * 512 for sector in sectors} == set(sectors)
    assert {sector[:1] for sector in sectors} == {b"1", b"2", b"3"}


def test_what_sync_file_range_was_asked_for_is_not_durable(disk):
    disk.run("import ctypes\nf = os.open('a', C); os.pwrite(f, b'1' * 512, 0)\n"
             "ctypes.CDLL(None).sync_file_range(f, ctypes.c_long(0), ctypes.c_long(512), 7)")
    disk.cut("nothing")
    assert disk.files() == {}


def test_a_full_disk(disk):
    disk.run("f = os.open('a', C); os.pwrite(f, b'1' * 512, 0)")
    (disk.journal / "full").touch()
    disk.run("f = os.open('a', W); os.pwrite(f, b'2' * 512, 0)\nfor at in 1, 512:\n"
             "    try: os.pwrite(f, b'3' * 512, at)\n    except OSError as error: assert error.errno == 28\n    else: raise SystemExit('there was room')\n"
             "try: os.open('b', C)\nexcept OSError as error: assert error.errno == 28\nelse: raise SystemExit('there was room')")
    (disk.journal / "full").unlink()
    disk.run("os.open('b', C)")
    assert disk.files() == {"a": b"2" * 512, "b": b""}


def test_a_clock_that_is_wrong(tools):
    clock = Clock(build_library("clock", tools), tools / "clock-file")
    program = "import time, sys\nprint(time.time() - float(sys.argv[1])); print(time.monotonic() - float(sys.argv[2]))"
    for seconds in (0, 60, -3600, -1.5):
        import time

        clock.step(seconds)
        text = subprocess.run([sys.executable, "-c", program, str(time.time()), str(time.monotonic())], check=True, capture_output=True,
                              text=True, env={**os.environ, **clock.environment}).stdout
        wall, monotonic = map(float, text.split())
        assert seconds <= wall < seconds + 60 and 0 <= monotonic < 60


# PostgreSQL on it


class Inserter(threading.Thread):
    """Inserts numbers, each in its own transaction, and records the acknowledged ones."""

    def __init__(self, url: str, first: int):
        super().__init__(daemon=True)
        self.url, self.next, self.told = url, first, []

    def run(self):
        try:
            with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
                while True:
                    connection.execute("insert into t values (%s, repeat('x', 300))", (self.next,))
                    self.told.append(self.next)
                    self.next += 1
        except psycopg.Error:
            pass


def rounds(server: Server, count: int, dice: random.Random, manner=None, off=False) -> int:
    """Cuts the power repeatedly under load; returns the number of acknowledged numbers that are lost at the end. A server that does not
    restart has lost all of them."""
    told: list[int] = []
    for number in range(count):
        writers = [Inserter(server.url("postgres"), (number * 4 + part) * 1_000_000) for part in range(4)]
        for writer in writers:
            writer.start()
        while sum(len(writer.told) for writer in writers) < dice.randint(50, 400):
            pass
        server.cut_power(dice, manner)
        for writer in writers:
            writer.join()
            told += writer.told
        try:
            server.start(20)
            with psycopg.connect(server.url("postgres")) as connection:
                there = {found for found, in connection.execute("select i from t")}
        except (AssertionError, psycopg.Error):
            return len(told)
        if off and set(told) - there:
            break
    return len(set(told) - there)


@pytest.fixture
def server(library, tools):
    with scratch_directory("lossy-pg") as place:
        logs = place / "logs"
        logs.mkdir()
        server = Server(place, logs, library, template=tools / "template")
        try:
            server.start()
            with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
                connection.execute("create table t (i bigint primary key, filler text)")
                connection.execute("checkpoint")
            yield server
        finally:
            server.kill()


@pytest.mark.parametrize("seed", [1, 2])
def test_postgres_loses_nothing_when_it_syncs(server, seed):
    assert rounds(server, 8, random.Random(seed)) == 0


def test_postgres_that_does_not_sync_is_found_out(server):
    server.settings["fsync"] = "off"
    server.stop()
    server.start()
    assert rounds(server, 8, random.Random(1), "nothing", off=True) > 0


def test_postgres_that_answers_before_it_syncs_is_found_out(server):
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("alter role postgres set synchronous_commit = off")
    assert rounds(server, 8, random.Random(1), "nothing", off=True) > 0
