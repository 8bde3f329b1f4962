"""What a zygote imports for a target, by its source."""

from __future__ import annotations

import pytest

from launcher.agent.warm.wanted import TORCH, modules_of


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("", ()),
        ("import os, sys\n", ()),
        ("import torch\n", TORCH),
        ("import numpy as np\n", ("numpy",)),
        ("from torch.distributed.fsdp import fully_shard\n", (*TORCH, "torch.distributed.fsdp")),
        ("import os, torch.nn as nn, numpy\n", (*TORCH, "torch.nn")),
        ("def f():\n    import torch\n", TORCH),
        ("if True: import torch\n", ()),  # nobody writes that; it is imported in the rank
        ("# import torch\n'''from torch import nn'''\n", ()),
        ("import torchvision\n", ()),
        ("from . import torch\n", ()),
    ],
)
def test_what_a_source_imports(source: str, modules: tuple[str, ...]) -> None:
    assert modules == modules_of(source)


@pytest.mark.parametrize("package", ["tensorflow", "keras", "jax", "ray", "ray.train.torch"])
def test_a_package_that_starts_threads_when_it_is_imported_is_never_forked(package: str) -> None:
    assert modules_of(f"import torch\nimport {package}\n") is None
