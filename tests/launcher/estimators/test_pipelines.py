"""Pipelines of pyspark.ml whose last stage rankdeck trains, on a real cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from launcher.errors import RankFailed, SpecError
from launcher.estimators import TorchEstimator, TorchModel
from launcher.runs.index import indexed_runs
from tests.targets import nets

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]  # the search starts torch in nine runs

ON_CPU = {"gpu": False}
LOADS = """
import sys
from pyspark.ml import PipelineModel
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").getOrCreate()
frame = spark.read.parquet(sys.argv[2])
rows = PipelineModel.load(sys.argv[1]).transform(frame).orderBy("id").collect()
print(",".join(row.prediction.hex() for row in rows))
"""


def points(session: Any, rows: int = 600) -> Any:
    """Rows of two numbers, and a label that is a function of them."""
    frame = session.range(0, rows, 1, 3).selectExpr("id", "rand(1) as a", "rand(2) as b")
    return frame.selectExpr("*", "2 * a - b as label", "double(a > b) as class", "array(a, b) as both")


def modes(home: Path) -> list[str]:
    """Those of all runs."""
    return [run.mode for run in indexed_runs(home / "runs")]


def estimator(**given: Any) -> TorchEstimator:
    options: dict[str, Any] = {"model": nets.make_two, "loss": torch.nn.functional.mse_loss, "batchSize": 50}
    return TorchEstimator(launchOptions=ON_CPU, **options | {"numTrainWorkers": 2} | given)


# pyspark's search does not close the pool of threads that it makes
@pytest.mark.filterwarnings("ignore:.*Pool.__del__:pytest.PytestUnraisableExceptionWarning")
def test_a_pipeline_is_searched_saved_and_loaded_elsewhere(
    session: Any, mark: str, home: Path, tmp_path: Path
) -> None:
    from pyspark.ml import Pipeline
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.feature import StandardScaler, VectorAssembler
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

    data = points(session).coalesce(1).cache()  # so that one worker starts torch to predict, and not four
    last = estimator(featuresCol="scaled", numTrainWorkers=1)
    assembler = VectorAssembler(inputCols=["a", "b"], outputCol="features")
    pipeline = Pipeline(stages=[assembler, StandardScaler(inputCol="features", outputCol="scaled"), last])
    grid = ParamGridBuilder().addGrid(last.learningRate, [1e-5, 0.02]).addGrid(last.epochs, [1, 8]).build()
    search = CrossValidator(
        estimator=pipeline, estimatorParamMaps=grid, evaluator=RegressionEvaluator(), numFolds=2
    )

    best: Any = search.fit(data)
    assert {last.learningRate: 0.02, last.epochs: 8} == grid[min(range(4), key=best.avgMetrics.__getitem__)]
    assert ["cluster"] * 9 == modes(home)

    found = best.bestModel
    found.save(str(tmp_path / "best"))
    data.write.parquet(str(tmp_path / "data"))
    here = found.transform(session.read.parquet(str(tmp_path / "data"))).orderBy("id").collect()
    words = [sys.executable, "-c", LOADS, str(tmp_path / "best"), str(tmp_path / "data")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert [row.prediction.hex() for row in here] == done.stdout.strip().split(","), done.stderr


def test_scores_and_classes_for_evaluators(session: Any, mark: str, tmp_path: Path) -> None:
    from pyspark.ml.evaluation import BinaryClassificationEvaluator, MulticlassClassificationEvaluator

    stage = estimator(
        model=nets.TwoLayers(2, outputs=2),
        loss=nets.cross_entropy,
        prediction=nets.largest,
        epochs=20,
        learningRate=0.02,
        featuresCol="both",
        labelCol="class",
        predictionCol="found",
        rawPredictionCol="scores",
    )
    stage.save(str(tmp_path / "stage"))
    model = TorchEstimator.load(str(tmp_path / "stage")).fit(points(session))
    found = model.transform(points(session))

    binary = BinaryClassificationEvaluator(labelCol="class", rawPredictionCol="scores")
    several = MulticlassClassificationEvaluator(labelCol="class", predictionCol="found")
    assert binary.evaluate(found) > 0.9
    assert several.evaluate(found) > 0.9
    assert {0.0, 1.0} == {row.found for row in found.select("found").distinct().collect()}

    model.save(str(tmp_path / "model"))
    with pytest.raises(SpecError, match=r"holds a launcher\.estimators\.TorchModel, not a .*TorchEstimator"):
        TorchEstimator.load(str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("given", "rows", "why"),
    [
        ({"learningRate": 1e30, "epochs": 9}, 600, "the loss is (nan|inf) after epoch .* of 1e\\+30"),
        ({}, 0, "the DataFrame has no rows to learn from"),
    ],
)
def test_a_training_that_cannot_succeed_says_why(
    session: Any, mark: str, given: dict[str, Any], rows: int, why: str
) -> None:
    with pytest.raises(RankFailed, match=why):
        estimator(featuresCol="both", optimizer=torch.optim.SGD, **given).fit(points(session, rows))


def test_a_module_that_was_trained_elsewhere(session: Any) -> None:
    frame = points(session, 6)
    model = TorchModel(model=nets.TwoLayers(1), featuresCol="a", batchSize=4, inputShape=[1])
    wide = TorchModel(model=torch.nn.Linear(2, 3), featuresCol="both", inputShape=[2])

    with pytest.raises(SpecError, match="the model fails on rows of zeros of shape \\[\\]"):
        model.transform(frame)
    assert [3] * 6 == [len(row.prediction) for row in wide.transform(frame).collect()]
    with pytest.raises(SpecError, match="column 'both' has arrays, and their shape is not known"):
        TorchModel(model=torch.nn.Linear(2, 3), featuresCol="both").transform(frame)
    with pytest.raises(SpecError, match="the DataFrame has no column 'features'; it has id, a, b"):
        TorchModel(model=torch.nn.Linear(2, 3)).transform(frame)
    with pytest.raises(SpecError, match="already has a column 'b'"):
        wide.copy({wide.predictionCol: "b"}).transform(frame)


def test_rows_that_the_module_cannot_have(session: Any) -> None:
    from pyspark.errors import PythonException

    frame = points(session, 8).coalesce(1).selectExpr("if(id = 5, double('nan'), a) as a", "b")
    model = TorchModel(
        model=torch.nn.Linear(2, 1),
        prediction=nets.refuses_large,
        inputShape=[2],
        featuresCol="both",
        batchSize=3,
    )
    with pytest.raises(PythonException, match="rows 3 to 5 of partition 0: ValueError: not a number"):
        model.transform(frame.selectExpr("array(a, b) as both")).collect()


def test_through_a_connect_server(connected: Any, mark: str, home: Path, tmp_path: Path) -> None:
    data = points(connected)
    model = estimator(featuresCol="both", epochs=2).fit(data)
    model.save(str(tmp_path / "model"))
    again = TorchModel.load(str(tmp_path / "model"))

    assert ["connect"] == modes(home)
    assert model.transform(data).collect() == again.transform(data).collect()
