# ranks: 2
# cause: left-early
# says: rank 1
# remedy: same number of

"""DDP with shards of different length."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(torch.nn.Linear(4, 1))
for batch in torch.ones(5 - rank, 2, 4):
    model(batch).sum().backward()
dist.destroy_process_group()
