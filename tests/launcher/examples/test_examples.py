from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "launcher" / "examples"
RANKDECK = str(Path(sys.executable).with_name("rankdeck"))

pytestmark = pytest.mark.frameworks

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command outside any gang, with all of rankdeck's files below the test's own folder."""
    outside = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    environ = {**outside, "RANKDECK_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}

    def started(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )

    return started


def result(run: Run, *more: str) -> Any:
    done = run(RANKDECK, "result", "last", "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_digits_with_ddp_as_a_script(run: Run) -> None:
    done = run(RANKDECK, "run", str(EXAMPLES / "digits_ddp.py"), "-n", "2")
    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2: epoch 10 of 10" in done.stdout
    metrics = result(run)["value"]
    assert metrics["test_accuracy"] >= 0.95
    assert json.loads(done.stdout[done.stdout.rindex("{") :]) == metrics


def test_digits_with_ddp_as_a_function_of_a_file(run: Run) -> None:
    target = f"{EXAMPLES / 'digits_ddp.py'}:train"
    done = run(RANKDECK, "run", target, "-n", "2", "--param", "epochs=8", "--param", "batch_size=32")
    assert done.returncode == 0, done.stderr
    assert result(run)["value"]["test_accuracy"] >= 0.95


def test_digits_with_ddp_as_a_function_of_a_module(run: Run) -> None:
    done = run(RANKDECK, "run", "launcher.examples.digits_ddp:train", "-n", "1", "--param", "epochs=1")
    assert done.returncode == 0, done.stderr
    assert "rank 0 of 1: epoch 1 of 1" in done.stdout


def test_digits_with_ddp_under_plain_python(run: Run) -> None:
    done = run(sys.executable, str(EXAMPLES / "digits_ddp.py"))
    assert done.returncode == 0, done.stderr
    accuracy = float(done.stdout.split("test accuracy ")[1].split()[0])
    assert accuracy >= 0.95


def test_digits_with_fsdp_holds_half_of_the_model_in_each_rank(run: Run) -> None:
    done = run(RANKDECK, "run", str(EXAMPLES / "digits_fsdp.py"), "-n", "2")
    assert done.returncode == 0, done.stderr
    metrics = [result(run, "-r", rank)["value"] for rank in "01"]
    assert [m["held_share"] for m in metrics] == [0.5, 0.5]
    assert metrics[0]["test_accuracy"] == metrics[1]["test_accuracy"] >= 0.95


def test_a_script_written_for_torchrun_saves_its_checkpoint(run: Run, tmp_path: Path) -> None:
    script = str(EXAMPLES / "plain_torchrun.py")
    done = run(RANKDECK, "run", script, "-n", "2", "--", "--steps", "100", "--checkpoint", "sine.pt")
    assert done.returncode == 0, done.stderr
    assert re.search(r"rank 1 of 2 on .+, local rank 1\n", done.stdout)
    assert (tmp_path / "sine.pt").stat().st_size > 0
