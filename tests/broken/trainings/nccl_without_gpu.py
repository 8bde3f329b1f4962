# ranks: 2
# options: --no-gpu
# cause: nccl-without-gpu
# remedy: gloo

"""The backend nccl on a machine without a GPU."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
dist.all_reduce(torch.ones(4))
