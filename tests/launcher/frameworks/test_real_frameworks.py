"""Frameworks as they are installed, not look-alikes: who trains together, and what is said if nobody does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.errors import LauncherError
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
