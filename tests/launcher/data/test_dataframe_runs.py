"""DataFrames into ranks on a real cluster: each row once, equal steps, no hang, nothing left."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from launcher.display.waits import awaited_rows_line
from launcher.distributor import Distributor
from launcher.errors import LauncherError, RankFailed, SpecError
from launcher.state import events as ev
from tests.commands import until
from tests.spark_runs import Bench, facts, kill, working

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TARGETS = Path(__file__).parents[2] / "targets" / "frames.py"


def fn(name: str) -> str:
    return f"{TARGETS}:{name}"


def skewed(session: Any, *rows: int) -> Any:
    """A DataFrame with so many rows in each partition, numbered."""
    ends = [sum(rows[: i + 1]) for i in range(len(rows))]
    starts = session.range(0, len(rows), 1, len(rows))

    def expand(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            for part in batch.column(0).to_pylist():
                for start in range(ends[part] - rows[part], ends[part], 1000):
                    ids = range(start, min(start + 1000, ends[part]))
                    yield pa.record_batch({"id": pa.array(ids, pa.int64())})

    return starts.mapInArrow(expand, "id long")


def test_each_row_reaches_one_rank_in_each_epoch(bench: Bench, session: Any) -> None:
    job = bench.distributor(4).start_on_dataframe(
        fn("epochs"), session.range(10_000).repartition(4), 2, batch_size=64, uneven="own"
    )
    found = job.results(timeout=120)

    for epoch in range(2):
        assert list(range(10_000)) == sorted(n for rank in found for n in rank[epoch][1:])
    notes = [note.text for note in facts(job, ev.NoteMade)]
    assert "the DataFrame's 10,000 rows are shared by 4 ranks: 2,500 each" in notes


def test_partitions_become_as_many_as_tasks(bench: Bench, session: Any) -> None:
    for data in (session.range(0, 999, 1, 7), session.range(0, 999, 1, 3).coalesce(1)):
        job = bench.distributor(4).start_on_dataframe(fn("numbers"), data, uneven="pad")

        assert list(range(999)) == sorted(n for rank in job.results(timeout=120) for n in rank)


def test_partitions_as_they_are(bench: Bench, session: Any) -> None:
    with pytest.raises(SpecError, match="has 7 partitions, and the run has 4 tasks"):
        bench.distributor(4).run_on_dataframe(fn("numbers"), session.range(0, 9, 1, 7), repartition=False)


def test_a_task_deals_its_rows_to_its_ranks(bench: Bench, session: Any) -> None:
    distributor = bench.distributor(4, gpus_per_task=2, gpus_per_rank=1)
    data = skewed(session, 1001, 500)
    found = distributor.start_on_dataframe(fn("numbers"), data, uneven="own").results(timeout=120)

    assert [501, 500, 250, 250] == [len(rank) for rank in found]
    assert list(range(1501)) == sorted(n for rank in found for n in rank)


@pytest.mark.parametrize(
    ("policy", "rows"),
    [
        ("drop", (5000, 500)),
        ("drop", (0, 0)),
        ("pad", (5000, 500)),
        ("pad", (0, 4000)),
        ("repeat", (5000, 500)),
        ("repeat", (3000, 0)),
    ],
    ids=str,
)
def test_uneven_and_empty_partitions_neither_hang_nor_lose_rows(
    bench: Bench, session: Any, policy: str, rows: tuple[int, int]
) -> None:
    data = skewed(session, *rows)
    job = bench.distributor(2).start_on_dataframe(fn("together"), data, batch_size=64, uneven=policy)
    found = job.results(timeout=120)
    used = min(rows) if policy == "drop" else max(rows)

    assert [-(-used // 64)] * 2 == [len(batches) for batches in found]
    counts = Counter(n for rank in found for batch in rank for n in batch)
    if policy == "pad":
        assert dict.fromkeys(range(sum(rows)), 1) == counts
    elif policy == "repeat":
        assert counts.keys() == set(range(sum(rows)))
    else:
        assert 2 * used == counts.total() == len(counts)


def test_a_batch_is_used_before_the_last_row_is_computed(bench: Bench, session: Any, tmp_path: Path) -> None:
    marker = tmp_path / "first"

    def slowly(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            for start in range(0, 50_000, 1000):  # Spark passes rows on in batches of 10,000
                deadline = time.monotonic() + 60
                while start == 49_000 and not marker.exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
                assert start < 49_000 or marker.exists(), "nobody has taken a batch"
                yield pa.record_batch({"id": pa.array(range(start, start + 1000), pa.int64())})
            del batch

    data = session.range(0, 2, 1, 2).mapInArrow(slowly, "id long")
    job = bench.distributor(2).start_on_dataframe(fn("first_before_last"), data, os.fspath(marker))

    assert [50_000] * 2 == job.results(timeout=120)


def test_ranks_that_wait_for_rows_say_so(bench: Bench, session: Any, tmp_path: Path) -> None:
    marker = tmp_path / "go"

    def held_back(batches: Any) -> Any:
        deadline = time.monotonic() + 60
        while not marker.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        yield from batches

    data = session.range(0, 20, 1, 2).mapInArrow(held_back, "id long")
    job = bench.distributor(2).start_on_dataframe(fn("numbers"), data)
    said = "2 of 2 ranks wait for rows of the DataFrame"
    until(lambda: awaited_rows_line(job.state) == said, within=60)
    marker.touch()

    assert list(range(20)) == sorted(n for found in job.results(timeout=120) for n in found)
    assert [0, 0] == [wait.rows for wait in facts(job, ev.RowsAwaited) if not wait.over]


def test_a_restarted_gang_reads_the_same_rows_again(bench: Bench, session: Any, tmp_path: Path) -> None:
    computed = session.sparkContext.accumulator(0)

    def counting(batches: Any) -> Any:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    data = session.range(0, 2000, 1, 2).mapInArrow(counting, "id long")
    job = bench.distributor(2, max_restarts=1).start_on_dataframe(
        fn("dies_once"), data, os.fspath(tmp_path / "died"), 5
    )

    assert list(range(2000)) == sorted(n for rank in job.results(timeout=120) for n in rank)
    assert [1] == [restart.attempt for restart in facts(job, ev.GangRestarted)]
    assert 2000 == computed.value, "the rows were computed once"


def test_a_restart_after_a_lost_executor_computes_the_rows_again(bench: Bench, session: Any) -> None:
    job = bench.distributor(2, max_restarts=1).start_on_dataframe(fn("waits"), session.range(0, 100, 1, 2))
    working(job, 2)
    kill(bench.executor_of(job, 0))
    until(lambda: job.done or (job.state.attempt == 1 and all(r.entered for r in job.state.ranks)), within=90)
    job.stop(reason="seen", exit_code=130)

    assert 1 == job.wait(60).attempt


@pytest.mark.parametrize("after", [0, 2500])
def test_rows_that_cannot_be_computed(bench: Bench, session: Any, after: int) -> None:
    def failing(batches: Any) -> Any:
        import pyarrow as pa

        for _ in batches:
            for start in range(0, 5000, 500):
                if start >= after:
                    raise ValueError(f"row {start} is spoiled")
                yield pa.record_batch({"id": pa.array(range(start, start + 500), pa.int64())})

    data = session.range(0, 2, 1, 2).mapInArrow(failing, "id long")
    job = bench.distributor(2, max_restarts=1).start_on_dataframe(fn("numbers"), data)

    with pytest.raises(
        LauncherError, match=rf"Spark cannot compute the rows: ValueError: row {after} is spoiled"
    ):
        job.result(timeout=120)


def test_rows_that_java_cannot_compute(bench: Bench, session: Any) -> None:
    data = session.range(0, 100_000, 1, 2).selectExpr("id div (id - 70000) as id")

    with pytest.raises(LauncherError, match=r"Spark cannot compute the rows: \[DIVIDE_BY_ZERO\]"):
        bench.distributor(2).start_on_dataframe(fn("numbers"), data).result(timeout=120)


def test_a_failing_rank_ends_the_run_while_rows_still_come(bench: Bench, session: Any) -> None:
    def endless(batches: Any) -> Any:
        import pyarrow as pa

        for _ in batches:
            while True:
                yield pa.record_batch({"id": pa.array(range(100), pa.int64())})

    data = session.range(0, 2, 1, 2).mapInArrow(endless, "id long")
    with pytest.raises(RankFailed, match="there is no column 'y'"):
        bench.distributor(2).start_on_dataframe(fn("wrong_column"), data).result(timeout=120)
    assert [10] * 2 == bench.distributor(2).start_on_dataframe(fn("takes_one"), data).results(timeout=120)


def test_kinds_of_columns(bench: Bench, session: Any) -> None:
    from pyspark.ml.feature import VectorAssembler

    plain = session.range(0, 8, 1, 2).selectExpr(
        "id", "cast(id as float) as f", "cast(id as string) as s", "array(f, f) as pair",
        "current_timestamp() as t", "current_date() as d", "id % 2 = 0 as even",
    )  # fmt: skip
    data = VectorAssembler(inputCols=["id", "f"], outputCol="v").transform(plain)
    found = bench.distributor(2).start_on_dataframe(fn("kinds"), data).results(timeout=120)

    expected = {
        "id": "torch.int64 ()",
        "f": "torch.float32 ()",
        "s": "str",
        "pair": "torch.float32 (2,)",
        "t": "torch.int64 ()",
        "d": "torch.int64 ()",
        "even": "torch.bool ()",
        "v": "torch.float64 (2,)",
    }
    assert [expected] * 2 == found


def test_ranks_need_nothing_of_spark(bench: Bench, session: Any) -> None:
    job = bench.distributor(2).start_on_dataframe(fn("prints_modules"), session.range(0, 9, 1, 2))

    assert [[], []] == job.results(timeout=120)


def test_only_the_columns_that_are_wanted_travel(bench: Bench, session: Any) -> None:
    data = session.range(0, 9, 1, 2).selectExpr("id", "raise_error('not wanted') as bad", "id as `a.b`")
    job = bench.distributor(2).start_on_dataframe(
        fn("numbers"), data, columns={"id": "id", "m": ["a.b"]}, uneven="own"
    )

    assert list(range(9)) == sorted(n for rank in job.results(timeout=120) for n in rank)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"columns": ["y"]}, "there is no column 'y'; there are id"),
        ({"batch_size": 0}, "batch_size is a number of rows, not 0"),
        ({"uneven": "cut"}, "uneven must be one of drop, pad, repeat, own, not 'cut'"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(session: Any, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        Distributor(2, "cluster").start_on_dataframe(fn("numbers"), session.range(9), **wrong)


def test_local_ranks_have_no_tasks_of_spark(session: Any) -> None:
    with pytest.raises(SpecError, match=r"local ranks have none.*mode=\"cluster\""):
        Distributor(2).run_on_dataframe(fn("numbers"), session.range(9))
    with pytest.raises(SpecError, match="must be a DataFrame of Spark, not list"):
        Distributor(2, "cluster").run_on_dataframe(fn("numbers"), [1, 2])


# --- through a Connect server --------------------------------------------------------------------------


@pytest.mark.parametrize("repartition", [None, False])
def test_rows_through_a_connect_server(connected: Any, repartition: bool | None) -> None:
    data = connected.range(0, 1001, 1, 2).selectExpr("id", "cast(id as float) as x")
    job = Distributor(2, "connect").start_on_dataframe(
        fn("epochs"), data, 2, batch_size=64, uneven="pad", columns={"id": "id"}, repartition=repartition
    )
    found = job.results(timeout=120)

    assert [[8, 8], [8, 8]] == [[rank[epoch][0] for rank in found] for epoch in range(2)]
    assert [1002] * 2 == [sum(len(rank[epoch]) - 1 for rank in found) for epoch in range(2)]
