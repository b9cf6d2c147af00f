"""Runs the programs of suites, and reads the results of their test runners."""

import json
import os
import re
import shutil
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from outcome import FAILED, PASSED, SKIPPED, Outcome


def execute(words, directory: Path, environment: dict, log: Path, seconds: float) -> int | None:
    """Runs a program with its output in a file, in a process group that ends with it. None: it did not finish in time."""
    with open(log, "wb") as out:
        child = subprocess.Popen([str(word) for word in words], cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                 env={**os.environ, **{name: str(value) for name, value in environment.items()}}, start_new_session=True)
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


def end_of(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def build(words, directory: Path, environment: dict, log: Path, seconds: float = 600):
    """Runs a compiler, which must succeed."""
    status = execute(words, directory, environment, log, seconds)
    if status != 0:
        raise RuntimeError(f"{words[0]} exited with {status}:\n{end_of(log)}")


def ended(outcome: Outcome, status: int | None, log: Path, results: bool, seconds: float):
    """Records a runner that did not finish. A runner's own exit status for failed tests is no such case."""
    if status is None:
        outcome.stopped(f"it was not done after {seconds:g} s:\n{end_of(log)}")
    elif status < 0 or not results:
        outcome.stopped(f"it exited with {status} and left no results:\n{end_of(log)}")


# mocha

def mocha(outcome: Outcome, program: Path, bundle: Path, directory: Path, environment: dict, options=(), seconds: float = 900):
    results, log = directory / f"{bundle.stem}.json", directory / f"{bundle.stem}.log"
    results.unlink(missing_ok=True)
    status = execute(["node", program, "--exit", "--reporter", "json", "--reporter-option", f"output={results}", *options, bundle],
                     directory, environment, log, seconds)
    ended(outcome, status, log, results.exists(), seconds)
    if results.exists():
        read_mocha(outcome, json.loads(results.read_text()))


def read_mocha(outcome: Outcome, report: dict):
    for kind, result in (("passes", PASSED), ("failures", FAILED), ("pending", SKIPPED)):
        seen: dict[str, int] = {}
        for test in report[kind]:
            # Counts tests of the same title one by one.
            number = seen[test["fullTitle"]] = seen.get(test["fullTitle"], 0) + 1
            name = test["fullTitle"] if number == 1 else f"{test['fullTitle']} ({number})"
            outcome.add(name, result, test.get("err", {}).get("message", ""))


# pytest

def pytest(outcome: Outcome, python: str, words, directory: Path, environment: dict, seconds: float = 600):
    results, log = directory / "pytest.xml", directory / "pytest.log"
    results.unlink(missing_ok=True)
    status = execute([python, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={results}", *words], directory, environment, log, seconds)
    ended(outcome, status, log, results.exists(), seconds)
    if results.exists():
        read_junit(outcome, ElementTree.parse(results).getroot())


def read_junit(outcome: Outcome, root: ElementTree.Element):
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        failure = case.find("failure")
        failure = case.find("error") if failure is None else failure
        if failure is not None:
            outcome.add(name, FAILED, failure.get("message", ""))
        else:
            outcome.add(name, SKIPPED if case.find("skipped") is not None else PASSED)


# go

def go_test(outcome: Outcome, go: str, package: str, directory: Path, environment: dict, seconds: float = 900):
    log = directory / "go-test.log"
    status = execute([go, "test", "-json", "-count=1", package], directory, environment, log, seconds)
    text = log.read_text(errors="replace")
    read_go(outcome, text)
    ended(outcome, status, log, bool(outcome.tests), seconds)


def read_go(outcome: Outcome, text: str):
    output: dict[str, str] = {}
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        test = event.get("Test")
        if test is None:
            if event.get("Action") == "build-fail":
                outcome.stopped("it does not compile")
            continue
        if event["Action"] == "output":
            output[test] = output.get(test, "") + event["Output"]
        elif event["Action"] in ("pass", "fail", "skip"):
            outcome.add(test, {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}[event["Action"]], output.get(test, ""))


# java

JAVA_RESULT = re.compile(r"^##(passed|failed|skipped) (\S+)(?: (.*))?$")


def junit4(outcome: Outcome, java: str, words, directory: Path, environment: dict, seconds: float = 1800):
    """Runs `RunAll`, which prints a line for each test and one at its end."""
    log = directory / "java.log"
    status = execute([java, *words], directory, environment, log, seconds)
    text = log.read_text(errors="replace")
    for line in text.splitlines():
        if found := JAVA_RESULT.match(line):
            outcome.add(found[2], found[1], found[3] or "")
    ended(outcome, status, log, "##end" in text.splitlines(), seconds)


def tool(name: str, *elsewhere: str) -> str | None:
    """A program of the search path, or of one of these paths."""
    return shutil.which(name) or next((path for path in elsewhere if os.access(path, os.X_OK)), None)
