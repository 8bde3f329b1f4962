"""`MirroredStrategyRunner` on rankdeck: what it refuses, its GPUs, and trainings under its strategy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from launcher.compat import MirroredStrategyRunner, mirrored_strategy_runner
from launcher.compat.originals import CallersSpark
from launcher.runs.catalog import run_ids
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_spec, read_state
from tests import drop_ins, framework_envs
from tests.commands import until
from tests.fakes.nvml_build import FakeGpu, FakeNvml
from tests.framework_envs import Environment
from tests.spark_cluster import Cluster
from tests.spark_runs import Bench, agents_of, classic_session
from tests.trainings import TOLERANCE, examples, reference

TASK_GPUS = "spark.task.resource.gpu.amount"
SSL, OVERRIDE = "spark.ssl.enabled", "tensorflow.spark.distributor.ignoreSsl"
(EXAMPLE,) = examples("tensorflow")


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU preset of whoever runs the tests."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


# --- arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, -1, 1.0, "2", None, True])
@pytest.mark.parametrize("local", [True, False])
def test_slots_that_cannot_be(number: Any, local: bool) -> None:
    with pytest.raises(ValueError, match="num_slots must be a whole number of 1 or more"):
        MirroredStrategyRunner(num_slots=number, local_mode=local, use_gpu=False)


def test_executors_need_a_session() -> None:
    with pytest.raises(RuntimeError, match="MirroredStrategyRunner needs an active Spark session"):
        MirroredStrategyRunner(num_slots=2)


@pytest.mark.parametrize("local", [True, False])
def test_gpus_by_another_name(local: bool) -> None:
    with pytest.raises(
        ValueError, match="gpu_resource_name 'fpga' is not served: rankdeck's ranks get GPUs by"
    ):
        MirroredStrategyRunner(num_slots=1, gpu_resource_name="fpga", local_mode=local)
    MirroredStrategyRunner(num_slots=1, gpu_resource_name="fpga", local_mode=True, use_gpu=False)


def test_local_mode_without_gpus_has_one_slot() -> None:
    with pytest.raises(ValueError, match="local mode has one slot, not 2"):
        MirroredStrategyRunner(num_slots=2, local_mode=True, use_gpu=False)


class FakeSession:
    """A session with some settings."""

    conf: dict[str, str] = {}  # noqa: RUF012  by its class it is told for a session


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of the active session."""
    made: dict[str, str] = {}
    monkeypatch.setattr(FakeSession, "conf", made)
    monkeypatch.setattr(CallersSpark, "require", classmethod(lambda *_: CallersSpark(FakeSession())))
    return made


@pytest.mark.parametrize(
    ("slots", "amount", "tasks", "each"),
    [
        (8, "1", 8, 1),
        (8, "4", 2, 4),
        (8, "8", 1, 8),
        (2, "4", 1, 2),
        (4, "0.5", 4, 1),
        (4, "1.0", 4, 1),
        (3, "4", 1, 3),
    ],
)
def test_a_rank_has_the_gpus_of_a_task(
    settings: dict[str, str], slots: int, amount: str, tasks: int, each: int
) -> None:
    settings[TASK_GPUS] = amount
    made = MirroredStrategyRunner(num_slots=slots, use_custom_strategy=True)

    assert tasks == made.get_num_tasks()
    spec = made._cluster_request(os.getpid, {}).spec
    assert (tasks, each, True, "tensorflow") == (
        spec.num_processes,
        spec.gpus_per_rank,
        spec.gpu,
        spec.framework,
    )


def test_without_gpus_a_slot_is_a_rank(settings: dict[str, str]) -> None:
    made = MirroredStrategyRunner(num_slots=5, use_gpu=False)
    spec = made._cluster_request(os.getpid, {}).spec
    assert (5, 5, 1, False) == (made.get_num_tasks(), spec.num_processes, spec.gpus_per_rank, spec.gpu)


def test_slots_that_are_no_multiple_of_a_tasks_gpus(settings: dict[str, str]) -> None:
    settings[TASK_GPUS] = "2"
    with pytest.raises(ValueError, match=r"a multiple of 2, .* not 5: take 4 or 6"):
        MirroredStrategyRunner(num_slots=5)


def test_a_session_that_assigns_no_gpus(settings: dict[str, str]) -> None:
    with pytest.raises(RuntimeError, match=rf"{TASK_GPUS}. was unset, .*: set it, or train without GPUs"):
        MirroredStrategyRunner(num_slots=1)


@pytest.mark.parametrize("amount", ["0", "-1", "x", "nan"])
def test_gpus_of_a_task_that_cannot_be(settings: dict[str, str], amount: str) -> None:
    settings[TASK_GPUS] = amount
    with pytest.raises(RuntimeError, match=f"{TASK_GPUS} must be a number above 0, not '{amount}'"):
        MirroredStrategyRunner(num_slots=1)


def test_encryption_is_required(settings: dict[str, str], home: Path) -> None:
    settings[SSL] = "true"
    with pytest.raises(RuntimeError, match=f"encryption in transit: set {OVERRIDE} to true"):
        MirroredStrategyRunner(num_slots=1, use_gpu=False).run(print)
    assert [] == run_ids(runs_root())


# --- on this machine ---------------------------------------------------------------------------------


def visible() -> str:
    """What a rank sees of the machine's GPUs."""
    return os.environ["CUDA_VISIBLE_DEVICES"]


def test_more_slots_than_this_machine_has_gpus(fake_nvml: FakeNvml, home: Path) -> None:
    fake_nvml.say(FakeGpu("GPU-a"), FakeGpu("GPU-b"))
    with pytest.raises(ValueError, match="num_slots is 3, and 2 GPUs are available here"):
        MirroredStrategyRunner(num_slots=3, local_mode=True).run(visible)
    fake_nvml.say()
    with pytest.raises(ValueError, match="num_slots is 1, and 0 GPUs are available here: no GPU found"):
        MirroredStrategyRunner(num_slots=1, local_mode=True).run(visible)
    assert [] == run_ids(runs_root())


@pytest.mark.process
class TestLocally:
    def test_one_rank_has_as_many_gpus_as_slots(self, fake_nvml: FakeNvml, mark: str) -> None:
        fake_nvml.say(FakeGpu("GPU-a"), FakeGpu("GPU-b"), FakeGpu("GPU-c"))
        runner = MirroredStrategyRunner(num_slots=2, local_mode=True, use_custom_strategy=True)

        assert "GPU-a,GPU-b" == runner.run(visible)
        assert "CUDA_VISIBLE_DEVICES" not in os.environ

    def test_a_function_that_is_called_with_keywords_and_keeps_its_name(
        self, mark: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        base = 3

        def train(lr: float) -> float:
            return lr + base

        runner = MirroredStrategyRunner(num_slots=1, local_mode=True, use_gpu=False, use_custom_strategy=True)
        assert 3.5 == runner.run(train, lr=0.5)
        wrapped = mirrored_strategy_runner._under_strategy(train)
        with pytest.raises(ValueError, match=r"do not fit .*\.train: missing a required argument: 'lr'"):
            MirroredStrategyRunner(num_slots=1, local_mode=True, use_gpu=False).run(train)
        assert train.__qualname__ == wrapped.__qualname__
        assert __file__ == read_spec(runs_root() / run_ids(runs_root())[0]).target.source

    def test_without_tensorflow_the_rank_says_so(self, mark: str) -> None:
        with pytest.raises(RuntimeError, match="ModuleNotFoundError: No module named 'tensorflow'"):
            MirroredStrategyRunner(num_slots=1, local_mode=True, use_gpu=False).run(visible)


# --- with TensorFlow and Spark ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def env() -> Environment:
    return framework_envs.made("tensorflow")


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.timeout(300, func_only=True)
def test_one_worker_on_this_machine(env: Environment, mark: str) -> None:
    within, own = drop_ins.run("mirrored_local", 1, env=env).value

    assert {"kind": "CollectiveAllReduceStrategy", "ranks": 1, "is": "MirroredVariable"} == within
    assert 1 == own


@pytest.mark.frameworks
@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
class TestOnACluster:
    def test_a_function_is_called_in_the_scope_of_a_strategy(
        self, env: Environment, cpu_cluster: Cluster
    ) -> None:
        within = drop_ins.run("mirrored", 2, env=env, cluster=cpu_cluster).value
        assert {"kind": "CollectiveAllReduceStrategy", "ranks": 2, "is": "MirroredVariable"} == within

    def test_a_function_with_a_strategy_of_its_own(self, env: Environment, cpu_cluster: Cluster) -> None:
        value = drop_ins.run("mirrored_custom", 2, env=env, cluster=cpu_cluster).value
        wanted = reference(EXAMPLE, 2)
        assert pytest.approx(wanted, abs=TOLERANCE) == {name: value[name] for name in wanted}
        assert 2 == value["ranks"]

    def test_keras_trains_without_a_word_about_distribution(
        self, env: Environment, cpu_cluster: Cluster
    ) -> None:
        losses = drop_ins.run("mirrored_keras", 2, env=env, cluster=cpu_cluster).value
        assert 2 == len(losses)
        assert losses[1] < losses[0]

    def test_a_failing_rank(self, env: Environment, cpu_cluster: Cluster) -> None:
        value = drop_ins.run("mirrored_fails", 2, env=env, cluster=cpu_cluster).value
        assert "RankFailed" == value["cause"]
        assert value["text"].endswith("ValueError: no good")
        assert 1 == value["text"].count('File "')
        until(lambda: not agents_of(cpu_cluster), within=20)


@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
def test_ranks_have_the_gpus_of_sparks_tasks(cluster: Cluster, home: Path) -> None:
    def visible() -> str:  # by value, since executors cannot import this module
        return os.environ["CUDA_VISIBLE_DEVICES"]

    with classic_session(cluster, **cluster.conf(task_gpus="2")) as session:
        bench = Bench(cluster, session)
        value = MirroredStrategyRunner(num_slots=4, use_custom_strategy=True).run(visible)
        assert {"0", "1"} == set(value.split(","))
        (run,) = run_ids(runs_root())
        assert [2, 2] == [len(rank.devices) for rank in read_state(runs_root() / run).ranks]

        # one task takes fewer GPUs than the session's tasks do
        value = MirroredStrategyRunner(num_slots=1, use_custom_strategy=True).run(visible)
        assert value in ("0", "1")
        bench.nothing_left()
