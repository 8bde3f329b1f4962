"""The training of `spirals_tensorflow` in one process, by hand: whole batches, no strategy, no shares.

Usage: EPOCHS BATCH_SIZE. It prints the metrics on all test points, in JSON.
"""

import json
import sys

import tensorflow as tf

from launcher.examples.spirals_tensorflow import Model, spirals

LR = 0.1


def main(epochs: int, batch_size: int) -> None:
    points, labels = spirals(1024, seed=1)
    model = Model(LR)
    for epoch in range(epochs):
        order = tf.random.experimental.stateless_shuffle(tf.range(len(points)), seed=(epoch, 0))
        for batch in tf.reshape(order, (-1, batch_size)):
            with tf.GradientTape() as tape:
                loss = model.loss(tf.gather(points, batch), tf.gather(labels, batch))
            gradients = tape.gradient(loss, model.weights)
            for weight, speed, gradient in zip(model.weights, model.speeds, gradients, strict=True):
                speed.assign(0.9 * speed + gradient)
                weight.assign_sub(LR * speed)
    print(json.dumps(model.evaluate(*spirals(512, seed=2))))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
