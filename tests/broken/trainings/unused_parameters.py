# ranks: 2
# cause: ddp-unused-parameters
# remedy: find_unused_parameters

"""A branch of the model takes no part in the loss."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
from torch.nn.parallel import DistributedDataParallel


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.idle = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)

    def forward(self, x):
        return self.used(x)


model = DistributedDataParallel(Two())
for _ in range(3):
    model(torch.ones(3, 2)).sum().backward()
