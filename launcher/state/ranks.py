"""What is known of a rank, and a gang's ranks as one frozen value: a change costs little, however many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import overload

from ..spec.places import Device
from . import events as ev
from .changes import changed
from .peer_loss import doubt

_BLOCK = 64


@dataclass(frozen=True, slots=True)
class FirstNotFinite:
    """The first report of a rank with a figure that is NaN or infinite: when, which figure, at which step."""

    time: float
    metric: str
    step: int | None = None


class RankPhase(StrEnum):
    """Where one rank is."""

    PLACED = "placed"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether its process is gone."""
        return self not in (RankPhase.PLACED, RankPhase.STARTING, RankPhase.RUNNING)

    @property
    def lost(self) -> bool:
        """Whether nobody knows how it ended."""
        return self is RankPhase.LOST


@dataclass(frozen=True)
class Rank:
    """One rank as known so far.

    Attributes:
        role: what it does in the gang, if its framework has roles.
        failing: whether it raised by itself, not because the gang was stopped.
        raising: an exception that was raised in it before the gang was stopped, and may yet be caught.
        dumped: its last collectives, as NCCL's watchdog wrote them down before it aborted a rank.
        unreturned: whether it ended with 0 in the middle of the function that it ran.
        left: whether its function ended by `sys.exit`, without a value.
        after_return: whether its process ended badly after its function had returned.
        ended_before_stop: whether its exit was received before the gang was stopped or lost a part.
        awaits_log: whether it waits until its output is read.
        awaits_rows: how many rows of the run's DataFrame it has had, while it waits for more; else None.
        message: the last one that its code has sent to whoever started the run.
        not_finite: the first figure that it reported that is NaN or infinite.
        paused: the reason of a pause that its code has declared; None while it has not.
        silent_since: since when it shows no activity; None if it does. See `launcher.diagnosis.silence`.
        hung: whether the gang waits for it meanwhile.
        waits: whether it was seen to wait for a hung rank.
    """

    rank: int
    phase: RankPhase = RankPhase.PLACED
    role: str = ""
    host: str = ""
    agent: int = 0
    local_rank: int = 0
    devices: tuple[Device, ...] = ()
    pid: int | None = None
    started: float | None = None
    entered: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    oom_kills: int | None = None
    dumped: tuple[ev.CollectiveCall, ...] = ()
    raised: ev.RankRaised | None = None
    raising: ev.RankRaising | None = None
    failing: bool = False
    unreturned: bool = False
    left: bool = False
    after_return: bool = False
    ended_before_stop: bool = False
    returned: ev.RankReturned | None = None
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    reported_at: float | None = None
    not_finite: FirstNotFinite | None = None
    awaits_rows: int | None = None
    awaits_log: bool = False
    message: str = ""
    paused: str | None = None
    silent_since: float | None = None
    hung: bool = False
    waits: bool = False
    world_size: int = 1
    frameworks: tuple[str, ...] = ()
    sample: ev.RankSample | None = None
    sampled_at: float | None = None

    @property
    def calls(self) -> tuple[ev.CollectiveCall, ...]:
        """Its last collective in each group, if torch's flight recorder told them."""
        return self.raised.collectives if self.raised is not None else self.dumped

    @property
    def alive(self) -> bool:
        """Whether it has a process."""
        return self.phase in (RankPhase.STARTING, RankPhase.RUNNING)

    @property
    def rows(self) -> int:
        """How many rows a worker of a prediction has predicted, as far as it has said."""
        return int(self.metrics.get(ev.ROWS, 0))

    @property
    def rows_per_s(self) -> float | None:
        """How many rows a second it predicted when it last said so; None if it has not."""
        return self.metrics.get(ev.ROWS_PER_S)

    @property
    def has_failed(self) -> bool:
        """Whether it failed, or raised by itself and has yet to end."""
        return self.phase is RankPhase.FAILED or (self.failing and not self.phase.ended)

    @property
    def failed_at(self) -> float | None:
        """When it failed: the time of the exception if there was one, else of the process's end.

        An interpreter can take seconds to exit after its exception, while the ranks that wait for it
        fail at once; by the times of exits alone, a victim would look like the cause.
        """
        if not self.has_failed:
            return None
        times = [e.time for e in (self.raising, self.raised) if e is not None]
        return min(times, default=self.ended)

    @property
    def doubt(self) -> int:
        """How likely its failure only follows from another rank's: see `launcher.state.peer_loss.doubt`."""
        return doubt(self.raised.message, self.raised.traceback) if self.raised else 0


@dataclass(frozen=True, slots=True)
class Standing:
    """How many of the ranks stand how: what the rules ask after each fact.

    Attributes:
        ended: how many have no process any more.
        lost: how many of those were lost.
        undecided: how many have a process, and have raised nothing.
        failing: the numbers of those that failed, or raised by themselves and have yet to end.
    """

    ended: int = 0
    lost: int = 0
    undecided: int = 0
    failing: frozenset[int] = frozenset()

    def plus(self, other: Standing) -> Standing:
        """With other ranks."""
        return self._added(other, 1, self.failing | other.failing)

    def minus(self, other: Standing) -> Standing:
        """Without some of the ranks."""
        return self._added(other, -1, self.failing - other.failing)

    def _added(self, other: Standing, sign: int, failing: frozenset[int]) -> Standing:
        return Standing(
            self.ended + sign * other.ended,
            self.lost + sign * other.lost,
            self.undecided + sign * other.undecided,
            failing,
        )


def _standing_of(rank: Rank) -> Standing:
    ended = rank.phase.ended
    failing = frozenset((rank.rank,)) if rank.has_failed else frozenset()
    return Standing(int(ended), int(rank.phase.lost), int(not ended and rank.raised is None), failing)


def _stand_alike(one: Rank, other: Rank) -> bool:
    return one.phase is other.phase and one.failing == other.failing and one.raised is other.raised


@dataclass(frozen=True, repr=False)
class Ranks(Sequence[Rank]):
    """The ranks by number. `changed` makes another value, which shares nearly all with this one.

    Attributes:
        standing: how many stand how.
    """

    _blocks: tuple[tuple[Rank, ...], ...] = ()
    _by_agent: Mapping[int, list[int]] = field(default_factory=dict)
    _size: int = 0
    standing: Standing = Standing()

    @classmethod
    def of(cls, ranks: Iterable[Rank]) -> Ranks:
        """These ranks, whose numbers are their places."""
        every, by_agent, standing = tuple(ranks), dict[int, list[int]](), Standing()
        for rank in every:
            by_agent.setdefault(rank.agent, []).append(rank.rank)
            standing = standing.plus(_standing_of(rank))
        blocks = tuple(every[start : start + _BLOCK] for start in range(0, len(every), _BLOCK))
        return cls(blocks, by_agent, len(every), standing)

    def changed(self, ranks: Iterable[Rank]) -> Ranks:
        """These ranks in the places of those with their numbers. No rank moves to another agent."""
        blocks, standing = list(self._blocks), self.standing
        for rank in ranks:
            at, place = divmod(rank.rank, _BLOCK)
            block = blocks[at]
            blocks[at] = (*block[:place], rank, *block[place + 1 :])
            if not _stand_alike(old := block[place], rank):
                standing = standing.minus(_standing_of(old)).plus(_standing_of(rank))
        return changed(self, _blocks=tuple(blocks), standing=standing)

    def of_agent(self, agent: int | None) -> tuple[Rank, ...]:
        """The ranks that an agent supervises."""
        return tuple(self[number] for number in self._by_agent.get(-1 if agent is None else agent, ()))

    @property
    def agents(self) -> frozenset[int]:
        """The agents that supervise them."""
        return frozenset(self._by_agent)

    @property
    def failing(self) -> Iterator[Rank]:
        """Those that failed, or raised by themselves and have yet to end."""
        return (self[number] for number in self.standing.failing)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Rank]:
        return chain.from_iterable(self._blocks)

    @overload
    def __getitem__(self, index: int) -> Rank: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Rank]: ...

    def __getitem__(self, index: int | slice) -> Rank | Sequence[Rank]:
        if isinstance(index, slice):
            return tuple(self)[index]
        number = index + self._size if index < 0 else index
        if not 0 <= number < self._size:
            raise IndexError(f"rank {index} of {self._size}")
        return self._blocks[number // _BLOCK][number % _BLOCK]

    def __repr__(self) -> str:
        return f"Ranks.of({list(self)!r})"
