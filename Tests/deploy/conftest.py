"""Fixtures of the proxy's tests: two stand-ins for gateways with the real nginx before them."""

import threading

import pytest
from deployment import run, tool
from proxy import Proxy
from standin import StandIn


@pytest.fixture
def gateways():
    """Two stand-ins, with a shared event that reports the first byte of a body."""
    body_started = threading.Event()
    pair = [StandIn(body_started), StandIn(body_started)]
    yield pair
    for gateway in pair:
        gateway.stop()


@pytest.fixture
def proxy(gateways, tmp_path):
    with Proxy(tmp_path, [gateway.port for gateway in gateways]) as running:
        yield running


@pytest.fixture
def certificate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    run(tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
        "-keyout", directory / "tls.key", "-out", directory / "tls.crt")
    return directory
