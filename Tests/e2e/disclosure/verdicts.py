"""What is demanded of each row of the table: an operation and a caller, tried in all worlds."""

from dataclasses import dataclass

from .worlds import MARKS, Caller


@dataclass(frozen=True)
class Needs:
    """Who is let in (`may`; None where allowed and refused are all the same), and how many kinds of answers the callers see:
    an administrator several (`shown`), a writer who may not read one, or two where it is done or not by what is there."""

    may: tuple[str, ...] | None
    shown: bool
    writer: int = 1


# Its answer shows data.
READS = Needs(("reader",), shown=True)
# Only for who may read, but alike in all worlds.
REFUSED = Needs(("reader",), shown=False)
# Its answer shows nothing but what was sent.
WRITES = Needs(("writer",), shown=False)
# It is done or not by what is there, which a writer learns, but no more than that.
COMPARES = Needs(("writer",), shown=True, writer=2)
# Done in no world; who may read is shown what is there instead.
STALE = Needs(("writer",), shown=True)
# Its answer shows what has become of a write, to who may read.
ECHOES = Needs(("writer",), shown=True)
# The same, and it is refused in some worlds.
ECHOES_OR_NOT = Needs(("writer",), shown=True, writer=2)
# It writes where nobody but an administrator may write all of it; the latter learns nothing, or whether it could be done.
BEYOND = Needs((), shown=False)
BEYOND_SHOWN = Needs((), shown=True)
# It shows nothing to anybody, be it allowed or refused.
SAME = Needs(None, shown=False)


def judge(needs: Needs, caller: Caller, seen: dict[str, object], sent: str, is_denial):
    """Compares what a caller saw in each world. `sent`: their request as text; what they sent themselves is no secret."""
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
