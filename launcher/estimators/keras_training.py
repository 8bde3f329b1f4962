"""What ranks of `KerasEstimator` do: a loop of their own, on this rank's rows.

Keras 3 does not `fit` under the strategy by which workers of TensorFlow train together, though its models and
optimizers work in it. This loop does for both Keras 3 and `tf_keras`.
"""

from __future__ import annotations

import importlib
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from ..agent.report import report
from ..data import DataError, partition_batches
from ..errors import SpecError
from .diverging import diverged
from .keras_models import is_optimizer, library_of, make_model


@dataclass(frozen=True, slots=True)
class KerasRecipe:
    """How to train.

    Attributes:
        pickled: the model to begin with or a function that makes it, the loss and the optimizer; None for
            those of a compiled model. A pickle, since they must be made under the strategy.
        learning_rate: what the optimizer is given; None for its own.
        epochs: how often each row is used.
        seed: of the weights that a function makes, and of the order of rows.
    """

    pickled: bytes
    learning_rate: float | None
    epochs: int
    seed: int


class KerasTrained(NamedTuple):
    """What rank 0 returns.

    Attributes:
        weights: the trained model's, in its own order.
        example: a row of features, of zeros: what a model is built by that did not know its input.
    """

    weights: list[Any]
    example: Any


def fit(recipe: KerasRecipe) -> KerasTrained | None:
    """Train on this rank's rows together with all ranks; rank 0 returns the weights.

    Raises:
        DataError: there are no rows.
        SpecError: there is no loss, or no model.
        FloatingPointError: the loss is no finite number any more.
    """
    strategy = _join()
    tf.keras.utils.set_random_seed(recipe.seed)
    with strategy.scope():
        model, loss, optimizer = pickle.loads(recipe.pickled)
        model = make_model(model)
        keras: Any = importlib.import_module(library_of(model))
        optimizer = optimizer or getattr(model, "optimizer", None) or "adam"
        optimizer = _make_optimizer(keras, optimizer, recipe.learning_rate)
    loss = loss or getattr(model, "loss", None)
    if loss is None:
        raise SpecError("the model that the function makes is not compiled", hint="loss=…")
    step = _step(strategy, model, keras.losses.get(loss), optimizer)
    rows = partition_batches(shuffle=True, seed=recipe.seed, dtype=keras.backend.floatx())
    count, example = 0, None
    for epoch in range(recipe.epochs):
        last = tf.zeros(())
        for batch in rows:
            if example is None:
                example = tf.zeros_like(batch.features[:1]).numpy()
                with strategy.scope():
                    model(example)  # makes what weights it does not have
            last = step(batch.features, batch.label)
            count += 1
            if count % 16 == 1:  # a number of the device is waited for
                report(step=count, loss=float(last), epoch=epoch)
        if example is None:
            raise DataError("the DataFrame has no rows to learn from")
        found = float(last)
        if not math.isfinite(found):
            raise FloatingPointError(diverged(found, epoch, float(optimizer.learning_rate)))
        report(step=count, loss=found, epoch=epoch, total_steps=count // (epoch + 1) * recipe.epochs)
    weights = model.get_weights()  # by all ranks together: some are means of what the ranks have
    return None if int(os.environ["RANK"]) else KerasTrained(weights, example)


def _join() -> Any:
    """The strategy of all ranks, after this rank has chosen its device."""
    if gpus := tf.config.list_physical_devices("GPU"):
        tf.config.set_visible_devices(gpus[int(os.environ["LOCAL_RANK"]) % len(gpus)], "GPU")
    if int(os.environ["WORLD_SIZE"]) > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.get_strategy()


def _make_optimizer(keras: Any, optimizer: Any, rate: float | None) -> Any:
    """The optimizer of a name, of what makes one, or itself."""
    if is_optimizer(optimizer):
        if rate is not None:
            optimizer.learning_rate = rate
        return optimizer
    given = {} if rate is None else {"learning_rate": rate}
    if isinstance(optimizer, str):
        return keras.optimizers.get({"class_name": optimizer, "config": given})
    return optimizer(**given)


def _step(strategy: Any, model: Any, loss: Any, optimizer: Any) -> Callable[..., Any]:
    """One step of all ranks, which returns the mean of their losses."""
    # a Loss would divide by the rows of this rank only; its `call` gives a number for each row
    each_row = getattr(loss, "call", loss)
    ranks = strategy.num_replicas_in_sync
    scaled = getattr(optimizer, "scale_loss", lambda loss: loss)  # for numbers of half precision

    def of_this_rank(features: Any, label: Any) -> Any:
        with tf.GradientTape() as tape:
            output = as_labels(model(features, training=True), label)
            found = tf.reduce_mean(each_row(label, output)) + sum(model.losses)
            share = scaled(found / ranks)  # optimizers add up what all ranks have
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(share, weights), weights, strict=True))
        return found

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]  # it has no types
    def step(features: Any, label: Any) -> Any:
        found = strategy.run(of_this_rank, args=(features, label))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, found, axis=None)

    return step  # type: ignore[no-any-return]


def as_labels(output: Any, label: Any) -> Any:
    """The output of one number a row as a vector, as labels are; see `launcher.estimators.torch_training`."""
    one_each = len(label.shape) == 1 and len(output.shape) == 2 and output.shape[1] == 1
    return tf.squeeze(output, 1) if one_each else output
