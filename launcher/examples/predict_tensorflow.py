"""A table of vectors through a SavedModel of TensorFlow.

rankdeck predict launcher/examples/predict_tensorflow.py:load --input vectors.parquet --output scored \
    --columns vector --shape vector=64 --returns "array<float>" --param folder=/models/net

`folder` is what ``tf.saved_model.save(…)`` or ``model.export(…)`` wrote, on storage that executors read too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def load(device: str, folder: str, signature: str = "serving_default") -> Callable[..., Any]:
    """A signature of the model on a device, such as ``cuda:1`` or ``cpu``; called once in each worker."""
    import tensorflow as tf

    place = device.replace("cuda", "GPU")
    with tf.device(place):
        call = tf.saved_model.load(folder).signatures[signature]
    (given,) = call.structured_input_signature[1].values()

    def predict(vectors: Any) -> Any:
        """The only output for a batch."""
        with tf.device(place):
            (output,) = call(**{given.name: tf.constant(vectors, given.dtype)}).values()
        return output.numpy()

    return predict
