"""Drop-ins: rankdeck behind the names of other distributors.

from launcher.compat import TorchDistributor          # one import changed

with launcher.compat.installed():                     # or none: for code that imports the originals by name
    from pyspark.ml.connect.classification import LogisticRegression
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..names import load_on_use

if TYPE_CHECKING:
    from .deepspeed_distributor import DeepspeedTorchDistributor
    from .horovod_callbacks import LogCallback, log_to_driver
    from .horovod_runner import HorovodRunner
    from .mirrored_strategy_runner import MirroredStrategyRunner
    from .torch_distributor import TorchDistributor

__all__ = [
    "DeepspeedTorchDistributor",
    "HorovodRunner",
    "LogCallback",
    "MirroredStrategyRunner",
    "TorchDistributor",
    "installed",
    "log_to_driver",
]

_HOMES = {
    "DeepspeedTorchDistributor": ".deepspeed_distributor",
    "HorovodRunner": ".horovod_runner",
    "LogCallback": ".horovod_callbacks",
    "MirroredStrategyRunner": ".mirrored_strategy_runner",
    "TorchDistributor": ".torch_distributor",
    "log_to_driver": ".horovod_callbacks",
}


def __getattr__(name: str) -> Any:
    return load_on_use(globals(), _HOMES, name)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Put rankdeck behind the originals' names, for code that imports them inside this context.

    Served: `TorchDistributor` and `DeepspeedTorchDistributor` of pyspark, `HorovodRunner`, `log_to_driver`
    and `LogCallback` of `sparkdl`, `run` of `horovod.spark`, `MirroredStrategyRunner` of
    `spark_tensorflow_distributor`, `setup_ray_cluster` and `shutdown_ray_cluster` of `ray.util.spark`.
    Modules that are imported later are changed when they are; at the end all have their own names again. It
    holds for the whole process, until the last of those who want it has left.
    `sparkdl` and `spark_tensorflow_distributor` need not be installed.
    """
    from .installation import INSTALLATION  # a program that installs nothing needs none of it

    INSTALLATION.begin()
    try:
        yield
    finally:
        INSTALLATION.end()
