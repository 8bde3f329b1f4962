# ranks: 2
# cause: master-unreachable
# says: 127.0.0.1
# remedy: MASTER_ADDR

"""The script sets MASTER_ADDR and MASTER_PORT itself, to a place where nobody listens."""

import datetime
import os

import torch.distributed as dist

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
dist.init_process_group(
    "gloo",
    init_method=None if os.environ["RANK"] == "1" else "tcp://127.0.0.1:0",
    rank=int(os.environ["RANK"]),
    world_size=2,
    timeout=datetime.timedelta(seconds=3),
)
