"""`pathmirror dev`: one command, ready soon, stops cleanly, survives its own death."""

import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest
from harness import cli
from harness.binary import pathmirror
from harness.gateway import end_private_postgres, private_postgres, start_dev
from harness.ports import free_port
from harness.process import Process
from harness.waiting import wait_until
from harness.websocket_client import RealtimeClient

ROOT = os.geteuid() == 0


@pytest.fixture
def start(scratch, logs):
    """Starts `dev` on this test's data directory, and ends the remaining processes after the test."""
    gateways = []

    def begin(*options, **settings):
        gateway = start_dev(scratch / "data", logs, settings.pop("port", None), *options, **settings)
        gateways.append(gateway)
        return gateway

    yield begin
    for gateway in gateways:
        gateway.sweep()
    end_private_postgres(scratch / "data")


def test_ready_soon_and_helpful(start):
    begin = time.monotonic()
    gateway = start()
    fresh = time.monotonic() - begin
    assert gateway.rest.get("x").json() is None, "the line was printed before requests are served"
    wait_until(lambda: gateway.process.stdout().count("curl ") >= 3 and "psql" in gateway.process.stdout(), "three curl lines and psql")
    assert f"127.0.0.1:{gateway.port}" in gateway.process.stdout() or f"localhost:{gateway.port}" in gateway.process.stdout()
    assert gateway.stop() == 0
    again = []
    for _ in range(2):
        begin = time.monotonic()
        gateway = start()
        again.append(time.monotonic() - begin)
        assert gateway.stop() == 0
    print(f"ready in {fresh:.2f} s on a new directory, {min(again):.2f} s on an existing one")
    assert fresh < 8 and min(again) < 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_and_loses_nothing(start, scratch, number):
    gateway = start()
    gateway.rest.set("kept", {"a": [1, 2]})
    assert private_postgres(scratch / "data"), "no PostgreSQL found under the data directory"
    assert gateway.process.stop(number) == 0
    assert private_postgres(scratch / "data") == []
    again = start()
    assert again.rest.value("kept") == {"a": [1, 2]}


def test_two_signals_do_no_harm(start, scratch):
    gateway = start()
    gateway.rest.set("kept", 1)
    gateway.process.send(signal.SIGINT)
    gateway.process.send(signal.SIGINT)
    gateway.process.wait()
    wait_until(lambda: not private_postgres(scratch / "data"), "PostgreSQL to end")
    assert start().rest.value("kept") == 1


def test_kill_9_leaves_a_directory_that_opens(start, scratch):
    gateway = start()
    acknowledged = [gateway.rest.set(f"n{number}", number).seq for number in range(50)]
    gateway.process.kill()
    again = start()
    assert again.rest.value() == {f"n{number}": number for number in range(50)}
    assert again.rest.set("more", 1).seq == acknowledged[-1] + 1
    assert len(private_postgres(scratch / "data")) == 1
    cli.verify("--data", scratch / "data")
    assert again.process.stop() == 0
    assert private_postgres(scratch / "data") == []


def test_kill_9_of_both_leaves_a_directory_that_opens(start, scratch):
    gateway = start()
    gateway.rest.set("kept", 1)
    gateway.process.kill()
    end_private_postgres(scratch / "data")
    assert start().rest.value("kept") == 1


def test_a_pid_file_of_a_stranger_is_no_obstacle(start, scratch):
    """After a reboot the id in PostgreSQL's file may belong to another program, which `dev` must not touch."""
    gateway = start()
    gateway.rest.set("kept", 1)
    gateway.process.kill()
    end_private_postgres(scratch / "data")
    pid_file = next((scratch / "data").rglob("postmaster.pid"))
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert start().rest.value("kept") == 1


def test_its_postgres_dies_and_is_started_again(start, scratch):
    gateway = start()
    gateway.rest.set("kept", 1)
    for number in range(2):
        end_private_postgres(scratch / "data")
        assert gateway.rest.value("kept") == 1
        wait_until(lambda: gateway.rest.put("after", number).status == 200, "writes to work again", 30, 0.1)
    assert gateway.rest.value() == {"kept": 1, "after": 1}
    assert len(private_postgres(scratch / "data")) == 1
    assert gateway.process.stop() == 0
    assert private_postgres(scratch / "data") == []


def test_denials_by_rules_are_explained(start, scratch):
    """The log explains denials once for each namespace, without values, regardless of their number."""
    gateway = start()
    event = "the rules of a namespace deny requests"
    rules = scratch / "rules.json"
    rules.write_text('{"rules": {"open": {".read": true, ".write": true}}}')
    for ns in ("shop", "chat", "free"):
        assert gateway.rest.at("", ns=ns).put("open", 1).status == 200
    for ns in ("shop", "chat"):
        cli.succeeds("rules", "set", rules, "--ns", ns, "--data", scratch / "data")
    for ns in ("shop", "chat"):
        wait_until(lambda: gateway.rest.at("", ns=ns).get("x").status == 401, "the rules to hold")
    with RealtimeClient(gateway.port, ns="chat") as client:
        assert client.call("p", {"p": "shut", "d": "secret value"})["s"] == "permission_denied"
    for _ in range(5):
        shop = gateway.rest.at("", ns="shop")
        assert (shop.get("shut").status, shop.put("shut", "secret value").status) == (401, 401)
    wait_until(lambda: gateway.process.stderr().count(event) >= 2, "a line for each namespace")
    assert gateway.rest.at("", ns="free").put("x", 1).status == 200
    # Waits for another round of the log.
    assert gateway.stop() == 0
    lines = [line for line in gateway.process.stderr().splitlines() if event in line]
    assert len(lines) == 2 and "secret value" not in "".join(lines), lines
    line = next(line for line in lines if "namespace=shop" in line)
    assert f"pathmirror rules clear --data {scratch / 'data'} --ns shop" in line, line


def fails_with_one_sentence(process: Process) -> str:
    assert process.wait(20) == 1, process.tail()
    # The last line, besides log lines.
    sentence, = (line for line in process.stderr().splitlines() if line.startswith("pathmirror: "))
    assert "ready on" not in process.stdout()
    return sentence


def test_a_port_that_is_taken(scratch, logs):
    with socket.socket() as other:
        port = free_port()
        other.bind(("127.0.0.1", port))
        other.listen()
        process = Process([pathmirror(), "dev", "--port", port, "--data", scratch / "data"], "dev", logs)
        assert str(port) in fails_with_one_sentence(process)
    # A gateway that could not start created no files.
    assert not (scratch / "data").exists()


@pytest.mark.parametrize("path", ["", "/nonexistent"])
def test_postgres_need_not_be_in_the_path(start, path):
    """Debian keeps the server's programs in another folder, and the path of a service is short."""
    gateway = start(env={"PATH": path})
    gateway.rest.set("x", 1)
    assert gateway.stop() == 0


# Hides the contents of a directory from one program and its children.
HIDDEN = 'mount -t tmpfs none "$1" || exit 99; shift; exec "$@"'


def test_postgres_that_is_missing_is_explained(scratch, logs):
    postgres, path = Path("/usr/lib/postgresql"), "/usr/sbin:/usr/bin:/sbin:/bin"
    if not ROOT or not postgres.is_dir() or shutil.which("postgres", path=path):
        pytest.skip("needs root, and a PostgreSQL where Debian keeps it, to hide it")
    process = Process(["unshare", "--mount", "sh", "-c", HIDDEN, "sh", postgres, pathmirror(), "dev", "--port", free_port(),
                       "--data", scratch / "data"], "dev", logs, env={"PATH": path})
    if process.wait(20) == 99:
        pytest.skip("nothing can be mounted here")
    sentence = fails_with_one_sentence(process)
    assert "no PostgreSQL" in sentence and "install" in sentence
    assert not (scratch / "data" / "pgdata").exists()


def test_a_directory_in_use(start, scratch, logs):
    gateway = start()
    gateway.rest.set("kept", 1)
    second = Process([pathmirror(), "dev", "--port", free_port(), "--data", scratch / "data"], "dev", logs)
    assert str(scratch / "data") in fails_with_one_sentence(second)
    assert gateway.rest.value("kept") == 1
    assert gateway.rest.set("kept", 2)


def test_a_directory_of_somebody_else(scratch, logs):
    """`dev` does not use a directory with other files in it."""
    (scratch / "data").mkdir()
    (scratch / "data" / "thesis.txt").write_text("do not touch")
    process = Process([pathmirror(), "dev", "--port", free_port(), "--data", scratch / "data"], "dev", logs)
    try:
        wait_until(lambda: not process.running or "ready on" in process.stdout(), "dev to decide")
        assert (scratch / "data" / "thesis.txt").read_text() == "do not touch"
    finally:
        if process.running:
            process.stop()
        end_private_postgres(scratch / "data")


def test_postgres_is_reached_by_unix_socket_only(start, scratch):
    start()
    server, = private_postgres(scratch / "data")
    with open(f"/proc/{server}/net/tcp") as table:
        listening = {line.split()[9] for line in table.readlines()[1:] if line.split()[3] == "0A"}
    own = set()
    for descriptor in os.listdir(f"/proc/{server}/fd"):
        target = os.readlink(f"/proc/{server}/fd/{descriptor}")
        if target.startswith("socket:["):
            own.add(target[8:-1])
    assert not listening & own


@pytest.mark.skipif(not ROOT, reason="only root can be started as root")
def test_as_root_postgres_is_not(start, scratch):
    start()
    server, = private_postgres(scratch / "data")
    assert os.stat(f"/proc/{server}").st_uid != 0


def test_the_namespace_has_the_name_asked_for(start):
    gateway = start(ns="my-app")
    gateway.rest.set("x", 1)
    assert gateway.rest.value("x", ns="my-app") == 1
    assert gateway.rest.value("x", ns="other") is None


def test_rules_from_a_file(start, scratch):
    (scratch / "rules.json").write_text('{"rules": {".read": true, ".write": false}}')
    gateway = start("--rules", scratch / "rules.json")
    assert gateway.rest.get("x").status == 200
    denied = gateway.rest.put("x", 1)
    assert (denied.status, denied.error) == (401, "Permission denied")
    assert gateway.rest.put("x", 1, headers={"Authorization": "Bearer owner"}).status == 200


@pytest.mark.parametrize("words", [
    ["dev", "--port", "abc"], ["dev", "--port", "99999"], ["dev", "--nonsense"], ["dev", "--rules"], ["nonsense"], ["serve", "--listen"], []])
def test_wrong_usage_exits_with_2(words):
    finished = cli.command(*words)
    assert finished.returncode == 2 and (finished.stderr + finished.stdout).strip()


def test_files_that_are_missing_or_wrong(scratch):
    for option in ("--rules", "--import"):
        finished = cli.command("dev", "--port", free_port(), "--data", scratch / "data", option, scratch / "missing.json")
        assert finished.returncode in (1, 2) and "missing.json" in finished.stderr
    (scratch / "bad.json").write_text("{")
    finished = cli.command("dev", "--port", free_port(), "--data", scratch / "data", "--rules", scratch / "bad.json")
    assert finished.returncode in (1, 2) and "bad.json" in finished.stderr
    assert private_postgres(scratch / "data") == []


@pytest.mark.parametrize("words", [["--help"], ["dev", "--help"], ["serve", "--help"], ["log", "--help"], ["import", "--help"], ["export", "--help"],
                                   ["migrate", "--help"], ["version"]])
def test_help_and_version(words):
    finished = cli.command(*words)
    assert finished.returncode == 0 and finished.stdout.strip() and not finished.stderr.strip()
