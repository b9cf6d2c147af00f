"""Waiting for a condition with a deadline; the tests never wait for a fixed time."""

import time

# Long enough for a busy two-core machine; a passing test never waits this long.
PATIENCE = 20.0


class Late(AssertionError):
    """The condition did not come true before the deadline."""


def wait_until(condition, what: str, patience: float = PATIENCE, pause: float = 0.01):
    """Calls `condition` until it returns something true, and returns that."""
    deadline = time.monotonic() + patience
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise Late(f"waited {patience:g} s for {what}; last answer: {result!r}")
        time.sleep(pause)
