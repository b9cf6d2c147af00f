"""Harmful messages: the longest wait of a health check and of a permitted writer beside each."""

import base64
import json
import sys
import time
from pathlib import Path

from harness import machine
from harness.context import Context
from harness.gateway import Gateway
from harness.load import Wrong

sys.path.append(str(Path(__file__).resolve().parents[2] / "Tests" / "hostile"))
from attacks import large, many  # noqa: E402
from attacks.attack import RULES, Attack  # noqa: E402
from attacks.watch import Watch  # noqa: E402
from attacks.wire import Target  # noqa: E402

NAME = "hostile"
# Health checks beside one loop's hostile message, in milliseconds.
AIM = 50


def run(context: Context):
    chosen = [attack for attack in large.ATTACKS + many.ATTACKS if attack.known or not context.quick]
    with Siege() as siege:
        quiet = siege.idle(context)
        context.note(f"beside no message at all: {quiet['health']['worst']:.1f} ms to the worst health check, "
                     f"{quiet['writer']['worst']:.1f} ms to the worst write, in a second")
        for attack in chosen:
            context.progress(attack.name)
            siege.beside(attack, context)


class Siege:
    """A gateway with rules, and the watch over it."""

    def __enter__(self) -> "Siege":
        self.gateway = Gateway()
        self.gateway.__enter__()
        try:
            self.target = Target(self.gateway.port, "owner")
            self.gateway.request("PUT", "/.settings/rules.json?ns=default&auth=owner", json.dumps(RULES))
            self.watch = Watch(self.gateway.port, "/work/number.json?ns=default", unsigned({"sub": "writer", "iat": 0, "exp": 3600}))
            self.watch.__enter__()
        except BaseException:
            self.gateway.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.watch.__exit__()
        self.gateway.__exit__()

    def idle(self, context: Context) -> dict:
        self.watch.settle()
        context.quiet.wait()
        self.watch.since()
        time.sleep(1)
        return self.watch.since()

    def beside(self, attack: Attack, context: Context):
        attack.prepare(self.target)
        payload = attack.make(self.target)
        health, writer, answers = [], [], set()
        for _ in context.rounds(3 if attack.known else 1, 1, until=300):
            self.watch.settle()
            context.quiet.wait()
            before = machine.resident_bytes(self.gateway.pid)
            self.watch.since()
            answers |= set(attack.send(self.target, payload))
            seen = self.watch.settle()
            if failed := seen["health"]["failed"] + seen["writer"]["failed"]:
                raise Wrong(f"{attack.name}: health checks or permitted writes failed: {failed[:3]}")
            health.append(seen["health"]["worst"])
            writer.append(seen["writer"]["worst"])
            grown = (machine.resident_bytes(self.gateway.pid) - before) / 1e6
        if not answers <= attack.expected:
            raise Wrong(f"{attack.name} was answered with {', '.join(sorted(answers - attack.expected))}")
        context.measure(f"{attack.name}: worst health check", health, unit=" ms", at_most=AIM,
                        absolute=f"worst write {max(writer):.0f} ms; {grown:+.0f} MB; {', '.join(sorted(answers))}")


def unsigned(claims: dict) -> str:
    """A token that `dev` accepts from this machine."""
    def part(value: dict) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return f"{part({'alg': 'none', 'type': 'JWT'})}.{part(claims)}."
