# ranks: 2
# options: --no-progress-timeout 15
# cause: collective-mismatch
# says: all_reduce
# remedy: same collectives

"""Rank 1 skips one all_reduce, and is in the barrier while rank 0 reduces."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

for step in range(3):
    if not (rank == 1 and step == 1):
        dist.all_reduce(torch.ones(1 << 20))
dist.barrier()
