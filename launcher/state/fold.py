"""`fold`: a run's state after one more fact. Pure, and the only way in which a state ever changes.

Live view, history, replay and the verdict all come from it, so they cannot disagree. A fact of an attempt
that is over does not change the present attempt, however late it arrives.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar, get_args

from . import events as ev
from .changes import changed
from .events import AgentDeparted, RankExited, RankRaised, RankRaising
from .peer_loss import doubt
from .ranks import FirstNotFinite, Rank, RankPhase, Ranks
from .run_state import Host, Phase, RunState, Service

UNREADABLE_LINES = 3
TRACKERS = 256
XIDS = 32
_RUN_STOPS = frozenset({"person", "limit", "spark"})
_PlaceLost = ev.ExecutorLost | ev.ServerLost | ev.TaskLost
_PLACES_LOST: tuple[type[_PlaceLost], ...] = get_args(_PlaceLost)

E = TypeVar("E", bound=ev.Event)
Handler = Callable[[RunState, E], RunState]
_handlers: dict[type[ev.Event], Handler[Any]] = {}


def folds(*kinds: type[E]) -> Callable[[Handler[E]], Handler[E]]:
    """Make a pure function the handler of these kinds of facts."""

    def add(handler: Handler[E]) -> Handler[E]:
        for kind in kinds:
            if _handlers.setdefault(kind, handler) is not handler:
                raise TypeError(f"{kind.__name__} has two handlers")
        return handler

    return add


def folded_kinds() -> frozenset[type[ev.Event]]:
    """The kinds of facts that have a handler."""
    return frozenset(_handlers)


def fold(state: RunState, event: ev.Event) -> RunState:
    """The state after one more fact. A fact without a handler changes nothing."""
    handler = _handlers.get(type(event))
    return state if handler is None or _is_stale(state, event) else handler(state, event)


def fold_all(facts: Iterable[ev.Event], *, run: str = "") -> RunState:
    """The state after all of `facts`, from nothing."""
    state = RunState(id=run)
    for fact in facts:
        state = fold(state, fact)
    return state


def _is_stale(state: RunState, event: ev.Event) -> bool:
    """Whether the fact is about an attempt that is over, and not about the whole run."""
    if event.attempt >= state.attempt or event.scope == "run":
        return False
    return not (isinstance(event, ev.StopRequested) and event.by in _RUN_STOPS)


def _enter(state: RunState, phase: Phase, time: float) -> RunState:
    if state.phase.final or (state.phase is phase and state.since):
        return state
    near = None if phase.final else _past(state.near, "start")
    return changed(state, phase=phase, since=(*state.since, (phase, time)), near=near)


def _past(near: ev.LimitNear | None, *limits: str) -> ev.LimitNear | None:
    """The warning, unless it is about one of these limits, which can no longer end the run."""
    return None if near is not None and near.limit in limits else near


def _disrupt(state: RunState, time: float) -> RunState:
    earliest = time if state.disrupted_at is None else min(state.disrupted_at, time)
    return changed(state, disrupted_at=earliest)


def _update_rank(state: RunState, rank: int, **changes: Any) -> RunState:
    if not 0 <= rank < len(state.ranks):
        return state
    return _with_ranks(state, (changed(state.ranks[rank], **changes),))


def _with_ranks(state: RunState, ranks: Iterable[Rank]) -> RunState:
    """The state with these ranks in the places of those with their numbers."""
    return changed(state, ranks=state.ranks.changed(ranks))


def _update_host(state: RunState, agent: int, **changes: Any) -> RunState:
    old = state.hosts.get(agent) or Host(agent=agent, host=changes.get("host", ""))
    return changed(state, hosts={**state.hosts, agent: changed(old, **changes)})


@folds(ev.RunSubmitted)
def _submitted(state: RunState, e: ev.RunSubmitted) -> RunState:
    size = e.num_processes
    named = changed(state, name=e.name, target=e.target, mode=e.mode, submitted=e)
    submitted = changed(named, num_processes=size, requested=size, started=e.time)
    return _enter(submitted, Phase.SUBMITTED, e.time)


@folds(ev.OriginFound)
def _origin_found(state: RunState, e: ev.OriginFound) -> RunState:
    return changed(state, origin=e)


@folds(ev.SparkReady)
def _spark_ready(state: RunState, e: ev.SparkReady) -> RunState:
    return changed(state, spark=e)


@folds(ev.DeliveryChosen)
def _delivery_chosen(state: RunState, e: ev.DeliveryChosen) -> RunState:
    return changed(state, delivery=e)


@folds(ev.FilesAwaited)
def _files_awaited(state: RunState, e: ev.FilesAwaited) -> RunState:
    return state if state.phase.final else changed(state, files=e)


@folds(ev.SlotsAwaited)
def _awaited(state: RunState, e: ev.SlotsAwaited) -> RunState:
    if state.ranks:
        return state
    return _enter(changed(state, waiting=e), Phase.WAITING, e.time)


@folds(ev.StageSubmitted)
def _stage_submitted(state: RunState, e: ev.StageSubmitted) -> RunState:
    return state if state.ranks else _enter(state, Phase.STARTING, e.time)


@folds(ev.GangPlaced)
def _placed(state: RunState, e: ev.GangPlaced) -> RunState:
    ranks = Ranks.of(
        Rank(rank=a.rank, role=role, host=a.host, agent=a.agent, local_rank=a.local_rank, devices=a.devices)
        for a, role in zip(e.ranks, (*e.roles, *[""] * len(e.ranks)), strict=False)
    )
    placed = changed(state, ranks=ranks, num_processes=len(ranks), waiting=None, attempt=e.attempt)
    return _enter(placed, Phase.STARTING, e.time)


@folds(ev.WorkerFound)
def _worker_found(state: RunState, e: ev.WorkerFound) -> RunState:
    if e.rank != len(state.ranks):
        return state
    worker = Rank(
        rank=e.rank,
        phase=RankPhase.RUNNING,
        host=e.host,
        agent=e.agent,
        devices=e.devices,
        pid=e.pid,
        started=e.time,
        entered=e.time,
    )
    ranks = Ranks.of((*state.ranks, worker))
    return _enter(changed(state, ranks=ranks, num_processes=len(ranks)), Phase.RUNNING, e.time)


@folds(ev.PredictionAdvanced)
def _prediction_advanced(state: RunState, e: ev.PredictionAdvanced) -> RunState:
    return changed(state, prediction=e)


@folds(ev.GangRestarted)
def _restarted(state: RunState, e: ev.GangRestarted) -> RunState:
    """Reset all that belongs to the old attempt, but for agents that stayed or have yet to depart."""
    if e.attempt <= state.attempt or state.phase.final:
        return state
    here = {agent: host for agent, host in state.hosts.items() if host.present}
    if e.in_place:
        here = {agent: changed(host, attempt=e.attempt, cleanup=None) for agent, host in here.items()}
    return changed(
        state,
        attempt=e.attempt,
        restarts=(*state.restarts, e),
        phase=Phase.STARTING,
        since=(*state.since, (Phase.STARTING, e.time)),
        attempt_index=len(state.since),
        num_processes=state.requested,
        waiting=None,
        coming=(),
        files=None,
        near=_past(state.near, "start", "progress"),
        stacks=(),
        stacked_last=frozenset(),
        xids=(),
        ranks=Ranks(),
        services=(),
        hosts=here,
        stop=None,
        disrupted_at=None,
        losses=(),
        lost_tasks=frozenset(),
        cancelled=None,
    )


@folds(ev.AgentJoined)
def _joined(state: RunState, e: ev.AgentJoined) -> RunState:
    """Forget an old attempt's agent that had the same number."""
    old = state.hosts.get(e.agent)
    if old is not None and old.attempt < e.attempt:
        state = changed(state, hosts={a: h for a, h in state.hosts.items() if a != e.agent})
    clock = {"clock_offset": e.clock_offset, "clock_error": e.clock_error}
    versions = {"python": e.python, "torch": e.torch, "cuda": e.cuda}
    known = {"host": e.host, "pid": e.pid, "address": e.address, "present": True, "departed": ""}
    return _update_host(state, e.agent, attempt=e.attempt, **known, **clock, **versions)


@folds(ev.AgentDeparted)
def _departed(state: RunState, e: ev.AgentDeparted) -> RunState:
    """An agent's ranks are lost with it; an agent of an old attempt is only removed."""
    if e.attempt < state.attempt:
        old = state.hosts.get(e.agent)
        if old is None or old.attempt >= state.attempt:
            return state
        return changed(state, hosts={a: h for a, h in state.hosts.items() if a != e.agent})
    state = _update_host(state, e.agent, present=False, departed="" if e.expected else e.reason)
    if state.prediction is not None:  # Spark repeats what a lost worker has not done, and others go on
        how = RankPhase.SUCCEEDED if e.expected else RankPhase.LOST
        workers = (r for r in state.ranks.of_agent(e.agent) if not r.phase.ended)
        return _with_ranks(state, [changed(r, phase=how, ended=e.time) for r in workers])
    left = [r for old in state.ranks.of_agent(e.agent) if (r := without_agent(old, e)) is not old]
    return _disrupt(_with_ranks(state, left), e.time) if left else state


@folds(*_PLACES_LOST)
def _lost(state: RunState, e: _PlaceLost) -> RunState:
    state = _with_ranks(state, [without_place(r) for r in state.ranks.of_agent(e.task)])
    lost = state.lost_tasks if e.task is None else state.lost_tasks | {e.task}
    return _disrupt(changed(state, losses=(*state.losses, e), lost_tasks=lost), e.time)


@folds(ev.ServiceStarted)
def _service_started(state: RunState, e: ev.ServiceStarted) -> RunState:
    started = Service(rank=e.rank, name=e.name, host=e.host, agent=e.agent, pid=e.pid, is_rank=e.is_rank)
    others = (each for each in state.services if each.rank != e.rank)
    return changed(state, services=tuple(sorted((*others, started), key=lambda each: each.rank)))


@folds(ev.ServiceReady)
def _service_ready(state: RunState, e: ev.ServiceReady) -> RunState:
    return _update_service(state, e.rank, ready=e.time, url=e.url)


@folds(ev.ServiceLost)
def _service_lost(state: RunState, e: ev.ServiceLost) -> RunState:
    """The first loss counts: when one node of a cluster goes, others may follow it."""
    state = _update_service(state, e.rank, lost=e.reason)
    return _disrupt(changed(state, losses=(*state.losses, e)), e.time)


def _update_service(state: RunState, rank: int, **changes: Any) -> RunState:
    services = (changed(each, **changes) if each.rank == rank else each for each in state.services)
    return changed(state, services=tuple(services))


@folds(ev.JobCancelled)
def _cancelled(state: RunState, e: ev.JobCancelled) -> RunState:
    return state if state.cancelled else _disrupt(changed(state, cancelled=e), e.time)


@folds(ev.RankStarted)
def _rank_started(state: RunState, e: ev.RankStarted) -> RunState:
    state = changed(state, files=None)
    return _update_rank(state, e.rank, phase=RankPhase.STARTING, pid=e.pid, started=e.time)


@folds(ev.RankEntered)
def _rank_entered(state: RunState, e: ev.RankEntered) -> RunState:
    state = _update_rank(state, e.rank, phase=RankPhase.RUNNING, entered=e.time)
    return _enter(state, Phase.RUNNING, e.time) if state.phase is Phase.STARTING else state


@folds(ev.GroupJoined)
def _group_joined(state: RunState, e: ev.GroupJoined) -> RunState:
    return _update_rank(state, e.rank, world_size=e.world_size)


@folds(ev.FrameworksUsed)
def _frameworks_used(state: RunState, e: ev.FrameworksUsed) -> RunState:
    return _update_rank(state, e.rank, frameworks=e.frameworks)


@folds(ev.FrameworkChosen)
def _framework_chosen(state: RunState, e: ev.FrameworkChosen) -> RunState:
    return changed(state, framework=e)


@folds(ev.SeparateTrainings)
def _separate_trainings(state: RunState, e: ev.SeparateTrainings) -> RunState:
    return changed(state, separate=e)


@folds(ev.RankReported)
def _reported(state: RunState, e: ev.RankReported) -> RunState:
    if not 0 <= e.rank < len(state.ranks):
        return state
    old = state.ranks[e.rank]
    step = old.step if e.step is None else e.step
    metrics = {**old.metrics, **e.metrics}
    found = old.not_finite or _not_finite(e)
    new = changed(old, step=step, metrics=metrics, reported_at=e.time, not_finite=found)
    return _with_ranks(state, (new,))


def _not_finite(e: ev.RankReported) -> FirstNotFinite | None:
    name = next((name for name, value in e.metrics.items() if not math.isfinite(value)), None)
    return None if name is None else FirstNotFinite(e.time, name, e.step)


@folds(ev.MessageLogged)
def _message_logged(state: RunState, e: ev.MessageLogged) -> RunState:
    return _update_rank(state, e.rank, message=e.text)


@folds(ev.RankRaised)
def _raised(state: RunState, e: ev.RankRaised) -> RunState:
    """A rank that raises after the gang was stopped, or lost a part, does so in consequence of that.

    An exception whose `RankRaising` arrived before the stop was not caused by it, whatever the two hosts'
    clocks show.
    """
    seen = 0 <= e.rank < len(state.ranks) and state.ranks[e.rank].raising is not None
    failing = seen or state.disrupted_at is None or e.time <= state.disrupted_at
    return _update_rank(state, e.rank, raised=e, failing=failing)


@folds(ev.RankRaising)
def _raising(state: RunState, e: ev.RankRaising) -> RunState:
    """An exception that was raised after the gang was stopped is ignored."""
    on_time = state.disrupted_at is None or e.time <= state.disrupted_at
    return _update_rank(state, e.rank, raising=e) if on_time else state


@folds(ev.RankRecovered)
def _recovered(state: RunState, e: ev.RankRecovered) -> RunState:
    return _update_rank(state, e.rank, raising=None)


@folds(ev.RankReturned)
def _returned(state: RunState, e: ev.RankReturned) -> RunState:
    return _update_rank(state, e.rank, returned=e)


@folds(ev.RankExited)
def _exited(state: RunState, e: ev.RankExited) -> RunState:
    if not 0 <= e.rank < len(state.ranks):
        return state
    rank = state.ranks[e.rank]
    phase, raised = end_of(state, rank, e)
    end = {"ended": e.time, "exit_code": e.exit_code, "signal": e.signal, "oom_kills": e.oom_kills}
    how = {"unreturned": e.unreturned, "left": e.left, "raised": raised, "dumped": e.collectives}
    how["after_return"] = e.after_return
    early = state.disrupted_at is None
    return _update_rank(state, e.rank, phase=phase, ended_before_stop=early, **end, **how)


@folds(ev.StopRequested)
def _stop_requested(state: RunState, e: ev.StopRequested) -> RunState:
    """Only the first stop counts; but the first that ends the whole run is recorded in `final_stop` too."""
    if state.final_stop is None and e.by in _RUN_STOPS:
        state = changed(state, final_stop=e)
    if state.stop is not None:
        return state
    return _enter(_disrupt(changed(state, stop=e, near=None), e.time), Phase.STOPPING, e.time)


@folds(ev.CleanupProven)
def _cleanup(state: RunState, e: ev.CleanupProven) -> RunState:
    return _update_host(state, e.agent, cleanup=e)


@folds(ev.Sampled)
def _sampled(state: RunState, e: ev.Sampled) -> RunState:
    host = state.hosts.get(e.agent)
    if host is not None:
        devices = {d.uuid: d for d in e.devices}
        state = _update_host(state, e.agent, system=e.system, devices=devices, sampled_at=e.time)
    known = (sample for sample in e.ranks if 0 <= sample.rank < len(state.ranks))
    return _with_ranks(state, [_with_sample(state.ranks[each.rank], each, e.time) for each in known])


def _with_sample(rank: Rank, sample: ev.RankSample, time: float) -> Rank:
    """The rank with a new sample; one that has ended keeps the last sample that was taken while it lived."""
    return rank if rank.phase.ended else changed(rank, sample=sample, sampled_at=time)


@folds(ev.RowsAwaited)
def _rows_awaited(state: RunState, e: ev.RowsAwaited) -> RunState:
    return _update_rank(state, e.rank, awaits_rows=None if e.over else e.rows)


@folds(ev.LogAwaited)
def _log_awaited(state: RunState, e: ev.LogAwaited) -> RunState:
    return _update_rank(state, e.rank, awaits_log=not e.over)


@folds(ev.RankPaused)
def _paused(state: RunState, e: ev.RankPaused) -> RunState:
    return _update_rank(state, e.rank, paused=None if e.over else e.reason)


@folds(ev.RanksSilent)
def _silent(state: RunState, e: ev.RanksSilent) -> RunState:
    waiting = [changed(r, waits=True) for r in _known_ranks(state, e.waiting)]
    silent = [
        changed(r, silent_since=e.since, hung=e.hung, waits=False) for r in _known_ranks(state, e.ranks)
    ]
    return _with_ranks(state, [*waiting, *silent])


@folds(ev.RanksResumed)
def _ranks_resumed(state: RunState, e: ev.RanksResumed) -> RunState:
    """Nobody waits any more once no rank is hung."""
    active = (changed(r, silent_since=None, hung=False) for r in _known_ranks(state, e.ranks))
    state = _with_ranks(state, active)
    if any(rank.hung for rank in state.ranks):
        return state
    return _with_ranks(state, [changed(r, waits=False) for r in state.ranks if r.waits])


def _known_ranks(state: RunState, numbers: Iterable[int]) -> Iterable[Rank]:
    return (state.ranks[n] for n in dict.fromkeys(numbers) if 0 <= n < len(state.ranks))


@folds(ev.LimitNear)
def _limit_near(state: RunState, e: ev.LimitNear) -> RunState:
    return changed(state, near=e)


@folds(ev.ProgressResumed)
def _resumed(state: RunState, _: ev.ProgressResumed) -> RunState:
    """A sign of life has no effect on other limits."""
    return changed(state, near=_past(state.near, "progress"))


@folds(ev.StacksTaken)
def _stacks_taken(state: RunState, e: ev.StacksTaken) -> RunState:
    at = bisect_left(state.stacks, e.rank, key=lambda taken: taken.rank)
    after = at + 1 if at < len(state.stacks) and state.stacks[at].rank == e.rank else at
    last = {*state.stacked_last, e.rank} if state.is_ending else state.stacked_last - {e.rank}
    stacks = (*state.stacks[:at], e, *state.stacks[after:])
    return changed(state, stacks=stacks, stacked_last=frozenset(last))


@folds(ev.XidLogged)
def _xid_logged(state: RunState, e: ev.XidLogged) -> RunState:
    """Each error of each GPU that the ranks have, once: others of the host may be used by other jobs."""
    used = {device.uuid for rank in state.ranks.of_agent(e.agent) for device in rank.devices}
    known = {(each.host, each.uuid, each.xid) for each in state.xids}
    if e.uuid not in used or (e.host, e.uuid, e.xid) in known or len(known) >= XIDS:
        return state
    return changed(state, xids=(*state.xids, e))


@folds(ev.CauseFound)
def _cause_found(state: RunState, e: ev.CauseFound) -> RunState:
    return changed(state, found=e)


@folds(ev.NoteMade)
def _noted(state: RunState, e: ev.NoteMade) -> RunState:
    return changed(state, notes=(*state.notes, e))


@folds(ev.ArtifactsKept)
def _artifacts_kept(state: RunState, e: ev.ArtifactsKept) -> RunState:
    return changed(state, artifacts={**state.artifacts, e.host: e})


@folds(ev.ArtifactsAwaited)
def _artifacts_awaited(state: RunState, e: ev.ArtifactsAwaited) -> RunState:
    others = (each for each in state.coming if each.host != e.host)
    return changed(state, coming=(*others, e))


@folds(ev.TrackerLinked)
def _tracker_linked(state: RunState, e: ev.TrackerLinked) -> RunState:
    """Keep each record once, whatever attempt it is from, and no more than `TRACKERS`."""
    if len(state.trackers) >= TRACKERS or any(_is_same(e, known) for known in state.trackers):
        return state
    return changed(state, trackers=(*state.trackers, e))


def _is_same(e: ev.TrackerLinked, known: ev.TrackerLinked) -> bool:
    return replace(e, time=known.time, attempt=known.attempt, agent_time=known.agent_time) == known


@folds(ev.RecordingStopped)
def _recording_stopped(state: RunState, e: ev.RecordingStopped) -> RunState:
    return changed(state, recording=e)


@folds(ev.RecordsLost)
def _records_lost(state: RunState, e: ev.RecordsLost) -> RunState:
    return changed(state, lost=e, recording=None if e.resumed else state.recording)


@folds(ev.PartUnreadable)
def _unreadable(state: RunState, e: ev.PartUnreadable) -> RunState:
    """Keep one entry for each file, with the numbers of its first few unreadable lines."""
    known = {part.file: part for part in state.unreadable}
    if (old := known.get(e.file)) is not None:
        lines = (*old.lines, *e.lines)[:UNREADABLE_LINES]
        e = replace(old, lines=lines, count=old.count + e.count)
    return changed(state, unreadable=tuple({**known, e.file: e}.values()))


@folds(ev.Unrecognised)
def _unrecognised(state: RunState, _: ev.Unrecognised) -> RunState:
    return changed(state, newer=state.newer + 1)


@folds(ev.RunEnded)
def _ended(state: RunState, e: ev.RunEnded) -> RunState:
    """Ranks that were still running when the run was lost are lost too."""
    if e.state == Phase.LOST:
        state = _with_ranks(state, [lost_at(r, e.time) for r in state.ranks if not r.phase.ended])
    done = changed(state, ended=e.time, exit_code=e.exit_code, why=e.why, blamed=e.rank, coming=())
    phase = next((p for p in Phase if p == e.state), Phase.FAILED)  # a newer version may know more ends
    return _enter(done, phase, e.time)


_TAKEN_DOWN = frozenset({"SIGTERM", "SIGHUP"})


def end_of(state: RunState, rank: Rank, e: RankExited) -> tuple[RankPhase, RankRaised | None]:
    """How a rank ended, and with which exception.

    An exception that is known only from a `RankRaising` counts in two cases: the rank exited with a code, or
    the rank was terminated and the exception explains the other failures.
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
    """Whether an exception is the cause of failures that only look like consequences of another one."""
    known = state.cause
    by_rank = state.stop is not None and state.stop.by == "rank"
    return by_rank and known is not None and known.doubt > doubt(seen.message, seen.traceback)


def _phase_of(state: RunState, rank: Rank, e: RankExited) -> RankPhase:
    """The final phase of a rank. An end that follows from a stop or a loss is not the rank's failure.

    The exit of a rank that crashed can arrive after the stop that its victims caused; its time tells it from
    theirs. SIGTERM always counts as the stop's, whatever the two hosts' clocks show; so does SIGKILL if the
    stop gave no grace.
    """
    if rank.failing:
        return RankPhase.FAILED
    service = state.service_as(rank)
    if e.exit_code == 0 and e.signal is None and not e.unreturned:  # a service ends well whatever ended it
        return RankPhase.STOPPED if service is not None and state.stop is not None else RankPhase.SUCCEEDED
    disrupted = state.disrupted_at
    if disrupted is None or (e.time < disrupted and not _is_ours(state, rank, e.signal)):
        return RankPhase.FAILED
    gone = rank.agent in state.lost_tasks or (service is not None and bool(service.lost))
    return RankPhase.LOST if gone else RankPhase.STOPPED


def _is_ours(state: RunState, rank: Rank, signal: str | None) -> bool:
    """Whether the signal came from a stop or a loss, and so says nothing against the rank."""
    if state.stop is not None and state.stop.grace_s <= 0 and signal == "SIGKILL":
        return True
    return signal == "SIGTERM" and (state.stop is not None or rank.agent in state.lost_tasks)


def lost_at(rank: Rank, time: float) -> Rank:
    """The rank once nothing more can be known of it."""
    return changed(rank, phase=RankPhase.LOST, ended=time)


def without_agent(rank: Rank, e: AgentDeparted) -> Rank:
    """The rank once its agent is gone."""
    if not rank.phase.ended:
        return lost_at(rank, e.time)
    return rank if e.expected else without_place(rank)


def without_place(rank: Rank) -> Rank:
    """The rank once its place is gone.

    Whatever takes a place down sends its processes a signal, and the ranks' exits may arrive before the
    news of the loss: such an exit is not a failure of the rank.
    """
    taken_down = rank.phase is RankPhase.FAILED and rank.raised is None and rank.signal in _TAKEN_DOWN
    return changed(rank, phase=RankPhase.LOST) if taken_down else rank
