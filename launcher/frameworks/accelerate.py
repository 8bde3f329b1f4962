"""Hugging Face accelerate: torchrun's contract."""

from __future__ import annotations

from .base import Framework, importing
from .torch import CONTRACT

# transformers loads the package for other purposes too, so that it is loaded says nothing
ACCELERATE = Framework(
    "accelerate",
    matches=importing("accelerate"),
    **CONTRACT,
    cure="make an accelerate.Accelerator() in every rank",
)
