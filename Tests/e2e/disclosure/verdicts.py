"""The requirements for each row of the table: an operation and a caller, in all worlds."""

from dataclasses import dataclass

from .worlds import MARKS, Caller


@dataclass(frozen=True)
class Needs:
    """The callers that are allowed (`may`; None if allowed and refused look the same), and the number of distinct answers over the worlds:
    several for an administrator (`shown`); one for a writer that may not read, or two if the stored value decides about success."""

    may: tuple[str, ...] | None
    shown: bool
    writer: int = 1


# The answer shows data.
READS = Needs(("reader",), shown=True)
# Allowed for readers only, but alike in all worlds.
REFUSED = Needs(("reader",), shown=False)
# The answer shows the sent value at most.
WRITES = Needs(("writer",), shown=False)
# The stored value decides about success. A writer learns this, but no more.
COMPARES = Needs(("writer",), shown=True, writer=2)
# Fails in all worlds; a caller that may read gets the stored value instead.
STALE = Needs(("writer",), shown=True)
# The answer shows the result of a write to callers that may read.
ECHOES = Needs(("writer",), shown=True)
# Like ECHOES, but refused in some worlds.
ECHOES_OR_NOT = Needs(("writer",), shown=True, writer=2)
# Writes to a part that only administrators may write as a whole. They learn nothing, or whether the write is possible.
BEYOND = Needs((), shown=False)
BEYOND_SHOWN = Needs((), shown=True)
# The answer shows no stored data, whether the gateway allows or refuses the request.
SAME = Needs(None, shown=False)


def judge(needs: Needs, caller: Caller, seen: dict[str, object], sent: str, is_denial):
    """Compares a caller's observations in each world. `sent`: the request as text; values that the caller sent are no secret."""
    kinds = sorted({repr(one) for one in seen.values()})
    if needs.may is not None:
        allowed = caller.administers or caller.name in needs.may
        for world, one in seen.items():
            assert is_denial(one) != allowed, f"{'' if allowed else 'not '}refused in the world '{world}': {one!r:.600}"
    else:
        allowed = True
    if allowed and caller.reads and needs.shown:
        assert len(kinds) > 1, f"this row can't fail: all worlds look alike to {caller}: {kinds[0]:.600}"
        return
    expected = needs.writer if allowed and caller.writes and needs.shown else 1
    assert len(kinds) == expected, f"{len(kinds)} kinds of answers, not {expected}:\n" + differences(kinds)
    if not caller.reads:
        for mark in MARKS:
            assert mark in sent or mark not in "".join(kinds), f"'{mark}' in what {caller} was shown:\n" + differences(kinds)


def differences(kinds: list[str]) -> str:
    return "\n".join(f"  {kind:.500}" for kind in kinds[:4])
