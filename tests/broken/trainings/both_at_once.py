# ranks: 2
# cause: none

"""Both ranks fail within a millisecond."""

import time

import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

dist.barrier()
start = [time.time() + 1]
dist.broadcast_object_list(start, src=0)
while time.time() < start[0]:
    pass
raise RuntimeError(f"shard {rank} is empty")
