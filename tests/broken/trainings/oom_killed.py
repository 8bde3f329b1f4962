# ranks: 2
# needs: cgroup
# cause: oom-killer
# remedy: DataLoader

"""The kernel's OOM killer ends a rank whose cgroup has a limit."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

cache = []
for step in range(1000):
    if rank == 1:
        cache.append(bytearray(b"x") * (8 << 20))
    dist.all_reduce(torch.ones(1))
