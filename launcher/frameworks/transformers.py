"""Hugging Face's Trainer: torchrun's contract. Without it, transformers trains on one process at most."""

from __future__ import annotations

import re

from .base import Framework, imports
from .torch import CONTRACT


def trains(source: str) -> bool:
    """Whether the source uses a Trainer of transformers, or of trl, which derives from it."""
    return imports(source, ("transformers", "trl")) and re.search(r"\b\w*Trainer\(", source) is not None


TRANSFORMERS = Framework(
    "transformers",
    matches=trains,
    **CONTRACT,
    cure="make TrainingArguments in every rank, which join the group that the environment names",
)
