# ranks: 3
# options: --no-progress-timeout 15
# cause: standstill
"""Two ranks wait for each other's message; a third one, which nobody waits for, has left."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 2:
    sys.exit(0)
dist.recv(torch.zeros(4), src=1 - rank)
