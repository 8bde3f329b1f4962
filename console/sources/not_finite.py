"""Which reported figures are NaN or infinite now, of which ranks, and since which step. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.formatting import count, is_finite
from console.sources.stacks import spans
from launcher.events import RankReported

_SHOWN_RANKS = 4


@dataclass(frozen=True, slots=True)
class NotFinite:
    """A figure that is no number any more; `step` is the first at which it was none, if steps are told."""

    name: str
    ranks: tuple[int, ...]
    step: int | None = None

    def __str__(self) -> str:
        since = "" if self.step is None else f" since step {count(self.step)}"
        return f"{self.name} is not finite{since} ({named_ranks(self.ranks)})"


def named_ranks(ranks: Sequence[int]) -> str:
    """Sorted ranks by their numbers while those are few stretches, else how many."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    named = spans(ranks)
    return f"ranks {named}" if named.count(",") < _SHOWN_RANKS else f"{len(ranks)} ranks"


class Soundness:
    """Follows what ranks report: which of their last figures are not finite."""

    def __init__(self) -> None:
        self._since: dict[int, dict[str, int | None]] = {}

    def reported(self, fact: RankReported) -> None:
        """Take in one report; what it does not tell of stays as it was."""
        for name, value in fact.metrics.items():
            if not is_finite(value):
                self._since.setdefault(fact.rank, {}).setdefault(name, fact.step)
            elif fact.rank in self._since:
                self._since[fact.rank].pop(name, None)

    def of(self, rank: int) -> Mapping[str, int | None]:
        """What is not finite of one rank, and since which step."""
        return self._since.get(rank, {})

    @property
    def all(self) -> tuple[NotFinite, ...]:
        """Each figure once, a loss before others, with all its ranks and its first step."""
        found: dict[str, list[int]] = {}
        for rank, since in self._since.items():
            for name in sorted(since, key=lambda name: "loss" not in name.lower()):
                found.setdefault(name, []).append(rank)
        return tuple(
            NotFinite(name, tuple(sorted(ranks)), self._first(name)) for name, ranks in found.items()
        )

    def _first(self, name: str) -> int | None:
        steps = (since.get(name) for since in self._since.values())
        return min((step for step in steps if step is not None), default=None)
