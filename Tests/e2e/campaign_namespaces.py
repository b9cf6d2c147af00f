"""A campaign, not part of `make test`: very many namespaces, each used a little, in a small --tree-memory. The campaign prints the memory
of the gateway, and fails if the gateway exceeds the limit or loses data.

    PATHMIRROR_BINARY=.build/release/pathmirror python Tests/e2e/campaign_namespaces.py --namespaces 100000"""

import argparse
import http.client
import json
import random
import tempfile
import threading
import time
from pathlib import Path

from harness.gateway import start_dev
from harness.process import resident_bytes

CLIENTS = 8


def visit(port: int, names: list[str], work, failures: list[str]):
    """Does `work` with each name, by several clients; each has a connection."""
    lock, rest = threading.Lock(), iter(names)

    def run():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while True:
            with lock:
                name = next(rest, None)
            if name is None or failures:
                break
            try:
                work(connection, name)
            except Exception as failure:  # Any failure ends the campaign.
                failures.append(f"{name}: {failure!r}")
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ask(connection, method: str, path: str, body: str | None = None):
    connection.request(method, path, body, {"Authorization": "Bearer owner"})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, (answer.status, content[:200])
    return json.loads(content), int(answer.headers["X-Pathmirror-Seq"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespaces", type=int, default=100_000)
    parser.add_argument("--budget-mib", type=int, default=64)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    names = [f"n{number}" for number in range(options.namespaces)]
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pathmirror-namespaces-") as folder:
        folder = Path(folder)
        folder.chmod(0o755)
        gateway = start_dev(folder / "data", folder, None, "--tree-memory", f"{options.budget_mib}MiB", "--log-level", "warning")
        try:
            empty, most, over = resident_bytes(gateway.process.child.pid), 0, 0
            stop = threading.Event()

            def watch():
                nonlocal most, over
                while not stop.wait(0.5):
                    most = max(most, resident_bytes(gateway.process.child.pid))
                    over = max(over, gateway.metric("pathmirror_tree_bytes") - (options.budget_mib << 20))

            watcher = threading.Thread(target=watch)
            watcher.start()
            start = time.monotonic()
            value = lambda name: {"name": name, "text": "x" * 100}

            def write(connection, name):
                assert ask(connection, "PUT", f"/a.json?ns={name}", json.dumps(value(name)))[1] == 1

            visit(gateway.port, names, write, failures)
            written = time.monotonic() - start
            random.Random(options.seed).shuffle(names)
            start = time.monotonic()

            def read(connection, name):
                assert ask(connection, "GET", f"/a.json?ns={name}") == (value(name), 1)

            visit(gateway.port, names, read, failures)
            again = time.monotonic() - start
            stop.set()
            watcher.join()
            count = gateway.metric("pathmirror_namespaces")
            print(f"{len(names):,} namespaces written in {written:.0f} s, read in {again:.0f} s; at the end {count:,.0f} in memory; "
                  f"{gateway.metric('pathmirror_namespaces_evicted_total'):,.0f} let go, "
                  f"{gateway.metric('pathmirror_namespace_loads_total'):,.0f} loads")
            print(f"resident {empty >> 20} MiB at the start, at most {most >> 20} MiB with {options.budget_mib} MiB for trees; "
                  f"the estimate was over it by {max(0, over) / 1024:,.0f} KiB at most")
            assert not failures, failures[:5]
            assert gateway.metric("pathmirror_namespaces_evicted_total") > 0, "too few namespaces for this budget: none had to go"
            assert over < 1 << 20, "the budget does not hold"
            assert most - empty < 3 * (options.budget_mib << 20), "memory grows beyond the budget"
        finally:
            gateway.sweep()


if __name__ == "__main__":
    main()
