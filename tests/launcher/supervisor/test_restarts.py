"""Restarts with real processes: in local mode by the command, and with agents from the zip."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from launcher.distributor import Distributor, launch
from launcher.job import Job
from launcher.runs import paths
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.ranks import RankPhase
from tests.agents import Agents
from tests.commands import Foreground, facts, last, rankdeck, until

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


def out(attempt: int, rank: int) -> str:
    """What a rank printed in an attempt; nothing if it was stopped before."""
    path = paths.log_file(last(), attempt, rank, paths.STDOUT)
    return path.read_text() if path.exists() else ""


def test_a_gang_that_fails_twice_succeeds_with_two_restarts(targets: Path) -> None:
    done = rankdeck("run", targets / "flaky.py", "-n", "2", "--max-restarts", "2", "--", "2")

    assert 0 == done.returncode, done.stderr
    assert [1, 2] == [e.attempt for e in facts(ev.GangRestarted)]
    assert all(e.in_place for e in facts(ev.GangRestarted) if isinstance(e, ev.GangRestarted))
    for attempt in range(2):
        said = [out(attempt, rank) for rank in range(2)]
        assert f"attempt {attempt} of rank" in "".join(said)
        # a rank that is stopped because the other failed may be in the middle of its line
        lines = [f"attempt {attempt} of rank {rank}\n" for rank in range(2)]
        assert [] == [text for line, text in zip(lines, said, strict=True) if not line.startswith(text)]
    assert ["attempt 2 of rank 0\n", "attempt 2 of rank 1\n"] == [out(2, rank) for rank in range(2)]
    assert "attempt 0 of rank" in done.stdout
    assert "attempt 2 of rank 1" in done.stdout


def test_the_last_failure_counts_once_the_restarts_are_used_up(targets: Path) -> None:
    done = rankdeck("run", targets / "flaky.py", "--max-restarts", "2", "--", "3")

    assert 12 == done.returncode
    assert f"rank 0 on {os.uname().nodename} exited with code 12, after 2 restarts" in done.stderr
    assert "attempt 2 of rank 0\n" == out(2, 0)


def test_ctrl_c_ends_a_run_that_restarts_for_ever(targets: Path, tmp_path: Path) -> None:
    words = ("run", targets / "flaky.py", "-n", "2", "--max-restarts", "100000", "--", "100000")
    with Foreground(*words, folder=tmp_path) as run:
        run.await_line("attempt 3")
        run.signal(signal.SIGINT)
        code = run.finish()

    told = facts()
    asked = next(i for i, e in enumerate(told) if isinstance(e, ev.StopRequested) and e.by == "person")
    assert not [e for e in told[asked:] if isinstance(e, ev.GangRestarted)]
    ended = told[-1]
    assert isinstance(ended, ev.RunEnded)
    # a failure that came before the key is still what ended the last attempt
    assert (code, ended.state) in ((130, "stopped"), (10 + ended.attempt, "failed")), run.narrated
    assert code == ended.exit_code


def agent_of(job: Job) -> int:
    return job.state.hosts[0].pid or 0


def running(job: Job, attempt: int) -> bool:
    ranks = job.state.ranks
    return (
        job.state.attempt == attempt
        and bool(ranks)
        and all(r.phase is RankPhase.RUNNING and r.pid for r in ranks)
    )


def test_a_killed_agent_is_replaced_in_local_mode(targets: Path) -> None:
    job = Distributor(2, max_restarts=1).start(str(targets / "waiting.py"), "ready")
    until(lambda: running(job, 0))
    os.kill(agent_of(job), signal.SIGKILL)
    until(lambda: running(job, 1))
    restart = job.state.restarts[0]
    job.stop(force=True)
    state = job.wait(60)

    assert (False, 1, 143) == (restart.in_place, state.attempt, state.exit_code)


def seconds(job: Job) -> list[float]:
    """From each failure to the last of the next attempt's processes."""
    told = list(job.events())
    failures = [e.time for e in told if isinstance(e, ev.RankExited) and e.exit_code]
    starts = [e.time for e in told if isinstance(e, ev.RankStarted)]
    ranks = job.state.num_processes
    firsts = [min(failures[i : i + ranks]) for i in range(0, len(failures), ranks)]
    return [max(starts[(i + 1) * ranks : (i + 2) * ranks]) - first for i, first in enumerate(firsts)]


@pytest.mark.parametrize("agents", [1, 2])
def test_a_gang_starts_again_in_place_within_a_second(targets: Path, tmp_path: Path, agents: int) -> None:
    target = Target(TargetKind.SCRIPT, str(targets / "flaky.py"), args=("3",))
    spec = JobSpec(target, agents, mode=Mode.CLUSTER, workdir=str(tmp_path), max_restarts=3)
    job = launch(Request(spec), backend=(backend := Agents(agents)))
    state = job.wait(60)

    assert ("succeeded", 3) == (state.phase, state.attempt)
    assert 1 == len(backend.launches)
    assert [] == backend.errors
    assert max(seconds(job)) < 1.0, seconds(job)
