"""A table of vectors through a model of Keras.

rankdeck predict launcher/examples/predict_keras.py:load --input vectors.parquet --output scored \
    --columns vector --shape vector=64 --returns "array<float>" --param model=/models/net.keras

`model` is what ``model.save(…)`` wrote, on storage that executors read too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def load(device: str, model: str) -> Callable[..., Any]:
    """The model on a device, such as ``cuda:1`` or ``cpu``; called once in each worker."""
    import keras
    import tensorflow as tf

    place = device.replace("cuda", "GPU")
    with tf.device(place):
        loaded = keras.saving.load_model(model, compile=False)

    def predict(vectors: Any) -> Any:
        """The outputs for a batch."""
        with tf.device(place):
            return loaded(vectors, training=False).numpy()

    return predict
