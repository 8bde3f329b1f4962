# ranks: 2
# cause: group-missing
# remedy: init_process_group

"""DDP before the group exists."""

import torch
from torch.nn.parallel import DistributedDataParallel

DistributedDataParallel(torch.nn.Linear(2, 2))
