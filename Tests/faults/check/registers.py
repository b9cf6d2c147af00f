"""The registers' histories as steps for the checker."""

from workload.history import OK, REFUSED, UNKNOWN, History, Operation

from . import linear
from .entries import Entry, Restored
from .linear import NEVER, Step
from .log import registers_at


def step(operation: Operation) -> Step | None:
    """Returns None for an operation without information: a lost read, or a refusal that may be of older data."""
    ended = NEVER if operation.completed is None else operation.completed
    common = {"begun": operation.invoked, "ended": ended, "who": f"{operation.client} at {operation.gateway}"}
    if operation.kind == "read":
        return Step(linear.READ, seen=operation.seen, **common) if operation.status == OK else None
    if operation.kind == "write":
        return Step(linear.WRITE, value=operation.value, certain=operation.status == OK, **common)
    if operation.kind == "cas":
        if operation.status == REFUSED:
            return Step(linear.NOT_CAS, expected=operation.expected, seen=operation.seen, **common)
        return Step(linear.CAS, value=operation.value, expected=operation.expected, certain=operation.status == OK, **common)
    return None


def judge(history: History, entries: list[Entry], restored: Restored | None) -> tuple[list[str], int, int]:
    """(violations, decided registers, visited states). An undecided register is a violation, too."""
    wrong, decided, visited = [], 0, 0
    for key in sorted({operation.key for operation in history.operations if operation.kind in ("write", "cas")}):
        mine = [operation for operation in history.operations if operation.key == key]
        for label, steps, initial in _parts(key, mine, entries, restored):
            verdict = linear.check(steps, initial)
            visited += verdict.visited
            if not verdict.linear:
                wrong.append(f"register {key}{label}: {verdict.text}")
            decided += verdict.decided
    return wrong, decided, visited


def _parts(key: str, mine: list[Operation], entries: list[Entry], restored: Restored | None):
    """The whole history, or its parts before and after a restore of the database."""
    if restored is None:
        yield "", [found for operation in mine if (found := step(operation))], (None,)
        return
    before = [operation for operation in mine if operation.invoked < restored.killed]
    yield " before the copy was put back", [
        cut for operation in before if (found := step(operation)) and (cut := _cut(found, restored.killed))], (None,)
    if key == "large":
        return
    first = registers_at(entries, restored.kept).get(key)
    after = [operation for operation in mine if operation.invoked >= restored.killed
             and not (operation.invoked < restored.noticed and (operation.kind == "read" or operation.status == REFUSED))]
    # Operations in flight at that time may have reached either of the two.
    after += [operation for operation in before if operation.wrote and operation.status == UNKNOWN
              or operation.wrote and operation.status == OK and (operation.completed is None or operation.completed > restored.killed)]
    steps = []
    for operation in after:
        if found := step(operation):
            doubtful = operation.invoked < restored.killed
            steps.append(Step(found.kind, found.begun, NEVER if doubtful else found.ended, found.value, found.expected, found.seen,
                              found.certain and not doubtful, found.who))
    yield " after the copy was put back", steps, (first,)


def _cut(found: Step, moment: float) -> Step | None:
    """Splits a step at a time. A write in flight may have happened before it, and a read may be of the time after it."""
    if found.ended <= moment:
        return found
    if found.kind in (linear.READ, linear.NOT_CAS):
        return None
    return Step(found.kind, found.begun, NEVER, found.value, found.expected, found.seen, False, found.who)
