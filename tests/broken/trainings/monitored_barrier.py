# ranks: 3
# cause: collective-timeout
# says: rank 2
# remedy: --no-progress-timeout

"""Rank 2 never reaches a monitored barrier."""

import datetime
import time

import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

if rank == 2:
    time.sleep(600)
dist.monitored_barrier(timeout=datetime.timedelta(seconds=5))
