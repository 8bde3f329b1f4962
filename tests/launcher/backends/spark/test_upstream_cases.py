"""What pyspark's own tests of TorchDistributor ask of `Distributor`; and below, what they do not ask for.

`launcher.compat` has what they ask by that name: tests/launcher/compat/test_torch_distributor.py.

| upstream | here |
|---|---|
| validate_correct_inputs | test_inputs_that_make_sense |
| validate_incorrect_inputs | test_inputs_that_make_none |
| encryption_passes, encryption_fails | test_spark_command.py: a session with SSL is used like any other |
| get_num_tasks_fails | test_gpus_that_are_not_there |
| execute_command | test_output_of_both_streams_and_a_failure |
| create_torchrun_command | test_the_environment_is_torchruns |
| get_num_tasks_locally | test_gpus.py: fewer GPUs than ranks is refused or told, not clamped |
| get_gpus_owned_local | test_granted.py, test_devices.py: through a preset CUDA_VISIBLE_DEVICES |
| local_training_succeeds | test_local_training_sees_its_gpus_and_this_process_is_left_alone |
| local_file_with_pytorch, end_to_end_run_locally | test_examples.py, test_local.py |
| dist_training_succeeds, get_num_tasks_distributed | test_spark.py: test_several_ranks_a_task and others |
| distributed_file_with_pytorch | test_a_file_with_torch |
| end_to_end_run_distributedly | test_a_result_of_any_size |
| clean_and_terminate, check_parent_alive | test_cleanup.py; test_spark.py: the faults |
| log communication: order, clients, half, empty, oversized | test_link.py, test_wire.py, test_listener.py |
| log communication: strangers, server gone | test_listener.py, test_cleanup.py |
| truncate_message | test_a_long_line_is_whole: nothing is cut |
| data_loader | test_torch_distributor.py: TestDataFrames |
| dl_util: pickle_fn_and_save, getting_output, create_fn_run_script | test_pack.py, test_program.py |
| deepspeed | test_deepspeed_distributor.py, test_documented_uses.py |

Not covered upstream: non-zero script exit, exception text, rank 0's result with a slow rank 1, several GPUs
a task, fractional amounts, output that is no UTF-8, split frames, cancel leaves no process, worker re-use,
two runs at once, results beyond maxResultSize, logs over Connect (test_connect.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import CannotPlace, RankFailed, SpecError
from launcher.runs import paths
from tests.commands import until
from tests.spark_cluster import Cluster
from tests.spark_runs import Bench, classic_session

TARGETS = Path(__file__).parents[3] / "targets" / "cluster.py"
EXAMPLES = Path(__file__).parents[4] / "launcher" / "examples"


def target(name: str) -> str:
    return f"{TARGETS}:{name}"


# --- without Spark -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 100])
@pytest.mark.parametrize("mode", ["local", "cluster", "connect"])
def test_inputs_that_make_sense(number: int, mode: str) -> None:
    Distributor(number, mode, gpu=False)


@pytest.mark.parametrize("number", [0, -1])
def test_inputs_that_make_none(number: int, home: Path) -> None:
    with pytest.raises(SpecError, match="at least 1"):
        Distributor(number).start(target("places"))


@pytest.mark.process
def test_local_training_sees_its_gpus_and_this_process_is_left_alone(
    home: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream rewrites this process's environment, and seeds its random numbers, for the time of the run."""
    import random

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before, state = dict(os.environ), random.getstate()
    seen = Distributor(2, gpu=False).start(target("places")).results()

    assert {""} == {value["CUDA_VISIBLE_DEVICES"] for value in seen}
    assert (before, state) == (dict(os.environ), random.getstate())


@pytest.mark.process
def test_the_result_is_rank_0s_however_slow_the_others(home: Path, mark: str) -> None:
    def slow() -> str:
        rank = os.environ["RANK"]
        time.sleep(0.5 * int(rank))  # the later rank writes last; upstream returns its value
        return rank

    slow.__module__ = "__main__"
    assert "0" == Distributor(2).run(slow)


@pytest.mark.process
def test_local_output_comes_while_it_is_written(home: Path, mark: str) -> None:
    job = Distributor(1).start(target("tick"), 100_000)
    log = paths.log_file(job.folder, 0, 0, paths.STDOUT)
    until(lambda: log.exists() and log.stat().st_size > 0)
    assert not job.done
    job.stop()
    job.wait(60)


# --- on a cluster --------------------------------------------------------------------------------------

spark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def session(cluster: Cluster) -> Iterator[Any]:
    with classic_session(cluster, **{"spark.task.resource.gpu.amount": "0.5"}) as made:
        yield made


class TestCluster:
    pytestmark = spark

    def test_a_fractional_amount_of_gpus(self, bench: Bench) -> None:
        """Upstream: ``int("0.5")`` raises. A rank gets a whole GPU, because the run asks for one."""
        seen = bench.distributor().start(target("places")).results(timeout=60)

        assert {"0,1"} == {value["CUDA_VISIBLE_DEVICES"] for value in seen}
        assert ["0", "1", "0", "1"] == [value["LOCAL_RANK"] for value in seen]

    def test_a_non_zero_exit_of_a_script(self, bench: Bench, tmp_path: Path) -> None:
        """Upstream: 320 s, and then success."""
        script = tmp_path / "exits.py"
        script.write_text("import os, sys\nsys.exit(7 if os.environ['RANK'] == '1' else 0)\n")
        began = time.monotonic()
        with pytest.raises(RankFailed) as caught:
            bench.distributor(2).run(str(script))

        assert (1, 7) == (caught.value.rank, caught.value.exit_code)
        assert time.monotonic() - began < 60

    def test_the_text_of_a_functions_exception(self, bench: Bench) -> None:
        """Upstream: a Java trace without the user's words."""
        with pytest.raises(RankFailed, match="bad luck") as caught:
            bench.distributor(2).run(target("fail"))

        assert "Traceback (most recent call last)" in (caught.value.traceback or "")

    def test_output_of_both_streams_and_a_failure(self, bench: Bench, tmp_path: Path) -> None:
        script = tmp_path / "both.py"
        script.write_text("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)\n")
        job = bench.distributor(1).start(str(script))

        assert 3 == job.wait(60).exit_code
        assert b"out\n" == paths.log_file(job.folder, 0, 0, paths.STDOUT).read_bytes()
        assert b"err\n" == paths.log_file(job.folder, 0, 0, paths.STDERR).read_bytes()

    def test_a_long_line_is_whole(self, bench: Bench, tmp_path: Path) -> None:
        """Upstream cuts lines at 4,000 characters."""
        script = tmp_path / "long.py"
        script.write_text("print('x' * 1_000_000)\n")
        job = bench.distributor(1).start(str(script))
        job.wait(60)

        assert b"x" * 1_000_000 + b"\n" == paths.log_file(job.folder, 0, 0, paths.STDOUT).read_bytes()

    def test_the_environment_is_torchruns(self, bench: Bench) -> None:
        (place,) = bench.distributor(1).start(target("places")).results(timeout=60)

        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")
        assert ["0", "1", "0", "1", "0", "0"] == [place[name] for name in names]
        assert ("0", "0") == (place["TORCHELASTIC_RESTART_COUNT"], place["TORCHELASTIC_MAX_RESTARTS"])

    @pytest.mark.frameworks
    def test_a_file_with_torch(self, bench: Bench) -> None:
        script = str(EXAMPLES / "plain_torchrun.py")
        assert "succeeded" == bench.distributor(2).start(script, "--steps", "100").wait(120).phase

    @pytest.mark.parametrize("size", [1, 4096 * len("success"), 20 << 20])
    def test_a_result_of_any_size(self, bench: Bench, size: int) -> None:
        assert size == len(bench.distributor(2).run(target("large"), size))

    def test_one_run_after_another_in_the_same_python_workers(self, bench: Bench) -> None:
        """Upstream: the first run's CUDA_VISIBLE_DEVICES stays in the worker's environment."""
        first = bench.distributor(2).start(target("places")).results(timeout=60)
        second = bench.distributor(2, gpu=False).start(target("places")).results(timeout=60)
        third = bench.distributor(4).start(target("places")).results(timeout=60)

        assert all(value["CUDA_VISIBLE_DEVICES"] for value in first)
        assert not any(value["CUDA_VISIBLE_DEVICES"] for value in second)
        assert {"0,1"} == {value["CUDA_VISIBLE_DEVICES"] for value in third}

    def test_gpus_that_are_not_there(self, bench: Bench) -> None:
        job = bench.distributor(5, gpu=True, start_timeout_s=2).start(target("places"))
        with pytest.raises(CannotPlace, match="needs 5 GPU slots at once"):
            job.result(timeout=60)

    def test_an_executor_whose_cloudpickle_is_another(self, bench: Bench, tmp_path: Path) -> None:
        (tmp_path / "cloudpickle.py").write_text("raise ImportError('of another time')\n")
        words = "closure"
        distributor = bench.distributor(2, env={"PYTHONPATH": str(tmp_path)})
        assert words == distributor.run(lambda: words)

    def test_a_function_of_another_module_of_the_callers(self, bench: Bench, tmp_path: Path) -> None:
        """Upstream: ModuleNotFoundError on executors. What the caller has imported goes along."""
        import importlib.util
        import sys

        path = tmp_path / "mine.py"
        path.write_text("WORD = 'mine'\n\ndef tell():\n    return WORD\n")
        spec = importlib.util.spec_from_file_location("mine_of_the_test", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["mine_of_the_test"] = module
        spec.loader.exec_module(module)
        try:
            assert "mine" == bench.distributor(2).run(module.tell)
        finally:
            del sys.modules["mine_of_the_test"]
