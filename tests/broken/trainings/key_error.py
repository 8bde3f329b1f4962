# ranks: 2
# cause: none

"""A column is missing on one rank."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

row = {"text": 1} if rank else {"text": 1, "label": 2}
dist.all_reduce(torch.tensor(row["label"]))
