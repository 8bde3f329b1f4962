"""What rules are told of a gang's first failure, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..state.events import XidLogged
from ..state.ranks import Rank

Course = Sequence[tuple[float, int]]
"""How a figure in bytes went: times in seconds since the epoch, and the figure."""


class Certainty(StrEnum):
    """Whether the evidence leaves no other cause, or another one is possible."""

    CERTAIN = "certain"
    LIKELY = "likely"


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The first failure of a gang.

    Attributes:
        rank: the rank that failed first.
        run: the run's id.
        xids: the errors that the driver logged of its GPUs, the first one first.
        memory: the GPU memory of its processes, as it was sampled.
        host_memory: the memory in bytes of its host, used and in all, when it was sampled last.
    """

    rank: Rank
    run: str = ""
    xids: tuple[XidLogged, ...] = ()
    memory: Course = ()
    host_memory: tuple[int, int] | None = None

    @property
    def kind(self) -> str:
        """The type of its exception; empty if it raised none."""
        return self.rank.raised.kind if self.rank.raised else ""

    @property
    def message(self) -> str:
        """The message of its exception; empty if it raised none."""
        return self.rank.raised.message if self.rank.raised else ""

    @property
    def name(self) -> str:
        """The rank, as a sentence names it."""
        return f"rank {self.rank.rank}"

    @property
    def gpu(self) -> str:
        """Its GPU, as a sentence names it."""
        numbers = [str(device.index) for device in self.rank.devices]
        which = f"GPU {' and '.join(numbers)}" if numbers else "the GPU"
        return f"{which} of {self.rank.host}" if self.rank.host else which


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that a rule has recognised; the fields are those of `CauseFound`."""

    id: str
    text: str
    certainty: Certainty = Certainty.CERTAIN
    evidence: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()


Rule = Callable[[FirstFailure], Finding | None]
"""Recognises one cause; None for a failure that has another one."""
