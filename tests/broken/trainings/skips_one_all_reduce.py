# ranks: 2
# options: --no-progress-timeout 15
# cause: rank-stuck
# says: rank 1
# remedy: waits for

"""Rank 1 logs in place of a reduction, and then waits for rank 0 in another file."""

import queue

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

for step in range(3):
    if rank == 1 and step == 1:
        queue.Queue().get()
    loss = torch.ones(1)
    dist.all_reduce(loss)
