"""TensorFlow, which meets by TF_CONFIG: recognised, and not served."""

from __future__ import annotations

import json
import os
import types
from collections.abc import Callable

from .base import Framework, importing
from .torch import CONTRACT


def on_import(module: types.ModuleType, joined: Callable[[int], None]) -> None:
    """Take a cluster of several tasks in TF_CONFIG for the group: TensorFlow waits until all are there."""
    del module
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    joined(sum(len(tasks) for tasks in cluster.values()))


TENSORFLOW = Framework(
    "tensorflow",
    matches=importing("tensorflow", "keras", "tf_keras"),
    **CONTRACT,
    packages=("tensorflow",),
    watches=("tensorflow",),
    cure="give each rank its TF_CONFIG and use a MultiWorkerMirroredStrategy, or train with torch",
    apart="rankdeck sets no TF_CONFIG: unless the target does, each rank trains by itself",
)
