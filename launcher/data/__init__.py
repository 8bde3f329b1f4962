"""Rows of Spark and of files into ranks, as DataLoaders of PyTorch or as arrays of numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..names import load_on_use

if TYPE_CHECKING:
    from .arrays import DataError
    from .batches import Epochs, partition_batches
    from .files import path_batches, path_loader
    from .loader import ShareLoader, partition_loader

_HOMES = {
    "DataError": ".arrays",
    "Epochs": ".batches",
    "ShareLoader": ".loader",
    "partition_batches": ".batches",
    "partition_loader": ".loader",
    "path_batches": ".files",
    "path_loader": ".files",
}

__all__ = [
    "DataError",
    "Epochs",
    "ShareLoader",
    "partition_batches",
    "partition_loader",
    "path_batches",
    "path_loader",
]


def __getattr__(name: str) -> Any:
    return load_on_use(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
