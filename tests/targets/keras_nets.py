"""Models of a user in Keras, in a file that only the driver has."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


class Doubled(layers.Layer):
    """Twice its input."""

    def call(self, rows: Any) -> Any:
        return 2 * rows


def clipped(rows: Any) -> Any:
    return keras.ops.clip(rows, 0.0, 5.0)


def make_two() -> keras.Model:
    """A model that learns from its first rows how many numbers they have."""
    return keras.Sequential([layers.Dense(8, activation=clipped), Doubled(), layers.Dense(1)])


def cross_entropy(label: Any, scores: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(label, scores, from_logits=True)


def make_classifier() -> keras.Model:
    given = keras.Input((2,))
    model = keras.Model(given, layers.Dense(2)(layers.Dense(8, "relu")(given)))
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss=cross_entropy)
    return model


def largest(scores: Any) -> Any:
    return scores.argmax(1)
