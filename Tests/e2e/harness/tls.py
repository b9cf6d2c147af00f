"""Certificates for tests, and TLS for clients that only speak plain text."""

import ipaddress
import select
import socket
import ssl
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Issues certificates for this machine. Clients trust `file`."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        certificate = self._build(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(self._key, hashes.SHA256())
        self.file = directory / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _build(self, subject: x509.Name, key, days: int = 30) -> x509.CertificateBuilder:
        now = datetime.now(timezone.utc)
        return (x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
                .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
                .not_valid_after(now + timedelta(days=days)))

    def issue(self, days: int = 30) -> tuple[bytes, bytes, int]:
        """(certificate, key, serial number)"""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = self._build(subject, key, days).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        return (certificate.public_bytes(serialization.Encoding.PEM),
                key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
                certificate.serial_number)

    def context(self, **bounds) -> ssl.SSLContext:
        """A client's context that trusts this authority alone: context(maximum_version=…)."""
        context = ssl.create_default_context(cafile=str(self.file))
        for name, value in bounds.items():
            setattr(context, name, value)
        return context


class Pair:
    """A certificate and its key in files."""

    def __init__(self, authority: Authority, directory: Path):
        self.authority = authority
        self.certificate, self.key = directory / "certificate.pem", directory / "key.pem"
        self.serial = self.replace()

    @property
    def options(self) -> list:
        return ["--tls-certificate", self.certificate, "--tls-key", self.key]

    def replace(self, days: int = 30) -> int:
        """Writes a new certificate and key, one file after the other; returns the new serial number."""
        certificate, key, serial = self.authority.issue(days)
        for file, data in ((self.certificate, certificate), (self.key, key)):
            new = file.with_suffix(".new")
            new.write_bytes(data)
            new.replace(file)
        return serial


def connect(port: int, context: ssl.SSLContext, patience: float = 20, address: str = "127.0.0.1", **options) -> ssl.SSLSocket:
    plain = socket.create_connection((address, port), timeout=patience)
    try:
        return context.wrap_socket(plain, server_hostname="localhost", **options)
    except BaseException:
        plain.close()
        raise


class Tunnel:
    """Takes plain connections on `port` and passes them on over TLS. Use as a context."""

    def __init__(self, server_port: int, context: ssl.SSLContext, address: str = "127.0.0.1"):
        self._server_port, self._context, self._address = server_port, context, address
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Closing alone does not wake the thread that accepts.
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket):
        try:
            with client, connect(self._server_port, self._context, address=self._address) as server:
                while True:
                    # One thread: a TLS connection is not for two at once.
                    ready = [server] if server.pending() else select.select([client, server], [], [])[0]
                    for source, sink in ((client, server), (server, client)):
                        if source in ready:
                            source.settimeout(0)
                            try:
                                data = source.recv(65536)
                            except (ssl.SSLWantReadError, BlockingIOError):
                                # Not data: the server's tickets, or part of a record.
                                continue
                            if not data:
                                return
                            sink.settimeout(None)
                            sink.sendall(data)
        except OSError:
            return
