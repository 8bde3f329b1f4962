"""From a run that has ended to what a Python caller gets: a value, or one of our errors."""

from __future__ import annotations

import os
import pickle
from collections import deque
from pathlib import Path
from typing import Any

from launcher.errors import (
    AgentLost,
    CannotPlace,
    InternalError,
    LauncherError,
    NoProgress,
    RankFailed,
    RecordError,
    RunStopped,
    SpecError,
    TimeLimit,
)
from launcher.runs import opening, paths
from launcher.runs.line_rows import last_segments
from launcher.sentences import describe_cause
from launcher.state import Phase, Rank, RunState
from launcher.verdict import exit_code_of

TAIL_BYTES = 16 << 10
TAIL_LINES = 20

_LIMITS = {cls.exit_code: cls for cls in (TimeLimit, NoProgress)}
_BROKEN = {cls.exit_code: cls for cls in (SpecError, CannotPlace, AgentLost)}


def error_of(state: RunState, folder: Path) -> LauncherError | None:
    """The error that an ended run stands for, or None if it succeeded."""
    if state.phase is Phase.SUCCEEDED:
        return None
    if state.phase is Phase.STOPPED:
        return RunStopped(
            f"the run was {state.why}", run=state.id, exit_code=state.exit_code or RunStopped.exit_code
        )
    if state.phase is Phase.LOST:
        return AgentLost(state.why, run=state.id)
    if state.blamed is not None and state.blamed < len(state.ranks):
        return rank_failed(state.ranks[state.blamed], folder, state)
    if limit := _LIMITS.get(state.exit_code or 0):
        return limit(f"the run was {state.why}", run=state.id)
    return _BROKEN.get(state.exit_code or 0, InternalError)(state.why, run=state.id)


def rank_failed(rank: Rank, folder: Path, state: RunState) -> RankFailed:
    """The first failing rank's error, with its traceback or the end of its stderr."""
    return RankFailed(
        describe_cause(state, rank),
        rank=rank.rank,
        host=rank.host,
        exit_code=exit_code_of(rank),
        signal=rank.signal,
        traceback=rank.raised.traceback if rank.raised else None,
        tail=tail_of(folder, state.attempt, rank.rank),
        run=state.id,
    )


def tail_of(folder: Path, attempt: int, rank: int) -> str:
    """The last lines that a rank wrote to stderr."""
    path = paths.log_file(folder, attempt, rank, paths.STDERR)
    try:
        with opening.open_file(folder, path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = deque(last_segments(file.read(2 * TAIL_BYTES)), TAIL_LINES)
    except (FileNotFoundError, opening.NotPlain, PermissionError):
        return ""
    return "\n".join(line.decode("utf-8", "replace") for line in lines)


def load_result(folder: Path, rank: int) -> Any:
    """A rank's return value, unpickled: only for the caller's own runs.

    Raises:
        RecordError: the rank left no value, or one that only the rank's own modules can read.
    """
    path = paths.result_file(folder, rank)
    try:
        file = opening.open_file(folder, path)
    except FileNotFoundError:
        raise RecordError(f"rank {rank} left no value", run=folder.name) from None
    except OSError as error:
        raise RecordError(f"rank {rank}'s value cannot be read: {error.strerror}", run=folder.name) from error
    with file:
        try:
            return pickle.load(file)
        except Exception as error:  # a user's __setstate__ may raise anything; all of it means the same
            why = f"{type(error).__name__}: {error}"
            raise RecordError(f"rank {rank}'s value cannot be loaded here: {why}", run=folder.name) from error
