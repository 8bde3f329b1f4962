"""Train as most functions do: the DDP model is still there when its group is destroyed."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(store: str, times: int) -> int:
    """Make a group, train, and destroy it, again and again; how often."""
    return sum(train_once(f"{store}-{number}") for number in range(times))


def train_once(store: str) -> int:
    """One training; its model goes when this returns, after the group."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
    return 1
