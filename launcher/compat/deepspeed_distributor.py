"""`DeepspeedTorchDistributor` of `pyspark.ml.deepspeed.deepspeed_distributor` (4.3) as runs of rankdeck."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ..distributor import LaunchOptions
from .originals import whole_number
from .torch_distributor import TorchDistributor

_SWITCH = "--deepspeed"


class DeepspeedTorchDistributor(TorchDistributor):
    """Distributed training with DeepSpeed from a Spark driver.

    Args:
        numGpus: the ranks of each node. Spark places those on executors, and only the product counts.
        nnodes: the number of nodes.
        localMode: whether the ranks run on the driver's machine; else on the session's executors.
        useGpu: whether each rank has a GPU.
        deepspeedConfig: DeepSpeed's configuration: a dict, or the path of a JSON file on the driver.

    Raises:
        ValueError, RuntimeError: as `TorchDistributor`.
    """

    _ssl_override = "deepspeed.spark.distributor.ignoreSsl"

    def __init__(
        self,
        numGpus: int = 1,  # noqa: N803  the original's names
        nnodes: int = 1,
        localMode: bool = True,  # noqa: N803
        useGpu: bool = True,  # noqa: N803
        deepspeedConfig: Mapping[str, Any] | str | os.PathLike[str] | None = None,  # noqa: N803
    ) -> None:
        self.deepspeed_config = deepspeedConfig
        ranks = whole_number(numGpus, "numGpus", least=1) * whole_number(nnodes, "nnodes", least=1)
        super().__init__(ranks, localMode, useGpu, _ssl_conf=self._ssl_override)

    def run(
        self, /, train_object: Callable[..., Any] | str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> Any:
        """Train, and return rank 0's value; a file gets ``--deepspeed`` and the configuration after its argv.

        Raises:
            ValueError, RuntimeError: as `TorchDistributor.run`.
        """
        added = () if callable(train_object) or _SWITCH in map(str, args) else (_SWITCH,)
        return super().run(train_object, *args, *added, **kwargs)

    def _params(self) -> dict[str, Any]:
        return {**super()._params(), "deepspeed_config": self.deepspeed_config}

    def _framework_options(self) -> LaunchOptions:
        return {"framework": "deepspeed", "deepspeed_config": self.deepspeed_config}
