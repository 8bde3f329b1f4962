"""A gang on a cluster, beside pyspark's own TorchDistributor, in one warm session. ``pytest -m bench``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import RankFailed
from tests.bench.ledger import interleave, record
from tests.spark_cluster import Cluster
from tests.spark_runs import classic_session

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1200)]


PROJECT = Path(__file__).parents[2]


def hello() -> int:
    return 1


def unlucky() -> int:
    raise ValueError("no luck")


def stamp(folder: str) -> None:
    """Print a line, and write when."""
    import os
    import time
    from pathlib import Path

    print("rank", os.environ["RANK"], flush=True)
    (Path(folder) / os.environ["RANK"]).write_text(repr(time.time()))


hello.__module__ = unlucky.__module__ = stamp.__module__ = "__main__"  # as from a cell of a notebook


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@pytest.fixture
def cpu_session(cpu_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A session as a notebook has one, whose tasks take no GPUs, in a folder of a user's."""
    monkeypatch.chdir(tmp_path)
    with classic_session(cpu_cluster):
        yield


def session_conf(cluster: Cluster) -> dict[str, str]:
    return {"spark.master": cluster.url, "spark.ui.enabled": "false", **cluster.conf()}


def torch_distributor(ranks: int = 2) -> Any:
    from pyspark.ml.torch.distributor import TorchDistributor

    return TorchDistributor(num_processes=ranks, local_mode=False, use_gpu=False)


NOTEBOOK = """
import sys, time
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession
from launcher.distributor import Distributor

def hello():
    return 1

builder = SparkSession.builder
for name, value in {conf!r}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
ways = dict(
    ours=lambda: Distributor(2, "cluster", gpu=False),
    theirs=lambda: TorchDistributor(num_processes=2, local_mode=False, use_gpu=False),
)
for way in map(str.strip, sys.stdin):
    begin = time.perf_counter()
    assert 1 == ways[way]().run(hello)
    print("took", time.perf_counter() - begin, flush=True)
spark.stop()
"""


@pytest.fixture
def notebook(cpu_cluster: Cluster, home: Path, tmp_path: Path) -> Iterator[Callable[[str], float]]:
    """A process with a session, and nothing of ours but the library; runs a function in one of two ways.

    This process has imported hundreds of modules that are not installed, and they would travel along.
    """
    program = NOTEBOOK.format(conf=session_conf(cpu_cluster))
    words, env = [sys.executable, "-c", program], {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=env
    ) as process:
        assert process.stdin
        assert process.stdout
        asked, answers = process.stdin, process.stdout

        def run(way: str) -> float:
            asked.write(f"{way}\n")
            asked.flush()
            took = next(line for line in answers if line.startswith("took"))
            return float(took.split()[1])

        yield run
        asked.close()


def test_a_function_on_two_ranks_of_a_warm_session(notebook: Callable[[str], float]) -> None:
    result = interleave(lambda: notebook("ours"), lambda: notebook("theirs"), rounds=7)
    record(
        "cluster, warm session: `run(fn)` on two ranks, call to value", "TorchDistributor", result, bound=0.03
    )

    assert result.ratio <= 0.03


def test_a_script_with_one_all_reduce(cpu_session: None, home: Path, targets: Path) -> None:
    script = str(targets / "stamping.py")
    result = interleave(
        lambda: seconds(lambda: Distributor(2, "cluster", gpu=False).run(script)),
        lambda: seconds(lambda: torch_distributor().run(script)),
        rounds=5,
    )
    record(
        "cluster, warm session: a script with one all-reduce on two ranks, call to end",
        "TorchDistributor",
        result,
        bound=0.04,
    )

    assert result.ratio <= 0.04


FIRST = """
import sys, time
from pyspark.sql import SparkSession
sys.path.insert(0, {root!r})
from tests.bench.test_spark import hello, torch_distributor
from launcher.distributor import Distributor
conf = {conf!r}
builder = SparkSession.builder
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
while spark._jsc.sc().getExecutorMemoryStatus().size() < 3:  # the driver, and two executors
    time.sleep(0.05)
begin = time.perf_counter()
{launch}.run(hello)
print("took", time.perf_counter() - begin, flush=True)
spark.stop()
"""


def test_the_first_launch_in_a_session(cpu_cluster: Cluster, home: Path, tmp_path: Path) -> None:
    conf = session_conf(cpu_cluster)

    def first(launch: str) -> float:
        program = FIRST.format(root=str(PROJECT), conf=conf, launch=launch)
        words, env = [sys.executable, "-c", program], {**os.environ, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=env)
        return float(re.findall(r"took ([\d.]+)", done.stdout)[0])

    result = interleave(
        lambda: first('Distributor(2, "cluster", gpu=False)'), lambda: first("torch_distributor()"), rounds=7
    )
    what = "cluster, first launch in a session: `run(fn)` on two ranks, call to value"
    record(what, "TorchDistributor", result, bound=0.40)

    assert result.ratio <= 0.40


def test_the_first_lines_of_sixteen_ranks(spark_here: None, home: Path, tmp_path: Path) -> None:
    """On two workers with eight slots each: when the last rank has said something."""

    def lines(run: Callable[[str], object]) -> float:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            began = time.time()
            run(folder)
            stamps = [float(path.read_text()) for path in Path(folder).iterdir()]
        assert 16 == len(stamps)
        return max(stamps) - began

    with Cluster(cores=8, gpus=0) as cluster, classic_session(cluster):
        result = interleave(
            lambda: lines(lambda folder: Distributor(16, "cluster", gpu=False).run(stamp, folder)),
            lambda: lines(lambda folder: torch_distributor(16).run(stamp, folder)),
            rounds=3,
        )
    what = "cluster, warm session: 16 ranks on two workers, call to the last first line"
    record(what, "TorchDistributor", result, bound=0.25)

    assert result.ratio <= 0.25


def test_a_function_that_raises(session: Any, home: Path) -> None:
    def ours() -> None:
        with pytest.raises(RankFailed, match="no luck"):
            Distributor(2, "cluster", gpu=False).run(unlucky)

    def theirs() -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011  it says neither which rank nor what it raised
            torch_distributor().run(unlucky)

    result = interleave(lambda: seconds(ours), lambda: seconds(theirs), rounds=3)
    record("cluster, warm session: `run(fn)` that raises, call to error", "TorchDistributor", result, bound=1)

    assert result.ratio <= 1
