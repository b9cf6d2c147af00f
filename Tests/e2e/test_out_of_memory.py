"""A gateway that runs out of memory ends soon and prints the reason in a line; it neither hangs nor continues in part."""

import http.client
import resource
import time
from pathlib import Path

import pytest
from harness.binary import pathmirror
from harness.gateway import start_serve
from harness.ports import free_port
from harness.process import Process
from harness.waiting import Late, wait_until


def size(pid: int) -> int:
    """The address space of a process in bytes, which `ulimit -v` limits."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmSize:")[2].split()[0]) * 1024


def why(process: Process) -> list[str]:
    """The lines that report the lack of memory, without its cause."""
    return [line for line in process.stderr().splitlines() if line.startswith("pathmirror: ") and "memory" in line]


def put(port: int, path: str, size: int):
    """Sends a large value; returns the status, or None if the gateway ended."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("PUT", f"/{path}.json?print=silent", b'"' + b"x" * size + b'"')
        return connection.getresponse().status
    except (http.client.HTTPException, ConnectionError):
        return None
    finally:
        connection.close()


@pytest.mark.parametrize("spare", [1, 24, 64])
def test_under_load(serve, spare):
    """The limit is set while the gateway serves, some MiB above its size."""
    gateway = serve()
    assert put(gateway.port, "first", 1000) == 204
    limit = size(gateway.process.pid) + (spare << 20)
    resource.prlimit(gateway.process.pid, resource.RLIMIT_AS, (limit, limit))
    for number in range(100):
        if put(gateway.port, f"k{number}", 6 << 20) is None:
            break
    else:
        pytest.fail("it serves all of it")
    assert gateway.process.wait() == 1
    assert len(why(gateway.process)) == 1, gateway.process.tail()
    assert "Backtrace" not in gateway.process.stderr()


def test_at_the_start(database_url, scratch, logs):
    """At any limit the gateway ends soon and prints the reason, or it serves, including large values."""
    gateway = start_serve(database_url, scratch, logs)
    try:
        enough = size(gateway.process.pid) >> 20
    finally:
        gateway.stop()
    ended = served = 0
    for megabytes in [*range(80, enough + 40, max(8, enough // 12)), enough + 400]:
        port = free_port()
        words = ["sh", "-c", f'ulimit -v {megabytes * 1024}; exec "$@"', "sh", pathmirror(), "serve", "--database-url",
                 database_url, "--listen", f"127.0.0.1:{port}", "--rules", scratch / "rules.json"]
        process = Process(words, f"limited-{megabytes}", logs)
        try:
            # The gateway serves or ends: the first request that needs a worker shows which.
            def settled():
                if not process.running:
                    return True
                try:
                    return put(port, f"m{megabytes}", 100_000) == 204
                except TimeoutError:
                    raise Late(f"with {megabytes} MiB it hangs:\n{process.tail()}") from None

            wait_until(settled, f"it to serve or to end with {megabytes} MiB", 60)
            if process.running:
                served += 1
                continue
            ended += 1
            assert process.wait() in (1, 127), process.tail()
            # A message of the loader or a library suffices.
            assert why(process) or "memory" in process.stderr() or "map" in process.stderr(), process.tail()
        finally:
            if process.running:
                process.kill()
    assert ended and served


def test_other_faults_are_what_they_were(serve):
    """The gateway does not report another fault as a lack of memory."""
    gateway = serve(env={"SWIFT_BACKTRACE": "enable=no"})
    gateway.process.send(6)
    assert gateway.process.wait() == -6
    assert not why(gateway.process)
