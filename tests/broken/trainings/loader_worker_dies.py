# ranks: 1
# cause: loader-worker-killed
# remedy: num_workers

"""A worker of the DataLoader is killed."""

import os
import signal

from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if i == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


for batch in DataLoader(Images(), batch_size=4, num_workers=2):
    print(batch)
