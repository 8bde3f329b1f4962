# ranks: 2
# options: --env TORCH_DISTRIBUTED_DEBUG=DETAIL
# cause: collective-mismatch
# remedy: same collectives

"""The ranks call different collectives."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

if rank:
    dist.broadcast(torch.ones(4), src=0)
else:
    dist.all_reduce(torch.ones(4))
