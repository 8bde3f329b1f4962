"""Sentences on ranks that hang, and on those that pause as declared. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..diagnosis.stacks import spans, standstill_line
from ..runs.logs.text import plain_text
from ..state.run_state import RunState

_SHOWN = 3


def hung_line(state: RunState, now: float) -> str:
    """Which ranks hang, for how long, and where all ranks are, the odd one out first; empty for none."""
    hung = [rank for rank in state.ranks if rank.alive and rank.hung]
    if not hung:
        return ""
    since = max(rank.silent_since or 0.0 for rank in hung)
    return f"HUNG {_age(now - since)}: {standstill_line(state.last_stacks) or named(hung_ranks(state))}"


def hung_ranks(state: RunState) -> list[int]:
    """The ranks that hang now, or that hung when they ended."""
    return [rank.rank for rank in state.ranks if rank.hung]


def paused_line(state: RunState) -> str:
    """Which ranks pause, and why; empty for none."""
    paused = [rank for rank in state.ranks if rank.alive and rank.paused is not None]
    told = [f"rank {r.rank} is paused{_because(r.paused)}" for r in paused[:_SHOWN]]
    more = [f"{len(paused) - _SHOWN} more are paused"] if len(paused) > _SHOWN else []
    return " · ".join([*told, *more])


def _because(reason: str | None) -> str:
    return f": {' '.join(plain_text(reason).split())}" if reason else ""


def named(ranks: Sequence[int]) -> str:
    """Ranks by number."""
    return f"rank{'s' * (len(ranks) > 1)} {spans(ranks)}"


def new_hangs(before: RunState, after: RunState) -> Iterator[str]:
    """The ranks that hang or pause if that is new in `after`, and that they no longer do."""
    old, now = _hanging(before) if before.attempt == after.attempt else [], _hanging(after)
    if set(now) - set(old):
        yield hung_line(after, _judged_at(after))
    elif old and not now and after.stop is None and not after.all_ended:
        yield f"{named(old)} {'go' if len(old) > 1 else 'goes'} on"
    if (line := paused_line(after)) != (last := paused_line(before)):
        if line:
            yield line
        elif last and after.stop is None:
            yield "the pause is over"


def _hanging(state: RunState) -> list[int]:
    return [rank.rank for rank in state.ranks if rank.alive and rank.hung]


def _judged_at(state: RunState) -> float:
    """About when the rule last had new facts: the newest sample or stacks."""
    times = [taken.time for taken in state.stacks]
    return max([*times, *(rank.sampled_at or 0.0 for rank in state.ranks)], default=0.0)


def _age(seconds: float) -> str:
    whole = max(int(seconds), 0)
    return f"{whole} s" if whole < 600 else f"{whole // 60} min"
