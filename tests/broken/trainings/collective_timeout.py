# ranks: 2
# cause: collective-timeout
# says: rank 1 is in
# remedy: init_process_group(timeout

"""Rank 1 evaluates for longer than the group's timeout."""

import datetime
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=6))
if dist.get_rank() == 1:
    time.sleep(600)
dist.all_reduce(torch.ones(4))
