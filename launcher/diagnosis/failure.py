"""What rules are told of a gang's first failure, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ..state.events import XidLogged
from ..state.ranks import Rank
from ..state.tracebacks import quoted
from .sites import Site

Course = Sequence[tuple[float, int]]
"""How a figure in bytes went: times in seconds since the epoch, and the figure."""


class Certainty(StrEnum):
    """Whether the evidence leaves no other cause, or another one is possible."""

    CERTAIN = "certain"
    LIKELY = "likely"


@dataclass(frozen=True, slots=True)
class Told:
    """An exception: its kind, as its traceback names it, and its message."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The first failure of a gang.

    Attributes:
        rank: the rank that failed first.
        run: the run's id.
        xids: the errors that the driver logged of its GPUs, the first one first.
        memory: reads how the GPU memory of its processes went.
        peers: the pids of all ranks on its host, and their numbers.
        shared: whether another rank has one of its GPUs.
        host_memory: the memory in bytes of its host, used and in all, when it was sampled last.
        sites: the hosts of the gang and this machine: versions and clocks.
        here: where this machine has a module that the ranks of other hosts import; empty if it has none, or
            that is not known.
    """

    rank: Rank
    run: str = ""
    xids: tuple[XidLogged, ...] = ()
    memory: Callable[[], Course] = tuple
    peers: Mapping[int, int] = field(default_factory=dict)
    shared: bool = False
    host_memory: tuple[int, int] | None = None
    sites: tuple[Site, ...] = ()
    here: Callable[[str], str] = lambda _: ""
    gang: Sequence[Rank] = ()

    @property
    def site(self) -> Site | None:
        """The host of the rank, if its versions and its clock are known."""
        return next((site for site in self.sites if site.name == self.rank.host), None)

    @property
    def errors(self) -> tuple[Told, ...]:
        """Its exception."""
        raised = self.rank.raised
        return (Told(raised.kind, raised.message),) if raised else ()

    @property
    def message(self) -> str:
        """The message of its exception; empty if it raised none."""
        return self.rank.raised.message if self.rank.raised else ""

    @property
    def messages(self) -> tuple[str, ...]:
        """That message, and the one of an exception that it quotes: of a replica, or of a loader's worker."""
        inner = quoted(self.message).partition(": ")[2]
        return (self.message, inner) if inner else (self.message,)

    @property
    def name(self) -> str:
        """The rank, as a sentence names it."""
        return f"rank {self.rank.rank}"


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
