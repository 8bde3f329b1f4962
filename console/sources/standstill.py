"""Where ranks were when nothing moved any more, in a line: the odd one out first. Pure.

Of a gang that hangs most ranks wait for one another, and one does something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from console.sources.stacks import spans
from launcher.events import StacksTaken

_MOST = 3
_FRAME = re.compile(r'^ *File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_LIBRARY = re.compile(r"/(?:site-packages|dist-packages|lib/python\d[\d.]*)/|^<frozen |\.zip/")
# what ranks do together: who is in one of these waits for whoever is not
_TOGETHER = re.compile(
    r"_*(?:monitored_)?(?:all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast|barrier|scatter|gather"
    r"|reduce|send|recv|irecv|isend|wait|synchronize)(?:_\w+)?"
)


@dataclass(frozen=True, slots=True)
class Standstill:
    """Ranks that were in one place; `waits`, whether it is one where they wait for others."""

    ranks: tuple[int, ...]
    function: str = ""
    place: str = ""
    waits: bool = False
    reason: str = ""

    def __str__(self) -> str:
        alone = len(self.ranks) == 1
        who = f"rank {self.ranks[0]}" if alone else f"ranks {spans(self.ranks)}"
        if not self.function:
            return f"{who} gave no stacks" + (f": {self.reason}" if self.reason else "")
        doing = f"wait{'s' * alone} in" if self.waits else "is in" if alone else "are in"
        return f"{who} {doing} {self.function} ({self.place})"


def standstills(stacks: Iterable[StacksTaken]) -> list[Standstill]:
    """The ranks by where they were: the fewest first, of as many those first that do not wait for others."""
    found: dict[tuple[str, str, bool, str], list[int]] = {}
    for taken in stacks:
        found.setdefault(_where(taken), []).append(taken.rank)
    groups = [Standstill(tuple(sorted(ranks)), *where) for where, ranks in found.items()]
    return sorted(groups, key=lambda group: (len(group.ranks), group.waits, group.ranks))


def standstill_line(stacks: Iterable[StacksTaken]) -> str:
    """The same in a line; empty if no rank was asked."""
    groups = standstills(stacks)
    more = len(groups) - _MOST
    rest = [f"and {more} other place{'s' * (more > 1)}"] if more > 0 else []
    return "; ".join([*map(str, groups[:_MOST]), *rest])


def _where(taken: StacksTaken) -> tuple[str, str, bool, str]:
    """Function, place, whether one waits there, and why nothing is known."""
    frames = [match.groupdict() for match in _FRAME.finditer(_main_thread(taken.text))]
    if not frames:
        return "", "", False, next(iter(taken.reason.strip().splitlines()), "")
    own = next((n for n, frame in enumerate(frames) if not _LIBRARY.search(frame["file"])), 0)
    together = next((f["function"] for f in frames[: own + 1] if _TOGETHER.fullmatch(f["function"])), "")
    file = frames[own]["file"].rpartition("/")[2]
    function = (together or frames[own]["function"]).rpartition(".")[2]
    return function, f"{file}:{frames[own]['line']}", bool(together), ""


def _main_thread(text: str) -> str:
    """Its stack: of the thread that answered, else of the last, which is the oldest."""
    threads = [block for block in text.strip().split("\n\n") if _FRAME.search(block)]
    current = [block for block in threads if block.startswith("Current thread")]
    return next(iter((*current, *threads[-1:])), "")
