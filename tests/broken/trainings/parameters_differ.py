# ranks: 2
# cause: ddp-parameters-differ
# remedy: same model on every rank

"""The model's size depends on the rank's own vocabulary."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
from torch.nn.parallel import DistributedDataParallel

DistributedDataParallel(torch.nn.Linear(4, 2 + rank))
