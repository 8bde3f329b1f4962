# ranks: 2
# cause: module-missing
# says: rank 1
# remedy: install its package

"""Rank 1 fails; rank 0 sees the closed connection and is gone first."""

import atexit
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

dist.all_reduce(torch.ones(1))
if rank == 1:
    atexit.register(time.sleep, 2)
    import package_of_one_host
dist.all_reduce(torch.ones(1))
