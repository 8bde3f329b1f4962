"""The frameworks, and which of them a target uses."""

from __future__ import annotations

from .base import Framework
from .torch import TORCH

DEFAULT = TORCH
FRAMEWORKS: tuple[Framework, ...] = (TORCH,)
"""In the order in which they are tried: a framework comes before those that it builds on."""


def framework_of(source: str) -> Framework:
    """The framework of a target, by the text of its source; torch if none matches."""
    return next((framework for framework in FRAMEWORKS if framework.matches(source)), DEFAULT)
