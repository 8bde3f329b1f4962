"""Ranks in the middle of collectives, of which one (the last, or as said) ends as the first argument names.

The second is the collective: ``all_reduce``, or ``backward`` of a model under DistributedDataParallel.
"""

import os
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed import destroy_process_group

CASE, COLLECTIVE = sys.argv[1:]
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LAST = RANK == SIZE - 1


def collective() -> Callable[[], object]:
    if COLLECTIVE == "all_reduce":
        data = torch.ones(1 << 18)
        return lambda: dist.all_reduce(data)
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Linear(256, 256))
    return lambda: model(torch.ones(4, 256)).sum().backward()


def train() -> None:
    step = collective()
    for _ in range(3):
        step()
    if CASE == "killed" and LAST:
        os.kill(os.getpid(), 9)
    if CASE == "leaves_late" and LAST:
        raise ValueError(f"the cause of rank {RANK}")
    if CASE == "two_at_once" and RANK >= SIZE - 2:
        raise ValueError(f"the cause of rank {RANK}")
    if CASE == "left_early" and RANK == 0:
        os._exit(0)
    while True:
        step()


dist.init_process_group("gloo")
try:
    train()
finally:
    if CASE == "leaves_late" and LAST:
        destroy_process_group()
        time.sleep(1)
