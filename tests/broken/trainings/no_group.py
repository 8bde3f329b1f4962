# ranks: 2
# cause: group-missing
# remedy: init_process_group

"""A collective before the group exists."""

import torch
import torch.distributed as dist

dist.all_reduce(torch.ones(1))
