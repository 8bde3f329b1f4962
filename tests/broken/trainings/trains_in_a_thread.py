# ranks: 2
# options: --no-progress-timeout 15
# cause: standstill or rank-stuck
"""The training runs in a thread, and rank 1 waits there for an event that nobody sets."""

import threading

import torch
import torch.distributed as dist


def train() -> None:
    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 1:
        threading.Event().wait()
    dist.all_reduce(torch.ones(4))


threading.Thread(target=train).start()
