"""What rules are told of a gang's first failure, and what they answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.machinery import ModuleSpec

from ..errors import LauncherError
from ..state.events import RunEnded, StacksTaken, XidLogged
from ..state.peer_loss import is_transport_error
from ..state.ranks import Rank
from ..state.run_state import RunState
from ..state.tracebacks import DIRECT, chain, in_users_code, message_in, quoted_block, raised_by_user
from .certainty import Certainty as Certainty
from .certainty import weakest as weakest
from .sites import Site

Course = Sequence[tuple[float, int]]
"""How a figure in bytes went: times in seconds since the epoch, and the figure."""


_OF_TORCH = ("torch.", "triton.")


@dataclass(frozen=True, slots=True)
class Told:
    """An exception, as its traceback tells it.

    Attributes:
        kind: its type's qualified name, such as ``OSError`` or ``torch.OutOfMemoryError``.
        message: its message; for one that another exception came from, with its notes.
        by_user: whether the user's own code made it, by a `raise`: its words are the user's then. None if
            that cannot be seen.
        handled: whether the rank's exception came up while it was handled, which need not be its effect.
        block: its own part of the traceback, without those of the exceptions before and after it.
    """

    kind: str
    message: str = ""
    by_user: bool | None = False
    handled: bool = False
    block: str = field(default="", compare=False, repr=False)

    @property
    def certainty(self) -> Certainty:
        """How certainly it is why the rank failed."""
        return Certainty.LIKELY if self.handled or self.by_user is None else Certainty.CERTAIN

    @property
    def is_foreign(self) -> bool:
        """Whether its type is neither Python's nor torch's."""
        return "." in self.kind and not self.kind.startswith(_OF_TORCH)

    def passed(self, place: str) -> bool:
        """Whether it came through code of files that a pattern finds in their paths."""
        return re.search(rf'File "[^"\n]*{place}', self.block) is not None


@dataclass(frozen=True, slots=True)
class Recognised:
    """An exception whose message a pattern matches; or what C++ prints of one as it aborts the process."""

    error: Told
    match: re.Match[str]
    doubtful: bool = False

    @property
    def certainty(self) -> Certainty:
        """How certainly that exception is why the rank failed."""
        return Certainty.LIKELY if self.doubtful else self.error.certainty


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
        gang: all ranks, as they were at the end.
        left: the ranks that had ended with 0 before it failed.
        stacks: where ranks were at the end, as far as that is known: see `RunState.last_stacks`.
        sites: the hosts of the gang and this machine: versions and clocks.
        module_here: finds a module on this machine that other hosts may lack; None also where that is not
            known.
        output_of: reads the last lines that a rank wrote to stderr.
    """

    rank: Rank
    run: str = ""
    xids: tuple[XidLogged, ...] = ()
    memory: Callable[[], Course] = tuple
    peers: Mapping[int, int] = field(default_factory=dict)
    shared: bool = False
    host_memory: tuple[int, int] | None = None
    gang: Sequence[Rank] = ()
    left: tuple[Rank, ...] = ()
    stacks: Sequence[StacksTaken] = ()
    output_of: Callable[[Rank], Sequence[str]] = lambda _: ()
    sites: tuple[Site, ...] = ()
    module_here: Callable[[str], ModuleSpec | None] = lambda _: None

    @property
    def site(self) -> Site | None:
        """The host of the rank, if its versions and its clock are known."""
        return next((site for site in self.sites if site.name == self.rank.host), None)

    @property
    def errors(self) -> tuple[Told, ...]:
        """Its exception, the one that this quotes, and those that it came from, the nearest first."""
        raised = self.rank.raised
        return _errors_of(raised.kind, raised.message, raised.traceback) if raised else ()

    @property
    def amid(self) -> str:
        """The exception of the user's own code that was handled when its own came up; empty for none.

        A cleanup that fails after an error hides that error, and a second way that fails explains it: both
        are written alike.
        """
        raised = self.rank.raised
        return _amid(raised.kind, raised.message, raised.traceback) if raised else ""

    def begins(self, pattern: str | re.Pattern[str], *kinds: str) -> Recognised | None:
        """The first of its `errors` that is of one of these kinds and whose message begins so.

        An exception that the user's own code made is none of them: its message may quote anything.

        Args:
            pattern: is matched at the beginning of a message.
            kinds: qualified names of types, such as ``OSError``; subclasses are others. None for any: a type
                that is neither Python's nor torch's may only quote such words, and is in doubt.
        """
        told = (error for error in self.errors if not error.by_user and (not kinds or error.kind in kinds))
        found = ((error, re.match(pattern, error.message)) for error in told)
        first = next(((error, match) for error, match in found if match), None)
        return None if first is None else Recognised(*first, not kinds and first[0].is_foreign)

    def aborted_with(self, pattern: str) -> Recognised | None:
        """What C++ printed last of an exception that nothing caught, which aborts the process."""
        match = self.wrote(pattern) if self.rank.signal == "SIGABRT" else None
        return Recognised(Told("", match.string), match) if match else None

    def wrote(self, pattern: str) -> re.Match[str] | None:
        """The last match of a pattern in its last lines of stderr."""
        found = (re.search(pattern, line) for line in reversed(self.output_of(self.rank)))
        return next(filter(None, found), None)

    @property
    def name(self) -> str:
        """The rank, as a sentence names it."""
        return f"rank {self.rank.rank}"


_NAMED = re.compile(r"([A-Za-z_][\w.<>]*)(?:: ([\s\S]*))?\Z")


def told_in(block: str, *, handled: bool = False) -> Told | None:
    """The exception that a traceback names at its end: ``KeyError: 'x'``; None if that names none."""
    match = _NAMED.match(message_in(block).strip("\n"))
    return None if match is None else Told(match[1], match[2] or "", raised_by_user(block), handled, block)


@lru_cache(maxsize=4)
def _errors_of(kind: str, message: str, traceback: str) -> tuple[Told, ...]:
    """The exceptions of one failure; every rule asks for them."""
    return tuple(_errors(kind, message, traceback))


def _own_chain(message: str, traceback: str) -> list[str]:
    """The exceptions of the rank: a traceback that the message quotes may be a chain too, of another one."""
    return chain((quoted_block(message) and traceback.rpartition(message)[0]) or traceback)


@lru_cache(maxsize=4)
def _amid(kind: str, message: str, traceback: str) -> str:
    earlier, joint, block = ["", "", "", *_own_chain(message, traceback)][-3:]
    told = told_in(earlier)
    if joint in ("", DIRECT) or told is None or not in_users_code(earlier):
        return ""
    passes_on = _passes_on(Told(kind, message, raised_by_user(block)))
    return "" if passes_on else f"{told.kind}: {told.message}".removesuffix(": ")


def _errors(kind: str, message: str, traceback: str) -> Iterator[Told]:
    inner, parts = quoted_block(message), _own_chain(message, traceback)
    later = Told(kind, message, raised_by_user(parts[-1]), block=parts[-1])
    yield later
    if inner and (told := told_in(inner)):
        yield told
    for joint, block in zip(parts[-2::-2], parts[-3::-2], strict=False):
        direct = joint == DIRECT
        earlier = told_in(block, handled=later.handled or not direct)
        if earlier is None or not (direct or _passes_on(later)):
            return
        later = earlier
        yield earlier


def _passes_on(error: Told) -> bool:
    """Whether an exception that came up while another one was handled only passes that on.

    Without that, it may be one of its own: after ``except FileNotFoundError: train()`` it is the training's.
    """
    return bool(error.by_user) or is_transport_error(error.message)


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that a rule has recognised; the fields are those of `CauseFound`.

    Without a `rank`, it is about the rank that failed first.
    """

    id: str
    text: str
    certainty: Certainty
    evidence: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    rank: int | None = None


Rule = Callable[[FirstFailure], Finding | None]
"""Recognises one cause; None for a failure that has another one."""
EndRule = Callable[[RunState, RunEnded], Finding | None]
"""Recognises the cause of a bad end for which no rank is to blame; None for one that has another cause."""
RefusalRule = Callable[[RunState, LauncherError], Finding | None]
"""Recognises the cause for which a gang could not be started, by the error that says so."""
