"""Work beside a test: threads whose failures are the test's."""

import threading
from contextlib import contextmanager

from .waiting import PATIENCE, Late


@contextmanager
def beside(*works, patience: float = PATIENCE):
    """Runs each work(stop) in a thread of its own while the body runs; `stop` is an event that is set at its end."""
    stop, failures = threading.Event(), []

    def guarded(work):
        try:
            work(stop)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(patience)
    if failures:
        raise failures[0]
    if any(thread.is_alive() for thread in threads):
        raise Late("work beside the test did not end")
