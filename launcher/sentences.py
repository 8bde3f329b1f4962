"""How ends are told: one sentence each, for people. Pure."""

from __future__ import annotations

from launcher.events import ExecutorLost, ServerLost
from launcher.state import Loss, Rank, RankPhase, RunState
from launcher.wording import listed
from launcher.worker.transport import operation

SENTENCE = 300


def describe_failure(rank: Rank) -> str:
    """Which rank, where, how; the OOM killer only where the kernel counted it."""
    where = f"rank {rank.rank} on {rank.host}"
    if rank.raised is not None:
        text = brief(rank.raised.message)
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


def describe_cause(state: RunState, rank: Rank) -> str:
    """The same, and which ranks it missed, where others had left before."""
    told = describe_failure(rank)
    return f"{early}: {told}" if (early := left_before(state, rank)) else told


def left_before(state: RunState, rank: Rank) -> str:
    """Which ranks had left before one failed for want of a peer; empty where it did not, or none had."""
    early = early_leavers(state, rank)
    if not early:
        return ""
    where = operation(rank.raised.traceback) if rank.raised else ""
    who = f"rank{'s' * (len(early) > 1)} {listed([str(r) for r in early])}"
    return f"{who} had left with 0 before rank {rank.rank} failed{f' in {where}' if where else ''}"


def early_leavers(state: RunState, rank: Rank) -> tuple[int, ...]:
    """The ranks that had left with 0 when another one failed, if it failed for want of a peer.

    A busy host hears of a process's end after the exception that it caused, so those count that had left
    before the gang was told to end, whatever clocks say.
    """
    if not rank.doubt:
        return ()
    return tuple(r.rank for r in state.ranks if r.phase is RankPhase.SUCCEEDED and r.unbidden)


def describe_success(state: RunState) -> str:
    """That all went well, and whose value is missing all the same."""
    left = [str(r.rank) for r in state.ranks if r.left and r.returned is None]
    told = "every rank exited with 0"
    if not left:
        return told
    ranks, has = ("ranks", "have") if len(left) > 1 else ("rank", "has")
    return (
        f"{told}; {ranks} {listed(left)} ended by sys.exit before the function returned, and {has} no value"
    )


def describe_loss(state: RunState) -> str:
    """What went away under the ranks, and why as far as Spark says."""
    if state.losses:
        return loss_sentence(state, min(state.losses, key=_closeness_to_the_cause))
    lost = [r for r in state.ranks if r.phase is RankPhase.LOST]
    if not lost:
        return "the ranks could not be started: the agent went away"
    count = len(lost)
    hosts = listed(sorted({r.host for r in lost}))
    return f"the agent on {hosts} went away with {count} rank{'s' * (count > 1)} running"


def _closeness_to_the_cause(loss: Loss) -> int:
    """Spark ends all tasks of a gang that lost one, so most of what agents tell is a consequence."""
    if isinstance(loss, ServerLost):
        return -1
    if isinstance(loss, ExecutorLost):
        return 0
    return 2 if loss.agent_time is not None else 1


def loss_sentence(state: RunState, loss: Loss) -> str:
    """What one loss took away."""
    reason = brief(loss.reason.rpartition("Reason: ")[2])
    why = f": {reason}" if reason else ""
    if isinstance(loss, ServerLost):
        return f"the Connect server {loss.server} is gone{why}"
    ranks = [r for r in state.ranks if r.agent == loss.task]
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
    """What a verdict says of the attempts before the last; empty if that was the only one."""
    count = state.attempt
    return f", after {count} restart{'s' * (count > 1)}" if count else ""


def brief(text: str) -> str:
    """The first line that says anything, as far as a sentence has room for it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= SENTENCE else line[: SENTENCE - 1] + "…"
