# ranks: 1
# needs: small-disk
# cause: disk-full
# remedy: df -h

"""Checkpoints fill the disk."""

import os

import torch

for step in range(100):
    torch.save({"weight": torch.ones(1 << 20)}, os.path.join(os.environ["SMALL_DISK"], f"{step}.pt"))
