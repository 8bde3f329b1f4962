"""How one rank ended: by itself, because the gang was stopped, or because its place was taken. Pure."""

from __future__ import annotations

from dataclasses import fields, replace

from launcher.events import AgentDeparted, RankExited, RankRaised, RankRaising
from launcher.state import Rank, RankPhase, RunState
from launcher.worker.transport import doubt

_TAKEN_DOWN = frozenset({"SIGTERM", "SIGHUP"})


def end_of(state: RunState, rank: Rank, e: RankExited) -> tuple[RankPhase, RankRaised | None]:
    """How a rank ended, and with which exception.

    One that was only seen on its way counts if it left with a code, or if it was ended where nobody else
    knows of a cause.
    """
    phase = _phase_of(state, rank, e)
    if rank.raised is not None or rank.raising is None:
        return phase, rank.raised
    seen = _as_raised(rank.raising)
    if phase is RankPhase.FAILED and e.exit_code and e.signal is None:
        return phase, seen
    if phase is RankPhase.STOPPED and _explains(state, seen):
        return RankPhase.FAILED, seen
    return phase, None


def _as_raised(e: RankRaising) -> RankRaised:
    return RankRaised(**{f.name: getattr(e, f.name) for f in fields(RankRaised)})


def _explains(state: RunState, seen: RankRaised) -> bool:
    """Whether an exception is the cause of failures of which each says that it follows from another."""
    known = state.cause
    by_rank = state.stop is not None and state.stop.by == "rank"
    return by_rank and known is not None and known.doubt > doubt(seen.message, seen.traceback)


def _phase_of(state: RunState, rank: Rank, e: RankExited) -> RankPhase:
    """Where it stands. What follows from the gang being stopped, or from a loss, is nobody's failure.

    A crash can be heard of after the stop that its victims caused, and is told from them by its time.
    SIGTERM is the stop's own, whatever two hosts' clocks say; so is SIGKILL where it gave no grace.
    """
    if rank.failing:
        return RankPhase.FAILED
    if e.exit_code == 0 and e.signal is None and not e.unreturned:
        return RankPhase.SUCCEEDED
    upset = state.upset_at
    if upset is None or (e.time < upset and not _is_ours(state, rank, e.signal)):
        return RankPhase.FAILED
    return RankPhase.LOST if rank.agent in state.lost_tasks else RankPhase.STOPPED


def _is_ours(state: RunState, rank: Rank, signal: str | None) -> bool:
    """Whether it is a signal that ends ranks which did nothing wrong."""
    if state.stop is not None and state.stop.grace_s <= 0 and signal == "SIGKILL":
        return True
    return signal == "SIGTERM" and (state.stop is not None or rank.agent in state.lost_tasks)


def lost_at(rank: Rank, time: float) -> Rank:
    """The rank once nobody can tell any more how it goes on."""
    return replace(rank, phase=RankPhase.LOST, ended=time)


def without_agent(rank: Rank, e: AgentDeparted) -> Rank:
    """The rank once its agent is gone."""
    if not rank.phase.ended:
        return lost_at(rank, e.time)
    return rank if e.expected else without_place(rank)


def without_place(rank: Rank) -> Rank:
    """The rank once its place is gone.

    What takes a place down tells its processes to end, and the ranks may be heard of first: that is no
    failure of theirs.
    """
    told = rank.phase is RankPhase.FAILED and rank.raised is None and rank.signal in _TAKEN_DOWN
    return replace(rank, phase=RankPhase.LOST) if told else rank
