"""Mutated messages and frames from an upstream to a follower, while clients of another namespace work: they notice nothing, memory stays
bounded, and a good upstream is followed again afterwards.

PATHMIRROR_E2E_FOLLOW_MUTATIONS says how many there are, and PATHMIRROR_E2E_SEED which."""

import base64
import json
import os
import random
import time

import pytest
from dice import Dice, mutated
from harness import cli, sql
from harness.follow import Followed
from harness.gateway import start_serve
from harness.process import resident_bytes
from harness.scratch import scratch_directory
from harness.waiting import wait_until
from upstream.misbehaviour import INVALID
from upstream.standin import Standin
from upstream.wire import frame
from witness import Witness

SEED = int(os.environ.get("PATHMIRROR_E2E_SEED", "0")) or random.randrange(1 << 30)
CASES = int(os.environ.get("PATHMIRROR_E2E_FOLLOW_MUTATIONS", "400"))
# A message that violates the protocol suspends the follower for ten minutes otherwise.
TUNE = "follow-first-retry=20ms,follow-longest-retry=50ms,follow-violation-pause=20ms,follow-refusal-pause=20ms,follow-shutdown-retry=50ms"
MEMORY = 300 << 20
GOOD = [
    '{"t":"c","d":{"t":"h","d":{"ts":1795162912489,"v":"5","h":"127.0.0.1","s":"3377e5c0"}}}', '{"t":"c","d":{"t":"o","d":null}}',
    '{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}', '{"t":"d","d":{"r":3,"b":{"s":"ok","d":{}}}}', '{"t":"d","d":{"r":3,"b":{"s":"permission_denied","d":"no"}}}',
    '{"t":"d","d":{"r":2,"b":{"s":"ok","d":{"auth":null,"expires":1600000000}}}}', '{"t":"d","d":{"a":"d","b":{"p":"good/a","d":{"x":{".value":1,".priority":"p"}}}}}',
    '{"t":"d","d":{"a":"d","b":{"p":"","d":{"good":[1,2,{"a":true}]}}}}', '{"t":"d","d":{"a":"m","b":{"p":"good","d":{"a":null,"b/c":"two"}}}}',
    '{"t":"d","d":{"a":"rm","b":{"p":"","d":[{"s":"good/a","e":"good/c","m":{"good":{"b":1}}}]}}}', '{"t":"d","d":{"a":"c","b":{"p":""}}}',
    '{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"Auth token is expired."}}}', '3', '{"t":"d","d":{"a":"d","b":{"p":"good/b","d":9007199254740993,"t":1}}}',
]
TOKENS = [text.encode() for text in ('"p":', '"d":', '"t":', '"a":"d"', '"a":"m"', '"a":"rm"', '"r":3,', '"s":"too_big"', ".value", ".priority", ".sv", "null", "1e999",
                                     "9223372036854775808", "/", "//", "..", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "\\ud83d", "\\u0000", "999999",
                                     '{"a":' * 40, "[" * 40, "k" * 800)]


@pytest.fixture
def attacked(follows, postgres, logs):
    """(a follower of a namespace of its own, the witness of another one)."""
    with scratch_directory("mutations") as path, Standin() as standin:
        url = postgres.create_database()
        gateway = start_serve(url, path, logs, "--create-namespaces", tune=TUNE, name="mutations")
        witness = Witness(gateway.port)
        try:
            cli.succeeds("namespace", "create", "victim", "--database-url", url)
            standin.put("good", {"a": 1, "b": {"c": "two"}, "c": [1, 2, 3]}, "victim")
            followed = Followed(gateway, standin, standin.credentials(path / "account.json"), "victim", "victim").begin()
            followed.wait_equal()
            witness.start()
            yield followed, witness
        finally:
            witness.finish()
            gateway.sweep()


class Attack:
    """One case from its number: what is sent, and when."""

    def __init__(self, number: int):
        self.dice = Dice(SEED * 100_003 + number)
        seeds = [text.encode("utf-8", "surrogatepass") for text in (*GOOD, *INVALID.values()) if len(text) < 4_000]
        self.messages = [mutated(self.dice, self.dice.choice(seeds), TOKENS, seeds) for _ in range(self.dice.randint(1, 5))]
        self.is_during_listen = self.dice.chance(30)
        self.is_framed = self.dice.chance(85)

    @property
    def bytes(self) -> bytes:
        """Whole frames, most often; else the bytes of frames are mutated, too."""
        frames = b"".join(map(frame, self.messages))
        return frames if self.is_framed else mutated(self.dice, frames, [b"\x81\x7f", b"\x01", b"\x80\x00", b"\x88\x02\x03\xe8", b"\x89\x7e"], [frames])

    def send(self, followed):
        text, ns = base64.b64encode(self.bytes).decode(), followed.upstream_ns
        if self.is_during_listen:
            followed.standin.set(on_listen="bytes", on_listen_options={"base64_text": text}, on_listen_times=1)
            followed.standin.do("cut", only=ns)
        else:
            followed.standin.do("bytes", only=ns, base64_text=text)


def test_mutated_messages_touch_nobody_else(attacked):
    followed, witness = attacked
    gateway, standin = followed.gateway, followed.standin
    base, most, begin = resident_bytes(gateway.process.pid), 0, time.monotonic()
    others = head_of_others(followed)
    for number in range(CASES):
        attack = Attack(number)
        try:
            wait_until(lambda: [one for one in standin.alive(followed.upstream_ns) if one.listens], "the follower to listen", 30, 0.005)
            attack.send(followed)
            time.sleep(0.01)
            assert gateway.process.running, "the gateway has ended"
            assert witness.wrong is None, witness.wrong
            most = max(most, resident_bytes(gateway.process.pid) - base)
            assert most < MEMORY, f"{most >> 20} MiB more"
            if number % 50 == 49:
                recovers(followed)
        except AssertionError as failure:
            raise AssertionError(f"seed {SEED}, case {number}: {failure}\n{attack.messages}\n{attack.bytes.hex()}\n{followed.following.status()}") from None
    recovers(followed)
    witness.finish()
    assert witness.wrong is None, witness.wrong
    assert head_of_others(followed) == others, "a namespace was made or changed"
    assert standin.violations() == []
    print(f"\nseed {SEED}: {CASES} cases in {time.monotonic() - begin:.0f} s, {len(standin.seen('connected'))} connections, {most >> 20} MiB more; "
          f"the witness wrote {witness.writes} times, and its slowest probe took {witness.slowest * 1000:.0f} ms")


def recovers(followed):
    """A good upstream again: the follower is equal after its next connection."""
    followed.standin.behave()
    followed.standin.put("good/again", time.time(), followed.upstream_ns)
    followed.standin.do("cut", only=followed.upstream_ns)
    followed.wait_equal(60)


def head_of_others(followed) -> list:
    """The namespaces besides the follower's and the witness's, with what is in them."""
    return sql.rows(followed.url, "select name, head from pathmirror.namespace where name not in ('victim', 'witness-5f0c7a') order by name")


def test_a_case_is_repeated_by_its_number():
    first, again = Attack(7), Attack(7)
    assert first.messages == again.messages and first.bytes == again.bytes != Attack(8).bytes
    assert json.loads(GOOD[0])["t"] == "c"
