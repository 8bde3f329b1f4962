"""What to do next, how a run ended, and the sentence for that: pure rules over its state.

`next_stop` decides when a gang must be stopped and why; `next_restart`, once it has stopped, whether it is
started again; `verdict`, once nothing is alive, the run's final state, exit code and sentence. The supervisor
only carries these decisions out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from ..errors import AgentLost, LauncherError, NoGroup, NoProgress, RunStopped, TimeLimit, counted
from .events import (
    ExecutorLost,
    GangRestarted,
    PredictionAdvanced,
    RunEnded,
    ServerLost,
    ServiceLost,
    StopRequested,
)
from .peer_loss import operation
from .ranks import Rank, RankPhase
from .run_state import Loss, Phase, RunState
from .separate import describe_separate
from .tracebacks import quoted

SERVICES_LIMIT_S = 180.0  # a Ray node takes 5 to 15 s on a busy machine
DOUBT_S = 2.0  # how long to wait for the cause after a failure that may follow from another rank's


def next_stop(
    state: RunState,
    *,
    now: float,
    timeout_s: float | None,
    grace_s: float,
    quiet_s: float | None = None,
    no_progress_timeout_s: float | None = None,
    doubted_s: float = 0.0,
) -> StopRequested | None:
    """The stop that the facts require, unless the gang is being stopped already.

    Args:
        state: all facts so far.
        now: the engine's clock.
        timeout_s: the run's time limit, over all its attempts.
        grace_s: the seconds that the ranks have to end by themselves.
        quiet_s: seconds since any rank's last sign of life; None while none is expected.
        no_progress_timeout_s: how long that may be.
        doubted_s: for how many seconds it has been in doubt which rank failed first.
    """
    if state.stop is not None or state.phase.final:
        return None
    cause = _cause_to_stop(state, now, timeout_s, doubted_s)
    if cause is None and quiet_s is not None and _is_hung(state, quiet_s, no_progress_timeout_s):
        cause = "limit", f"no progress for {no_progress_timeout_s:g} s", NoProgress.exit_code
    if cause is None:
        return None
    by, reason, code = cause
    return StopRequested(
        time=now, attempt=state.attempt, by=by, reason=reason, exit_code=code, grace_s=grace_s
    )


def _cause_to_stop(
    state: RunState, now: float, timeout_s: float | None, doubted_s: float
) -> tuple[str, str, int | None] | None:
    """`by`, reason and exit code of the stop: a failure goes before a loss, and both before the time limit.

    After a failure that may follow from another rank's, wait for that one or for the loss that caused it.
    """
    cause = state.cause
    if cause is not None and not (cause.doubt and _is_missing_a_part(state)):
        if state.undecided and doubted_s < DOUBT_S:
            return None
        return "rank", f"rank {cause.rank} failed", None
    if not state.all_ended and state.cancelled is not None:
        return "spark", _cancelled(state), RunStopped.exit_code
    if not state.all_ended and (state.losses or _lost(state)):
        return "loss", describe_loss(state), None
    if _is_over(state, now, timeout_s):
        return "limit", f"the time limit of {timeout_s:g} s", TimeLimit.exit_code
    return None


def _is_hung(state: RunState, quiet_s: float, limit_s: float | None) -> bool:
    """Whether the whole gang has been silent for too long; one whose ranks have ended is not hung."""
    return limit_s is not None and not state.all_ended and quiet_s >= limit_s


def _is_missing_a_part(state: RunState) -> bool:
    """Whether the gang has lost an agent, an executor or the server that its ranks ran on."""
    return bool(state.losses) or _lost(state)


def _lost(state: RunState) -> bool:
    return state.ranks.standing.lost > 0


def _is_over(state: RunState, now: float, timeout_s: float | None) -> bool:
    """Whether the run, with all its attempts together, has used up its time limit."""
    return timeout_s is not None and state.started is not None and now - state.started >= timeout_s


def _cancelled(state: RunState) -> str:
    reason = brief(state.cancelled.reason) if state.cancelled else ""
    return "cancelled in Spark" + (f": {reason}" if reason else "")


def next_restart(
    state: RunState, *, now: float, max_restarts: int, timeout_s: float | None = None
) -> GangRestarted | None:
    """The start of another attempt, for a gang that has stopped and may be restarted.

    A failed gang whose agents are all connected is started again in place. After a loss it needs new agents,
    and so a new stage; that is certain only once the old stage is over, because what looks like a loss at
    first may be a job that somebody cancelled.

    Args:
        state: all facts so far; its ranks have ended, or their agents have gone.
        now: the engine's clock.
        max_restarts: how many attempts may follow the first.
        timeout_s: the run's time limit, over all its attempts.
    """
    ends = state.phase.final or state.final_stop is not None or state.cancelled is not None
    ends = ends or any(isinstance(loss, ServerLost) for loss in state.losses)
    if ends or state.attempt >= max_restarts or _is_over(state, now, timeout_s):
        return None
    first = state.first_failure
    if first is not None and not _is_victim(state):
        reason, in_place = describe_cause(state, first), not state.losses and _all_here(state)
    elif _went_away(state) and not _never_began(state):
        in_place = all(isinstance(loss, ServiceLost) for loss in state.losses) and _all_here(state)
        reason = describe_loss(state)
    else:
        return None
    return GangRestarted(time=now, attempt=state.attempt + 1, reason=reason, in_place=in_place)


def _all_here(state: RunState) -> bool:
    return all(agent in state.hosts and state.hosts[agent].present for agent in state.ranks.agents)


def _never_began(state: RunState) -> bool:
    """Whether a service could not be started; another attempt could not start it either."""
    return any(isinstance(loss, ServiceLost) and not loss.started for loss in state.losses)


def may_proceed(state: RunState, services: Collection[int]) -> bool:
    """Whether the ranks that wait for the services beside these ranks can start: all are ready."""
    ready = {each.rank for each in state.services if each.ready is not None and not each.lost}
    return ready >= set(services)


def may_release(state: RunState) -> bool:
    """Whether the services have done their work: the ranks that run the target have all ended."""
    return bool(state.ranks) and all(r.phase.ended or state.service_as(r) is not None for r in state.ranks)


def _is_victim(state: RunState) -> bool:
    """Whether ranks failed because the gang was stopped for a loss."""
    return state.stop is not None and state.stop.by == "loss"


def _is_cut_short(state: RunState) -> bool:
    """Whether a rank ended before it was done, or never began."""
    return not state.all_ended or any(r.phase is not RankPhase.SUCCEEDED for r in state.ranks)


def _went_away(state: RunState) -> bool:
    """Whether what the ranks ran on went away; a gang that was stopped for that has not succeeded."""
    return _is_victim(state) or _lost(state) or (bool(state.losses) and _is_cut_short(state))


def verdict(state: RunState, *, now: float, failure: LauncherError | None = None) -> RunEnded:
    """How the run ended.

    Args:
        state: all facts but this one.
        now: the engine's clock.
        failure: the error in rankdeck or the infrastructure that ended the run, if there was one.
    """
    phase, code, why, rank = _end(state, failure)
    if phase is not Phase.STOPPED:
        why += after_restarts(state)
    return RunEnded(time=now, attempt=state.attempt, state=phase.value, exit_code=code, why=why, rank=rank)


def _end(state: RunState, failure: LauncherError | None) -> tuple[Phase, int, str, int | None]:
    """State, exit code, reason, and the rank to blame if there is one."""
    if failure is not None:
        phase = Phase.LOST if isinstance(failure, AgentLost) else Phase.FAILED
        return phase, failure.exit_code, str(failure), None
    stop, first = state.stop, state.first_failure
    if stop is not None and stop.by in ("person", "limit", "spark") and not _came_too_late(state):
        phase = Phase.FAILED if stop.by == "limit" else Phase.STOPPED
        return phase, stop.exit_code or RunStopped.exit_code, f"stopped: {stop.reason}", None
    if first is not None and not _is_victim(state):
        return Phase.FAILED, exit_code_of(first), describe_cause(state, first), first.rank
    if state.prediction is not None and state.prediction.output:
        return Phase.SUCCEEDED, 0, describe_prediction(state.prediction), None
    if state.cancelled is not None and (stop is not None or _is_cut_short(state)):
        return Phase.STOPPED, RunStopped.exit_code, f"stopped: {_cancelled(state)}", None
    if _never_began(state):
        return Phase.FAILED, 1, describe_loss(state), None
    if _went_away(state) or not state.all_ended:
        return Phase.LOST, AgentLost.exit_code, describe_loss(state), None
    if stop is not None and not _came_too_late(state):
        return Phase.FAILED, 1, f"stopped: {stop.reason}", None
    if state.separate is not None and state.separate.required:
        return Phase.FAILED, NoGroup.exit_code, describe_separate(state.separate), None
    return Phase.SUCCEEDED, 0, describe_success(state), None


def _came_too_late(state: RunState) -> bool:
    """Whether every rank had already succeeded when the gang was stopped: the stop had no effect."""
    ranks = [rank for rank in state.ranks if state.service_as(rank) is None]
    left = {rank.rank for rank in state.left_early}
    return bool(ranks) and all(rank.rank in left for rank in ranks)


def exit_code_of(rank: Rank) -> int:
    """The failing rank's own code, never 0.

    For a rank that raised and then had to be killed, it is 1: the code with which Python would have exited.
    """
    if rank.raised is not None and rank.signal in ("SIGTERM", "SIGKILL"):
        return 1
    return rank.exit_code or 1


SENTENCE = 300
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_HEADING = "Traceback (most recent call last):"


def describe_failure(rank: Rank) -> str:
    """Which rank failed, where and how; the OOM killer is named only if the kernel counted a kill."""
    where = f"rank {rank.rank} on {rank.host}"
    if rank.raised is not None:
        text = reason_in(rank.raised.message)
        return f"{where} raised {rank.raised.kind}{f': {text}' if text else ''}"
    if rank.signal:
        oom = rank.signal == "SIGKILL" and bool(rank.oom_kills)
        hint = (
            "; the kernel's OOM killer struck while it ran: it probably used too much memory" if oom else ""
        )
        return f"{where} was killed by {rank.signal}{hint}"
    if rank.unreturned:
        return f"{where} never returned: its process ended with 0 in the middle of the function"
    after = ", after it had returned its value" if rank.returned else ""
    return f"{where} exited with code {rank.exit_code}{after}"


def reason_in(message: str) -> str:
    """What a sentence says of an exception's message: its first line, and the exception that it quotes."""
    first, cause = brief(message), brief(quoted(message))
    if not cause:
        return first
    return brief(cause if first == _HEADING else f"{_cut(first.rstrip(':.'), SENTENCE // 2)}: {cause}")


def describe_cause(state: RunState, rank: Rank) -> str:
    """Like `describe_failure`, with the ranks that had left before it, if that caused the failure.

    The ranks that may as well have failed first are named after it.
    """
    failure = describe_failure(rank)
    if too := failed_as_early(state, rank):
        failure = f"{failure.rstrip('.')}; {too}"
    return f"{early}: {failure}" if (early := left_before(state, rank)) else failure


def failed_as_early(state: RunState, rank: Rank) -> str:
    """What a sentence about the first failure says of those in the same moment; empty for none."""
    others = state.failed_together
    first = state.first_failure
    if not others or first is None or rank.rank != first.rank:
        return ""
    within = f"within {_moment(state.tells_apart((first, *others)))} of it"
    if len(others) == 1 and not _is_alike(first, others[0]):
        return f"{within}, {describe_failure(others[0])}"
    who = f"rank{'s' * (len(others) > 1)} {listed([str(r.rank) for r in others])}"
    return f"{within}, {who} failed too"


def _moment(seconds: float) -> str:
    milliseconds = math.ceil(seconds * 1e3 - 1e-6)
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{seconds:.1f} s"


def _is_alike(one: Rank, other: Rank) -> bool:
    """Whether two ranks failed in the same way: most defects of a program show in all its ranks at once."""
    if one.raised is None or other.raised is None:
        return (one.raised, one.signal, one.exit_code) == (other.raised, other.signal, other.exit_code)
    return (one.raised.kind, one.raised.message) == (other.raised.kind, other.raised.message)


def left_before(state: RunState, rank: Rank) -> str:
    """The sentence about `early_leavers`; empty if there were none."""
    early = early_leavers(state, rank)
    if not early:
        return ""
    where = operation(rank.raised.traceback) if rank.raised else ""
    who = f"rank{'s' * (len(early) > 1)} {listed([str(r) for r in early])}"
    return f"{who} had left with 0 before rank {rank.rank} failed{f' in {where}' if where else ''}"


def early_leavers(state: RunState, rank: Rank) -> tuple[int, ...]:
    """The ranks that had exited with 0 when another one failed, if it failed because a peer was gone.

    On a busy host the exit of a process can be reported after the exception that it caused in a peer, so all
    ranks count that exited before the gang was stopped, whatever the clocks show.
    """
    if not rank.doubt:
        return ()
    return tuple(rank.rank for rank in state.left_early)


def describe_success(state: RunState) -> str:
    """The sentence for success, after what a person would not expect of one."""
    separate = [] if state.separate is None else [describe_separate(state.separate)]
    return "; ".join([*separate, _describe_exits(state)])


def describe_prediction(done: PredictionAdvanced) -> str:
    """How many rows were predicted, where they are, and what was there before."""
    if done.skipped >= 1:
        return f"nothing was left to predict: all of the input is in {done.output}"
    before = f", after {done.skipped:.0%} of the input before" if done.skipped else ""
    return f"{counted(done.rows, 'row')} predicted into {done.output}{before}"


def _describe_exits(state: RunState) -> str:
    """The sentence about exits; it names the ranks that have no value because they called `sys.exit`."""
    left = [str(r.rank) for r in state.ranks if r.left and r.returned is None]
    good = "every rank exited with 0"
    if not left:
        return good
    ranks, has = ("ranks", "have") if len(left) > 1 else ("rank", "has")
    return (
        f"{good}; {ranks} {listed(left)} ended by sys.exit before the function returned, and {has} no value"
    )


def describe_loss(state: RunState) -> str:
    """What the ranks ran on and lost, with Spark's reason if it gives one."""
    if (nearest := nearest_loss(state)) is not None:
        return loss_sentence(state, nearest)
    lost = [r for r in state.ranks if r.phase is RankPhase.LOST]
    if not lost:
        return "the ranks could not be started: the agent went away"
    count = len(lost)
    hosts = listed(sorted({r.host for r in lost}))
    return f"the agent on {hosts} went away with {counted(count, 'rank')} running"


def nearest_loss(state: RunState) -> Loss | None:
    """The loss that is closest to the cause of all; None if nothing was lost."""
    return min(state.losses, key=_closeness_to_the_cause, default=None)


def _closeness_to_the_cause(loss: Loss) -> int:
    """Sort key of losses. Spark ends all tasks of a gang that lost one: agents mostly report consequences."""
    if isinstance(loss, ServerLost):
        return -1
    if isinstance(loss, ExecutorLost):
        return 0
    if isinstance(loss, ServiceLost):  # it says what happened in the place that others lost
        return 1
    return 2 if loss.agent_time is not None else 1


def loss_sentence(state: RunState, loss: Loss) -> str:
    """The sentence about one loss."""
    reason = brief(loss.reason.rpartition("Reason: ")[2])
    why = f": {reason}" if reason else ""
    if isinstance(loss, ServerLost):
        return f"the Connect server {loss.server} is gone{why}"
    if isinstance(loss, ServiceLost):
        what = "was lost" if loss.started else "could not be started"
        return f"{loss.name} beside rank {loss.rank} on {loss.host} {what}{why}"
    ranks = state.ranks.of_agent(loss.task)
    if isinstance(loss, ExecutorLost):
        which = f"executor {loss.executor}" if loss.executor else "an executor"
        host = loss.host or (ranks[0].host if ranks else "")
        return f"{which}{f' on {host}' if host else ''} was lost{why}"
    which = "a Spark task" if loss.task is None else f"Spark task {loss.task}"
    host = f" on {ranks[0].host}" if ranks else ""
    under = (
        f" under rank {ranks[0].rank}" if len(ranks) == 1 else " under its ranks" if ranks else " too early"
    )
    return f"{which}{host} ended{under}{why}"


def after_restarts(state: RunState) -> str:
    """The end of a verdict's sentence that counts the restarts; empty if there were none."""
    count = state.attempt
    return f", after {counted(count, 'restart')}" if count else ""


def brief(text: str) -> str:
    """The first line that is not blank, without colours, cut to `SENTENCE` characters."""
    lines = (_COLOUR.sub("", line).strip() for line in text.splitlines())
    return _cut(next(filter(None, lines), ""), SENTENCE)


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


def listed(names: Sequence[str], *, most: int = 5, joint: str = ", ", last: str = " and ") -> str:
    """The names as a list in a sentence: ``a, b and c``, and ``a, b and 998 more`` beyond `most`.

    If there is only one more than `most`, it is named too: "1 more" would be no shorter.
    """
    if len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} more"]
    return joint.join(names[:-1]) + last + names[-1] if len(names) > 1 else "".join(names)
