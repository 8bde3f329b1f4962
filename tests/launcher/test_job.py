"""What a Python caller gets of a run that has ended."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import (
    AgentLost,
    CannotPlace,
    InternalError,
    LauncherError,
    RankFailed,
    RecordError,
    RunStopped,
    SpecError,
    TimeLimit,
)
from launcher.job import TAIL_LINES, error_of, load_result
from launcher.runs import paths
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.run_state import RunState


def ended(
    state: str, code: int, why: str = "w", rank: int | None = None, *, facts: list[ev.Event] | None = None
) -> RunState:
    places = tuple(Assignment(r, 2, r, 2, 0, 1, 0, "alpha") for r in (0, 1))
    return fold_all(
        [
            ev.RunSubmitted(time=0.0, name="n", target="t", mode="local", num_processes=2),
            ev.GangPlaced(time=1.0, ranks=places),
            *(facts or []),
            ev.RunEnded(time=9.0, state=state, exit_code=code, why=why, rank=rank),
        ],
        run="r1",
    )


def write_stderr(run: Path, rank: int, data: bytes) -> None:
    path = paths.log_file(run, 0, rank, paths.STDERR)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("state", "code", "why", "expected"),
    [
        ("stopped", 130, "stopped: interrupted", RunStopped),
        ("stopped", 143, "stopped: on request", RunStopped),
        ("lost", 75, "the agent went away", AgentLost),
        ("failed", 124, "stopped: the time limit of 5 s", TimeLimit),
        ("failed", 70, "disk full", InternalError),
        ("failed", 69, "8 ranks need 8 slots", CannotPlace),
        ("failed", 2, "--gpu needs 8 GPUs", SpecError),
        ("stopped", 143, "stopped: cancelled in Spark: Job 4 cancelled", RunStopped),
    ],
)
def test_each_end_has_its_error_and_its_code(
    tmp_path: Path, state: str, code: int, why: str, expected: type[LauncherError]
) -> None:
    error = error_of(ended(state, code, why), tmp_path)
    assert (expected, code, "r1") == (type(error), error.exit_code, error.run) if error else None
    assert why in str(error)


def test_success_is_no_error(tmp_path: Path) -> None:
    assert error_of(ended("succeeded", 0), tmp_path) is None


def test_a_failed_rank_brings_its_traceback_and_the_end_of_its_stderr(tmp_path: Path) -> None:
    write_stderr(tmp_path, 1, b"one\ntwo\n")
    facts: list[ev.Event] = [
        ev.RankRaised(time=5.0, rank=1, kind="ValueError", message="no", traceback="Traceback: no"),
        ev.RankExited(time=6.0, rank=1, exit_code=1),
    ]
    error = error_of(ended("failed", 1, rank=1, facts=facts), tmp_path)
    assert isinstance(error, RankFailed)
    assert (1, "alpha", 1, None) == (error.rank, error.host, error.exit_code, error.signal)
    assert ("Traceback: no", "one\ntwo") == (error.traceback, error.tail)
    assert str(error).endswith("rank 1 on alpha raised ValueError: no\n\nTraceback: no")


def test_a_killed_rank_brings_its_signal_and_the_end_of_its_stderr(tmp_path: Path) -> None:
    write_stderr(tmp_path, 0, b"last words")
    facts: list[ev.Event] = [ev.RankExited(time=6.0, rank=0, exit_code=139, signal="SIGSEGV")]
    error = error_of(ended("failed", 139, rank=0, facts=facts), tmp_path)
    assert isinstance(error, RankFailed)
    assert ("SIGSEGV", 139, None) == (error.signal, error.exit_code, error.traceback)
    assert str(error).endswith("was killed by SIGSEGV\n\nlast words")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"".join(b"%d\n" % i for i in range(100)), "\n".join(str(i) for i in range(100 - TAIL_LINES, 100))),
    ],
    ids=["empty", "bytes", "long"],
)
def test_the_tail_is_text_whatever_the_bytes(tmp_path: Path, data: bytes, expected: str) -> None:
    write_stderr(tmp_path, 0, data)
    facts: list[ev.Event] = [ev.RankExited(time=6.0, rank=0, exit_code=3)]
    error = error_of(ended("failed", 3, rank=0, facts=facts), tmp_path)
    assert isinstance(error, RankFailed)
    assert expected == error.tail


def test_after_a_restart_the_tail_is_the_last_attempts(tmp_path: Path) -> None:
    write_stderr(tmp_path, 1, b"old")
    path = paths.log_file(tmp_path, 1, 1, paths.STDERR)
    path.parent.mkdir()
    path.write_bytes(b"new")
    places = tuple(Assignment(r, 2, r, 2, 0, 1, 0, "alpha") for r in (0, 1))
    facts: list[ev.Event] = [
        ev.RankExited(time=6.0, rank=0, exit_code=9),
        ev.GangRestarted(time=7.0, attempt=1, reason="r", in_place=True),
        ev.GangPlaced(time=7.0, attempt=1, ranks=places),
        ev.RankExited(time=8.0, attempt=1, rank=1, exit_code=3),
    ]
    error = error_of(ended("failed", 3, rank=1, facts=facts), tmp_path)
    assert isinstance(error, RankFailed)
    assert (1, 3, "new") == (error.rank, error.exit_code, error.tail)


class Explodes:
    def __setstate__(self, state: Any) -> None:
        raise KeyError("old version")

    def __getstate__(self) -> dict[str, int]:
        return {"a": 1}


def test_a_value_is_loaded(tmp_path: Path) -> None:
    (tmp_path / paths.RESULT).mkdir()
    paths.result_file(tmp_path, 1).write_bytes(pickle.dumps({"loss": 0.5}))
    assert {"loss": 0.5} == load_result(tmp_path, 1)


@pytest.mark.parametrize(
    "data", [None, b"", b"garbage", pickle.dumps([1] * 99)[:-5], pickle.dumps(Explodes())]
)
def test_a_value_that_cannot_be_loaded_is_told_by_rank(tmp_path: Path, data: bytes | None) -> None:
    (tmp_path / paths.RESULT).mkdir()
    if data is not None:
        paths.result_file(tmp_path, 1).write_bytes(data)
    with pytest.raises(RecordError, match="rank 1"):
        load_result(tmp_path, 1)
