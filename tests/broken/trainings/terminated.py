# ranks: 2
# cause: terminated
# says: rank 1
# remedy: --max-restarts

"""Somebody ends rank 1 by SIGTERM."""

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

for step in range(1000):
    if rank == 1 and step == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    dist.all_reduce(torch.ones(1))
