"""ColossalAI: torchrun's contract, which its `launch_from_torch` reads."""

from __future__ import annotations

from .base import Framework, importing
from .torch import CONTRACT

COLOSSALAI = Framework(
    "colossalai",
    matches=importing("colossalai"),
    **CONTRACT,
    packages=("colossalai",),
    cure="call colossalai.launch_from_torch() in every rank",
)
