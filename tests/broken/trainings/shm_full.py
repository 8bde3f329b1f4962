# ranks: 2
# needs: shm
# cause: shm-full
# says: /dev/shm
# remedy: --shm-size

"""Loader workers share batches through a /dev/shm of some MiB."""

import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.ones(3, 512, 512)


for batch in DataLoader(Images(), batch_size=16, num_workers=2):
    batch.sum()
