"""`pyspark.ml.torch.distributor.TorchDistributor` (pyspark 4.3) as runs of rankdeck.

What differs from the original is in the manual's topic on migration. All that it documents is here; of its
private parts, those that pyspark itself or its tests of documented behaviour call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from ..distributor import Distributor, LaunchOptions
from ..spec.request import Data, Request
from .originals import TASK_GPUS, CallersSpark, attended, driver_gpus, originals_errors, whole_number

# Within it, Spark computes the partitions that ranks train on: the original sets no limit.
_DATA_LIMIT_S = 86_400.0


class TorchDistributor:
    """Distributed training on PyTorch from a Spark driver.

    Args:
        num_processes: the number of ranks.
        local_mode: whether they run on the driver's machine; else on the executors of the active session.
        use_gpu: whether each rank has a GPU; else they see none.

    Attributes:
        num_processes, local_mode, use_gpu: as above; `num_processes` is at most the number of the driver's
            GPUs if they are used.
        num_tasks: how many Spark tasks hold the ranks.
        input_params: these four, by name.
        logger: the logger of warnings, named like the class.

    Raises:
        ValueError: `num_processes` is not positive.
        RuntimeError: there is no active Spark session, or its configuration has no GPUs for this.
    """

    _ssl_override = "pytorch.spark.distributor.ignoreSsl"

    def __init__(
        self,
        num_processes: int = 1,
        local_mode: bool = True,
        use_gpu: bool = True,
        _ssl_conf: str = _ssl_override,
    ) -> None:
        self.logger = logging.getLogger(type(self).__name__)
        self.num_processes = whole_number(num_processes, "num_processes")
        self.local_mode, self.use_gpu, self.ssl_conf = local_mode, use_gpu, _ssl_conf
        if self.num_processes <= 0:
            raise ValueError(f"num_processes has to be a positive integer, not {num_processes}")
        self._spark = CallersSpark.find() if local_mode else CallersSpark.require(type(self).__name__)
        self._gpus: tuple[str, ...] | None = None
        self.num_tasks = self._get_num_tasks()
        self.input_params = self._params()

    def run(
        self, /, train_object: Callable[..., Any] | str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> Any:
        """Train, show what ranks print, and return rank 0's value; None for a file.

        Args:
            train_object: a function, or the path of a Python file.
            *args: the function's arguments, or the file's argv.
            **kwargs: the function's keyword arguments.

        Raises:
            ValueError: keyword arguments for a file, or a target that does not exist.
            RuntimeError: training failed; its text has the user's traceback, its cause is `RankFailed`.
        """
        target = train_object if callable(train_object) else _file(train_object, kwargs)
        if not self.local_mode:
            self._check_encryption()
        with originals_errors():
            value = attended(self._request(target, args, kwargs))
        return value if callable(train_object) else None

    def _train_on_dataframe(
        self, train_function: Callable[..., Any], spark_dataframe: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Train on a DataFrame with a partition for each task, and return rank 0's value.

        In a rank, `pyspark.ml.torch.distributor._get_spark_partition_data_loader` reads its partition.

        Raises:
            ValueError: in local mode, or the partitions are too many, too few or empty.
            RuntimeError: training failed.
        """
        if self.local_mode:
            raise ValueError(
                "TorchDistributor.train_on_dataframe requires setting TorchDistributor.local_mode to False."
            )
        if (session := getattr(spark_dataframe, "sparkSession", None)) is None:
            raise ValueError(f"the data must be a Spark DataFrame, not {type(spark_dataframe).__name__}")
        self._check_encryption()
        with originals_errors():
            request = self._request(train_function, args, kwargs, start_timeout_s=_DATA_LIMIT_S)
            data = Data(spark_dataframe, spooled_first=True, repartition=False)
            return attended(replace(request, data=data, session=session))

    def _check_encryption(self) -> None:
        """Refuse a session that requires encryption, unless its configuration allows this class.

        Raises:
            RuntimeError: it requires encryption.
        """
        if self._spark is not None:
            self._spark.check_encryption(self.ssl_conf, type(self).__name__)

    def _get_num_tasks(self) -> int:
        """How many Spark tasks hold the ranks; in local mode, the ranks that there are GPUs for.

        Raises:
            RuntimeError: the configuration has no GPUs for them.
        """
        if not self.use_gpu:
            return self.num_processes
        if self.local_mode:
            self.num_processes = min(self.num_processes, self._count_local_gpus())
            return self.num_processes
        each = self._executors.task_gpus()
        if self.num_processes % each:
            raise RuntimeError(
                f"num_processes, {self.num_processes}, must be a multiple of {TASK_GPUS}, {each}"
            )
        return self.num_processes // each

    @property
    def _executors(self) -> CallersSpark:
        assert self._spark is not None  # it is required where ranks are not local
        return self._spark

    def _count_local_gpus(self) -> int:
        """The GPUs that Spark has granted to its driver, else those of this machine.

        Raises:
            RuntimeError: there are none.
        """
        found = driver_gpus(self._spark)
        count, self._gpus = found.count, found.granted
        if not count:
            why = found.reason or "Spark has granted it none"
            raise RuntimeError(f"GPUs were unable to be found on the driver: {why}")
        if self.num_processes > count:
            self.logger.warning(
                "num_processes is %d, and the driver has %d GPUs: it is reset to that number",
                self.num_processes,
                count,
            )
        return count

    def _params(self) -> dict[str, Any]:
        names = ("num_processes", "local_mode", "use_gpu", "num_tasks")
        return {name: getattr(self, name) for name in names}

    def _request(
        self,
        target: Callable[..., Any] | str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        **options: Unpack[LaunchOptions],
    ) -> Request:
        options |= {"gpu": self._gpu, **self._framework_options()}
        if self.local_mode:
            made = Distributor(self.num_processes, "local", **options)
            return replace(made.request(target, *args, **kwargs), gpus=self._gpus)
        if self.num_tasks < self.num_processes:
            options["gpus_per_task"] = self.num_processes // self.num_tasks
        made = Distributor(self.num_processes, "cluster", spark=self._executors.session, **options)
        return made.request(target, *args, **kwargs)

    @property
    def _gpu(self) -> bool | None:
        """Whether ranks must have GPUs. Those of a client of Spark Connect are unknown to its server."""
        if self.local_mode and self.use_gpu and self._spark is not None and self._spark.remote:
            return None
        return self.use_gpu

    def _framework_options(self) -> LaunchOptions:
        return {}


def _file(path: str | os.PathLike[str], kwargs: Mapping[str, Any]) -> str:
    """The absolute path of a file to run.

    Raises:
        ValueError: there is none, or it is given keyword arguments.
    """
    if kwargs:
        raise ValueError("Running pytorch file does not support key-word type arguments.")
    if not os.path.isfile(path):
        raise ValueError(f"there is no file {os.fspath(path)}")
    return os.path.abspath(path)
