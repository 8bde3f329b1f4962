"""`TorchDistributor` as pyspark documents it, in local mode and on a real cluster.

The cases are those of pyspark's own tests of documented behaviour, and those that its defects call for.
"""

from __future__ import annotations

import logging
import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.compat import TorchDistributor
from launcher.errors import RankFailed
from tests import survivors
from tests.fakes.nvml_build import FakeGpu, FakeNvml
from tests.spark_cluster import Cluster
from tests.spark_runs import Bench, classic_session
from tests.targets import originals as work

SCRIPT = str(Path(work.__file__).with_name("originals_script.py"))
KEYWORDS = "does not support key-word type arguments"
SSL, OVERRIDE = "spark.ssl.enabled", "pytorch.spark.distributor.ignoreSsl"
TASK_GPUS = "spark.task.resource.gpu.amount"


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU preset of whoever runs the tests."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


# --- without Spark -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 100])
def test_inputs_that_make_sense(number: int) -> None:
    made = TorchDistributor(number, True, False)

    wanted = {"num_processes": number, "local_mode": True, "use_gpu": False, "num_tasks": number}
    assert wanted == made.input_params


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("local", [True, False])
def test_inputs_that_make_none(number: int, local: bool) -> None:
    with pytest.raises(ValueError, match="positive"):
        TorchDistributor(number, local, False)


def test_executors_need_a_session() -> None:
    with pytest.raises(RuntimeError, match="TorchDistributor needs an active Spark session"):
        TorchDistributor(2, local_mode=False, use_gpu=False)


def test_a_driver_without_gpus(fake_nvml: FakeNvml) -> None:
    fake_nvml.say()
    with pytest.raises(RuntimeError, match="GPUs were unable to be found on the driver: no GPU found"):
        TorchDistributor(1, local_mode=True, use_gpu=True)


def test_the_gpus_of_this_machine_suffice_without_spark(
    fake_nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    """The original needs Spark's own discovery of the driver's GPUs."""
    fake_nvml.say(FakeGpu("GPU-a"), FakeGpu("GPU-b"))
    assert 2 == TorchDistributor(2).num_processes
    assert not caplog.records

    with caplog.at_level(logging.WARNING, "TorchDistributor"):
        assert 2 == TorchDistributor(5).num_tasks
    assert ["num_processes is 5, and the driver has 2 GPUs: it is reset to that number"] == caplog.messages


@pytest.mark.process
class TestLocally:
    def test_rank_0s_value_however_slow_the_others(self, mark: str) -> None:
        """The original returns the value of the rank that writes last."""
        assert "value of rank 0" == TorchDistributor(2, use_gpu=False).run(work.slower_by_rank, "value")

    def test_a_large_value_of_a_nested_function_with_keywords(self, mark: str) -> None:
        words = "success"

        def train(times: int, *, more: int) -> str:
            return words * (times + more)

        assert "success" * 4096 == TorchDistributor(2, use_gpu=False).run(train, 4000, more=96)

    def test_a_file_gets_its_argv_as_text_and_has_no_value(
        self, mark: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert TorchDistributor(2, use_gpu=False).run(SCRIPT, "--lr", 0.01, 3) is None
        printed = capfd.readouterr().out
        assert 2 == printed.count('"argv": ["--lr", "0.01", "3"]')
        assert "r0 | " in printed
        assert "r1 | " in printed

    def test_keywords_for_a_file(self) -> None:
        with pytest.raises(ValueError, match=KEYWORDS):
            TorchDistributor(1, use_gpu=False).run(SCRIPT, lr=0.1)

    @pytest.mark.parametrize("text", ["nowhere.py", "ls", "-m this", f"{SCRIPT}:main", "."])
    def test_a_file_that_is_not_there(self, text: str) -> None:
        """Nor is anything else a file that `rankdeck run` takes for a target."""
        with pytest.raises(ValueError, match=r"there is no file "):
            TorchDistributor(1, use_gpu=False).run(text)

    def test_a_path_and_a_keyword_of_any_name(self, mark: str) -> None:
        distributor = TorchDistributor(1, use_gpu=False)
        assert distributor.run(Path(SCRIPT), "--lr", 1) is None
        assert ["self", "target"] == distributor.run(lambda **given: sorted(given), self=1, target=2)

    def test_a_file_that_fails_is_no_success(self, mark: str) -> None:
        """The original returns None."""
        with pytest.raises(RuntimeError, match=r"rank [01] on .* exited with code 7") as caught:
            TorchDistributor(2, use_gpu=False).run(SCRIPT, "--fail")
        assert isinstance(caught.value.__cause__, RankFailed)
        assert 7 == caught.value.__cause__.exit_code

    def test_a_function_that_fails_keeps_its_words(self, mark: str) -> None:
        """The original says: view stdout logs."""
        with pytest.raises(RuntimeError, match=r"(?s)Traceback.*ValueError: bad luck") as caught:
            TorchDistributor(2, use_gpu=False).run(work.unlucky, "bad luck")
        cause = caught.value.__cause__
        assert isinstance(cause, RankFailed)
        assert 1 == cause.rank

    def test_the_caller_keeps_its_environment_and_its_random_numbers(self, mark: str) -> None:
        before, state = dict(os.environ), random.getstate()
        value = TorchDistributor(1, use_gpu=False).run(work.seen)

        assert {"RANK": "0", "WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": ""} == value
        assert (before, state) == (dict(os.environ), random.getstate())

    def test_a_dataframe_needs_executors(self) -> None:
        with pytest.raises(ValueError, match="local_mode to False"):
            TorchDistributor(1, use_gpu=False)._train_on_dataframe(work.seen, object())


# --- with Spark ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def driver_conf(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings with which Spark grants three GPUs to its driver."""
    script = tmp_path_factory.mktemp("gpus") / "discover.sh"
    script.write_text("""echo '{"name": "gpu", "addresses": ["0", "1", "2"]}'\n""")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "spark.driver.resource.gpu.amount": "3",
        "spark.driver.resource.gpu.discoveryScript": str(script),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    }


@pytest.fixture(scope="module")
def session(cluster: Cluster, driver_conf: dict[str, str]) -> Iterator[Any]:
    with classic_session(cluster, **driver_conf) as made:
        yield made


@pytest.fixture
def spark(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The session, whose settings are the same again after the test, and nothing of whose runs is left."""
    monkeypatch.setenv(survivors.MARK, bench.mark)
    conf = bench.session.conf
    before = {key: conf.get(key, None) for key in (SSL, OVERRIDE, TASK_GPUS)}
    yield bench.session
    for key, value in before.items():
        if value is None:
            conf.unset(key)
        else:
            conf.set(key, value)


@pytest.mark.spark
@pytest.mark.timeout(300)
class TestWithSpark:
    def test_what_the_driver_was_granted_and_no_more(
        self, spark: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert [1, 2] == [TorchDistributor(n, True, True)._get_num_tasks() for n in (1, 2)]
        for number in (4, 8):
            caplog.clear()
            made = TorchDistributor(number, True, True)
            assert (3, 3) == (made.num_processes, made.input_params["num_tasks"])
            assert [("TorchDistributor", "WARNING")] == [(r.name, r.levelname) for r in caplog.records]

    @pytest.mark.parametrize(("preset", "wanted"), [(None, {"0", "1", "2"}), ("3,4,5", {"3", "4", "5"})])
    def test_ranks_here_see_the_drivers_gpus(
        self, spark: Any, preset: str | None, wanted: set[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Spark's addresses count the entries of a list that is preset."""
        if preset:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", preset)
        value = TorchDistributor(3, local_mode=True, use_gpu=True).run(work.seen)

        assert wanted == set(value["CUDA_VISIBLE_DEVICES"].split(","))
        assert preset == os.environ.get("CUDA_VISIBLE_DEVICES")

    @pytest.mark.parametrize(
        ("amount", "tasks"), [("1", 8), ("2", 4), ("4", 2), ("0.08", 8), ("1.0", 8)], ids=str
    )
    def test_tasks_by_their_gpus(self, spark: Any, amount: str, tasks: int) -> None:
        """The original fails with an amount below one."""
        spark.conf.set(TASK_GPUS, amount)
        assert tasks == TorchDistributor(8, local_mode=False, use_gpu=True).num_tasks

    @pytest.mark.parametrize(
        ("amount", "why"),
        [("0", "above 0"), ("-1", "above 0"), ("x", "above 0"), ("3", "a multiple"), ("", "unset")],
    )
    def test_tasks_that_cannot_be(self, spark: Any, amount: str, why: str) -> None:
        spark.conf.set(TASK_GPUS, amount)
        with pytest.raises(RuntimeError, match=why):
            TorchDistributor(8, local_mode=False, use_gpu=True)

    def test_encryption_is_required(self, spark: Any) -> None:
        spark.conf.set(SSL, "true")
        made = TorchDistributor(1, False, False)
        with pytest.raises(RuntimeError, match=f"encryption in transit: set {OVERRIDE} to true"):
            made.run(work.seen)
        with pytest.raises(RuntimeError, match="encryption in transit"):
            made._train_on_dataframe(work.seen, spark.range(1))

    def test_encryption_is_required_and_the_user_knows_better(
        self, spark: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        spark.conf.set(SSL, "true")
        spark.conf.set(OVERRIDE, "TRUE")

        assert "0" == TorchDistributor(1, False, False).run(work.seen)["RANK"]
        assert any(OVERRIDE in message for message in caplog.messages)

    def test_what_stays_on_this_machine_needs_no_encryption(self, spark: Any) -> None:
        spark.conf.set(SSL, "true")
        assert "0" == TorchDistributor(1, True, False).run(work.seen)["RANK"]

    def test_a_setting_that_is_neither_true_nor_false(self, spark: Any) -> None:
        spark.conf.set(SSL, "perhaps")
        with pytest.raises(ValueError, match=f"{SSL} must be true or false, not 'perhaps'"):
            TorchDistributor(1, False, False).run(work.seen)

    def test_a_function_on_executors(self, spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
        value = TorchDistributor(2, local_mode=False, use_gpu=True).run(work.seen)
        assert ("0", "2") == (value["RANK"], value["WORLD_SIZE"])
        assert {"0", "1"} >= set(value["CUDA_VISIBLE_DEVICES"].split(","))

        assert "" == TorchDistributor(2, False, False).run(work.seen)["CUDA_VISIBLE_DEVICES"]

    def test_several_gpus_a_task(self, spark: Any) -> None:
        spark.conf.set(TASK_GPUS, "2")
        assert "4" == TorchDistributor(4, local_mode=False, use_gpu=True).run(work.seen)["WORLD_SIZE"]

    def test_a_file_on_executors(self, spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
        assert TorchDistributor(2, local_mode=False, use_gpu=False).run(SCRIPT, "--lr", 1) is None
        assert 2 == capfd.readouterr().out.count('"argv": ["--lr", "1"]')

    def test_more_than_there_is_room_for(self, spark: Any) -> None:
        """The original waits for ten minutes."""
        with pytest.raises(RuntimeError, match="needs 64 slots at once"):
            TorchDistributor(64, local_mode=False, use_gpu=False).run(work.seen)


# --- DataFrames ----------------------------------------------------------------------------------------


def frame(spark: Any, rows: int, partitions: int) -> Any:
    pairs = [(float(n), n % 2) for n in range(rows)]
    return spark.createDataFrame(pairs, "x double, y int").repartition(partitions)


@pytest.mark.spark
@pytest.mark.timeout(300)
class TestDataFrames:
    def test_each_row_reaches_one_rank(self, spark: Any) -> None:
        gathered = TorchDistributor(2, False, False)._train_on_dataframe(work.all_rows, frame(spark, 1000, 2))

        assert [["x", "y"]] * 2 == [names for names, _ in gathered]
        assert [[float(n), n % 2] for n in range(1000)] == sorted(row for _, rows in gathered for row in rows)

    def test_pysparks_own_loader_reads_it(self, spark: Any) -> None:
        data = spark.range(10).selectExpr("cast(id as double) as x").coalesce(1).repartition(1)
        distributor = TorchDistributor(1, False, False)

        got = distributor._train_on_dataframe(work.batches, data, 12, size=4)
        assert [4, 4, 4] == [len(each) for each in got]  # it begins again where rows are too few
        assert set(range(10)) == {int(x) for each in got for x in each}

    @pytest.mark.parametrize("partitions", [1, 3])
    def test_partitions_are_as_many_as_ranks(self, spark: Any, partitions: int) -> None:
        """With too few, the original waits for ever."""
        why = f"the DataFrame has {partitions} partitions?, and the run has 2 tasks"
        with pytest.raises(ValueError, match=why):
            TorchDistributor(2, False, False)._train_on_dataframe(work.seen, frame(spark, 99, partitions))

    @pytest.mark.parametrize(
        ("partitions", "shuffled"), [(9, True), (9, False), (3, False)], ids=["dealt", "many", "few"]
    )
    def test_more_partitions_than_slots_are_told_at_once(
        self, spark: Any, partitions: int, shuffled: bool
    ) -> None:
        """Spark itself would wait for more slots for ten minutes."""
        data = spark.range(90).repartition(partitions) if shuffled else spark.range(0, 90, 1, partitions)
        with pytest.raises(
            ValueError, match=rf"has {partitions} partitions, and the run has 2 tasks .*repartition"
        ):
            TorchDistributor(2, False, False)._train_on_dataframe(work.seen, data)

    def test_partitions_on_which_no_barrier_stage_can_run(self, spark: Any) -> None:
        data = spark.range(0, 90, 1, 4).coalesce(2)
        with pytest.raises(ValueError, match=r"come from coalesce, limit or union.*df\.repartition"):
            TorchDistributor(2, False, False)._train_on_dataframe(work.seen, data)

    def test_no_partition_is_empty(self, spark: Any) -> None:
        """The original hides why by an error of its own."""
        data = spark.createDataFrame([(1.0, 1)], "x double, y int").repartition(2)
        with pytest.raises(ValueError, match=r"partition [01] of the DataFrame is empty"):
            TorchDistributor(2, False, False)._train_on_dataframe(work.seen, data)

    def test_the_data_is_a_dataframe(self, spark: Any) -> None:
        with pytest.raises(ValueError, match="must be a Spark DataFrame, not list"):
            TorchDistributor(2, False, False)._train_on_dataframe(work.seen, [1, 2])

    def test_a_failure_is_the_users(self, spark: Any) -> None:
        with pytest.raises(RuntimeError, match="ValueError: bad rows"):
            TorchDistributor(2, False, False)._train_on_dataframe(
                work.unlucky, frame(spark, 10, 2), "bad rows"
            )

    def test_a_dataframe_whose_rows_cannot_be_computed(self, spark: Any) -> None:
        data = spark.range(10).selectExpr("raise_error('no such rows') as x").repartition(2)
        with pytest.raises(RuntimeError, match="no such rows"):
            TorchDistributor(2, False, False)._train_on_dataframe(work.seen, data)

    def test_rows_that_cannot_be_computed_without_python(self, spark: Any) -> None:
        data = spark.range(0, 10, 1, 2).selectExpr("id / (id - 3) as x")
        with pytest.raises(RuntimeError, match=r"Spark cannot compute the rows: \[DIVIDE_BY_ZERO\]"):
            TorchDistributor(2, False, False)._train_on_dataframe(work.seen, data)

    @pytest.mark.parametrize("dealt", ["before", "after"])
    def test_a_function_of_a_dataframe_that_raises(self, spark: Any, dealt: str) -> None:
        """In a stage of its own, and in that of the agents."""
        from pyspark.sql import functions

        column = functions.udf(lambda number: number // 0, "int")("id")
        rows = spark.range(10)
        data = rows.repartition(2).select(column) if dealt == "before" else rows.select(column).repartition(2)
        with pytest.raises(RuntimeError, match="Spark cannot compute the rows: ZeroDivisionError"):
            TorchDistributor(2, False, False)._train_on_dataframe(work.seen, data)


# --- through a Connect server --------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.timeout(300)
class TestConnect:
    def test_a_function_with_its_output(self, connected: Any, capfd: pytest.CaptureFixture[str]) -> None:
        """The original's client of a server on another machine sees no output."""
        made = TorchDistributor(2, local_mode=False, use_gpu=False)
        assert "value of rank 0" == made.run(work.slower_by_rank, "value")
        assert TorchDistributor(2, False, False).run(SCRIPT, "--lr", 1) is None
        assert 2 == capfd.readouterr().out.count('"argv": ["--lr", "1"]')

    def test_the_gpus_of_a_task(self, connected: Any) -> None:
        assert 2 == TorchDistributor(2, local_mode=False, use_gpu=True).num_tasks
        with pytest.raises(RuntimeError, match="driver"):
            TorchDistributor(1, local_mode=True, use_gpu=True)

    def test_a_dataframe(self, connected: Any) -> None:
        gathered = TorchDistributor(2, False, False)._train_on_dataframe(
            work.all_rows, frame(connected, 100, 2)
        )
        assert [float(n) for n in range(100)] == sorted(row[0] for _, rows in gathered for row in rows)
