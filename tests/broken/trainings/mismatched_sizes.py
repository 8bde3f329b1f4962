# ranks: 2
# options: --env TORCH_DISTRIBUTED_DEBUG=DETAIL
# cause: collective-mismatch
# remedy: equal shapes

"""The ranks reduce tensors of different sizes."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

dist.all_reduce(torch.ones(4 + rank))
