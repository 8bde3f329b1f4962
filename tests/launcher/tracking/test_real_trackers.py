"""The real MLflow, TensorBoard and W&B: what `--track` writes is read there, what scripts write is seen."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launcher.runs.paths import TENSORBOARD
from launcher.state import events as ev
from tests import commands
from tests.commands import facts, rankdeck
from tests.framework_envs import made

pytestmark = [pytest.mark.frameworks, pytest.mark.process, pytest.mark.usefixtures("mark")]

READ_MLFLOW = """
import json, mlflow
client = mlflow.MlflowClient()
(experiment,) = [each for each in client.search_experiments() if each.name == "digits"]
(run,) = client.search_runs([experiment.experiment_id])
history = lambda name: [[repr(m.value), m.step] for m in client.get_metric_history(run.info.run_id, name)]
print(json.dumps({
    "id": run.info.run_id, "status": run.info.status, "params": run.data.params, "tags": run.data.tags,
    "metrics": {name: history(name) for name in run.data.metrics},
}))
"""
READ_TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1]).Reload()
points = lambda tag: [[repr(s.value), s.step] for s in read.Scalars(tag)]
print(json.dumps({tag: points(tag) for tag in read.Tags()["scalars"]}))
"""
WRITES = """
import os
from torch.utils.tensorboard import SummaryWriter
rank = int(os.environ["RANK"])
SummaryWriter("runs/all").close()
import tensorboardX
tensorboardX.SummaryWriter(f"runs/{rank}").close()
if rank == 0:
    import mlflow, wandb
    mlflow.set_experiment("digits")
    with mlflow.start_run() as run:
        print("mlflow", run.info.run_id)
    run = wandb.init(project="digits")
    print("wandb", run.id)
    run.finish()
"""


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An interpreter with the trackers; whatever they write goes to this test's folder."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    return made("trackers").python


def read(python: Path, program: str, *words: Path) -> Any:
    done = subprocess.run([python, "-c", program, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_what_ranks_report_is_read_in_mlflow_and_tensorboard(
    python: Path, targets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "digits")
    words = ("--python", python, "--track", "mlflow", "--track", "tensorboard", "--max-restarts", "1")
    done = rankdeck("run", targets / "reporting.py", "-n", "2", *words, "--", "1", "flaky", cwd=tmp_path)
    assert 0 == done.returncode, done.stderr
    run = read(python, READ_MLFLOW)
    curves = read(python, READ_TENSORBOARD, commands.last() / TENSORBOARD)

    assert ("FINISHED", "1") == (run["status"], run["tags"]["rankdeck.restarts"])
    assert commands.last().name == run["tags"]["rankdeck.run_id"]
    assert {"target", "arguments", "world_size", "mode"} == set(run["params"])
    assert [["0.0", 0]] * 2 == run["metrics"]["loss"]  # MLflow keeps what both attempts reported
    assert {"loss", "a_", "nan", "inf", "huge"} == set(run["metrics"])
    assert [["0.0", 0]] == curves["loss"]  # the first attempt's is forgotten
    assert [["1.0", 0]] == curves["a#"]
    assert [["inf", 0]] == curves["huge"] == curves["inf"]
    assert math.isnan(float(curves["nan"][0][0]))
    links = {fact.tracker: fact for fact in facts(ev.TrackerLinked) if isinstance(fact, ev.TrackerLinked)}
    assert run["id"] == links["mlflow"].id
    assert str(commands.last() / TENSORBOARD) == links["tensorboard"].store


def test_what_a_script_writes_itself_is_noticed(python: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRITES)
    done = rankdeck("run", tmp_path / "train.py", "-n", "2", "--python", python, cwd=tmp_path)
    assert 0 == done.returncode, done.stderr
    shown = json.loads(rankdeck("show", "last", "--json").stdout)["trackers"]

    printed = dict(line.removeprefix("r0 | ").split() for line in done.stdout.splitlines() if "r0 | " in line)
    found = {(each["tracker"], each["id"], tuple(each["ranks"])) for each in shown}
    assert {
        ("mlflow", printed["mlflow"], (0,)),
        ("wandb", printed["wandb"], (0,)),
        ("tensorboard", "", (0,)),
        ("tensorboard", "", (1,)),
        ("tensorboard", "", (0, 1)),
    } == found
    assert {str(tmp_path / "runs" / name) for name in ("0", "1", "all")} == {
        each["store"] for each in shown if each["tracker"] == "tensorboard"
    }
    assert "URL not available" not in done.stdout + done.stderr
