"""A suite that did not run, or did not finish, must never be reported as passed."""

import json
import os
import sys
from pathlib import Path

import main
import pytest
import runners
import suites
from outcome import FAILED, PASSED, SKIPPED, Outcome, table
from sources import Source, SourceError


def test_counts_and_known_failures():
    outcome = Outcome("s", {"b*": "it reads the clock", "z": "nothing"})
    for name, result in (("a", PASSED), ("b1", FAILED), ("c", FAILED), ("d", SKIPPED)):
        outcome.add(name, result)
    outcome.finish()
    assert (outcome.state, outcome.passed, outcome.failed, outcome.known_failures, outcome.skipped, outcome.unneeded) == (
        "ran", ["a"], ["c"], ["b1"], ["d"], ["z"])
    assert "known  b1: it reads the clock" in outcome.lines() and "note   z" in outcome.lines()


def test_the_worse_result_of_a_test_counts():
    outcome = Outcome("s")
    for results in (("a", PASSED, FAILED), ("b", FAILED, PASSED), ("c", SKIPPED, PASSED)):
        for result in results[1:]:
            outcome.add(results[0], result)
    assert (outcome.passed, outcome.failed) == (["c"], ["a", "b"])


@pytest.mark.parametrize("results", [[], [("a", SKIPPED)]])
def test_a_suite_without_an_executed_test_did_not_run(results):
    outcome = Outcome("s")
    for name, result in results:
        outcome.add(name, result)
    assert outcome.finish().state == "broken" and "0 of 1 suites ran." in table([outcome])


def test_a_suite_that_ended_early_is_broken():
    outcome = Outcome("s")
    outcome.add("a", PASSED)
    outcome.stopped("it crashed")
    assert outcome.finish().state == "broken" and "BROKEN: it crashed" in outcome.lines()


@pytest.mark.parametrize("script, seconds", [("import os; os.kill(os.getpid(), 9)", 20), ("import time; time.sleep(60)", 0.5), ("raise SystemExit(3)", 20)])
def test_a_runner_that_leaves_no_results(tmp_path, script, seconds):
    outcome, log = Outcome("s"), tmp_path / "log"
    status = runners.execute([sys.executable, "-c", script], tmp_path, {}, log, seconds)
    runners.ended(outcome, status, log, False, seconds)
    assert outcome.finish().state == "broken"


def test_results_of_mocha():
    outcome = Outcome("s")
    runners.read_mocha(outcome, {"passes": [{"fullTitle": "a b"}, {"fullTitle": "a b"}],
                                 "failures": [{"fullTitle": "c", "err": {"message": "no"}}], "pending": [{"fullTitle": "d"}]})
    assert (outcome.passed, outcome.failed, outcome.skipped, outcome.tests["c"]) == (["a b", "a b (2)"], ["c"], ["d"], (FAILED, "no"))


def test_results_of_go():
    outcome = Outcome("s")
    runners.read_go(outcome, "\n".join(json.dumps(event) for event in (
        {"Action": "output", "Test": "TestA", "Output": "wrong\n"}, {"Action": "fail", "Test": "TestA"}, {"Action": "pass", "Test": "TestB"},
        {"Action": "fail", "Package": "p"})) + "\nno JSON\n")
    assert (outcome.passed, outcome.failed, outcome.tests["TestA"][1]) == (["TestB"], ["TestA"], "wrong\n")
    runners.read_go(outcome, json.dumps({"Action": "build-fail", "ImportPath": "p"}) + "\n" + json.dumps({"Action": "build-fail", "Test": None}))
    assert outcome.finish().state == "broken"


def test_results_of_java(tmp_path):
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\nprintf '\\n##passed T.a \\n##failed T.b boom boom\\n##skipped T.c \\n'\n[ $1 = whole ] && echo '##end'\nexit 0\n")
    script.chmod(0o755)
    for word, state in (("whole", "ran"), ("part", "broken")):
        outcome = Outcome("s")
        runners.junit4(outcome, str(script), [word], tmp_path, {}, 20)
        assert (outcome.passed, outcome.failed, outcome.skipped, outcome.tests["T.b"][1]) == (["T.a"], ["T.b"], ["T.c"], "boom boom")
        assert outcome.finish().state == state


def test_suites_without_a_source_do_not_run(capsys):
    assert main.main([]) == 2
    printed = capsys.readouterr().out
    assert f"0 of {len(suites.SUITES)} suites ran." in printed
    for suite in suites.SUITES:
        assert f"== {suite.name}: not run: no --source {suite.repository}=PATH" in printed


def test_a_suite_without_its_tools_does_not_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAVA_LIBRARIES", str(tmp_path))
    assert main.main(["--only", "firebase-admin-java", "--source", f"firebase/firebase-admin-java={tmp_path}"]) == 2
    assert "not run: " in capsys.readouterr().out


def test_a_source_that_lacks_the_suite_is_broken(tmp_path, capsys):
    assert main.main(["--only", "firebase-admin-python", "--source", f"firebase/firebase-admin-python={tmp_path}"]) == 1
    assert "BROKEN: SourceError: " in capsys.readouterr().out


def test_names_that_nobody_has(capsys):
    assert main.main(["--only", "nothing"]) == 2 and main.main(["--source", "a/b=/tmp"]) == 2
    assert "--list" in capsys.readouterr().err


def test_the_list_names_all_needs():
    text = main.listing()
    for suite in suites.SUITES:
        assert suite.name in text and f"github.com/{suite.repository.partition('@')[0]};" in text and suite.tools


@pytest.mark.parametrize("bare", [False, True])
def test_copies_of_sources(tmp_path, bare):
    tree = tmp_path / "tree"
    for name, text in (("a/b/c.txt", "1"), ("a/d.json", "{}\n"), ("x/y", "2")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    if bare:
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
        for words in ([*git, "init", "-q", "."], [*git, "add", "."], [*git, "commit", "-q", "-m", "x"]):
            assert os.spawnvp(os.P_WAIT, "env", ["env", "-C", str(tree), *words]) == 0
    source = Source(tree / ".git" if bare else tree)
    copy = source.copy(tmp_path / "copy", "a/b", "a/*.json")
    assert {str(path.relative_to(copy)): path.read_text() for path in Path(copy).rglob("*") if path.is_file()} == {"a/b/c.txt": "1", "a/d.json": "{}\n"}
    with pytest.raises(SourceError, match="has no q"):
        source.copy(tmp_path / "copy", "q")


def test_a_version_of_a_bare_repository(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    git = ["env", "-C", str(tree), "git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    assert os.spawnvp(os.P_WAIT, "env", [*git, "init", "-q", "."]) == 0
    for text in ("old", "new"):
        (tree / "a").write_text(text)
        for words in (["add", "."], ["commit", "-q", "-m", text], ["tag", text]):
            assert os.spawnvp(os.P_WAIT, "env", [*git, *words]) == 0
    assert [(Source(tree / ".git", revision).copy(tmp_path / "copy", "a") / "a").read_text() for revision in ("old", "HEAD")] == ["old", "new"]
    with pytest.raises(SourceError, match="lacking"):
        Source(tree / ".git", "lacking").copy(tmp_path / "copy", "a")
