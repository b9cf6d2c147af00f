"""No log of the stack contains a credential, for all forms of credentials and all outcomes of requests."""

import contextlib
import secrets
import socket

from harness.websocket import Closed, Rejected
from harness.websocket_client import RealtimeClient
from harness.websocket_polling import PollingClient
from stack import GATEWAYS

METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")


def use(stack, credential: str):
    """Sends the credential in every possible way."""
    rest = stack.anybody
    for method in METHODS:
        body = None if method in ("GET", "DELETE") else b'{"a":1}'
        for target in (f"/x.json?auth={credential}", f"/x.json?access_token={credential}", f"/.settings/rules.json?auth={credential}",
                       f"/x/.json?auth={credential}&print=wrong", f"/.ws?v=5&ns={credential}", f"/.lp?id=a{credential}&pw={credential}",
                       f"/.metrics?auth={credential}", f"/.log?auth={credential}", f"/.health/ready?auth={credential}"):
            rest.send(method, target, body)
        rest.send(method, "/x.json", body, {"Authorization": f"Bearer {credential}", "Referer": f"http://x/?auth={credential}"})
    for broken in (f"GET /x.json?auth={credential}\r\n\r\n", f"GET /?auth={credential} HTTP/9.9\r\n\r\n",
                   f"PUT /x.json?auth={credential} HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 40}\r\n\r\n",
                   f"GET /x.json?auth={credential} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", stack.port), timeout=1) as raw, contextlib.suppress(OSError):
            raw.sendall(broken.encode())
            raw.recv(65536)
    with contextlib.suppress(OSError, Closed, Rejected, AssertionError), RealtimeClient(stack.port) as client:
        for action in ("auth", "gauth"):
            client.call(action, {"cred": credential})
        client.call("p", {"p": "/x", "d": 1})
    with contextlib.suppress(OSError, AssertionError, AttributeError):
        polling = PollingClient(stack.port)
        stack.credentials.append(polling.password)
        polling.request(1, "auth", {"cred": credential})


def test_no_credential_is_in_any_log(stack):
    token = stack.execute("gateway-a", "pathmirror", "token", "mint", "--uid", "ada", "--secret-file", "/run/secrets/admin_secret").strip()
    wrong = f"wrong-{secrets.token_hex(16)}"
    # No significant part of the token.
    stack.credentials += [wrong, *token.split(".")[1:]]
    for credential in (stack.secret, token, wrong):
        use(stack, credential)
    stopped = ("postgres", *GATEWAYS)
    try:
        for service in stopped:
            stack.compose("stop", service)
            use(stack, stack.secret)
        use(stack, wrong)
    finally:
        for service in stopped:
            stack.compose("start", service)
        stack.wait_until_served()
    text = stack.logs()
    assert '"GET /x.json HTTP/1.1" 503' in text, "requests that failed are in the log"
    for name in ("postgres", "migrate", "prometheus", "proxy", *GATEWAYS):
        assert f"{name}-1" in text
    found = [line[:300] for line in text.splitlines() if any(secret in line for secret in stack.credentials)]
    assert not found, found[:5]
