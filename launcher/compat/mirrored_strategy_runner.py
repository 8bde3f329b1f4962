"""`spark_tensorflow_distributor.MirroredStrategyRunner` (1.0) as runs of rankdeck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..distributor import Distributor
from ..spec.request import Request
from .originals import TASK_GPUS, CallersSpark, attended, driver_gpus, originals_errors, whole_number
from .wrapping import WithNames, wraps

_GPU = "gpu"
_SSL_OVERRIDE = "tensorflow.spark.distributor.ignoreSsl"


class MirroredStrategyRunner:
    """Training with TensorFlow's mirrored variables from a Spark driver.

    Args:
        num_slots: the GPUs that train together, or the ranks without GPUs. A rank has as many GPUs as one
            Spark task, and all GPUs in local mode.
        local_mode: whether one rank trains on this machine, which needs no Spark session; else ranks train on
            the executors of the active session.
        use_gpu: whether to train on GPUs; else ranks see none.
        gpu_resource_name: Spark's name for GPUs, of which rankdeck serves ``"gpu"``.
        use_custom_strategy: whether the function makes a strategy of its own; else it is called in the scope
            of a `tf.distribute.MultiWorkerMirroredStrategy`.

    Raises:
        ValueError: an argument is not allowed, or does not fit Spark's configuration.
        RuntimeError: there is no active Spark session, or it assigns no GPUs.
    """

    def __init__(
        self,
        *,
        num_slots: int,
        local_mode: bool = False,
        use_gpu: bool = True,
        gpu_resource_name: str = _GPU,
        use_custom_strategy: bool = False,
    ) -> None:
        self._num_slots = whole_number(num_slots, "num_slots", least=1)
        if use_gpu and gpu_resource_name != _GPU:
            why = f"rankdeck's ranks get GPUs by the name {_GPU!r}"
            raise ValueError(f"gpu_resource_name {gpu_resource_name!r:.80} is not served: {why}")
        if local_mode and not use_gpu and num_slots > 1:
            raise ValueError(f"without GPUs, local mode has one slot, not {num_slots}: num_slots=1")
        self._local_mode, self._use_gpu = local_mode, use_gpu
        self._use_custom_strategy = use_custom_strategy
        self._spark = CallersSpark.find() if local_mode else CallersSpark.require(type(self).__name__)
        self._num_tasks = None if local_mode else self.get_num_tasks()

    def get_num_tasks(self) -> int:
        """How many Spark tasks train together, of which each has one rank.

        Raises:
            ValueError: the GPUs of tasks cannot add up to `num_slots`.
            RuntimeError: the session assigns no GPUs to tasks.
        """
        if not self._use_gpu:
            return self._num_slots
        each = self._callers_spark.task_gpus()
        tasks, rest = divmod(self._num_slots, each)
        if rest and tasks:
            raise ValueError(
                f"num_slots must be a multiple of {each}, the GPUs of a Spark task ({TASK_GPUS}), not"
                f" {self._num_slots}: take {tasks * each} or {(tasks + 1) * each}"
            )
        return max(1, tasks)

    def run(self, train_fn: Callable[..., Any], **kwargs: Any) -> Any:
        """Call ``train_fn(**kwargs)`` in every rank, and return rank 0's value.

        Raises:
            ValueError: this machine has too few GPUs, or the arguments do not fit the function.
            RuntimeError: Spark requires encryption, or training failed; the text then has the user's
                traceback, and the cause is `RankFailed`.
        """
        if not self._local_mode:
            self._callers_spark.check_encryption(_SSL_OVERRIDE, type(self).__name__)
        target = WithNames(train_fn if self._use_custom_strategy else _under_strategy(train_fn))
        make = self._local_request if self._local_mode else self._cluster_request
        with originals_errors():
            return attended(make(target, kwargs))

    @property
    def _callers_spark(self) -> CallersSpark:
        assert self._spark is not None
        return self._spark

    def _cluster_request(self, target: Callable[..., Any], kwargs: dict[str, Any]) -> Request:
        tasks = self.get_num_tasks()
        made = Distributor(
            tasks,
            "cluster",
            spark=self._callers_spark.session,
            gpu=self._use_gpu,
            gpus_per_rank=self._num_slots // tasks if self._use_gpu else 1,
            framework="tensorflow",
        )
        return made.request(target, **kwargs)

    def _local_request(self, target: Callable[..., Any], kwargs: dict[str, Any]) -> Request:
        """The request of one rank here, with all the GPUs.

        Raises:
            ValueError: there are too few.
        """
        found = driver_gpus(self._spark) if self._use_gpu else None
        if found is not None and found.count < self._num_slots:
            why = f": {found.reason}" if found.reason else ""
            raise ValueError(
                f"num_slots is {self._num_slots}, and {found.count} GPUs are available here{why}"
            )
        made = Distributor(
            1,
            "local",
            gpu=self._use_gpu,
            gpus_per_rank=self._num_slots if self._use_gpu else 1,
            framework="tensorflow",
        )
        return replace(made.request(target, **kwargs), gpus=None if found is None else found.granted)


def _under_strategy(train_fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function within the scope of a strategy over all ranks."""

    @wraps(train_fn)
    def training(*args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf  # in ranks alone

        with tf.distribute.MultiWorkerMirroredStrategy().scope():
            return train_fn(*args, **kwargs)

    return training
