"""An identity provider: signs ID tokens, and publishes its keys over HTTP on this machine."""

import base64
import hashlib
import hmac
import json
import threading
import time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

PROJECT = "demo-project"


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signing_input(header: dict, claims: dict) -> str:
    return ".".join(base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))


def hs256(claims: dict, secret: str | bytes, **header) -> str:
    """A token signed with a secret."""
    secret = secret.encode() if isinstance(secret, str) else secret
    text = signing_input({"alg": "HS256", "typ": "JWT", **header}, claims)
    return f"{text}.{base64url(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def unsigned(claims: dict, **header) -> str:
    """A token as emulators make it."""
    return signing_input({"alg": "none", "type": "JWT", **header}, claims) + "."


def legacy(uid: str, secret: str, **claims) -> str:
    """Returns a legacy custom token of Firebase."""
    return hs256({"v": 0, "iat": int(time.time()), "d": {"uid": uid}, **claims}, secret)


class SigningKey:
    def __init__(self, name: str):
        self.name = name
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def certificate(self) -> str:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "securetoken.system.gserviceaccount.com")])
        now = datetime.now(timezone.utc)
        built = (x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(self.key.public_key())
                 .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
                 .not_valid_after(now + timedelta(days=10)).sign(self.key, hashes.SHA256()))
        return built.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def jwk(self) -> dict:
        numbers = self.key.public_key().public_numbers()
        return {"kty": "RSA", "kid": self.name, "use": "sig", "alg": "RS256",
                "n": base64url(numbers.n.to_bytes(256, "big")), "e": base64url(numbers.e.to_bytes(3, "big"))}

    def sign(self, claims: dict, **header) -> str:
        text = signing_input({"alg": "RS256", "kid": self.name, "typ": "JWT", **header}, claims)
        return f"{text}.{base64url(self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class Issuer:
    """Keys and the server that publishes them. Use as a context."""

    def __init__(self, form: str = "x509", max_age: int = 3600):
        self.form, self.max_age = form, max_age
        self.keys = [SigningKey("key-1")]
        self.down = False
        self.fetches = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.fetches += 1
                if issuer.down:
                    self.send_error(503)
                    return
                body = json.dumps(issuer.document).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Cache-Control", f"public, max-age={issuer.max_age}")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def document(self) -> dict:
        if self.form == "jwks":
            return {"keys": [key.jwk for key in self.keys]}
        return {key.name: key.certificate for key in self.keys}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    @property
    def options(self) -> list[str]:
        """The options of a gateway that accepts this issuer."""
        return ["--project-id", PROJECT, "--jwks-url", self.url]

    def claims(self, uid: str = "ada", lasts: float = 3600, **more) -> dict:
        now = int(time.time())
        return {"iss": f"https://securetoken.google.com/{PROJECT}", "aud": PROJECT, "sub": uid, "user_id": uid,
                "iat": now, "auth_time": now, "exp": int(now + lasts),
                "firebase": {"sign_in_provider": "password", "identities": {"google.com": ["1"]}}, **more}

    def token(self, uid: str = "ada", lasts: float = 3600, key: SigningKey | None = None, **more) -> str:
        return (key or self.keys[0]).sign(self.claims(uid, lasts, **more))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
