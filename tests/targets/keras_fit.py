"""A model of Keras under MultiWorkerMirroredStrategy. Its ranks publish the losses of two epochs."""

import numpy as np
import tensorflow as tf

import launcher


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(loss="mse", optimizer="sgd")
    points = np.arange(64, dtype="float32").reshape(32, 2) / 64
    data = tf.data.Dataset.from_tensor_slices((points, points.sum(1) / 2)).batch(8)
    losses = model.fit(data, epochs=2, verbose=0).history["loss"]
    launcher.publish({"losses": losses, "workers": strategy.num_replicas_in_sync})


if __name__ == "__main__":
    main()
