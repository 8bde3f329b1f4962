"""A user's program for the stand-ins of HorovodRunner, horovod.spark.run and MirroredStrategyRunner.

Usage: SETTINGS PACKAGES CASE NUMBER. SETTINGS are Spark's, in JSON, or null for no session. PACKAGES is a
folder to import from last, in which pyspark and rankdeck's requirements are. CASE is a function of this file,
and NUMBER what it runs on. The last line of the output is its value.
"""

import io
import json
import os
import sys
from typing import Any

sys.path.append(sys.argv[2])

from launcher.compat import HorovodRunner, MirroredStrategyRunner, log_to_driver


def horovod(np: int) -> Any:
    """A function of a notebook, which uses its surroundings and imports its packages itself."""
    epochs = 2

    def train_hvd(learning_rate: float, batch_size: int = 64) -> dict[str, float]:
        import horovod.torch as hvd

        from launcher.examples.digits_horovod import train

        metrics = train(epochs=epochs, lr=learning_rate, batch_size=batch_size)
        hvd.init()
        log_to_driver(f"rank {hvd.rank()} of {hvd.size()}: loss {metrics['loss'] > 0}")
        return metrics

    return HorovodRunner(np=np).run(train_hvd, learning_rate=0.01)


def horovod_all(np: int) -> Any:
    def main() -> None:
        print("a line of", os.environ["HOROVOD_RANK"], flush=True)

    return HorovodRunner(np=np, driver_log_verbosity="all").run(main)


def horovod_fails(np: int) -> Any:
    def main(lr: int) -> None:
        import horovod.torch as hvd

        hvd.init()
        if hvd.rank() == 1:
            raise ValueError(f"lr {lr} is no good")
        hvd.barrier()

    try:
        HorovodRunner(np=np).run(main, lr=3)
    except RuntimeError as error:
        return {"text": str(error), "cause": type(error.__cause__).__name__}
    return None


def horovod_waits(np: int) -> Any:
    def main() -> None:
        import time

        log_to_driver("waits")
        time.sleep(3600)

    try:
        HorovodRunner(np=np).run(main)
    except KeyboardInterrupt:
        return "interrupted"
    return None


def horovod_on_spark(num_proc: int) -> Any:
    from launcher.compat import horovod_on_spark

    def main(base: int, step: int = 1) -> Any:
        import horovod.torch as hvd

        hvd.init()
        print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
        return base + step * hvd.rank()

    out, err = io.StringIO(), io.StringIO()
    values = horovod_on_spark.run(
        main,
        (10,),
        {"step": 2},
        num_proc=num_proc or None,
        stdout=out,
        stderr=err,
        env={"PYTHONWARNINGS": "ignore"},
    )
    return {"values": values, "out": sorted(out.getvalue().splitlines()), "err": err.getvalue()}


def _fit(keras: Any, callbacks: list[Any]) -> Any:
    import numpy as np

    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(loss="mse", optimizer="sgd")
    points = np.arange(64, dtype="float32").reshape(32, 2) / 64
    losses = model.fit(
        points, points.sum(1) / 2, batch_size=8, epochs=2, verbose=0, shuffle=False, callbacks=callbacks
    )
    return losses.history["loss"]


def keras(np: int, package: str = "tensorflow") -> Any:
    def train(per_batch: bool) -> tuple[bool, bool]:
        import importlib

        keras = importlib.import_module(package)
        keras = keras if package == "tf_keras" else keras.keras
        from sparkdl.horovod.tensorflow.keras import LogCallback  # type: ignore[import-not-found]

        callback = LogCallback(per_batch_log=per_batch)
        fit(keras, [callback])
        return isinstance(callback, keras.callbacks.Callback), isinstance(callback, LogCallback)

    fit = _fit
    return [HorovodRunner(np=np).run(train, per_batch=each) for each in (False, True)]


def tf_keras(np: int) -> Any:
    return keras(np, "tf_keras")


def mirrored(num_slots: int, *, custom: bool = False, local: bool = False) -> Any:
    def train(epochs: int) -> Any:
        import tensorflow as tf

        if custom:
            from launcher.examples.spirals_tensorflow import train

            return train(epochs=epochs)
        strategy = tf.distribute.get_strategy()
        variable = tf.Variable(1.0)  # mirrored, without a word of the function about it
        return {
            "kind": type(strategy).__name__,
            "ranks": strategy.num_replicas_in_sync,
            "is": type(variable).__name__,
        }

    runner = MirroredStrategyRunner(
        num_slots=num_slots, use_gpu=False, local_mode=local, use_custom_strategy=custom
    )
    return runner.run(train, epochs=2)


def mirrored_custom(num_slots: int) -> Any:
    return mirrored(num_slots, custom=True)


def mirrored_local(num_slots: int) -> Any:
    return [mirrored(num_slots, local=True), mirrored(num_slots, local=True, custom=True)["ranks"]]


def mirrored_keras(num_slots: int) -> Any:
    def train() -> Any:
        import tf_keras

        return fit(tf_keras, [])

    fit = _fit
    return MirroredStrategyRunner(num_slots=num_slots, use_gpu=False).run(train)


def mirrored_fails(num_slots: int) -> Any:
    def train() -> Any:
        if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
            raise ValueError("no good")

    try:
        MirroredStrategyRunner(num_slots=num_slots, use_gpu=False).run(train)
    except RuntimeError as error:
        return {"text": str(error), "cause": type(error.__cause__).__name__}
    return None


def main() -> None:
    settings = json.loads(sys.argv[1])
    if settings is not None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("a user's program")
        for name, text in settings.items():
            builder = builder.config(name, text)
        builder.getOrCreate()
    value = globals()[sys.argv[3]](int(sys.argv[4]))
    print(json.dumps(value), flush=True)
    if settings is not None:
        SparkSession.active().stop()


if __name__ == "__main__":
    main()
