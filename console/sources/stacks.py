"""What ranks were doing, told once for all that did the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.events import StacksTaken
from launcher.state import RunState

MOST = 8
# what tells two threads apart and nothing else: their identifiers
_IDENTITY = re.compile(r" 0x[0-9a-f]{4,}(?= [(\[])|(?<=thread) \d+(?=:)")


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that were in the same place; `text` is their stacks, or `reason` why there are none."""

    ranks: tuple[int, ...]
    text: str = ""
    reason: str = ""


def grouped(stacks: Iterable[StacksTaken]) -> list[Group]:
    """The ranks by what they were doing: what most of them did first, and then the odd ones out."""
    found: dict[tuple[str, str], list[int]] = {}
    for taken in stacks:
        found.setdefault((_IDENTITY.sub("", taken.text), _IDENTITY.sub("", taken.reason)), []).append(
            taken.rank
        )
    groups = [Group(tuple(sorted(ranks)), *told) for told, ranks in found.items()]
    return sorted(groups, key=lambda group: (-len(group.ranks), group.ranks))


def spans(ranks: Sequence[int]) -> str:
    """Sorted ranks as ``0-6, 9``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def stacks_block(state: RunState, *, most: int | None = MOST) -> str:
    """All stacks that were taken last, for people; empty if there are none.

    Args:
        state: the run.
        most: how many different ones are shown; None for all.
    """
    groups = grouped(state.stacks)
    hosts = {rank.rank: rank.host for rank in state.ranks}
    blocks = [_block(group, hosts.get(group.ranks[0], "")) for group in groups[:most]]
    if len(groups) > len(blocks):
        blocks.append(f"and {len(groups) - len(blocks)} other places: rankdeck stacks {state.id}")
    return "\n\n".join(blocks)


def _block(group: Group, host: str) -> str:
    alone = len(group.ranks) == 1
    who = f"rank {group.ranks[0]}{f' on {host}' if host else ''}" if alone else f"ranks {spans(group.ranks)}"
    first, *rest = (group.text or group.reason).strip().splitlines() or [""]
    head = f"{who}:\n  {first}" if group.text else f"{who}: no stacks: {first}"
    return "\n".join([head, *(f"  {line}".rstrip() for line in rest)])
