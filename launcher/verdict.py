"""What to do next, and how it ended: pure decisions over a run's state.

`next_stop` says when a gang must be stopped and why; `verdict` says, once nothing is alive, which state
and exit code the run has and in which words. The supervisor only carries them out.
"""

from __future__ import annotations

from launcher.errors import AgentLost, InternalError, RunStopped, TimeLimit
from launcher.events import RunEnded, StopRequested
from launcher.state import Phase, Rank, RankPhase, RunState

SENTENCE = 300


def next_stop(
    state: RunState, *, now: float, timeout_s: float | None, grace_s: float
) -> StopRequested | None:
    """The stop that the facts call for, if none was asked for yet."""
    if state.stop is not None or state.phase.final:
        return None
    asked = _cause_to_stop(state, now, timeout_s)
    if asked is None:
        return None
    by, reason = asked
    exit_code = TimeLimit.exit_code if by == "limit" else None
    return StopRequested(
        time=now, attempt=state.attempt, by=by, reason=reason, exit_code=exit_code, grace_s=grace_s
    )


def _cause_to_stop(state: RunState, now: float, timeout_s: float | None) -> tuple[str, str] | None:
    """Who asks for a stop and why: a failure before a loss, and both before the clock."""
    if (failing := _failing(state)) is not None:
        return "rank", f"rank {failing.rank} failed"
    if (lost := _lost(state)) and not state.all_ended:
        return "loss", _describe_loss(lost)
    if timeout_s is not None and state.started is not None and now - state.started >= timeout_s:
        return "limit", f"the time limit of {timeout_s:g} s"
    return None


def _failing(state: RunState) -> Rank | None:
    """A rank that has failed, or has raised and is about to: its process may take seconds to die."""
    raised = [r for r in state.ranks if r.raised is not None and not r.phase.ended]
    return state.first_failure or min(raised, key=lambda r: r.raised.time if r.raised else 0.0, default=None)


def _lost(state: RunState) -> list[Rank]:
    return [r for r in state.ranks if r.phase is RankPhase.LOST]


def verdict(
    state: RunState, *, now: float, broken: str = "", exit_code: int = InternalError.exit_code
) -> RunEnded:
    """How the run ended.

    Args:
        state: all facts but this one.
        now: the engine's clock.
        broken: what broke under the run, if that is why it ended.
        exit_code: the code for that.
    """
    if broken:
        return _ended(state, now, Phase.FAILED, exit_code, broken)
    stop = state.stop
    if stop is not None and stop.by in ("person", "limit"):
        phase = Phase.STOPPED if stop.by == "person" else Phase.FAILED
        return _ended(state, now, phase, stop.exit_code or RunStopped.exit_code, f"stopped: {stop.reason}")
    first, lost = state.first_failure, _lost(state)
    victim = stop is not None and stop.by == "loss"
    if first is not None and not victim:
        return _ended(state, now, Phase.FAILED, exit_code_of(first), describe_failure(first), first)
    if lost or not state.all_ended:
        return _ended(state, now, Phase.LOST, AgentLost.exit_code, _describe_loss(lost))
    if stop is not None:
        return _ended(state, now, Phase.FAILED, 1, f"stopped: {stop.reason}")
    return _ended(state, now, Phase.SUCCEEDED, 0, "every rank exited with 0")


def _ended(
    state: RunState, now: float, phase: Phase, code: int, why: str, rank: Rank | None = None
) -> RunEnded:
    return RunEnded(
        time=now,
        attempt=state.attempt,
        state=phase.value,
        exit_code=code,
        why=why,
        rank=rank.rank if rank else None,
    )


def exit_code_of(rank: Rank) -> int:
    """The failing rank's own code, never 0.

    For a rank that raised and then had to be killed, it is what Python would have said.
    """
    if rank.raised is not None and rank.signal == "SIGKILL":
        return 1
    return rank.exit_code or 1


def describe_failure(rank: Rank) -> str:
    """One sentence: which rank, where, how; the OOM killer only where the kernel counted it."""
    where = f"rank {rank.rank} on {rank.host}"
    if rank.raised is not None:
        message = rank.raised.message.strip().splitlines()
        text = f": {_shortened(message[0])}" if message else ""
        return f"{where} raised {rank.raised.kind}{text}"
    if rank.signal:
        oom = rank.signal == "SIGKILL" and bool(rank.oom_kills)
        hint = (
            "; the kernel's OOM killer struck while it ran: it probably used too much memory" if oom else ""
        )
        return f"{where} was killed by {rank.signal}{hint}"
    after = ", after it had returned its value" if rank.returned else ""
    return f"{where} exited with code {rank.exit_code}{after}"


def _shortened(line: str) -> str:
    """The line as far as a verdict has room for it; all of it is in the traceback."""
    return line if len(line) <= SENTENCE else line[: SENTENCE - 1] + "…"


def _describe_loss(lost: list[Rank]) -> str:
    if not lost:
        return "the ranks could not be started: the agent went away"
    hosts = ", ".join(sorted({r.host for r in lost}))
    count = len(lost)
    return f"the agent on {hosts} went away with {count} rank{'s' * (count > 1)} running"
