"""The outages of writes, and their limits."""

from dataclasses import dataclass

from workload.prober import Probe

# The allowance beyond the 10 s of the design on a machine that does other work, too.
SLACK = 6.0
OTHERS = 10.0 + SLACK
ITSELF = 20.0 + SLACK


@dataclass
class Outage:
    """One fault as it happened: `struck` are the gateways that cannot work during it."""

    kind: str
    begun: float
    ended: float
    struck: frozenset
    text: str = ""
    longest: float = 0.0


def longest_gap(probes: list[Probe], begin: float, end: float) -> float:
    """The longest time without an acknowledged write between the two times."""
    moments = [begin] + [probe.ended for probe in probes if probe.good and begin <= probe.ended <= end] + [end]
    return max(later - earlier for earlier, later in zip(moments, moments[1:]))


def judge(outages: list[Outage], probes: dict[str, list[Probe]], until: float) -> list[str]:
    """Checks that gateways that a fault does not strike continue, and that a struck one works after the fault, unless another one strikes
    it."""
    wrong = []
    for outage in outages:
        for gateway, mine in probes.items():
            if gateway not in outage.struck:
                begin, end, bound = outage.begun, min(outage.ended + OTHERS + 1, until), OTHERS
            else:
                begin, end, bound = outage.ended, min(outage.ended + ITSELF + 1, until), ITSELF
            spans = _calm(begin, end, gateway, outage, outages)
            for one, other in spans:
                gap = longest_gap(mine, one, other)
                outage.longest = max(outage.longest, gap)
                if gap > bound:
                    wrong.append(f"writes by {gateway} did not work for {gap:.1f} s during or after {outage.text or outage.kind}")
    return wrong


def _calm(begin: float, end: float, gateway: str, outage: Outage, outages: list[Outage]) -> list[tuple[float, float]]:
    """The parts of a time without other faults that strike the gateway."""
    spans = [(begin, end)] if end > begin else []
    for other in outages:
        if other is outage or gateway not in other.struck:
            continue
        left = []
        for one, two in spans:
            if other.ended <= one or other.begun >= two:
                left.append((one, two))
                continue
            if other.begun > one:
                left.append((one, other.begun))
            if other.ended < two:
                left.append((other.ended, two))
        spans = left
    return spans
