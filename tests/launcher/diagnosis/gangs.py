"""Gangs that ended badly, as facts, and the cause that the rules find for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from launcher.diagnosis.causes import Evidence, find_cause
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.outcome_rules import verdict

TORCH = "/opt/env/lib/python3.11/site-packages/torch"
ALL_REDUCE = f'  File "{TORCH}/distributed/distributed_c10d.py", line 3252, in all_reduce\n    work.wait()\n'


def gang(size: int) -> list[ev.Event]:
    """A gang that runs on one host."""
    places = tuple(
        Assignment(rank=r, world_size=size, local_rank=r, local_world_size=size, node_rank=0, node_count=1,
                   agent=0, host="gpu-01")
        for r in range(size)
    )  # fmt: skip
    return [
        ev.RunSubmitted(time=1.0, name="t", target="t.py", mode="local", num_processes=size),
        ev.AgentJoined(time=1.0, agent=0, host="gpu-01", pid=9),
        ev.GangPlaced(time=1.0, ranks=places),
        *(ev.RankStarted(time=2.0, rank=r, pid=10 + r) for r in range(size)),
        *(ev.RankEntered(time=2.5, rank=r) for r in range(size)),
    ]


def raised(
    kind: str, message: str = "", *, frames: str = ALL_REDUCE, before: str = "", rank: int = 1
) -> list[ev.Event]:
    """The facts of a rank that raised; `frames` are the innermost ones, `before` an earlier exception."""
    head = (
        'Traceback (most recent call last):\n  File "/home/ada/train.py", line 5, in <module>\n    main()\n'
    )
    text = f"{before}{head}{frames}{kind}{f': {message}' if message else ''}\n"
    return [
        ev.RankRaised(time=5.0, rank=rank, kind=kind, message=message, traceback=text),
        ev.RankExited(time=6.0, rank=rank, exit_code=1),
    ]


def by_user(statement: str) -> str:
    """The frame of a statement in the user's own code."""
    return f'  File "/home/ada/train.py", line 9, in main\n    {statement}\n'


def left(*ranks: int) -> list[ev.Event]:
    """The facts of ranks that ended with 0."""
    return [ev.RankExited(time=4.0, rank=rank, exit_code=0) for rank in ranks]


def killed(signal: str, code: int, *, rank: int = 1) -> list[ev.Event]:
    """The facts of a rank that a signal ended."""
    return [ev.RankExited(time=6.0, rank=rank, exit_code=code, signal=signal)]


def stopped(*ranks: int) -> list[ev.Event]:
    """The facts of ranks that were ended because another one had failed."""
    stop = ev.StopRequested(time=7.0, by="rank", reason="rank 1 failed", grace_s=10.0)
    return [stop, *(ev.RankExited(time=8.0, rank=r, exit_code=143, signal="SIGTERM") for r in ranks)]


def cause_of(
    facts: Iterable[ev.Event], *, size: int = 2, output: Mapping[int, Sequence[str]] | None = None
) -> ev.CauseFound | None:
    """What the rules find for a gang of `size` with these facts, and these last lines by rank."""
    state = fold_all([*gang(size), *facts], run="r1")
    evidence = Evidence(output_of=lambda rank: (output or {}).get(rank.rank, ()))
    return find_cause(state, evidence, verdict(state, now=9.0))


def found(
    facts: Iterable[ev.Event], *, size: int = 2, output: Mapping[int, Sequence[str]] | None = None
) -> ev.CauseFound:
    """Like `cause_of`, for a gang whose cause is recognised."""
    cause = cause_of(facts, size=size, output=output)
    assert cause is not None
    return cause
