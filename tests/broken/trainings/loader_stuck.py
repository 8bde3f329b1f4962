# ranks: 2
# options: --no-progress-timeout 15
# cause: rank-stuck
# says: rank 1
# remedy: waits for

"""A worker of rank 1's loader waits for a lock for ever."""

import threading

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        if rank == 1 and i == 12:
            threading.Event().wait()
        return i


for batch in DataLoader(Rows(), batch_size=4, num_workers=1):
    dist.all_reduce(torch.ones(1))
