"""Stages of `pyspark.ml` pipelines that rankdeck trains.

```python
from launcher.estimators import TorchEstimator

estimator = TorchEstimator(model=Net(8), loss=torch.nn.functional.mse_loss, epochs=5, numTrainWorkers=2)
model = Pipeline(stages=[assembler, estimator]).fit(df)
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..names import load_on_use

if TYPE_CHECKING:
    from .keras_estimator import KerasEstimator
    from .keras_model import KerasModel
    from .torch_estimator import TorchEstimator
    from .torch_model import TorchModel

_HOMES = {
    "KerasEstimator": ".keras_estimator",
    "KerasModel": ".keras_model",
    "TorchEstimator": ".torch_estimator",
    "TorchModel": ".torch_model",
}

__all__ = ["KerasEstimator", "KerasModel", "TorchEstimator", "TorchModel"]


def __getattr__(name: str) -> Any:
    return load_on_use(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
