# ranks: 1
# cause: loader-stuck
# says: waited 1 s for a batch
# remedy: num_workers=0
"""A sample takes longer than the loader's limit."""

import time

from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        time.sleep(20)
        return index


for _ in DataLoader(Slow(), num_workers=1, timeout=1):
    pass
