"""Available sources: a checkout or a bare repository, from which a suite takes its files."""

import fnmatch
import shutil
import subprocess
from pathlib import Path


class SourceError(Exception):
    """The source lacks the files that the text names."""


class Source:
    """A directory with a work tree, or a bare repository, of which the files of one revision are used."""

    def __init__(self, path: Path, revision: str = "HEAD"):
        self.path, self.revision = path, revision
        if not path.is_dir():
            raise SystemExit(f"--source: {path} is no directory")
        self.bare = (path / "HEAD").is_file() and (path / "objects").is_dir()

    def _git(self, *words: str, data: bytes | None = None) -> bytes:
        done = subprocess.run(["git", f"--git-dir={self.path}", *words], input=data, capture_output=True, check=False)
        if done.returncode != 0:
            raise SourceError(f"git {' '.join(words)} in {self.path}: {done.stderr.decode().strip()}")
        return done.stdout

    def _files(self) -> list[str]:
        if self.bare:
            return self._git("ls-tree", "-r", "--name-only", "-z", self.revision).decode().split("\0")[:-1]
        return [str(file.relative_to(self.path)) for file in self.path.rglob("*") if file.is_file() and ".git" not in file.parts[:-1]]

    def copy(self, into: Path, *wanted: str) -> Path:
        """Copies the files that patterns name (a folder's name stands for all in it) and returns the folder of the copy."""
        files = [file for file in self._files() if any(file.startswith(f"{pattern}/") or fnmatch.fnmatchcase(file, pattern) for pattern in wanted)]
        for pattern in wanted:
            if not any(file.startswith(f"{pattern}/") or fnmatch.fnmatchcase(file, pattern) for file in files):
                raise SourceError(f"{self.path} has no {pattern}")
        shutil.rmtree(into, ignore_errors=True)
        for file in files:
            (into / file).parent.mkdir(parents=True, exist_ok=True)
        if not self.bare:
            for file in files:
                shutil.copyfile(self.path / file, into / file)
            return into
        # One process for all files: `git archive` fails where a snapshot lacks any large file.
        answer = self._git("cat-file", "--batch", data="".join(f"{self.revision}:{file}\n" for file in files).encode())
        for file in files:
            head, _, answer = answer.partition(b"\n")
            if head.endswith(b"missing"):
                raise SourceError(f"{self.path} lacks the content of {file}")
            size = int(head.split()[-1])
            (into / file).write_bytes(answer[:size])
            answer = answer[size + 1:]
        return into
