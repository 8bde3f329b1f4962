"""Frameworks as they are installed, not look-alikes: who trains together, and what is said if nobody does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import LauncherError, RankFailed
from tests import framework_envs, segments
from tests.commands import until
from tests.framework_envs import Environment
from tests.trainings import EXAMPLES, check, results

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.process,
    pytest.mark.timeout(300, func_only=True),
    pytest.mark.usefixtures("mark"),
]


@pytest.fixture
def env() -> Environment:
    return framework_envs.made("torch-family")


@pytest.fixture
def script(targets: Path) -> str:
    return str(targets / "lightning_world.py")


@pytest.mark.parametrize(("what", "devices", "steps"), [("trainer", "auto", 32), ("fabric", "default", 0)])
def test_ranks_that_lightning_counts_train_together(
    env: Environment, script: str, what: str, devices: str, steps: int
) -> None:
    job = Distributor(2, python=env.python, env=env.variables).start(script, what, devices)

    expected = [{"rank": rank, "world": 2, "steps": steps} for rank in (0, 1)]
    assert expected == results(job)
    assert job.state.separate is None


@pytest.mark.parametrize("require_group", [False, True])
def test_ranks_that_are_told_to_train_alone_are_told_of(
    env: Environment, script: str, require_group: bool
) -> None:
    distributor = Distributor(2, python=env.python, env=env.variables, require_group=require_group)
    job = distributor.start(script, "trainer", "1")

    if require_group:
        with pytest.raises(LauncherError, match="2 separate trainings with lightning") as failure:
            results(job)
        assert 76 == failure.value.exit_code
    else:
        with pytest.warns(UserWarning, match="2 separate trainings with lightning"):
            assert [{"rank": 0, "world": 1, "steps": 64}] * 2 == results(job)
    assert job.state.separate is not None
    assert job.state.separate.frameworks[0] == "lightning"
    assert "devices=LOCAL_WORLD_SIZE" in job.state.separate.cure


def test_a_lock_that_a_killed_build_has_left_stops_no_deepspeed(env: Environment, tmp_path: Path) -> None:
    """torch waits for the lock's removal without a word, and for ever."""
    example = next(each for each in EXAMPLES if each.name == "deepspeed")
    launch, others = example.launch(), segments.abandoned()
    built = tmp_path / "torch_extensions"
    shutil.copytree(env.variables["TORCH_EXTENSIONS_DIR"], built)
    (extension,) = built.iterdir()
    (extension / "lock").touch()
    launch["env"] = {**launch["env"], "TORCH_EXTENSIONS_DIR": str(built)}

    job = Distributor(2, **launch).start(str(example.script), *example.argv(1))

    check(example, results(job), 1)
    assert not (extension / "lock").exists()
    until(lambda: segments.abandoned() <= others)


@pytest.fixture
def tensorflow() -> dict[str, Any]:
    env = framework_envs.made("tensorflow")
    return {"python": env.python, "env": dict(env.variables)}


def test_keras_3_is_refused_with_the_cure(tensorflow: dict[str, Any], targets: Path) -> None:
    job = Distributor(2, **tensorflow).start(str(targets / "keras_fit.py"))

    with pytest.raises(RankFailed, match=r"Keras 3 cannot train .* TF_USE_LEGACY_KERAS=1"):
        results(job)


def test_the_keras_before_trains_on_all_workers_as_on_one(tensorflow: dict[str, Any], targets: Path) -> None:
    tensorflow["env"] |= {"TF_USE_LEGACY_KERAS": "1"}
    alone, both = (results(Distributor(n, **tensorflow).start(str(targets / "keras_fit.py"))) for n in (1, 2))

    assert [1, 2, 2] == [value["workers"] for value in (*alone, *both)]
    assert [pytest.approx(alone[0]["losses"], abs=1e-5)] * 2 == [value["losses"] for value in both]


def test_a_chief_trains_with_the_workers_and_an_evaluator_does_not(
    tensorflow: dict[str, Any], tmp_path: Path
) -> None:
    script = tmp_path / "roles.py"
    script.write_text(
        "import json, os, launcher, tensorflow as tf\n"
        "own = json.loads(os.environ['TF_CONFIG'])['task']['type']\n"
        "trains = own != 'evaluator'\n"
        "size = tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync if trains else 0\n"
        "launcher.publish([own, size])\n"
    )
    job = Distributor(4, roles={"chief": 1, "evaluator": 1}, **tensorflow).start(str(script))

    assert [["chief", 3], ["worker", 3], ["worker", 3], ["evaluator", 0]] == results(job)
    assert ["chief", "worker", "worker", "evaluator"] == [rank.role for rank in job.state.ranks]
    assert job.state.separate is None


def test_horovod_meets_again_after_a_shutdown_and_in_sets_of_processes(tmp_path: Path) -> None:
    env = framework_envs.made("horovod")
    script = tmp_path / "again.py"
    script.write_text(
        "import horovod.torch as hvd, launcher, torch\n"
        "sums = []\n"
        "for _ in range(3):\n"
        "    hvd.init()\n"
        "    sums.append(hvd.allreduce(torch.tensor(1.0 + hvd.rank()), op=hvd.Sum).item())\n"
        "    hvd.shutdown()\n"
        "hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([1])])\n"
        "launcher.publish([sums, hvd.size()])\n"
    )
    job = Distributor(2, python=env.python, env=env.variables).start(str(script))

    assert [[[3.0] * 3, 2]] * 2 == results(job)
