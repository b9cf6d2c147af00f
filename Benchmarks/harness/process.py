"""Child processes that end when the benchmarks do."""

import ctypes
import os
import signal
import subprocess

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_running: list[subprocess.Popen] = []


class Failed(Exception):
    """A program failed; the text has the end of its output."""


def _end_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def start(argv, **options) -> subprocess.Popen:
    """Starts a program in a session of its own: the kernel's autogroup scheduling shares the processors by session, and
    all sides are to be treated alike."""
    child = subprocess.Popen([str(word) for word in argv], start_new_session=True, preexec_fn=_end_with_parent,
                             cwd="/", **options)
    _running.append(child)
    return child


def stop(child: subprocess.Popen, patience: float = 30):
    """Asks the process to end, then makes it."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            child.kill()
    child.wait()
    if child in _running:
        _running.remove(child)


def stop_all():
    for child in reversed(_running[:]):
        stop(child)


def run(argv, patience: float = 120, stdin: str | None = None, env: dict | None = None) -> str:
    """Runs a program to its end and returns its standard output."""
    child = start(argv, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
    try:
        out, err = child.communicate(stdin, timeout=patience)
    except subprocess.TimeoutExpired:
        raise Failed(f"{argv[0]} still ran after {patience:g} s") from None
    finally:
        stop(child)
    if child.returncode != 0:
        raise Failed(f"{' '.join(map(str, argv))} ended with {child.returncode}:\n{(out + err)[-2000:]}")
    return out
