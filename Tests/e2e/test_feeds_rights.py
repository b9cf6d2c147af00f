"""Rights to a feed: administrators, and the token of that feed. Rules that open the data open no feed."""

import json

import pytest
from harness import cli
from harness.feeds import ADMIN, PATIENT, Feed, FeedStream
from harness.gateway import OPEN_RULES, SECRET
from harness.issuer import hs256, legacy
from harness.waiting import wait_until

EVERYTHING = [
    ("GET", "", None), ("PUT", "", {"path": "/orders/{order_id}"}), ("DELETE", "", None), ("POST", "pull", {}),
    ("POST", "ack", {"ids": ["default:1:0"]}), ("POST", "nack", {"ids": ["default:1:0"]}),
    ("POST", "extend", {"ids": ["default:1:0"], "delay": "1ms"}), ("GET", "stream", None), ("POST", "seek", {"to": "now"}),
    ("GET", "dead", None), ("POST", "dead/retry", {"all": True}), ("POST", "dead/drop", {"all": True}), ("GET", "status", None),
]
DATABASE_SECRET = "a-database-secret-of-the-default-namespace"


@pytest.fixture
def gateway(serve, scratch):
    secret = scratch / "database-secret"
    secret.write_text(DATABASE_SECRET + "\n")
    secret.chmod(0o600)
    # Rules that allow all reads and writes of data.
    return serve("--database-secret-file", f"default={secret}", "--clock-skew", "0s", rules=OPEN_RULES)


@pytest.fixture
def orders(gateway):
    feed = Feed(gateway.rest, headers=ADMIN).make(**PATIENT)
    gateway.rest.set("orders/a", {"secret": "tango-4711"})
    return feed


def refusals(feed, requests=None) -> dict:
    """The answers to each request, streams included."""
    found = {}
    for method, what, body in requests or EVERYTHING:
        answer = feed.call(method, what, body)
        assert b"tango" not in answer.body, (method, what)
        found[method, what] = answer.status
    return found


CALLERS = {
    "nobody": {},
    "an empty credential": {"Authorization": "Bearer "},
    "a guess": {"Authorization": "Bearer guess"},
    "the owner of dev": {"Authorization": "Bearer owner"},
    "a user": {"Authorization": f"Bearer {legacy('ada', DATABASE_SECRET, d={'uid': 'ada'})}"},
    "a token that nobody signed": {"Authorization": f"Bearer {hs256({'v': 0, 'iat': 1, 'd': {'uid': 'x'}, 'admin': True}, 'other')}"},
}


@pytest.mark.parametrize("caller", CALLERS)
def test_rules_open_no_feed(orders, caller):
    before = orders.definition()
    stranger = orders.by(CALLERS[caller])
    assert set(refusals(stranger).values()) <= {401, 403}, refusals(stranger)
    assert orders.rest.send("GET", "/.feeds", None, CALLERS[caller]).status in (401, 403)
    # The requests had no effect.
    assert orders.definition() == before
    assert orders.take()[0]["key"] == "a"


@pytest.mark.parametrize("caller", CALLERS)
def test_who_may_not_learns_not_what_there_is(orders, caller):
    stranger = orders.by(CALLERS[caller])
    for method, what, body in EVERYTHING:
        there, nowhere = stranger.call(method, what, body), stranger.named("none").call(method, what, body)
        assert (there.status, there.body) == (nowhere.status, nowhere.body), (method, what)


def test_administrators_may(gateway, orders):
    for headers in (ADMIN, {"Authorization": f"Bearer {DATABASE_SECRET}"}):
        statuses = refusals(orders.by(headers).named("more"), [("PUT", "", {"path": "/x/{y}"}), ("GET", "", None), ("DELETE", "", None)])
        assert set(statuses.values()) <= {200, 201}, statuses
    assert orders.rest.send("GET", f"/.feeds/orders?ns=default&auth={SECRET}").status == 200


@pytest.fixture
def mint(scratch):
    secret = scratch / "database-secret"

    def mint(name: str, *words) -> dict:
        token = cli.succeeds("token", "mint", "--feed", name, "--ns", "default", "--secret-file", secret, *words).strip()
        return {"Authorization": f"Bearer {token}"}

    return mint


def test_the_token_of_a_feed(orders, mint):
    consumer = orders.by(mint("orders"))
    message = consumer.one("c1")
    assert consumer.settle("extend", [message], delay="60s") == {message["id"]: "done"}
    assert consumer.settle("ack", [message], consumer="c1") == {message["id"]: "done"}
    assert consumer.status()["acknowledged"] == 1


def test_the_token_of_another_feed(orders, mint):
    other = orders.named("mails").make("/mails/{id}", **PATIENT)
    stranger = orders.by(mint("mails"))
    assert set(refusals(stranger).values()) <= {401, 403}
    assert stranger.named("mails").pull() == []
    assert orders.by(mint("order")).call("POST", "pull", {}).status in (401, 403)
    assert other.status()["name"] == "mails"


def test_a_feeds_token_reads_and_writes_no_data(serve, scratch, mint):
    secret = scratch / "database-secret"
    secret.write_text(DATABASE_SECRET + "\n")
    gateway = serve("--database-secret-file", f"default={secret}", rules={"rules": {".read": "auth != null", ".write": "auth != null"}})
    orders = Feed(gateway.rest, headers=ADMIN).make(**PATIENT)
    gateway.rest.set("orders/a", "tango-4711", headers=ADMIN)
    headers = mint("orders")
    assert orders.by(headers).one()["key"] == "a"
    for method, path, body in (("GET", "/orders.json", None), ("PUT", "/orders/b.json", b"1"), ("DELETE", "/orders.json", None),
                               ("GET", "/.settings/rules.json", None), ("GET", "/.feeds", None)):
        answer = gateway.rest.send(method, path, body, headers)
        assert answer.status in (401, 403) and b"tango" not in answer.body, (method, path, answer.status)
    assert gateway.rest.value("orders", headers=ADMIN) == {"a": "tango-4711"}


def test_a_feeds_token_is_for_its_namespace(serve, scratch, mint):
    secret = scratch / "database-secret"
    secret.write_text(DATABASE_SECRET + "\n")
    gateway = serve("--database-secret-file", f"default={secret}", ns="default,other")
    Feed(gateway.rest, headers=ADMIN).make(**PATIENT)
    there = Feed(gateway.rest, ns="other", headers=ADMIN).make(**PATIENT)
    assert there.by(mint("orders")).call("POST", "pull", {}).status in (401, 403)


def test_a_token_that_has_expired(orders, mint):
    consumer = orders.by(mint("orders", "--expires-in", "1s"))
    # The token is valid for the allowed clock skew in addition, which is zero here.
    wait_until(lambda: consumer.call("POST", "pull", {}).status in (401, 403), "the token to expire")
    with pytest.raises(AssertionError, match="refused"):
        FeedStream(consumer)


def test_secrets_of_a_definition_are_not_told(orders):
    definition = {"path": "/orders/{order_id}", "webhook": {
        "url": "https://hooks.invalid/", "secrets": ["whsec_dGFuZ28tNDcxMS10YW5nby00NzExLXRhbmdv"]}}
    hook = orders.named("hook")
    assert hook.call("PUT", body=definition).status == 201
    for answer in (hook.call("GET"), hook.call("GET", "status"), orders.rest.send("GET", "/.feeds", None, ADMIN)):
        assert b"dGFuZ28" not in answer.body
    assert "(set)" in json.dumps(hook.definition())
    # The same definition with its secret changes nothing.
    assert hook.ask("PUT", body=definition)["changed"] is False
