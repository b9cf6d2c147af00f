"""One stack for all tests: it is built and started once, and its logs are searched for credentials at the end."""

import os

import pytest
from load import Load
from stack import Stack

FIGURES: list[str] = []


def lived(running: Stack):
    """Builds and starts the stack, and removes it at the end."""
    running.down()
    try:
        running.build()
        running.up()
        yield running
        text = running.logs()
        assert not [secret for secret in running.credentials if secret in text], "a credential is in a log"
    finally:
        running.down()


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    yield from lived(Stack(tmp_path_factory.mktemp("stack")))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The stack with the overlay of docs/guides/high-availability.md, beside the other."""
    subnets = tuple(os.environ.get("STACK_HA_SUBNETS", "172.30.241.0/24,172.30.242.0/24,172.30.243.0/24").split(","))
    yield from lived(Stack(tmp_path_factory.mktemp("cluster"), "pathmirror-stack-ha", ("deploy/compose.ha.yml",), subnets))


@pytest.fixture
def load(stack, request):
    """Load during the test; its figures are shown at the end."""
    stack.wait_until_served()
    with Load(stack.rest, stack.secret) as clients:
        yield clients
    FIGURES.append(f"{request.node.name}: {clients.report()}")


@pytest.fixture
def figure():
    return FIGURES.append


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("figures")
        for line in FIGURES:
            terminalreporter.line(line)
