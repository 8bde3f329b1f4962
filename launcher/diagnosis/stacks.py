"""Stacks of ranks, grouped by equal stacks or by place, so that the one rank that differs is seen. Pure.

In a gang that hangs, most ranks wait in a collective, and one does something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import counted
from ..state.events import StacksTaken
from ..state.run_state import RunState

MOST = 8
# thread identifiers: otherwise equal stacks differ in them
_IDENTITY = re.compile(r" 0x[0-9a-f]{4,}(?= [(\[])|(?<=thread) \d+(?=:)")


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks with equal stacks; `text` is their stacks, or `reason` why there are none."""

    ranks: tuple[int, ...]
    text: str = ""
    reason: str = ""


def grouped(stacks: Iterable[StacksTaken]) -> list[Group]:
    """The ranks grouped by equal stacks, the largest group first."""
    members: dict[tuple[str, str], list[int]] = {}
    for taken in stacks:
        key = _IDENTITY.sub("", taken.text), _IDENTITY.sub("", taken.reason)
        members.setdefault(key, []).append(taken.rank)
    groups = [Group(tuple(sorted(ranks)), *key) for key, ranks in members.items()]
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
    """The stacks that were taken last, for people; empty if there are none.

    Args:
        state: the run.
        most: the number of groups that are shown; None for all.
    """
    groups = grouped(state.stacks)
    hosts = {rank.rank: rank.host for rank in state.ranks}
    blocks = [_block(group, hosts.get(group.ranks[0], "")) for group in groups[:most]]
    if len(groups) > len(blocks):
        blocks.append(f"and {counted(len(groups) - len(blocks), 'other place')}: rankdeck stacks {state.id}")
    return "\n\n".join(blocks)


def _block(group: Group, host: str) -> str:
    alone = len(group.ranks) == 1
    who = f"rank {group.ranks[0]}{f' on {host}' if host else ''}" if alone else f"ranks {spans(group.ranks)}"
    first, *rest = (group.text or group.reason).strip().splitlines() or [""]
    head = f"{who}:\n  {first}" if group.text else f"{who}: no stacks: {first}"
    return "\n".join([head, *(f"  {line}".rstrip() for line in rest)])


_MOST = 3
_FRAME = re.compile(r'^ *File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_INSTALLED = re.compile(r"/(?:site-packages|dist-packages)/")
_LIBRARY = re.compile(rf"{_INSTALLED.pattern}|/lib/python\d[\d.]*/|^<frozen |\.zip/")
# collectives and waits of installed packages: a rank in one of these waits for the ranks that are not
_COLLECTIVE = re.compile(
    r"_*(?:monitored_)?(?:all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast|barrier|scatter|gather"
    r"|reduce|send|recv|irecv|isend|wait|synchronize)(?:_\w+)?"
)


@dataclass(frozen=True, slots=True)
class Standstill:
    """Ranks that were in one place; `waits` means that they wait for others there."""

    ranks: tuple[int, ...]
    function: str = ""
    place: str = ""
    waits: bool = False
    reason: str = ""

    @property
    def who(self) -> str:
        """The ranks, as a sentence names them."""
        return f"rank {self.ranks[0]}" if len(self.ranks) == 1 else f"ranks {spans(self.ranks)}"

    def __str__(self) -> str:
        alone, who = len(self.ranks) == 1, self.who
        if not self.function:
            return f"{who} gave no stacks" + (f": {self.reason}" if self.reason else "")
        doing = f"wait{'s' * alone} in" if self.waits else "is in" if alone else "are in"
        return f"{who} {doing} {self.function} ({self.place})"


def standstills(stacks: Iterable[StacksTaken]) -> list[Standstill]:
    """The ranks grouped by place: the smallest group first; of equal ones, those that do not wait first."""
    members: dict[tuple[str, str, bool, str], list[int]] = {}
    for taken in stacks:
        members.setdefault(_where(taken), []).append(taken.rank)
    groups = [Standstill(tuple(sorted(ranks)), *where) for where, ranks in members.items()]
    return sorted(groups, key=lambda group: (len(group.ranks), group.waits, group.ranks))


def standstill_line(stacks: Iterable[StacksTaken]) -> str:
    """The ranks grouped by place, in one line; empty if no stacks were taken."""
    groups = standstills(stacks)
    more = len(groups) - _MOST
    rest = [f"and {counted(more, 'other place')}"] if more > 0 else []
    return "; ".join([*map(str, groups[:_MOST]), *rest])


def _where(taken: StacksTaken) -> tuple[str, str, bool, str]:
    """Function, place, whether a rank waits for others there, and why the stacks are missing."""
    frames = [match.groupdict() for match in _FRAME.finditer(_main_thread(taken.text))]
    if not frames:
        return "", "", False, next(iter(taken.reason.strip().splitlines()), "")
    own = next((n for n, frame in enumerate(frames) if not _LIBRARY.search(frame["file"])), 0)
    place = f"{_file(frames[own])}:{frames[own]['line']}"
    packages = (f["function"] for f in reversed(frames[:own]) if _INSTALLED.search(f["file"]))
    if collective := next(filter(_COLLECTIVE.fullmatch, packages), ""):
        return collective, place, True, ""
    return _called(frames, own), place, False, ""


def _called(frames: Sequence[Mapping[str, str]], own: int) -> str:
    """The library's function that the user's own frame has called, as ``queue.get``, or that frame's."""
    if own == 0 or frames[own - 1]["file"].startswith("<"):
        return frames[own]["function"].rpartition(".")[2]
    module, function = (
        _file(frames[own - 1]).removesuffix(".py"),
        frames[own - 1]["function"].rpartition(".")[2],
    )
    return f"{module}.{function}"


def _file(frame: Mapping[str, str]) -> str:
    return frame["file"].rpartition("/")[2]


def _main_thread(text: str) -> str:
    """The stack of the thread that dumped the stacks, else of the last thread, which is the oldest."""
    threads = [block for block in text.strip().split("\n\n") if _FRAME.search(block)]
    current = [block for block in threads if block.startswith("Current thread")]
    return next(iter((*current, *threads[-1:])), "")
