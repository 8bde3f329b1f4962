"""What ranks of a `HorovodRunner` say to its caller: `log_to_driver`, and Keras' `LogCallback` (sparkdl 2.3).

Ranks load this module, so it needs nothing but the agent's. Whoever makes a callback imports TensorFlow.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping
from typing import Any

from ..agent.report import log_message

_KERAS = (("tf_keras", "tf_keras"), ("tensorflow", "tensorflow.keras"), ("keras", "keras"))
"""A package that may be loaded, and the Keras that its user means then: the first one counts."""


def log_to_driver(message: object) -> None:
    """Print a message in this rank, and on the standard output of whoever started the run.

    The caller sees at most 4,000 characters of it, the last of which is "…" if there were more; the rank's
    own output has all of it. What is no text is converted. Outside a run, and in a process that a rank has
    forked, it is printed only.
    """
    text = str(message)
    _print(text)
    log_message(text)


def _print(text: str) -> None:
    """Print a line at once, in one piece; what the stream's encoding does not have is escaped."""
    stream = sys.stdout
    if stream is None:
        return
    try:
        stream.write(f"{text}\n")
    except UnicodeEncodeError as error:
        stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding) + "\n")
    stream.flush()


class LogCallback:
    """A Keras callback that tells the caller of each epoch's begin and end, by `log_to_driver`.

    It is made as a subclass of the `keras.callbacks.Callback` that the program uses: that of `tf_keras` if
    the program has imported that, else that of `tensorflow.keras`.

    Args:
        per_batch_log: whether it tells of each batch too. Keras then waits for every batch's figures.

    Raises:
        ImportError: there is no Keras here.
    """

    params: Mapping[str, Any]

    def __new__(cls, *_: Any, **__: Any) -> LogCallback:
        """Make one of a class that is Keras' too."""
        kind: Any = cls  # which type checkers do not take for hashable
        made: LogCallback = super().__new__(_with_base(kind, _callback_class()))
        return made

    def __init__(self, per_batch_log: bool = False) -> None:
        super().__init__()
        self._epoch, self._since = 0, 0.0
        if per_batch_log:  # Keras looks for these on the object, and is faster where there are none
            self.on_train_batch_end = self._tell_of_batch

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Tell that an epoch begins; Keras counts from 0, and people from 1."""
        del logs
        self._epoch, self._since = epoch, time.monotonic()
        log_to_driver(f"{self._where()} begins")

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Tell that an epoch has ended, how long it took, and its figures."""
        self._epoch = epoch
        took = f"{self._where()} took {time.monotonic() - self._since:.1f} s"
        log_to_driver(": ".join([took, *_figures(logs)]))

    def _tell_of_batch(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        log_to_driver(
            ": ".join([f"{self._where()}, {self._place('batch', batch, 'steps')}", *_figures(logs)])
        )

    def _where(self) -> str:
        return self._place("epoch", self._epoch, "epochs")

    def _place(self, noun: str, number: int, total: str) -> str:
        """Such as ``epoch 2 of 5``; a data set of unknown length has no total."""
        of = (getattr(self, "params", None) or {}).get(total)
        return f"{noun} {number + 1}{f' of {of}' if of else ''}"


def _figures(logs: Mapping[str, Any] | None) -> list[str]:
    """The figures of an epoch or a batch as one text; none if there are none."""
    return [", ".join(f"{name} {_number(value)}" for name, value in logs.items())] if logs else []


def _number(value: Any) -> str:
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):  # a metric of several numbers
        return str(value)


def _callback_class() -> type:
    """`keras.callbacks.Callback` of the Keras that the program uses.

    Raises:
        ImportError: there is none.
    """
    used = next((keras for package, keras in _KERAS if package in sys.modules), "tensorflow.keras")
    if used == "tensorflow.keras":
        import tensorflow as tf

        found: type = tf.keras.callbacks.Callback
    else:
        found = sys.modules[used].callbacks.Callback
    return found


@functools.cache
def _with_base(kind: Any, base: type) -> Any:
    """A subclass of both; the class itself if it is Keras' already."""
    if issubclass(kind, base):
        return kind
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind, base), names)
