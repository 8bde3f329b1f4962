"""Points on two spirals with TensorFlow's MultiWorkerMirroredStrategy, and a training loop of its own.

rankdeck run launcher/examples/spirals_tensorflow.py -n 2 -- --epochs 20
rankdeck run launcher/examples/spirals_tensorflow.py:train -n 2 --param epochs=20
python launcher/examples/spirals_tensorflow.py

The strategy finds its workers by TF_CONFIG, which every rank has. Without it, there is one worker.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import tensorflow as tf

import launcher

HIDDEN, CLASSES = 32, 2


def train(epochs: int = 30, lr: float = 0.1, batch_size: int = 64) -> dict[str, float]:
    """Train on this worker's share of the points; return the metrics on all test points.

    `batch_size` counts the points of one step over all workers, so their number does not change the result.
    """
    # before any other operation; it waits for all workers
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    workers, worker = strategy.num_replicas_in_sync, strategy.cluster_resolver.task_id or 0
    points, labels = spirals(1024, seed=1)
    with strategy.scope():
        model = Model(lr)

    @tf.function
    def step(images: Any, wanted: Any) -> Any:
        losses = strategy.run(model.step, args=(images, wanted))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    count, total, loss = 0, epochs * (len(points) // batch_size), 0.0
    for epoch in range(epochs):
        order = tf.random.experimental.stateless_shuffle(tf.range(len(points)), seed=(epoch, 0))
        shuffled = tf.gather(points, order), tf.gather(labels, order)
        for batch in _batches(strategy, shuffled, batch_size):
            loss = float(step(*batch))
            count += 1
            launcher.report(step=count, loss=loss, total_steps=total)
        print(f"worker {worker} of {workers}: epoch {epoch + 1} of {epochs}, loss {loss:.4f}", flush=True)
    metrics = model.evaluate(*spirals(512, seed=2))
    if worker == 0:
        print(f"test accuracy {metrics['test_accuracy']:.4f} after {count} steps", flush=True)
    return {"loss": loss, **metrics, "ranks": workers}


def spirals(count: int, seed: int) -> tuple[Any, Any]:
    """Points on two spirals that wind around each other, with some noise, and which of them each is on."""
    labels = tf.range(count) % CLASSES
    along = tf.random.stateless_uniform((count,), seed=(seed, 0))
    angle = 3 * math.pi * along + math.pi * tf.cast(labels, tf.float32)
    line = tf.stack([tf.cos(angle), tf.sin(angle)], axis=1) * along[:, None]
    return line + tf.random.stateless_normal((count, 2), seed=(seed, 1)) * 0.02, labels


class Model(tf.Module):
    """A classifier with one hidden layer, trained by gradient descent with momentum."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        shapes = ((2, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
        self.weights = [tf.Variable(self._start(number, shape)) for number, shape in enumerate(shapes)]
        self.speeds = [tf.Variable(tf.zeros(shape), trainable=False) for shape in shapes]

    @staticmethod
    def _start(number: int, shape: tuple[int, ...]) -> Any:
        if len(shape) == 1:
            return tf.zeros(shape)
        return tf.random.stateless_normal(shape, seed=(number, 7)) * math.sqrt(2 / shape[0])

    def __call__(self, points: Any) -> Any:
        """The logits of points."""
        first, bias, second, more, last, final = self.weights
        hidden = tf.nn.relu(points @ first + bias)
        return tf.nn.relu(hidden @ second + more) @ last + final

    def loss(self, points: Any, labels: Any) -> Any:
        """The mean cross entropy."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(points)))

    def step(self, points: Any, labels: Any) -> Any:
        """One step in one replica, with the mean of all replicas' gradients."""
        with tf.GradientTape() as tape:
            loss = self.loss(points, labels)
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, tape.gradient(loss, self.weights))
        for weight, speed, gradient in zip(self.weights, self.speeds, gradients, strict=True):
            faster = 0.9 * speed + gradient
            speed.assign(faster, read_value=False)
            weight.assign_sub(self.lr * faster, read_value=False)
        return loss

    def evaluate(self, points: Any, labels: Any) -> dict[str, float]:
        """The mean loss, and the share of the points that are classified correctly."""
        right = tf.cast(tf.argmax(self(points), axis=1, output_type=tf.int32) == labels, tf.float32)
        return {
            "test_loss": float(self.loss(points, labels)),
            "test_accuracy": float(tf.reduce_mean(right)),
        }


def _batches(strategy: Any, tensors: tuple[Any, Any], batch_size: int) -> Any:
    """Batches of all points, of which each worker gets its share."""

    def share(context: Any) -> Any:
        own = tf.data.Dataset.from_tensor_slices(tensors)
        own = own.shard(context.num_input_pipelines, context.input_pipeline_id)
        return own.batch(context.get_per_replica_batch_size(batch_size), drop_remainder=True)

    return strategy.distribute_datasets_from_function(share)


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Two spirals with MultiWorkerMirroredStrategy")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=64, help="points of one step, over all workers")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
