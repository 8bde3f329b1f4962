from __future__ import annotations

from pathlib import Path

import pytest

from console.data.launch.rerun import request_again
from launcher.distributor import record_refusal
from launcher.errors import CannotPlace
from launcher.runs.catalog import list_runs
from launcher.runs.reader import read_spec, read_state
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request
from launcher.state.run_state import Phase

pytestmark = pytest.mark.process


def request(targets: Path) -> Request:
    target = Target(TargetKind.SCRIPT, str(targets / "hello.py"), args=("--lr", "1"))
    return Request(
        JobSpec(target, 64, gpu=True, workdir=str(targets), env={"API_TOKEN": "s3cret"}), payload=b"x"
    )


def test_a_request_that_cannot_be_placed_is_a_failed_run(targets: Path, tmp_path: Path) -> None:
    error = CannotPlace("64 ranks need 64 GPUs; this machine has none", hint="use --no-gpu")
    folder = record_refusal(request(targets), error, tmp_path / "runs")
    assert folder is not None
    (status,) = list_runs(tmp_path / "runs")
    state = read_state(folder)

    assert (Phase.FAILED, 69, str(error), 64) == (
        status.state,
        status.exit_code,
        status.why,
        status.num_processes,
    )
    assert status.user
    assert "--lr 1" == status.args
    assert status.ended is not None
    assert state.origin is not None
    assert (Phase.FAILED, 0) == (state.phase, len(state.ranks))
    assert "s3cret" not in (folder / "spec.json").read_text()
    again = request_again(
        folder, {"num_processes": (None, 1)}, environ={"API_TOKEN": "other"}, root=tmp_path / "runs"
    )
    assert (1, {"API_TOKEN": "s3cret"}) == (again.spec.num_processes, again.spec.env)
    assert read_spec(folder).target == again.spec.target


def test_a_refusal_that_cannot_be_written_down_changes_nothing(
    targets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert record_refusal(request(targets), CannotPlace("no"), tmp_path / "file" / "runs") is None

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("launcher.distributor.RunWriter", full)
    assert record_refusal(request(targets), CannotPlace("no"), tmp_path / "runs") is None
    assert [] == list((tmp_path / "runs").iterdir())
