"""Rows of Spark and of files into ranks, as DataLoaders of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..names import load_on_use

if TYPE_CHECKING:
    from .files import path_loader
    from .loader import ShareLoader, partition_loader
    from .tensors import DataError

_HOMES = {
    "DataError": ".tensors",
    "ShareLoader": ".loader",
    "partition_loader": ".loader",
    "path_loader": ".files",
}

__all__ = ["DataError", "ShareLoader", "partition_loader", "path_loader"]


def __getattr__(name: str) -> Any:
    return load_on_use(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
