"""The uses that documentation shows, by the originals' names: function, file, notebook, here and on Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import drop_ins, framework_envs, survivors
from tests.framework_envs import Environment
from tests.notebooks import notebook
from tests.spark_cluster import Cluster

pytestmark = pytest.mark.frameworks
here_and_there = pytest.mark.parametrize(
    "where", [None, pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.timeout(300)])], ids=str
)
LEARNT = {"weights": [[1.0, 1.0, 1.0, 1.0]], "ranks": 2}

IMPORTS = """
from launcher.compat import installed
with installed():
    from pyspark.ml.torch.distributor import TorchDistributor
"""
SESSION = """
import json
from pyspark.sql import SparkSession
builder = SparkSession.builder
for key, value in json.loads({settings!r}).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
"""
DEFINITION = """
STEPS = 200

def train(learning_rate):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    for _ in range(STEPS):
        x = torch.randn(32, 2)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    dist.destroy_process_group()
    return [round(w, 1) for w in model.module.weight[0].tolist()]
"""
CALL = "TorchDistributor(num_processes=2, local_mode={local}, use_gpu=False).run(train, 1e-1)"


@pytest.fixture
def spark(where: str | None, request: pytest.FixtureRequest) -> Cluster | None:
    """The cluster of a case that runs on executors."""
    cluster: Cluster | None = request.getfixturevalue("cpu_cluster") if where else None
    return cluster


@pytest.fixture(scope="module")
def torch_family() -> Environment:
    if not framework_envs.can_compile():
        pytest.skip("DeepSpeed compiles its extensions, which needs a C++ compiler")
    return framework_envs.made("torch-family")


def run(case: str, *, env: Environment | None = None, cluster: Cluster | None = None) -> drop_ins.Told:
    return drop_ins.run(case, 2, env=env, cluster=cluster, program="documented_torch.py")


@here_and_there
def test_a_function_of_torch(spark: Cluster | None, mark: str) -> None:
    assert LEARNT == run("torch_function", cluster=spark).value


@here_and_there
def test_a_file_of_torch(spark: Cluster | None, mark: str) -> None:
    told = run("torch_file", cluster=spark)

    assert told.value is None
    assert [2, 1] == [_count(told, text) for text in ("epoch 1 of 1", "test accuracy 0.9")]


@here_and_there
def test_a_function_of_deepspeed(spark: Cluster | None, mark: str, torch_family: Environment) -> None:
    told = run("deepspeed_function", env=torch_family, cluster=spark)
    assert {"small": True, "stage": 1, "ranks": 2} == told.value


@here_and_there
def test_a_file_of_deepspeed(spark: Cluster | None, mark: str, torch_family: Environment) -> None:
    told = run("deepspeed_file", env=torch_family, cluster=spark)
    assert [1, 1] == [_count(told, f"rank {rank} of 2: stage 1") for rank in (0, 1)]


@here_and_there
def test_a_notebook(
    spark: Cluster | None, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with notebook(tmp_path) as book:
        if spark is not None:
            assert book.run(SESSION.format(settings=json.dumps(drop_ins.conf(spark)))).ok
        assert book.run(IMPORTS).ok
        assert book.run(DEFINITION).ok
        ran = book.run(CALL.format(local=spark is None))
        assert "[1.0, 1.0]" == ran.value, ran
        assert "succeeded" in ran.text
        if spark is not None:
            assert book.run("spark.stop()").ok
    assert survivors.gone(mark, within=20) == {}


def _count(told: Any, text: str) -> int:
    return sum(text in line for line in told.lines)


HOROVOD = """
from launcher.compat import installed
with installed():
    from sparkdl import HorovodRunner

def train_hvd(learning_rate):
    import horovod.torch as hvd
    import torch
    from sparkdl.horovod import log_to_driver

    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(2, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=learning_rate))
    for _ in range(200):
        x = torch.randn(32, 2)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    log_to_driver(f"rank {hvd.rank()} is done")
    return [round(w, 1) for w in model.weight[0].tolist()]
"""


@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
def test_a_notebook_with_horovod_runner(
    cpu_cluster: Cluster, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors have Horovod; the driver has not, and neither of them has sparkdl."""
    env = framework_envs.made("horovod")
    monkeypatch.setenv("PYSPARK_PYTHON", str(env.python))
    with notebook(tmp_path) as book:
        assert book.run(SESSION.format(settings=json.dumps(drop_ins.conf(cpu_cluster)))).ok
        assert book.run(HOROVOD).ok
        ran = book.run("HorovodRunner(np=2).run(train_hvd, learning_rate=1e-1)")
        assert "[1.0, 1.0]" == ran.value, ran
        assert ["rank 0 is done", "rank 1 is done"] == sorted(ran.streams["stdout"].splitlines())
        assert book.run("spark.stop()").ok
    assert survivors.gone(mark, within=20) == {}
