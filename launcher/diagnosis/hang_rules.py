"""Tell from the stacks of a gang that stood still which rank held it up. Pure."""

from __future__ import annotations

from ..state.outcome_rules import listed
from ..state.run_state import RunState
from .failure import Certainty, Finding
from .stacks import Standstill, standstills

_SHOWN = 4


def standstill(state: RunState) -> Finding | None:
    """Why the whole gang made no progress, by where its ranks were; None without stacks.

    Where a rank was does not prove why it stayed there: only that others waited for it is certain.
    """
    groups = [each for each in standstills(state.stacks) if each.function]
    waiting = [each for each in groups if each.waits]
    elsewhere = [each for each in groups if not each.waits]
    if not groups:
        return None
    evidence = tuple(str(each) for each in groups[:_SHOWN])
    all_stacks = f"rankdeck stacks {state.id} prints every rank's stack"
    if waiting and elsewhere:
        return _stuck(waiting, elsewhere, evidence, all_stacks)
    if len({each.function for each in waiting}) > 1:
        return _apart(waiting, evidence, all_stacks)
    where = listed([f"{each.function} ({each.place})" for each in groups[:_SHOWN]])
    return Finding("standstill", f"every rank stood in {where}", Certainty.LIKELY, evidence, (all_stacks,))


def _stuck(
    waiting: list[Standstill], elsewhere: list[Standstill], evidence: tuple[str, ...], all_stacks: str
) -> Finding:
    odd, others = elsewhere[0], sum(len(each.ranks) for each in waiting)
    call = max(waiting, key=lambda each: len(each.ranks))
    who = odd.who
    waited = f"{others} rank{'s' * (others > 1)} waited in {call.function} ({call.place})"
    return Finding(
        "rank-stuck",
        f"{who} {'was' if len(odd.ranks) == 1 else 'were'} in {odd.function} ({odd.place}) while {waited}",
        Certainty.LIKELY,
        evidence,
        (
            f"why did {who} not get on from {odd.place}? An empty queue, a lock, a slow disk, another branch",
            all_stacks,
            "every rank makes the same calls of collectives, in the same order",
        ),
        rank=odd.ranks[0],
    )


def _apart(waiting: list[Standstill], evidence: tuple[str, ...], all_stacks: str) -> Finding:
    calls = listed([f"{each.who} in {each.function} ({each.place})" for each in waiting[:_SHOWN]])
    return Finding(
        "collective-mismatch",
        f"the ranks waited in different collectives: {calls}",
        Certainty.LIKELY,
        evidence,
        (
            "every rank makes the same calls in the same order: one was skipped or made twice",
            "run it once with --env TORCH_DISTRIBUTED_DEBUG=DETAIL: torch then names the call that differs",
            all_stacks,
        ),
        rank=waiting[0].ranks[0],
    )
