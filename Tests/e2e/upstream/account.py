"""A service account, the token endpoint that believes it, and the tokens that it was given."""

import base64
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

SCOPES = {"https://www.googleapis.com/auth/firebase.database", "https://www.googleapis.com/auth/userinfo.email"}
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Refused(Exception):
    """An assertion that the token endpoint does not accept."""


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@dataclass
class Account:
    """A generated service account, and every access token that was made for it."""

    project: str = "demo-shop"
    lifetime: float = 3600
    # "ok"; "down": 503; "refuse": 400 invalid_grant; "garbage": 200 with a body that is no token; "silent": no answer.
    mode: str = "ok"
    secrets: set[str] = field(default_factory=set)
    allows_owner: bool = False
    token_requests: list[dict] = field(default_factory=list)
    issued: dict[str, float] = field(default_factory=dict)

    def __post_init__(self):
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.email = f"follower@{self.project}.iam.gserviceaccount.com"
        self.key_id = f"{int(time.time() * 1000):040x}"

    def document(self, token_uri: str) -> dict:
        """The contents of the file that a console gives."""
        pem = self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
        return {"type": "service_account", "project_id": self.project, "private_key_id": self.key_id, "private_key": pem,
                "client_email": self.email, "client_id": "100000000000000000001", "token_uri": token_uri,
                "auth_uri": "https://accounts.google.com/o/oauth2/auth", "universe_domain": "googleapis.com"}

    def write(self, file: Path | str, token_uri: str) -> Path:
        """Writes the file of the service account, readable by its owner only."""
        file = Path(file)
        file.touch(0o600)
        file.write_text(json.dumps(self.document(token_uri), indent=2))
        return file

    # MARK: tokens

    def answer(self, body: bytes, token_uri: str) -> tuple[int, dict]:
        """The status and the body of an answer to a request for a token."""
        if self.mode == "down":
            self.token_requests.append({"refused": "down"})
            return 503, {"error": "internal_failure"}
        try:
            if self.mode == "refuse":
                raise Refused("the account was disabled")
            claims = self._checked(body, token_uri)
        except (Refused, ValueError, KeyError) as failure:
            self.token_requests.append({"refused": str(failure)})
            return 400, {"error": "invalid_grant", "error_description": str(failure)}
        self.token_requests.append(claims)
        if self.mode == "garbage":
            return 200, {"id_token": 7, "expires_in": "soon"}
        return 200, {"access_token": self.issue(), "expires_in": int(self.lifetime), "token_type": "Bearer"}

    def issue(self, lifetime: float | None = None) -> str:
        """A new access token."""
        token = f"ya29.stand-in-{len(self.issued)}-{time.time_ns():x}"
        self.issued[token] = time.time() + (self.lifetime if lifetime is None else lifetime)
        return token

    def _checked(self, body: bytes, token_uri: str) -> dict:
        form = {name: values[0] for name, values in parse_qs(body.decode(), strict_parsing=True).items()}
        if form.get("grant_type") != GRANT:
            raise Refused("unsupported grant type")
        parts = form["assertion"].split(".")
        if len(parts) != 3:
            raise Refused("an assertion has three parts")
        header, claims = json.loads(_decode(parts[0])), json.loads(_decode(parts[1]))
        if header.get("alg") != "RS256" or header.get("kid", self.key_id) != self.key_id:
            raise Refused(f"unexpected header {header}")
        try:
            self.key.public_key().verify(_decode(parts[2]), f"{parts[0]}.{parts[1]}".encode(), padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            raise Refused("Invalid JWT Signature.") from None
        now = time.time()
        if claims["iss"] != self.email or claims["aud"] != token_uri:
            raise Refused(f"iss {claims['iss']!r} and aud {claims['aud']!r} are of another account or endpoint")
        if not claims["iat"] - 60 <= now < claims["exp"] or claims["exp"] - claims["iat"] > 3600:
            raise Refused("Token must be a short-lived token (60 minutes) and in a reasonable timeframe.")
        if not SCOPES <= set(claims.get("scope", "").split()):
            raise Refused(f"scopes are missing in {claims.get('scope')!r}")
        return claims

    def judge(self, credential) -> tuple[str, float | None]:
        """("ok", "expired_token" or "invalid_token"; the time at which a good one expires) of a credential."""
        if not isinstance(credential, str):
            return "invalid_token", None
        if credential in self.secrets or self.allows_owner and credential == "owner":
            return "ok", None
        if credential not in self.issued:
            return "invalid_token", None
        expires = self.issued[credential]
        return ("ok", expires) if expires > time.time() else ("expired_token", None)
