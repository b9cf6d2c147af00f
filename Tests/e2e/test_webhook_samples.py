"""docs/reference/webhooks.md: its samples accept signatures of Standard Webhooks' own library, and so does the guide's secret."""

import os
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest
from harness.endpoint import SECRET
from standardwebhooks import Webhook, WebhookVerificationError

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "reference" / "webhooks.md").read_text()
GUIDE = (DOCS / "guides" / "webhooks.md").read_text()
BODY = '{"id":"default:42:0","value":{"name":"Zoë","n":1}}'


def signed(time: datetime) -> dict[str, str]:
    return {"webhook-id": "default:42:0", "webhook-timestamp": str(int(time.timestamp())),
            "webhook-signature": Webhook(SECRET).sign("default:42:0", time, BODY)}


def sample(language: str, containing: str) -> str:
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL) if containing in text]
    return found


def test_python(monkeypatch):
    monkeypatch.setenv("ORDERS_HOOK_SECRET", SECRET)
    names = {"os": os}
    exec(sample("python", "standardwebhooks"), names)
    headers = signed(datetime.now(timezone.utc))
    assert names["handle"](headers, BODY.encode()) == 200
    assert names["handle"](headers, BODY.encode() + b" ") == 401


def test_in_the_shell(tmp_path):
    """The shell's signature of the page's body is that of the library, and the page's example of a request has it, too."""
    made = subprocess.run(["sh", "-c", sample("sh", "openssl dgst")], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert (tmp_path / "body.json").read_text() == BODY
    time = datetime.fromtimestamp(1763805600, timezone.utc)
    assert f"v1,{made.strip()}" == signed(time)["webhook-signature"]
    assert f"Webhook-Signature: v1,{made}" in TEXT and f"```text\n{made}```" in TEXT


def test_a_secret_made_as_the_guide_says():
    (command,) = re.findall(r"^export HOOK_SECRET=.*openssl rand.*$", GUIDE, re.MULTILINE)
    made = subprocess.run(["sh", "-c", f'{command}; echo "$HOOK_SECRET"'], capture_output=True, text=True, check=True).stdout.strip()
    Webhook(made)
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", made)


def test_old_deliveries_are_refused_by_the_library():
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY, signed(datetime.fromtimestamp(1763805600, timezone.utc)))
