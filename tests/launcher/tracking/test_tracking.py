"""`--track`: what ranks report reaches a tracker, and no tracker's trouble is the training's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import SpecError
from launcher.state import events as ev
from tests import commands, survivors
from tests.commands import Foreground, Gate, facts, rankdeck, until
from tests.engines import pids

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

FAKES = Path(__file__).parents[2] / "fakes" / "trackers"
TRACKED = ("--track", "mlflow", "--grace", "0.5")


class Calls:
    """What the stand-in for MLflow was told."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, name: str) -> list[dict[str, Any]]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [call for call in map(json.loads, lines) if call["call"] == name]

    def points(self, metric: str) -> list[tuple[str, int]]:
        """Values and steps of a metric in the order of steps."""
        found = [point for call in self.of("log_batch") for point in call["metrics"] if point[0] == metric]
        return sorted(((value, step) for _, value, _, step in found), key=lambda point: point[1])

    def status(self) -> list[str]:
        return [call["status"] for call in self.of("set_terminated")]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A stand-in for MLflow is installed, for this process and all that it starts."""
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    monkeypatch.setenv("MLFLOW_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "ok:")
    return Calls(tmp_path / "calls")


@pytest.fixture
def script(targets: Path) -> Path:
    return targets / "reporting.py"


def notes() -> list[str]:
    return [
        fact.text for fact in facts(ev.NoteMade) if isinstance(fact, ev.NoteMade) and fact.level == "warning"
    ]


def tracking(mark: str) -> list[int]:
    return [pid for pid, command in survivors.alive(mark).items() if "launcher.tracking" in command]


def losses(steps: int) -> list[tuple[str, int]]:
    return [(repr(float(step)), step) for step in range(steps)]


def test_a_run_is_written_with_its_parameters_and_its_end(calls: Calls, script: Path, tmp_path: Path) -> None:
    env = {"MLFLOW_EXPERIMENT_NAME": "digits"}
    done = rankdeck("run", script, "-n", "2", *TRACKED, "--", "1", env=env, cwd=tmp_path)

    assert 0 == done.returncode, done.stderr
    assert [] == notes()
    run = commands.last().name
    (created,) = calls.of("create_run")
    assert ("1", "reporting.py") == (created["experiment"], created["name"])
    assert (run, str(script)) == (created["tags"]["rankdeck.run_id"], created["tags"]["mlflow.source.name"])
    params = calls.of("log_batch")[0]["params"]
    assert {"target": str(script), "arguments": "1", "world_size": "2", "mode": "local"} == params
    assert losses(1) == calls.points("loss")
    assert [("1.0", 0)] == calls.points("a_")
    assert [[("nan", 0)], [("inf", 0)], [("1e+300", 0)]] == [calls.points(n) for n in ("nan", "inf", "huge")]
    assert ["FINISHED"] == calls.status()
    assert ["succeeded"] == [c["value"] for c in calls.of("set_tag") if c["name"] == "rankdeck.state"]
    (link,) = [fact for fact in facts(ev.TrackerLinked) if isinstance(fact, ev.TrackerLinked)]
    assert ("mlflow", None, "abc", "1", "ok:") == (link.tracker, link.rank, link.id, link.group, link.store)
    assert "tracked by MLflow run abc in ok: (--track)" in done.stderr


def test_a_restarted_run_stays_one_and_a_failure_is_its_status(calls: Calls, script: Path) -> None:
    done = rankdeck("run", script, *TRACKED, "--max-restarts", "1", "--", "1", "flaky")
    assert 0 == done.returncode, done.stderr
    assert 1 == len(calls.of("create_run"))
    assert ["1"] == [c["value"] for c in calls.of("set_tag") if c["name"] == "rankdeck.restarts"]
    assert [*losses(1), *losses(1)] == calls.points("loss")
    done = rankdeck("run", script, *TRACKED, "--", "1", "raise")
    assert 1 == done.returncode
    assert ["FINISHED", "FAILED"] == calls.status()


def test_the_commit_of_the_code_is_a_tag(calls: Calls, script: Path, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(tmp_path)]
    (tmp_path / "train.py").write_text(script.read_text())
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    revision = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    gate = Gate(tmp_path / "gate")
    name = "mlflow.source.git.commit"
    with Foreground(
        "run", tmp_path / "train.py", *TRACKED, "--", "1", "gate", gate.path, folder=tmp_path
    ) as run:
        until(lambda: any(call["name"] == name for call in calls.of("set_tag")))
        gate.open()
        assert 0 == run.finish()
    assert [revision.stdout.strip()] == [c["value"] for c in calls.of("set_tag") if c["name"] == name]


def test_a_run_that_is_stopped_is_killed_for_mlflow(calls: Calls, script: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with Foreground("run", script, *TRACKED, "--", "1", "gate", gate.path, folder=tmp_path) as run:
        until(lambda: bool(calls.points("loss")))
        run.signal(signal.SIGINT)
        assert 130 == run.finish()
    assert ["KILLED"] == calls.status()


def test_a_tracker_that_comes_back_gets_everything(
    calls: Calls, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, gate = tmp_path / "back", Gate(tmp_path / "gate")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"away:{back}")
    with Foreground("run", script, *TRACKED, "--", "3", "gate", gate.path, folder=tmp_path) as run:
        run.await_narration("MLflow cannot be written: http://user:***@tracking.example refuses; tried again")
        back.touch()
        until(lambda: bool(calls.points("loss")))
        gate.open()
        assert 0 == run.finish()
    assert losses(3)[-1] == calls.points("loss")[-1]
    assert ["FINISHED"] == calls.status()
    assert 1 == len(notes())


def test_a_tracker_that_is_away_costs_the_run_a_note(
    calls: Calls, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"away:{tmp_path / 'never'}")
    done = rankdeck("run", script, *TRACKED, "--", "3")

    assert 0 == done.returncode
    assert notes()[-1].startswith("nothing was written to MLflow: http://user:***@tracking.example refuses")
    assert [] == calls.of("create_run")


def test_a_second_interrupt_does_not_wait_for_a_tracker_that_hangs(
    calls: Calls, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"late:{tmp_path / 'never'}")
    with Foreground("run", script, *TRACKED, "--", "3", folder=tmp_path) as run:
        run.await_narration("the ranks have ended; mlflow may take")
        began = time.monotonic()
        run.signal(signal.SIGINT)
        assert 0 == run.finish()  # the ranks had succeeded before
        assert time.monotonic() - began < 10
    assert ["not all of the run was written to mlflow"] == notes()


def test_a_tracker_that_hangs_does_not_outlive_a_forced_stop(
    calls: Calls, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"late:{tmp_path / 'never'}")
    gate = Gate(tmp_path / "gate")
    with Foreground("run", script, *TRACKED, "--", "3", "gate", gate.path, folder=tmp_path) as run:
        run.await_line("reported")
        began = time.monotonic()
        rankdeck("stop", "last", "--force")
        run.finish()
        assert time.monotonic() - began < 15
    assert ["nothing was written to MLflow: it did not answer within 1 s"] == notes()


def test_a_killed_tracking_process_is_a_note_and_not_the_end_of_a_training(
    calls: Calls, script: Path, tmp_path: Path, mark: str
) -> None:
    gate = Gate(tmp_path / "gate")
    with Foreground("run", script, *TRACKED, "--", "1", "gate", gate.path, folder=tmp_path) as run:
        until(lambda: bool(calls.points("loss")))
        (pid,) = tracking(mark)
        os.kill(pid, signal.SIGKILL)
        gate.open()
        assert 0 == run.finish()
    assert ["not all of the run was written to mlflow"] == notes()


def test_a_killed_engine_leaves_no_tracking_process_and_no_run_that_seems_to_go_on(
    calls: Calls, script: Path, tmp_path: Path, mark: str
) -> None:
    gate = Gate(tmp_path / "gate")
    with Foreground("run", script, *TRACKED, "--", "1", "gate", gate.path, folder=tmp_path) as run:
        until(lambda: bool(calls.points("loss")))
        assert 1 == len(tracking(mark))
        os.kill(pids()[0], signal.SIGKILL)
        until(lambda: not tracking(mark), within=10)
        run.finish()
    assert ["FAILED"] == calls.status()
    assert [75] == [int(c["value"]) for c in calls.of("set_tag") if c["name"] == "rankdeck.exit_code"]


def test_a_killed_engine_leaves_no_tracking_process_that_hangs(
    calls: Calls, script: Path, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"late:{tmp_path / 'never'}")
    gate = Gate(tmp_path / "gate")
    with Foreground("run", script, *TRACKED, "--", "1", "gate", gate.path, folder=tmp_path) as run:
        run.await_line("reported")
        until(lambda: bool(tracking(mark)))
        os.kill(pids()[0], signal.SIGKILL)
        until(lambda: not tracking(mark), within=10)
        run.finish()


def test_python_takes_the_same_option(
    calls: Calls, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = Distributor(1, track="mlflow").start(str(script), 2)

    assert "succeeded" == job.wait(60).phase
    assert ["FINISHED"] == calls.status()
    assert losses(2)[-1] == calls.points("loss")[-1]


@pytest.mark.parametrize("wrong", ["comet", "mlflow=x", "tensorboard=", ""])
def test_an_unknown_tracker_is_refused(wrong: str, script: Path) -> None:
    done = rankdeck("run", script, "--track", wrong)

    assert 2 == done.returncode
    assert f"--track takes mlflow, tensorboard or tensorboard=DIR, not {wrong!r}" in done.stderr
    for value in ([wrong], wrong, 3, [3], ["mlflow", "mlflow"], {"mlflow": ""}.items()):
        with pytest.raises(SpecError, match=r"^track takes mlflow, tensorboard or .* list"):
            Distributor(1, track=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--detach",)])
def test_a_tracker_that_is_not_installed_is_refused_before_anything_starts(
    more: tuple[str, ...], script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = rankdeck("run", script, *TRACKED, *more)

    assert 2 == done.returncode
    assert f"--track: mlflow is not installed for {Path(sys.executable).parent}" in done.stderr
    assert " -m pip install mlflow)" in done.stderr
    assert [] == commands.runs()


def test_the_ranks_interpreter_is_asked_first_and_an_old_one_is_no_use(
    calls: Calls, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 3 9\n")
    old.chmod(0o755)
    assert 0 == rankdeck("run", script, *TRACKED, "--python", old, "--dry-run").returncode
    monkeypatch.delenv("PYTHONPATH")
    done = rankdeck("run", script, *TRACKED, "--python", old)
    assert (2, True) == (done.returncode, f"{old} is Python 3.9, and 3.11 or newer is needed" in done.stderr)
