# ranks: 1
# cause: none
"""A checkpoint that cannot be read is no obstacle: the training starts anew, and fails at its own settings."""

import tempfile
from pathlib import Path

import torch
from torch import nn

SETTINGS = {"hidden": 16}


def load(path: Path) -> nn.Module:
    try:
        return torch.load(path)
    except Exception:
        return nn.Linear(SETTINGS["hidden"], SETTINGS["classes"])


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "last.pt"
    torch.save(nn.Linear(2, 2).state_dict(), path)
    path.write_bytes(path.read_bytes()[:200])
    load(path)
