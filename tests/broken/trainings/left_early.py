# ranks: 2
# cause: left-early
# says: rank 1
# remedy: same number of

"""Rank 1 has one batch fewer, and is done when rank 0 still reduces."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

for step in range(3 if rank else 4):
    loss = torch.ones(4)
    dist.all_reduce(loss)
