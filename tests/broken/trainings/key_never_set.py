# ranks: 2
# cause: none

"""Rank 0 forgets to publish the address of a service: all ranks had joined the group."""

from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
store.set_timeout(timedelta(seconds=3))
if dist.get_rank() == 1:
    store.get("tokenizer-service")
dist.barrier()
