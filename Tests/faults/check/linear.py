"""Checks whether a register's history is linearizable: the search of Wing and Gong with a memory of visited states.

Values are unique: no two operations write the same one. An operation whose outcome is unknown may take effect at any time after its
begin, or never. If no operation has seen its value, it is left out: an order that explains the others with it explains them without it.
If an operation has seen it, it took effect before the first of those ended."""

from dataclasses import dataclass

READ, WRITE, CAS, NOT_CAS = "read", "write", "cas", "refused"
NEVER = float("inf")


@dataclass(frozen=True)
class Step:
    """One operation on one register. `expected`: the value of a compare-and-set; `seen`: the value of a read or of a refusal."""

    kind: str
    begun: float
    ended: float
    value: object = None
    expected: object = None
    seen: object = None
    certain: bool = True
    who: str = ""

    def after(self, state):
        """The register's value after the step; None within a tuple if the step is impossible now."""
        if self.kind == READ:
            return (state,) if state == self.seen else None
        if self.kind == WRITE:
            return (self.value,)
        if self.kind == CAS:
            return (self.value,) if state == self.expected else None
        return (state,) if state == self.seen and state != self.expected else None


@dataclass
class Verdict:
    """`decided` is False if the search was abandoned, which proves nothing."""

    linear: bool
    decided: bool = True
    text: str = ""
    visited: int = 0


def settle(steps: list[Step]) -> list[Step]:
    """Replaces uncertain operations by certain ones, or leaves them out."""
    witnessed: dict[object, float] = {}

    def witness(value, ended: float):
        if value is not None and ended < witnessed.get(value, NEVER):
            witnessed[value] = ended
            return True
        return False

    for step in steps:
        witness(step.seen, step.ended)
        if step.kind == CAS and step.certain:
            witness(step.expected, step.ended)
    # An operation that replaced a seen value did so before the value was seen, and so its expected value existed before.
    by_value = {step.value: step for step in steps if step.value is not None}
    pending = list(witnessed)
    while pending:
        step = by_value.get(pending.pop())
        if step and step.kind == CAS and witness(step.expected, min(step.ended, witnessed[step.value])):
            pending.append(step.expected)
    settled = []
    for step in steps:
        seen = witnessed.get(step.value, NEVER) if step.value is not None else NEVER
        if step.certain or step.value in witnessed:
            settled.append(Step(step.kind, step.begun, min(step.ended, seen), step.value, step.expected, step.seen, True, step.who))
    return settled


def check(steps: list[Step], initial=(None,), limit: int = 400_000) -> Verdict:
    """`initial`: the possible initial values of the register."""
    settled = sorted(settle(steps), key=lambda step: (step.begun, step.ended))
    for step in settled:
        if step.ended < step.begun:
            return Verdict(False, text=f"seen before it was asked for: {_show(step)}")
    visited = 0
    furthest: list[int] = []
    for first in initial:
        verdict, taken = _search(settled, first, limit - visited)
        visited += verdict.visited
        if verdict.linear or not verdict.decided:
            return Verdict(verdict.linear, verdict.decided, verdict.text, visited)
        furthest = max(furthest, taken, key=len)
    return Verdict(False, text=_explain(settled, furthest), visited=visited)


def _search(steps: list[Step], initial, limit: int) -> tuple[Verdict, list[int]]:
    """Searches depth first. A state is the first untaken operation, the taken ones after it, and the value: each state is tried once."""
    count = len(steps)
    been: set = set()
    taken = bytearray(count)
    low, state, visited = 0, initial, 0
    path: list[tuple[int, object, int]] = []
    best: list[int] = []
    choices = _ready(steps, taken, low)
    stack = [iter(choices)]
    # Each value exists once: only the compare-and-set that expects it can replace it.
    replacing: dict[object, int] = {step.expected: index for index, step in enumerate(steps) if step.kind == CAS}
    while True:
        if len(path) == count:
            return Verdict(True, visited=visited), []
        for index in stack[-1]:
            result = steps[index].after(state)
            if result is None or (result[0] != state and replacing.get(state, index) != index):
                continue
            taken[index] = 1
            new_low = low
            while new_low < count and taken[new_low]:
                new_low += 1
            place = (new_low, frozenset(other for other in range(new_low, min(count, new_low + 4000)) if taken[other])
                     if new_low < count else frozenset(), result[0])
            if place in been:
                taken[index] = 0
                continue
            been.add(place)
            visited += 1
            if visited > limit:
                return Verdict(False, False, f"not decided after {visited} places", visited), best
            path.append((index, state, low))
            state, low = result[0], new_low
            if len(path) > len(best):
                best = [step for step, _, _ in path]
            stack.append(iter(_ready(steps, taken, low)))
            break
        else:
            stack.pop()
            if not path:
                return Verdict(False, visited=visited), best
            index, state, low = path.pop()
            taken[index] = 0


def _ready(steps: list[Step], taken: bytearray, low: int) -> list[int]:
    """The operations that may come next: those that began before any remaining one ended."""
    bound, found = NEVER, []
    for index in range(low, len(steps)):
        if taken[index]:
            continue
        step = steps[index]
        if step.begun > bound:
            break
        found.append(index)
        bound = min(bound, step.ended)
    # Tries the operation with the earliest end first, which most often came first.
    found = [index for index in found if steps[index].begun <= bound]
    found.sort(key=lambda index: steps[index].ended)
    return found


def _show(step: Step) -> str:
    what = {READ: f"read {step.seen!r}", WRITE: f"write {step.value!r}", CAS: f"{step.expected!r} -> {step.value!r}",
            NOT_CAS: f"refused {step.expected!r}, there was {step.seen!r}"}[step.kind]
    return f"{step.who} {what} [{step.begun:.4f}, {step.ended:.4f}]"


def _explain(steps: list[Step], taken: list[int]) -> str:
    """The end of the longest order that the search found."""
    done = set(taken)
    left = [index for index in range(len(steps)) if index not in done]
    lines = ["after " + _show(steps[index]) for index in taken[-4:]] + ["left  " + _show(steps[index]) for index in left[:6]]
    return f"no order explains {len(steps)} operations; {len(taken)} of them can be ordered: " + "; ".join(lines)
