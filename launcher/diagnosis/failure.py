"""What rules are told of a gang's first failure, and what they answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ..state.events import RankRaised, StacksTaken, XidLogged
from ..state.ranks import Rank
from ..state.tracebacks import DIRECT, chain, message_in, quoted

Course = Sequence[tuple[float, int]]
"""How a figure in bytes went: times in seconds since the epoch, and the figure."""


class Certainty(StrEnum):
    """Whether the evidence leaves no other cause, or another one is possible."""

    CERTAIN = "certain"
    LIKELY = "likely"


@dataclass(frozen=True, slots=True)
class Error:
    """An exception: its type without its module, and its message."""

    kind: str
    message: str

    @classmethod
    def of(cls, line: str) -> Error:
        """The exception that a traceback ends with: ``torch.OutOfMemoryError: CUDA out of memory``."""
        kind, _, message = line.partition(": ")
        return cls(kind.rpartition(".")[2].strip(), message)


def errors_of(raised: RankRaised | None) -> tuple[Error, ...]:
    """An exception, the one that its message quotes, and those that it was raised from; the outermost first.

    One that was raised while another was handled, but not from it, says nothing of that other one.
    """
    if raised is None:
        return ()
    own = Error(raised.kind.rpartition(".")[2], raised.message)
    inner = quoted(raised.message)
    return (own, *([Error.of(inner)] if inner else []), *_sources(raised.traceback))


def _sources(traceback: str) -> Iterator[Error]:
    parts = chain(traceback)
    while len(parts) > 2 and parts[-2] == DIRECT:
        del parts[-2:]
        yield Error.of(message_in(parts[-1]))


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The first failure of a gang.

    Attributes:
        rank: the rank that failed first.
        run: the run's id.
        gang: all ranks.
        left: those that had ended with 0 before it failed for want of a peer.
        stacks: where ranks were, if it timed out while they had raised nothing.
        output: reads the end of what it wrote to its standard error.
        xids: the errors that the driver logged of its GPUs, the first one first.
        memory: reads how the GPU memory of its processes went.
        peers: the pids of all ranks on its host, and their numbers.
        shared: whether another rank has one of its GPUs.
        host_memory: the memory in bytes of its host, used and in all, when it was sampled last.
    """

    rank: Rank
    run: str = ""
    gang: Sequence[Rank] = ()
    left: tuple[int, ...] = ()
    stacks: Sequence[StacksTaken] = ()
    output: Callable[[], str] = str
    xids: tuple[XidLogged, ...] = ()
    memory: Callable[[], Course] = tuple
    peers: Mapping[int, int] = field(default_factory=dict)
    shared: bool = False
    host_memory: tuple[int, int] | None = None

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
    def errors(self) -> tuple[Error, ...]:
        """Its exception, the one that this quotes, and those that it was raised from."""
        return errors_of(self.rank.raised)

    def begins(self, pattern: str, *kinds: str) -> re.Match[str] | None:
        """The match of a pattern at the beginning of one of its exceptions' messages.

        Args:
            pattern: in any case of letters; a message that merely quotes the words does not begin with them.
            kinds: the types, without modules, that such an exception can have; none for any.
        """
        return next(matches_of(self.errors, pattern, *kinds), None)

    @property
    def name(self) -> str:
        """The rank, as a sentence names it."""
        return f"rank {self.rank.rank}"


def matches_of(errors: Sequence[Error], pattern: str, *kinds: str) -> Iterator[re.Match[str]]:
    """The matches of a pattern at the beginnings of the messages of these types."""
    for error in errors:
        if (not kinds or error.kind in kinds) and (match := re.match(pattern, error.message, re.IGNORECASE)):
            yield match


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that a rule has recognised; the fields are those of `CauseFound`.

    `rank` is the one that it is about, where that is another than the first that failed.
    """

    id: str
    text: str
    certainty: Certainty = Certainty.CERTAIN
    evidence: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    rank: int | None = None


Rule = Callable[[FirstFailure], Finding | None]
"""Recognises one cause; None for a failure that has another one."""
