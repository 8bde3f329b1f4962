"""N trainings that pass for one: ranks of a framework that never met, and the rule that finds them.

A framework that misses its rendezvous seldom fails: each rank trains by itself, on all of the data, and exits
with 0. Ranks that use no framework, or were started with none, are not meant to meet.
"""

from __future__ import annotations

from collections.abc import Mapping

from .events import SeparateTrainings
from .run_state import RunState

NONE = "none"


def separate_trainings(
    state: RunState, *, now: float, cures: Mapping[str, str], required: bool
) -> SeparateTrainings | None:
    """The fact that the ranks of a run were trainings of their own; None if they met, or need not meet.

    Args:
        state: all facts, of a gang that has ended well.
        now: the engine's clock.
        cures: for each framework, what makes its ranks meet.
        required: whether a group was asked for, whatever the ranks use.
    """
    alone = all(rank.world_size < 2 for rank in state.ranks)
    if len(state.ranks) < 2 or not alone:
        return None
    used = _frameworks(state)
    if not (used or required) or (state.framework is not None and state.framework.framework == NONE):
        return None
    return SeparateTrainings(
        time=now,
        attempt=state.attempt,
        ranks=len(state.ranks),
        frameworks=used,
        cure=next((cures[name] for name in used if cures.get(name)), ""),
        required=required,
    )


def _frameworks(state: RunState) -> tuple[str, ...]:
    """The frameworks that the target's source trains with, then those that ranks have loaded.

    A file that trains may have functions that do not: of those, only what ranks have loaded counts.
    """
    chosen = state.framework
    detected = chosen.detected if chosen is not None and chosen.whole else ()
    loaded = (name for rank in state.ranks for name in rank.frameworks)
    return tuple(dict.fromkeys([*detected, *loaded]))


def describe_separate(found: SeparateTrainings) -> str:
    """The sentence about it, and what to do."""
    with_what = f" with {' and '.join(found.frameworks)}" if found.frameworks else ""
    cure = f"{found.cure}; or " if found.cure else ""
    return (
        f"{found.ranks} separate trainings{with_what}: no rank joined a group with others "
        f"({cure}--framework {NONE} if they are meant to be separate)"
    )
