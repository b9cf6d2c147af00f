"""The same requests over TLS and plain, by the same connections."""

import json
import tempfile
from pathlib import Path

from harness import machine, process
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Load, wrk
from harness.report import typical
from suites.puts import KEYS, LENGTH

NAME = "tls"
TITLE = "TLS"
TEXT = """GETs of 200 bytes, PUTs of 200 bytes and GETs of 1 MB by 64 keep-alive connections over TLS 1.3, compared with plain HTTP.
The certificate is P-256, and OpenSSL negotiates the cipher.
The load generator decrypts on the same processors."""


class Secured:
    """The same gateway by its TLS port."""

    def __init__(self, gateway: Gateway, port: int):
        self._gateway, self.url = gateway, f"https://127.0.0.1:{port}"

    def meter(self):
        return self._gateway.meter()


def run(context: Context):
    with tempfile.TemporaryDirectory(prefix="pathmirror-tls-") as folder:
        certificate, key, port = Path(folder, "certificate.pem"), Path(folder, "key.pem"), machine.free_port()
        process.run([machine.program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                     "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate])
        with Gateway(options=["--tls-certificate", certificate, "--tls-key", key, "--tls-listen", f"127.0.0.1:{port}"]) as gateway:
            gateway.request("PUT", "/bench.json?print=silent", json.dumps({f"k{number}": "y" * LENGTH for number in range(1, KEYS + 1)}))
            gateway.request("PUT", "/small.json?print=silent", json.dumps("x" * LENGTH))
            gateway.request("PUT", "/large.json?print=silent", json.dumps("x" * (1_000_000 - 2)))
            compare(context, gateway, Secured(gateway, port))


def compare(context: Context, plain: Gateway, secured: Secured):
    seconds = context.pick(3, 1)
    sides = (secured, plain)
    gets: list[tuple[Load, ...]] = []
    puts: list[tuple[Load, ...]] = []
    large: list[tuple[Load, ...]] = []
    for number in context.rounds(3, 1, until=60):
        context.progress(f"round {number + 1}")
        for found, target, script, words in ((gets, "/small.json", "report.lua", ()), (large, "/large.json", "report.lua", ()),
                                             (puts, "/", "put.lua", ("leaf", KEYS, number, LENGTH))):
            plain.checkpoint()
            context.quiet.wait()
            found.append(tuple(wrk(side, target, seconds, 64, script, words) for side in sides))
    for text, pairs, aim in (("GETs of 200 bytes", gets, 0.8), ("PUTs of 200 bytes", puts, 0.9), ("GETs of 1 MB", large, 0.5)):
        context.measure(f"{text} over TLS / plain", [a.per_second / b.per_second for a, b in pairs], aim=aim,
                        absolute=f"{typical([a.per_second for a, _ in pairs])} against {typical([b.per_second for _, b in pairs])} a second; "
                        f"processor time {typical([a.cost for a, _ in pairs])} against {typical([b.cost for _, b in pairs])} µs, "
                        "load generator included")
