"""Stacks of ranks, grouped by equal stacks or by place, so that the one rank that differs is seen. Pure.

In a gang that hangs, most ranks wait in a collective, and one does something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, takewhile
from typing import TypeVar

from ..errors import counted
from ..state.events import StacksTaken
from ..state.library_code import library_path
from ..state.run_state import RunState

MOST = 8
T = TypeVar("T")
# thread identifiers: otherwise equal stacks differ in them
_IDENTITY = re.compile(r" 0x[0-9a-f]{4,}(?= [(\[])|(?<=thread) \d+(?=:)")


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks with equal stacks; `text` is their stacks, or `reason` why there are none.

    `native` are the native frames of the first of them that has any.
    """

    ranks: tuple[int, ...]
    text: str = ""
    reason: str = ""
    native: str = ""


def grouped(stacks: Sequence[StacksTaken]) -> list[Group]:
    """The ranks grouped by equal stacks, the odd one out first: see `standstills`."""
    members: dict[tuple[str, str], list[int]] = {}
    for taken in stacks:
        key = _IDENTITY.sub("", taken.text), _IDENTITY.sub("", taken.reason)
        members.setdefault(key, []).append(taken.rank)
    native = {taken.rank: taken.native for taken in stacks if taken.native}
    groups = [
        Group(tuple(sorted(ranks)), *key, next((native[r] for r in sorted(ranks) if r in native), ""))
        for key, ranks in members.items()
    ]
    return sorted(groups, key=lambda group: (len(group.ranks), _may_wait(_where(group.text)), group.ranks))


def spans(ranks: Sequence[int]) -> str:
    """Sorted ranks as ``0-6, 9``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def stacks_block(
    state: RunState, stacks: Sequence[StacksTaken] | None = None, *, most: int | None = MOST
) -> str:
    """Stacks of a run for people; empty if there are none.

    Args:
        state: the run.
        stacks: which; None for the latest of all ranks, whenever they were taken.
        most: the number of groups that are shown; None for all.
    """
    groups = grouped(state.stacks if stacks is None else stacks)
    shown, more = _ends(groups, most or len(groups))
    hosts = {rank.rank: rank.host for rank in state.ranks}
    blocks = [_block(group, hosts.get(group.ranks[0], "")) for group in shown]
    if more:
        blocks.append(f"and {counted(more, 'other place')}: rankdeck stacks {state.id}")
    return "\n\n".join(blocks)


def older_line(state: RunState) -> str:
    """That the stacks of an ended run are not those of its end, and their age; empty if they are."""
    old = {taken.rank: taken for taken in state.stacks}.keys() - {taken.rank for taken in state.last_stacks}
    if not old or state.ended is None:
        return ""
    age = state.ended - max(taken.time for taken in state.stacks if taken.rank in old)
    which = "these stacks" if len(old) == len(state.stacks) else f"those of {who(sorted(old))}"
    return f"{which} are {max(age, 0.0):.0f} s older than the end: the ranks went on after them"


def who(ranks: Sequence[int]) -> str:
    """Sorted ranks by number: ``rank 3``, ``ranks 0-2, 5``."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {spans(ranks)}"


def _ends(groups: Sequence[T], most: int) -> tuple[list[T], int]:
    """At most `most` groups, the first ones and the last, the largest; and how many are left out."""
    if len(groups) <= most:
        return list(groups), 0
    return [*groups[: most - 1], groups[-1]], len(groups) - most


def _block(group: Group, host: str) -> str:
    alone = len(group.ranks) == 1
    who = f"rank {group.ranks[0]}{f' on {host}' if host else ''}" if alone else f"ranks {spans(group.ranks)}"
    first, *rest = (group.text or group.reason).strip().splitlines() or [""]
    head = f"{who}:\n  {first}" if group.text else f"{who}: no stacks: {first}"
    below = ["with native frames:", *group.native.strip().splitlines()] if group.native else []
    return "\n".join([head, *(f"  {line}".rstrip() for line in (*rest, *below))])


_MOST = 3
_FRAME = re.compile(r'^ *File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_LONGEST, _DIGITS = 8192, 9
# code that calls another function for its caller, and tells nothing about where a rank is
_WRAPPERS = re.compile(r"_*(?:wrapper|wrapped|inner|decorate_\w+|call_impl|wrapped_call_impl)")
# collectives and waits: a rank in one of these waits for the ranks that are not. A function of these names
# elsewhere (`requests` has `send`, a queue has `wait`) waits for something else
_COLLECTIVE = re.compile(
    r"_*(?:monitored_)?(?:all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast|barrier|scatter|gather"
    r"|reduce|send|recv|irecv|isend|wait|synchronize|init_process_group|new_group|rendezvous"
    r"|store_based_barrier)(?:_\w+)?"
)
_COMMUNICATES = re.compile(
    r"/(?:site|dist)-packages/(?:horovod|deepspeed|mpi4py|accelerate|lightning|pytorch_lightning"
    r"|ray/util/collective)/|/torch/(?:distributed/(?!checkpoint/)|_ops\.py)"
)

# a backward pass of DDP or FSDP waits for the other ranks in native code; a function of the user's own, whose
# name has no module, does not
_WAITS_INSIDE = re.compile(r".+\.backward")


def frame_in(line: str) -> tuple[str, int, str] | None:
    """The file, line and function of a frame, as one line of a stack names it; None for another line."""
    found = _FRAME.match(line) if len(line) <= _LONGEST else None
    if found is None or len(found["line"]) > _DIGITS:
        return None
    return found["file"], int(found["line"]), found["function"]


@dataclass(frozen=True, slots=True)
class Standstill:
    """Ranks that were in one place; `waits` means that they wait for others there, as the name tells.

    `function` is the collective, else the library's function that the user's code has called, else the user's
    own; `place` is the user's line, if any of it is the user's.
    """

    ranks: tuple[int, ...]
    function: str = ""
    place: str = ""
    waits: bool = False
    reason: str = ""

    @property
    def may_wait(self) -> bool:
        """Whether ranks that do nothing there wait for others: in a collective, or in a backward pass."""
        return _may_wait(self)

    def __str__(self) -> str:
        alone = len(self.ranks) == 1
        who = f"rank {self.ranks[0]}" if alone else f"ranks {spans(self.ranks)}"
        if not self.function:
            return f"{who} gave no stacks" + (f": {self.reason}" if self.reason else "")
        doing = f"wait{'s' * alone} in" if self.waits else "is in" if alone else "are in"
        return f"{who} {doing} {self.function} ({self.place})"


def standstills(stacks: Iterable[StacksTaken]) -> list[Standstill]:
    """The ranks grouped by place: the smallest group first; of equal ones, those that do not wait first."""
    return list(_kept_groups(tuple(stacks)))


def _grouped(stacks: Iterable[StacksTaken]) -> tuple[Standstill, ...]:
    members: dict[_StackPlace, list[int]] = {}
    for taken in stacks:
        members.setdefault(_where(taken.text, taken.reason), []).append(taken.rank)
    groups = [
        Standstill(tuple(sorted(ranks)), where.function, where.place, where.waits, where.reason)
        for where, ranks in members.items()
    ]
    return tuple(sorted(groups, key=lambda group: (len(group.ranks), group.may_wait, group.ranks)))


# the screen asks at each redraw, the engine once a second, and stacks seldom change
_kept_groups = lru_cache(maxsize=2)(_grouped)


def place_of(taken: StacksTaken) -> Standstill:
    """Where one rank was."""
    (place,) = _grouped([taken])
    return place


def standstill_line(stacks: Iterable[StacksTaken]) -> str:
    """The ranks grouped by place, in one line; empty if no stacks were taken."""
    shown, more = _ends(standstills(stacks), _MOST)
    rest = [f"and {counted(more, 'other place')}"] if more else []
    return "; ".join([*map(str, shown), *rest])


@dataclass(frozen=True, slots=True)
class _StackPlace:
    """One rank's place, with the fields of `Standstill`."""

    function: str = ""
    place: str = ""
    waits: bool = False
    reason: str = ""


def waiting_among(groups: Iterable[Standstill]) -> list[Standstill]:
    """Those that wait for others. Fewer ranks in a backward pass than in collectives may be at work there."""
    may = [group for group in groups if group.may_wait]
    sure = [group for group in may if group.waits]
    in_collectives = sum(len(group.ranks) for group in sure)
    return sure if sum(len(group.ranks) for group in may) < 2 * in_collectives else may


def _may_wait(where: _StackPlace | Standstill) -> bool:
    return where.waits or _WAITS_INSIDE.fullmatch(where.function) is not None


@dataclass(frozen=True, slots=True)
class _StackFrame:
    file: str
    line: str
    function: str

    @property
    def place(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"

    @property
    def name(self) -> str:
        """The function without its class, which only some versions of Python print."""
        return self.function.rpartition(".")[2]

    @property
    def module(self) -> str:
        """The module of a library as code imports it; empty for the user's own code."""
        return library_path(self.file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def communicates(self) -> bool:
        return _COMMUNICATES.search(self.file) is not None


def threads_beside(taken: StacksTaken) -> list[str]:
    """Where the threads of a rank are besides its main one, as ``queue.get (data.py:88)``."""
    main = _main_block(taken.text)
    places = (_where(block) for block in _blocks(taken.text) if block != main)
    return [f"{each.function} ({each.place})" for each in places if each.function]


def communicates_beside(taken: StacksTaken) -> bool:
    """Whether a thread of a rank besides its main one is in a collective."""
    main = _main_block(taken.text)
    return any(_where(block).waits for block in _blocks(taken.text) if block != main)


def _where(text: str, reason: str = "") -> _StackPlace:
    """A rank's place by its stacks; if they are missing, why."""
    main = _main_block(text)
    if first := _FRAME.search(main):
        return _place_in(main[first.start() :])  # without the thread's name, which differs from rank to rank
    return _StackPlace(reason=next(iter(reason.strip().splitlines()), ""))


@lru_cache(maxsize=256)
def _place_in(frames_text: str) -> _StackPlace:
    """The place that frames tell. Cached: most ranks of a gang have the same."""
    frames = [_StackFrame(*match.group("file", "line", "function")) for match in _FRAME.finditer(frames_text)]
    own = next((n for n, frame in enumerate(frames) if not frame.module), None)
    called = frames[:own] if own is not None else frames[:1]
    place = frames[own or 0].place
    # a collective that has called something else (a checkpoint's does: it writes) does not wait
    inner = takewhile(lambda frame: frame.communicates, called)
    if collective := next((frame for frame in inner if _COLLECTIVE.fullmatch(frame.name)), None):
        return _StackPlace(collective.name, place, waits=True)
    if not called:
        return _StackPlace(frames[0].name, place)
    entry = next((f for f in reversed(called) if not _WRAPPERS.fullmatch(f.name)), called[-1])
    return _StackPlace(f"{entry.module}.{entry.name}", place)


def _main_block(text: str) -> str:
    """The thread that dumped the stacks, else the last thread, which is the oldest; empty without frames."""
    blocks = _blocks(text)
    current = (block for block in blocks if block.startswith("Current thread"))
    return next((block for block in chain(current, reversed(blocks)) if _FRAME.search(block)), "")


def _blocks(text: str) -> list[str]:
    """One for each thread."""
    return text.strip().split("\n\n")
