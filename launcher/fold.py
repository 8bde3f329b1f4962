"""`fold`: a run's state after one more fact. Pure, and the only way in which a state ever changes.

Live view, history, replay and the verdict all come from it, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from launcher import events as ev
from launcher.state import Host, Phase, Rank, RankPhase, RunState


def fold(state: RunState, event: ev.Event) -> RunState:
    """The state after one more fact. Facts it does not know change nothing."""
    handler = _HANDLERS.get(type(event))
    return handler(state, event) if handler else state


def fold_all(facts: Iterable[ev.Event], *, run: str = "") -> RunState:
    """The state after all of `facts`, from nothing."""
    state = RunState(id=run)
    for fact in facts:
        state = fold(state, fact)
    return state


def _enter(state: RunState, phase: Phase, time: float) -> RunState:
    if state.phase.final or (state.phase is phase and state.since):
        return state
    return replace(state, phase=phase, since=(*state.since, (phase, time)))


def _update_rank(state: RunState, rank: int, **changes: Any) -> RunState:
    if not 0 <= rank < len(state.ranks):
        return state
    ranks = list(state.ranks)
    ranks[rank] = replace(ranks[rank], **changes)
    return replace(state, ranks=tuple(ranks))


def _update_host(state: RunState, agent: int, **changes: Any) -> RunState:
    old = state.hosts.get(agent) or Host(agent=agent, host=changes.get("host", ""))
    return replace(state, hosts={**state.hosts, agent: replace(old, **changes)})


def _submitted(state: RunState, e: ev.RunSubmitted) -> RunState:
    known = replace(
        state, name=e.name, target=e.target, mode=e.mode, num_processes=e.num_processes, started=e.time
    )
    return _enter(known, Phase.SUBMITTED, e.time)


def _awaited(state: RunState, e: ev.SlotsAwaited) -> RunState:
    return _enter(replace(state, waiting=e), Phase.WAITING, e.time)


def _placed(state: RunState, e: ev.GangPlaced) -> RunState:
    ranks = tuple(
        Rank(rank=a.rank, host=a.host, agent=a.agent, local_rank=a.local_rank, devices=a.devices)
        for a in e.ranks
    )
    placed = replace(state, ranks=ranks, waiting=None, attempt=e.attempt)
    return _enter(placed, Phase.STARTING, e.time)


def _joined(state: RunState, e: ev.AgentJoined) -> RunState:
    return _update_host(state, e.agent, host=e.host, pid=e.pid, clock_offset=e.clock_offset, present=True)


def _departed(state: RunState, e: ev.AgentDeparted) -> RunState:
    state = _update_host(state, e.agent, present=False)
    ranks = tuple(
        replace(r, phase=RankPhase.LOST, ended=e.time) if r.agent == e.agent and not r.phase.ended else r
        for r in state.ranks
    )
    return replace(state, ranks=ranks)


def _rank_started(state: RunState, e: ev.RankStarted) -> RunState:
    return _update_rank(state, e.rank, phase=RankPhase.STARTING, pid=e.pid, started=e.time)


def _rank_entered(state: RunState, e: ev.RankEntered) -> RunState:
    state = _update_rank(state, e.rank, phase=RankPhase.RUNNING, entered=e.time)
    return _enter(state, Phase.RUNNING, e.time) if state.phase is Phase.STARTING else state


def _reported(state: RunState, e: ev.RankReported) -> RunState:
    if not 0 <= e.rank < len(state.ranks):
        return state
    old = state.ranks[e.rank]
    step = old.step if e.step is None else e.step
    return _update_rank(state, e.rank, step=step, metrics={**old.metrics, **e.metrics}, reported_at=e.time)


def _raised(state: RunState, e: ev.RankRaised) -> RunState:
    """An exception that is heard of before the stop was not caused by it, whatever two hosts' clocks say."""
    failing = state.stop is None or e.time <= state.stop.time
    return _update_rank(state, e.rank, raised=e, failing=failing)


def _returned(state: RunState, e: ev.RankReturned) -> RunState:
    return _update_rank(state, e.rank, returned=e)


def _exited(state: RunState, e: ev.RankExited) -> RunState:
    if not 0 <= e.rank < len(state.ranks):
        return state
    phase = _end_of(state.ranks[e.rank], state.stop, e)
    end = {"exit_code": e.exit_code, "signal": e.signal, "oom_kills": e.oom_kills}
    return _update_rank(state, e.rank, phase=phase, ended=e.time, **end)


def _end_of(rank: Rank, stop: ev.StopRequested | None, e: ev.RankExited) -> RankPhase:
    """How a rank ended. What follows from the gang being stopped is nobody's failure.

    A crash can be heard of after the stop that its victims caused, and is told from them by its time.
    SIGTERM is the stop's own, whatever two hosts' clocks say; so is SIGKILL where it gave no grace.
    """
    if rank.failing:
        return RankPhase.FAILED
    if e.exit_code == 0 and e.signal is None:
        return RankPhase.SUCCEEDED
    if stop is None:
        return RankPhase.FAILED
    ours = ("SIGTERM",) if stop.grace_s > 0 else ("SIGTERM", "SIGKILL")
    return RankPhase.STOPPED if e.time >= stop.time or e.signal in ours else RankPhase.FAILED


def _stop_requested(state: RunState, e: ev.StopRequested) -> RunState:
    if state.stop is not None:
        return state
    return _enter(replace(state, stop=e), Phase.STOPPING, e.time)


def _cleanup(state: RunState, e: ev.CleanupProven) -> RunState:
    return _update_host(state, e.agent, cleanup=e)


def _sampled(state: RunState, e: ev.Sampled) -> RunState:
    devices = {d.uuid: d for d in e.devices}
    host = state.hosts.get(e.agent)
    if host is not None:
        state = _update_host(state, e.agent, system=e.system, devices=devices, sampled_at=e.time)
    samples = {s.rank: s for s in e.ranks}
    return replace(state, ranks=tuple(_with_sample(r, samples.get(r.rank), e.time) for r in state.ranks))


def _with_sample(rank: Rank, sample: ev.RankSample | None, time: float) -> Rank:
    """A rank that has ended keeps the last figures of its life."""
    if sample is None or rank.phase.ended:
        return rank
    return replace(rank, sample=sample, sampled_at=time)


def _noted(state: RunState, e: ev.NoteMade) -> RunState:
    return replace(state, notes=(*state.notes, e))


def _ended(state: RunState, e: ev.RunEnded) -> RunState:
    done = replace(state, ended=e.time, exit_code=e.exit_code, why=e.why, blamed=e.rank)
    phase = next((p for p in Phase if p == e.state), Phase.FAILED)  # a newer version may know more ends
    return _enter(done, phase, e.time)


_HANDLERS: dict[type[ev.Event], Callable[[RunState, Any], RunState]] = {
    ev.RunSubmitted: _submitted, ev.SlotsAwaited: _awaited, ev.GangPlaced: _placed,
    ev.AgentJoined: _joined, ev.AgentDeparted: _departed, ev.RankStarted: _rank_started,
    ev.RankEntered: _rank_entered, ev.RankReported: _reported, ev.RankRaised: _raised,
    ev.RankReturned: _returned, ev.RankExited: _exited, ev.StopRequested: _stop_requested,
    ev.CleanupProven: _cleanup, ev.Sampled: _sampled, ev.NoteMade: _noted, ev.RunEnded: _ended,
}  # fmt: skip
