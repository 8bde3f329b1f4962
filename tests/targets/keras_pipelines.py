"""Stages of Keras in pipelines of pyspark.ml, in an interpreter with TensorFlow and without PyTorch.

python keras_pipelines.py WHAT FOLDER
"""

from __future__ import annotations

import runpy
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import keras
import keras_nets  # type: ignore[import-not-found]  # a file beside this one, as a user's is
import numpy as np
import tf_keras
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator, RegressionEvaluator
from pyspark.ml.feature import StandardScaler, VectorAssembler
from pyspark.sql import SparkSession

from launcher.errors import RankFailed, SpecError
from launcher.estimators import KerasEstimator, KerasModel

warnings.simplefilter("ignore")  # pyspark's, on the newest pandas


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def points(rows: int = 600) -> Any:
    """Rows of two numbers, and a label that is a function of them."""
    frame = session().range(0, rows, 1, 1).selectExpr("id", "rand(1) as a", "rand(2) as b")
    return frame.selectExpr("*", "2 * a - b as label", "double(a > b) as class", "array(a, b) as both")


def predictions(model: Any, frame: Any) -> list[str]:
    return [row.prediction.hex() for row in model.transform(frame).orderBy("id").collect()]


def numbers(model: Any, frame: Any) -> Any:
    return np.array([float.fromhex(each) for each in predictions(model, frame)])


def pipeline(folder: str) -> None:
    """A pipeline of three stages, trained by two ranks, and saved with the caller's own layers."""
    data = points().cache()
    estimator = KerasEstimator(
        model=keras_nets.make_two,
        loss="mse",
        featuresCol="scaled",
        batchSize=50,
        epochs=40,
        learningRate=0.02,
        numTrainWorkers=2,
    )
    assembler = VectorAssembler(inputCols=["a", "b"], outputCol="features")
    scaler = StandardScaler(inputCol="features", outputCol="scaled")
    estimator.save(f"{folder}/estimator")
    last = KerasEstimator.load(f"{folder}/estimator")
    model = Pipeline(stages=[assembler, scaler, last]).fit(data)
    found = model.transform(data)
    assert RegressionEvaluator().evaluate(found) < 0.2

    model.save(f"{folder}/model")
    data.write.parquet(f"{folder}/data")
    print(",".join(predictions(model, session().read.parquet(f"{folder}/data"))))


def load(folder: str) -> None:
    """The predictions of the model that was saved."""
    data = session().read.parquet(f"{folder}/data")
    print(",".join(predictions(PipelineModel.load(f"{folder}/model"), data)))


def classes(folder: str) -> None:
    """Classes and scores, of a compiled model, whose loss and optimizer are used, also once it was saved."""
    estimator = KerasEstimator(
        model=keras_nets.make_classifier(),
        prediction=keras_nets.largest,
        epochs=10,
        batchSize=50,
        featuresCol="both",
        labelCol="class",
        rawPredictionCol="scores",
    )
    data = points()
    estimator.save(f"{folder}/estimator")
    found = KerasEstimator.load(f"{folder}/estimator").fit(data).transform(data).cache()
    evaluator = BinaryClassificationEvaluator(labelCol="class", rawPredictionCol="scores")
    assert evaluator.evaluate(found) > 0.9
    assert {row.prediction for row in found.select("prediction").distinct().collect()} == {0.0, 1.0}


def documented(folder: str) -> None:
    """The stage of the manual, whose code a file has, learns something."""
    stage = runpy.run_path(f"{folder}/documented.py")["stage"]
    data = points()
    changed = {stage.featuresCol: "both", stage.batchSize: 10, stage.learningRate: 0.02}
    model = stage.copy(changed).fit(data)
    assert RegressionEvaluator().evaluate(model.transform(data)) < 0.6


def ranks(folder: str) -> None:
    """Two ranks of tf_keras learn what one does, and so do moving averages."""
    tf_keras.utils.set_random_seed(1)  # some weights let batch normalisation tell shares of 300 rows from all
    layers = tf_keras.layers
    regularizer = tf_keras.regularizers.L2(0.01)
    model = tf_keras.Sequential(
        [
            layers.Dense(8, "tanh"),
            layers.BatchNormalization(),
            layers.Dense(1, kernel_regularizer=regularizer),
        ]
    )
    model.build((None, 2))
    data = points(601).cache()
    estimator = KerasEstimator(
        model=model,
        loss="mse",
        optimizer=tf_keras.optimizers.SGD(0.5, momentum=0.9),
        learningRate=0.05,
        epochs=20,
        batchSize=1000,
        featuresCol="both",
    )
    estimator.save(f"{folder}/estimator")
    again = KerasEstimator.load(f"{folder}/estimator")
    found = [numbers(again.copy({again.numTrainWorkers: count}).fit(data), data) for count in (1, 2)]
    before = numbers(KerasModel(model=model, featuresCol="both", inputShape=[2]), data)
    assert np.abs(found[0] - found[1]).max() < 0.01, found
    assert np.abs(found[0] - before).max() > 0.1, found


def refusals(folder: str) -> None:
    """What cannot be trained or predicted says why."""
    net = keras_nets.make_two
    unsaved = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    unsaved.get_config = lambda: {"lock": threading.Lock()}
    given: Any
    for given, why in (
        ({}, "needs model=…, not None"),
        ({"model": net()}, "needs loss=…, or a compiled model"),
        ({"model": net, "loss": "mse", "epochs": 0}, "epochs is a number of epochs, not 0"),
        (
            {"model": net, "loss": "mse", "optimizer": 3},
            "optimizer is a name, an optimizer or what makes one",
        ),
        ({"model": unsaved, "loss": "mse"}, "a tuple of Sequential, str, NoneType cannot be pickled: "),
    ):
        refused(lambda given=given: KerasEstimator(**given)._recipe(), SpecError, why)
    frame = points(8)
    for model, given, why in (
        ("net", {"inputShape": [2]}, "needs a model of Keras: model=…, not 'net'"),
        (
            net(),
            {"inputShape": [3, 1]},
            "predictions must be a number or a vector for each row; for 3 rows there is",
        ),
        (keras_nets.make_classifier(), {"inputShape": [3]}, "the model fails on rows of zeros of shape [3]"),
        (net(), {}, "column 'both' has arrays, and their shape is not known"),
    ):
        stage = KerasModel(model=model, featuresCol="both", **given)
        refused(lambda stage=stage: stage.transform(frame), SpecError, why)
    for given, rows, why in (
        ({"loss": None}, 600, "the model that the function makes is not compiled (loss=…)"),
        ({"model": dict}, 600, "model=… makes a dict, which is no model of Keras"),
        ({"learningRate": 1e30, "epochs": 9}, 600, "after epoch"),
        ({}, 0, "the DataFrame has no rows to learn from"),
    ):
        options = {"model": net, "loss": "mse", "optimizer": "sgd", **given}
        estimator = KerasEstimator(featuresCol="both", **options)
        refused(lambda each=estimator, rows=rows: each.fit(points(rows)), RankFailed, why)


def refused(what: Any, error: type[Exception], why: str) -> None:
    said = "nothing"
    try:
        what()
    except error as found:
        said = str(found)
    assert why in said, said


if __name__ == "__main__":
    _, what, where = sys.argv
    {each.__name__: each for each in (pipeline, load, classes, documented, ranks, refusals)}[what](where)
    assert "torch" not in sys.modules
    assert Path(keras_nets.__file__).parent == Path(__file__).parent
