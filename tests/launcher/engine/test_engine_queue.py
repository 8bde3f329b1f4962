"""More local runs than may go on at once: they wait in the order of their coming, and say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.agent import process
from launcher.engine.client import engines, request_stop, start_detached
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_state, status_of
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request
from launcher.state.run_state import Phase
from tests import survivors
from tests.commands import Foreground, Gate, rankdeck, until

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def one_at_a_time(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKDECK_MAX_LOCAL_RUNS", "1")


def gated(targets: Path, gate: Gate, **more: float) -> str:
    target = Target(TargetKind.SCRIPT, str(targets / "waiting.py"), args=("gate", str(gate.path)))
    return start_detached(Request(JobSpec(target, workdir="/", **more)))  # type: ignore[arg-type]


def phase(run: str) -> Phase:
    return status_of(runs_root() / run).state


def agents(mark: str) -> int:
    return len(survivors.named(mark, process.AGENT))


def test_runs_take_their_turns(targets: Path, tmp_path: Path, mark: str) -> None:
    gates = [Gate(tmp_path / f"gate{number}") for number in range(3)]
    runs = [gated(targets, gate) for gate in gates]
    until(lambda: phase(runs[0]) is Phase.RUNNING)
    until(lambda: [phase(run) for run in runs[1:]] == [Phase.WAITING] * 2)
    assert 1 == agents(mark)  # who waits holds nothing
    assert {"local_runs": 1, "of": 1} == next(engines())["slots"]
    waits = read_state(runs_root() / runs[1])
    assert "this machine already has 1 run, of at most 1 at once" in str(waits)
    listed = rankdeck("ps").stdout
    assert 2 == listed.count(" waiting ")

    for number, gate in enumerate(gates):
        until(lambda number=number: phase(runs[number]) is Phase.RUNNING)  # type: ignore[misc]
        gate.open()
        until(lambda number=number: phase(runs[number]) is Phase.SUCCEEDED)  # type: ignore[misc]


def test_a_foreground_run_says_what_it_waits_for(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    gated(targets, gate)
    with Foreground("run", targets / "hello.py", folder=tmp_path) as run:
        run.await_narration("this machine already has 1 run")
        gate.open()
        assert 0 == run.finish()


def test_a_run_that_waits_can_be_stopped(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    first, second, third = (gated(targets, gate) for _ in range(3))
    until(lambda: phase(second) is Phase.WAITING)
    request_stop(runs_root() / second)
    until(lambda: phase(second) is Phase.STOPPED)
    assert 143 == read_state(runs_root() / second).exit_code
    assert not phase(first).final

    gate.open()
    until(lambda: phase(first) is Phase.SUCCEEDED)
    gate.open()
    until(lambda: phase(third) is Phase.SUCCEEDED)  # the turn was not lost with the one that gave up


def test_a_run_waits_no_longer_than_it_may(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    first = gated(targets, gate)
    second = gated(targets, gate, start_timeout_s=0.5)
    until(lambda: phase(second).final)
    ended = read_state(runs_root() / second)

    assert (Phase.FAILED, 69) == (ended.phase, ended.exit_code)
    assert "0.5 s" in ended.why
    assert not phase(first).final
    gate.open()
    until(lambda: phase(first) is Phase.SUCCEEDED)
    third = gated(targets, gate)
    gate.open()
    until(lambda: phase(third) is Phase.SUCCEEDED)
