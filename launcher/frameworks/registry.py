"""The frameworks, and which of them a target uses."""

from __future__ import annotations

from .base import Framework
from .torch import TORCH

DEFAULT = TORCH
FRAMEWORKS: tuple[Framework, ...] = (TORCH,)
"""In the order in which they are asked: what builds upon another comes before it."""


def framework_of(source: str) -> Framework:
    """The framework of a target, by the text of its source; torch's contract serves what none claims."""
    return next((framework for framework in FRAMEWORKS if framework.matches(source)), DEFAULT)
