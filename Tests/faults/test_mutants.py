"""Each mutant applies to the current sources, and names an existing test. `make campaign NAME=mutants` builds and runs them."""

import re
import shutil
import subprocess
from pathlib import Path

import plan
import pytest
from harness.binary import REPOSITORY

PATCHES = sorted((REPOSITORY / "Tests" / "faults" / "mutants").glob("*.patch"))


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_mutant_applies(path, tmp_path):
    changed = re.findall(r"^--- a/(\S+)$", path.read_text(), re.MULTILINE)
    assert changed
    for name in changed:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    with open(path, "rb") as text:
        done = subprocess.run(["patch", "-p1", "--no-backup-if-mismatch"], cwd=tmp_path, stdin=text, capture_output=True)
    assert done.returncode == 0, f"{path.name} must be made again: {done.stdout.decode()}"


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_mutant_names_what_must_notice(path):
    kind, *words = path.read_text().splitlines()[0].removeprefix("# ").split()
    if kind == "test":
        sources = "\n".join(file.read_text() for file in Path(REPOSITORY, "Tests").glob("*Tests/**/*.swift"))
        for name in words[0].split("/"):
            assert re.search(rf"\b{re.escape(name.removesuffix('()'))}\b", sources), f"no Swift test has {name}"
    elif kind == "pytest":
        assert (REPOSITORY / words[0].partition("::")[0]).exists()
        if "-k" in words:
            assert words[words.index("-k") + 1] in (REPOSITORY / words[0]).read_text()
    else:
        assert kind == "faults" and set(words[words.index("--only") + 1].split(",")) <= {*plan.KINDS, "copy-put-back"}
