"""Hold so many MiB of the GPU, and say so; then wait to be ended. hold.py MIB [MIB of rank 1 …]"""

import os
import sys
import time

import torch

import launcher

sizes = [int(word) for word in sys.argv[1:]]
rank = int(os.environ.get("RANK", "0"))
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
held = torch.ones(sizes[rank % len(sizes)] << 20, dtype=torch.uint8, device=device)
torch.cuda.synchronize(device)
for step in range(1, 100_000):
    launcher.report(step=step)
    print(f"rank {rank} holds {held.numel()} bytes on {device}", flush=True)
    time.sleep(0.2)  # until it is ended
