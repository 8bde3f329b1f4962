# ranks: 2
# cause: ranks-missing
# remedy: reach init_process_group in time

"""Rank 1 loads its data for longer than the others wait for it."""

import datetime
import os
import time

import torch.distributed as dist

if os.environ["RANK"] == "1":
    time.sleep(600)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=2))
