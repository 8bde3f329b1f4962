"""Predictions on a real cluster: rows, failures, files that are done, and what is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: TC002  pyspark evaluates the hints
import pytest

from launcher.backends.spark.prediction import worker
from launcher.errors import RankFailed, RunStopped, SpecError
from launcher.inference import predict, start
from launcher.runs.reader import FactTail
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests.commands import LIMIT_S, last, rankdeck, until
from tests.spark_cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("watched")]
NAMES = ("", " ", "[a]", "*", "%20", "{x,y}", "?", "\\", "\n", "ü", "^", "'")
"""Of folders in which files are: Hadoop takes some characters for patterns."""
WATCHER = "from launcher.agent import watcher"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker gets an agent with its first batch."""
    monkeypatch.setattr(worker, "WATCH_AFTER_S", 0.0)


def load(device: str, factor: float = 2.0, pause_s: float = 0.0) -> Callable[..., Any]:
    """A model whose predictions also say on which device it is."""
    import time

    import numpy as np

    on = float(device.rpartition(":")[2]) if ":" in device else -1.0

    def score(a: Any, b: Any) -> Any:
        time.sleep(pause_s)  # so that its agent has something to tell
        return np.stack([factor * a + b, np.full(len(a), on)], axis=1)

    return score


def fragile(_: str) -> Callable[..., Any]:
    def score(a: Any, _: Any) -> Any:
        if (a >= 700).any():
            raise ValueError("too large\nby far")
        return a

    return score


def stopping_at(marker: str) -> Callable[[str], Callable[..., Any]]:
    """Loads a model that fails once a file exists and a row is high enough."""

    def load_it(_: str) -> Callable[..., Any]:
        def score(a: Any) -> Any:
            if os.path.exists(marker) and (a >= 500).any():
                raise RuntimeError("the power is out")
            return a + 1

        return score

    return load_it


def rows(session: Any, count: int = 1000, partitions: int = 4) -> Any:
    """`id`, `a` and `b`."""
    spread = session.range(0, count, 1, partitions)
    return spread.selectExpr("id", "cast(id as double) a", "cast(id % 7 as decimal(4, 1)) b")


def nothing_left(cluster: Cluster) -> None:
    until(lambda: not cluster.processes(WATCHER))


def test_each_row_gets_its_prediction_on_a_gpu_of_its_task(
    session: Any, cluster: Cluster, tmp_path: Path
) -> None:
    output = str(tmp_path / "scored")

    job = start(
        rows(session),
        load,
        output=output,
        columns=["a", "b"],
        returns="array<double>",
        params={"factor": 3.0},
    )
    state = job.succeeded(LIMIT_S)

    scored = session.read.parquet(output)
    assert ["id", "a", "b", "prediction"] == scored.columns
    assert 1000 == scored.count()
    assert 0 == scored.where("prediction[0] != 3 * a + b").count()
    assert {0.0, 1.0} >= {row[0] for row in scored.selectExpr("prediction[1]").distinct().collect()}
    assert (Phase.SUCCEEDED, f"1,000 rows predicted into {output}") == (state.phase, state.why)
    assert 0 < sum(rank.rows for rank in state.ranks) <= 1000
    assert all(rank.pid and rank.devices and rank.host for rank in state.ranks)
    assert 1 <= len({rank.pid for rank in state.ranks}) == len(state.ranks) <= 4
    assert state.num_processes == len(state.ranks)
    nothing_left(cluster)


def test_a_failure_names_its_rows_and_shows_the_users_own_traceback(session: Any, tmp_path: Path) -> None:
    output = tmp_path / "scored"

    with pytest.raises(RankFailed, match=r"rows (0 to 63|192 to 249) of partition [23]: too") as caught:
        predict(rows(session), fragile, output=str(output), columns=["a", "b"], batch_size=64)

    assert "test_predictions.py" in str(caught.value)
    assert "worker.py" not in str(caught.value)
    printed = rankdeck("logs", last().name)
    assert "| ValueError: too large\n" in printed.stdout + printed.stderr
    assert not list(output.glob("*.parquet")), "a part of the rows is there"


def test_an_end_costs_only_the_files_that_were_not_done(session: Any, tmp_path: Path) -> None:
    source, output, marker = str(tmp_path / "in"), str(tmp_path / "out"), tmp_path / "fails"
    for number, low in enumerate(range(0, 1000, 50)):  # 20 files, of which 8 are done at once on 4 cores
        part = rows(session).where(f"id >= {low} and id < {low + 50}").coalesce(1)
        part.write.parquet(f"{source}/{low:04}{NAMES[number % len(NAMES)]}")
    reading: dict[str, Any] = {"input_options": {"recursiveFileLookup": "true"}, "columns": ["a"]}
    function = stopping_at(str(marker))
    marker.touch()

    with pytest.raises(RankFailed, match="the power is out"):
        predict(source, function, output=output, **reading)
    before = session.read.parquet(output)
    assert 400 == before.count()
    written = {path.name: path.stat().st_mtime_ns for path in Path(output).glob("part-*")}
    marker.unlink()

    assert 600 == predict(source, function, output=output, **reading)

    scored = session.read.parquet(output)
    assert 1000 == scored.count() == scored.select("id").distinct().count()
    assert 0 == scored.where("prediction != a + 1").count()
    assert (
        written.items()
        <= {path.name: path.stat().st_mtime_ns for path in Path(output).glob("part-*")}.items()
    )
    assert 0 == predict(source, function, output=output, **reading)
    assert 1000 == session.read.parquet(output).count()
    told = [e for e in FactTail(last()).poll() if isinstance(e, ev.RunEnded)]
    assert f"nothing was left to predict: all of the input is in {output}" == told[-1].why

    rows(session, 50).coalesce(1).write.parquet(f"{source}/new")
    assert 50 == predict(source, function, output=output, **reading)
    with pytest.raises(SpecError, match="holds predictions of another kind"):
        predict(source, function, output=output, returns="float", **reading)
    assert 1050 == predict(source, function, output=output, returns="float", if_exists="overwrite", **reading)
    assert 1050 == session.read.parquet(output).count()


def test_a_unit_that_was_cut_off_while_its_files_were_moved_is_done_again(
    session: Any, tmp_path: Path
) -> None:
    source, output = str(tmp_path / "in"), tmp_path / "out"
    rows(session).repartition(20).write.parquet(source)
    predict(source, load, output=str(output), columns=["a", "b"], returns="array<double>")
    done = sorted((output / "_rankdeck").glob("*.done"))
    done[0].unlink()
    (output / "_rankdeck" / "half").mkdir()
    emptied = done[1].with_suffix("")  # its files were moved, and it was not removed yet
    emptied.mkdir()

    predict(source, load, output=str(output), columns=["a", "b"], returns="array<double>")

    scored = session.read.parquet(str(output))
    assert 1000 == scored.count() == scored.select("id").distinct().count()
    assert done == sorted((output / "_rankdeck").glob("*.done"))
    assert not (output / "_rankdeck" / "half").exists()
    assert not emptied.exists()


def test_a_pandas_udf_of_either_kind(session: Any, tmp_path: Path) -> None:
    from pyspark.sql.pandas import functions

    pandas_udf: Any = functions.pandas_udf

    def plus(a: pd.Series, b: pd.Series) -> pd.Series:
        return a + b.astype(float)

    def halves(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for batch in batches:
            yield batch / 2

    def broken(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for batch in batches:
            yield batch / 0 if batch.max() < 250 else batch.nothing

    frame = rows(session)
    for function, columns, wanted in ((plus, ["a", "b"], "a + b"), (halves, ["a"], "a / 2")):
        output = str(tmp_path / function.__name__)
        assert 1000 == predict(frame, pandas_udf("double")(function), output=output, columns=columns)
        assert 0 == session.read.parquet(output).where(f"prediction != {wanted}").count()
    with pytest.raises(RankFailed, match=r"AttributeError: rows 0 to 249 of partition \d: 'Series' object"):
        predict(frame, pandas_udf("double")(broken), output=str(tmp_path / "x"), columns=["a"])


def test_vectors_arrays_of_a_shape_tables_and_names(session: Any, tmp_path: Path) -> None:
    from pyspark.ml.functions import array_to_vector

    def image(_: str) -> Callable[..., Any]:
        return lambda pixels, vector: pixels.sum(axis=(1, 2)) + vector.sum(axis=1)

    frame = rows(session).selectExpr("array(a, a, a, a) as `a b`", "array(a, 1d) as v", "a")
    frame = frame.withColumn("v", array_to_vector(frame["v"]))
    session.sql("drop table if exists scores")
    try:
        shapes: dict[str, Any] = {"a b": [2, 2], "v": [2]}
        made = predict(frame, image, output="scores", columns=["a b", "v"], shapes=shapes, column="s")
        assert 1000 == made
        assert 0 == session.table("scores").where("s != 5 * a + 1").count()
        with pytest.raises(Exception, match="already exists"):
            predict(frame, image, output="scores", columns=["a b", "v"], shapes=shapes, column="s")
    finally:
        session.sql("drop table if exists scores")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ["c"]}, "the input has no column 'c'; it has id, a, b"),
        ({"column": "a"}, "the input already has a column 'a'"),
        ({"returns": "number"}, "Spark knows no type 'number'"),
        ({"output": "nosuch://host/x"}, "scored cannot|nosuch"),
    ],
)
def test_what_does_not_fit_is_said_before_a_row_is_read(
    options: dict[str, Any], said: str, session: Any, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=said):
        predict(rows(session), load, **{"output": str(tmp_path / "scored"), **options})
    assert not (tmp_path / "scored").exists()


def test_a_stop_ends_the_jobs_and_leaves_no_rows(session: Any, cluster: Cluster, tmp_path: Path) -> None:
    def endless(_: str) -> Callable[..., Any]:
        import time

        def score(a: Any) -> Any:
            time.sleep(0.05)
            return a

        return score

    output = tmp_path / "scored"
    job = start(rows(session, 100_000), endless, output=str(output), columns=["a"], batch_size=10)
    until(lambda: any(rank.rows >= 20 for rank in job.state.ranks))

    job.stop()

    with pytest.raises(RunStopped):
        job.succeeded(LIMIT_S)
    nothing_left(cluster)
    assert not list(output.glob("*.parquet"))


def test_through_a_connect_server_all_rows_or_none(connected: Any, tmp_path: Path) -> None:
    output = tmp_path / "scored"

    assert 1000 == predict(
        rows(connected), load, output=str(output), columns=["a", "b"], returns="array<double>"
    )

    assert 0 == connected.read.parquet(str(output)).where("prediction[0] != 2 * a + b").count()
    with pytest.raises(RankFailed, match=r"rows (0 to 63|192 to 249) of partition [23]: too"):
        predict(rows(connected), fragile, output=str(tmp_path / "x"), columns=["a", "b"], batch_size=64)
    assert not list((tmp_path / "x").glob("*.parquet"))
