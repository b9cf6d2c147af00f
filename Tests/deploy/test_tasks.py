"""The Makefile's tasks and their scripts, in a separate copy with a stand-in for the Swift toolchain."""

import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest
from deployment import ROOT, run, tool

SWIFT = f"""#!/bin/sh
# "Builds" a pathmirror that runs until it is told to stop, as the real one does, and writes what `make install` asks it for.
mkdir -p .build/release
cat > .build/release/pathmirror <<'END'
#!{sys.executable}
import os, signal, sys
match sys.argv[1:]:
    case ["completions", shell, "--output", file]:
        sys.exit(open(file, "w").write(shell) and 0)
    case ["man", "--folder", folder]:
        os.makedirs(folder)
        sys.exit(open(folder + "/pathmirror.1", "w").write(".TH") and 0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
print("ready with", *sys.argv[1:], flush=True)
signal.sigwait([signal.SIGINT, signal.SIGTERM])
print("stopped")
END
chmod +x .build/release/pathmirror
"""


@pytest.fixture
def checkout(tmp_path):
    """The tasks without the sources; `swift` is the stand-in, and nothing gets installed."""
    tool("make")
    for name in ("Makefile", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("scripts", "deploy", ".ci"):
        shutil.copytree(ROOT / name, tmp_path / name)
    swift = tmp_path / "bin/swift"
    swift.parent.mkdir()
    swift.write_text(SWIFT)
    swift.chmod(0o755)
    return tmp_path


def environment(checkout, **changes):
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    path = f"{checkout / 'bin'}:{inherited['PATH']}"
    return {**inherited, "PATH": path, "PATHMIRROR_SKIP_DEPENDENCIES": "1", **changes}


def make(checkout, *words, check=True, **changes):
    return run("make", *words, cwd=checkout, env=environment(checkout, **changes), check=check)


def test_make_alone_lists_every_task(checkout):
    text = make(checkout).stdout
    for task in ("build", "run", "check", "test", "bench", "compare", "campaign", "lint", "format", "deb", "install", "clean"):
        assert f"make {task} " in text


@pytest.mark.parametrize("stop", ["ctrl-c", "sigterm"])
def test_make_run_passes_the_stop_on_and_says_nothing_ugly(checkout, stop):
    # A terminal of its own, so that Ctrl-C is a real one.
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(checkout)
        os.execvpe("make", ["make", "run", "ARGS=--port 9010 --ns demo"], environment(checkout))
    try:
        shown = read_until(terminal, b"ready with dev --port 9010 --ns demo")
        if stop == "ctrl-c":
            os.write(terminal, b"\x03")
        else:
            os.kill(pid, signal.SIGTERM)
        shown += read_until(terminal, None)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    assert b"stopped" in shown
    assert b"***" not in shown and b"rror" not in shown, shown


def read_until(terminal: int, text: bytes | None) -> bytes:
    """Reads up to `text`, or to the end if it is None."""
    seen, deadline = b"", time.monotonic() + 30
    while text is None or text not in seen:
        assert time.monotonic() < deadline, seen
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux reports the end of the other side in this way.
            piece = b""
        if not piece:
            assert text is None, seen
            break
        seen += piece
    return seen


def test_without_swift_one_sentence_says_what_to_do(checkout):
    done = make(checkout, "build", "SWIFT=no-such-swift", check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[0].startswith("make: no Swift toolchain: install Swift")


def test_make_install_puts_binary_and_unit_where_they_belong(checkout):
    done = make(checkout, "install", f"DESTDIR={checkout}/root", "PREFIX=/usr", check=False)
    assert "run 'make build' first" in done.stderr
    make(checkout, "build")
    make(checkout, "install", f"DESTDIR={checkout}/root", "PREFIX=/usr")
    installed = checkout / "root/usr"
    assert (installed / "bin/pathmirror").stat().st_mode & stat.S_IXOTH
    unit = (installed / "lib/systemd/system/pathmirror.service").read_text()
    assert "ExecStart=/usr/bin/pathmirror serve\n" in unit
    assert (installed / "share/man/man1/pathmirror.1").exists()
    for place, shell in (("share/bash-completion/completions/pathmirror", "bash"), ("share/zsh/site-functions/_pathmirror", "zsh"),
                         ("share/fish/vendor_completions.d/pathmirror.fish", "fish")):
        assert (installed / place).read_text() == shell


def test_make_campaign_lists_campaigns_and_runs_one(checkout):
    listed = make(checkout, "campaign").stdout
    assert "  faults " in listed and "  upgrade " in listed
    missing = make(checkout, "campaign", "NAME=nope", check=False)
    assert missing.returncode != 0 and "there is no campaign 'nope'" in missing.stderr
    (checkout / "scripts/faults").write_text("#!/bin/sh\necho faults with \"$@\"\n")
    assert "faults with --seed 7" in make(checkout, "campaign", "NAME=faults", "ARGS=--seed 7").stdout


def test_every_campaign_has_a_program():
    names = [line.split()[0] for line in run(ROOT / "scripts/campaign").stdout.splitlines()[1:]]
    assert len(names) >= 15
    source = (ROOT / "scripts/campaign").read_text()
    for name in names:
        assert (ROOT / "scripts" / name).exists() or f"{name})" in source or f"{name} " in source.split("case $chosen in")[1], name


def test_make_test_takes_a_room(checkout):
    (checkout / "Tests/TreeTests").mkdir(parents=True)
    done = make(checkout, "test", "ROOM=Nope", check=False)
    assert done.returncode != 0 and "there is no room 'Nope' with tests. Rooms: Tree" in done.stderr
    (checkout / "bin/swift").write_text('#!/bin/sh\necho swift "$@" in $PATHMIRROR_ROOM\n')
    done = make(checkout, "test", "ROOM=Tree", "FILTER=PageTests")
    assert "--build-tests in Tree" in done.stdout and "--filter PageTests in Tree" in done.stdout


def test_make_build_names_missing_packages(checkout):
    bin = fake_system(checkout / "system", "dpkg-query", "apt-get", "id", missing="libpq-dev")
    done = run(ROOT / "scripts/install-dependencies", "--check", "build", check=False, env={**os.environ, "PATH": bin})
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "libpq-dev" in done.stderr and "make dependencies" in done.stderr


def test_ci_runs_make_test(checkout):
    (checkout / "Makefile").write_text("test:\n\t@echo all the tests; test ! -t 0\n")
    assert run(checkout / ".ci/run", cwd="/", env=environment(checkout)).stdout == "all the tests\n"


def install(*sets, **changes):
    return run(ROOT / "scripts/install-dependencies", *sets, check=False, env={**os.environ, **changes})


def test_unknown_sets_are_refused():
    for sets in ((), ("everything",), ("build", "everything")):
        done = install(*sets)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1 and "build, run, test, bench" in done.stderr


def fake_system(directory, *programs: str, missing: str, uid: int = 1000) -> str:
    """A PATH with the given programs only; each writes its arguments to `calls`. `missing` is a pattern of package names."""
    directory.mkdir()
    for name in ("sh", "env"):
        (directory / name).symlink_to(shutil.which(name))
    for name in programs:
        query = f'case "$3" in {missing}) exit 1 ;; esac; printf installed'
        body = {"dpkg-query": query, "id": f"echo {uid}"}.get(name, "")
        (directory / name).write_text(f"#!/bin/sh\necho {name} \"$@\" >> {directory}/calls\n{body}\n")
        (directory / name).chmod(0o755)
    return str(directory)


def test_nothing_is_touched_where_everything_is_there(tmp_path):
    path = fake_system(tmp_path / "bin", "dpkg-query", "apt-get", "id", "sudo", missing="none")
    assert install("build", "run", "test", "bench", PATH=path).returncode == 0
    assert {line.split()[0] for line in (tmp_path / "bin/calls").read_text().splitlines()} == {"dpkg-query"}


@pytest.mark.parametrize("programs, message", [
    (("id",), "this is not Debian"),
    (("dpkg-query", "apt-get", "id"), "there is no sudo"),
])
def test_what_cannot_be_installed_is_explained_in_one_sentence(tmp_path, programs, message):
    done = install("build", PATH=fake_system(tmp_path / "bin", *programs, missing="*"))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and message in done.stderr


def test_only_missing_packages_are_installed_and_asked_for_once(tmp_path):
    path = fake_system(tmp_path / "bin", "dpkg-query", "apt-get", "id", missing="libre2-dev", uid=0)
    done = install("build", "run", "build", PATH=path)
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "bin/calls").read_text().splitlines()
    asked = [line for line in calls if line.startswith("apt-get") and " install " in line]
    assert asked[-1].endswith(" install --yes --no-install-recommends libre2-dev")


def test_totals_are_printed_only_when_every_report_is_there(tmp_path):
    cases = (
        '<testcase/><testcase><skipped/></testcase><testcase classname="C" name="f"><failure message="m">text</failure></testcase>'
        '<testcase classname="C" name="e"><error message="x"/></testcase>'
    )
    (tmp_path / "a.xml").write_text(f'<testsuites><testsuite tests="3" skipped="1">{cases}</testsuite></testsuites>')
    (tmp_path / "b.xml").write_text('<testsuites><testsuite tests="2"><testcase/><testcase/></testsuite></testsuites>')
    totals = [sys.executable, ROOT / "scripts/test-totals", tmp_path]
    said = "C f failed: m\ntext\nC e failed: x\n3 passed, 2 failed, 1 skipped\n"
    assert run(*totals, "a.xml", "b.xml").stdout == said
    assert run(*totals, "b.xml").stdout == "2 passed, 0 failed\n"
    done = subprocess.run([*totals, "b.xml", "c.xml"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_test_that_passes_again_is_flaky(tmp_path):
    failing = '<testcase classname="A.B" name="f"><failure message="m"/></testcase>'
    (tmp_path / "a.xml").write_text(f'<r>{failing}<testcase classname="A.C" name="g"><failure message="n"/></testcase></r>')
    (tmp_path / "a.again.xml").write_text('<r><testcase classname="A.B" name="f"/><testcase classname="A.C" name="g"><failure/></testcase></r>')
    said = "A.B f failed: m\nFLAKY A.B f\nA.C g failed: n\n1 passed, 1 failed\n"
    assert run(sys.executable, ROOT / "scripts/test-totals", tmp_path, "a.xml").stdout == said
    assert run(sys.executable, ROOT / "scripts/test-totals", "--failed", tmp_path, "a.xml").stdout == "A[./]C\n"
    missing = run(sys.executable, ROOT / "scripts/test-totals", "--failed", tmp_path, "a.xml", "b.xml", check=False)
    assert (missing.returncode, missing.stdout) == (1, "")
