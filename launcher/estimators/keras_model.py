"""A trained model of Keras as a transformer of `pyspark.ml`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SpecError
from .keras_models import library_of
from .pickles import dumps
from .predictor import Predictor


class KerasModel(Predictor[Any]):
    """Adds a model's predictions to a DataFrame.

    `KerasEstimator` makes it, and a model that was trained elsewhere can be given. Predictions are computed
    by Spark's tasks, on the GPU of a task that has one. One number a row becomes a double, several become an
    array of floats.

    Args:
        model: the model, of Keras 3 on TensorFlow or of tf_keras.
        prediction: what becomes of a batch of outputs, an array of numpy; by default the output itself.
        inputShape: the shape of a row's features, such as ``[8]``; ``[]`` for a column of numbers. Arrays of
            Spark are flat, and this is what they become.
        featuresCol: the column that the model is given: numbers, arrays or vectors.
        predictionCol: the new column.
        rawPredictionCol: a column for the model's output as vectors; empty for none.
        batchSize: the rows that the model is given at once.

    Raises:
        SpecError: at `transform`, a parameter is missing, or does not fit the DataFrame.
    """

    __module__ = "launcher.estimators"  # the name that saved stages have

    def getModel(self) -> Any:
        """The model.

        Raises:
            SpecError: there is none.
        """
        model = self.value_of("model")
        if not library_of(model):
            raise SpecError(f"{self.uid} needs a model of Keras: model=…, not {model!r:.80}")
        return model

    def _outputs(self, shape: tuple[int, ...], *, floating: bool) -> Any:
        return self.getModel().predict_on_batch(np.zeros(shape, "float32" if floating else "int64"))

    def _worker(self, *, with_raw: bool) -> Callable[[str], Callable[..., Any]]:
        return _loader(dumps((self.getModel(), self.value_of("prediction"))), with_raw=with_raw)


def _loader(pickled: bytes, *, with_raw: bool) -> Callable[[str], Callable[..., Any]]:
    """What loads the model in Spark's workers; sent by value, so complete in itself."""

    def load(device: str) -> Callable[..., Any]:
        import contextlib
        import pickle

        import tensorflow as tf

        place = device.replace("cuda", "GPU")
        gpus = tf.config.list_physical_devices("GPU")
        with contextlib.suppress(RuntimeError):  # an earlier task of this worker has settled the devices
            if place == "cpu":
                tf.config.set_visible_devices([], "GPU")
            for gpu in gpus:  # workers may share one, of which the first would take all memory
                tf.config.experimental.set_memory_growth(gpu, True)
        with tf.device(place):
            model, prediction = pickle.loads(pickled)

        def numbers(values: Any) -> Any:
            made = values.squeeze(1) if values.shape[1:] == (1,) else values
            return made.astype("float64" if made.ndim == 1 else "float32")

        def predict(features: Any) -> Any:
            with tf.device(place):
                output = model.predict_on_batch(features)
            predicted = numbers(output if prediction is None else prediction(output))
            return {"prediction": predicted, "raw": numbers(output)} if with_raw else predicted

        return predict

    return load
