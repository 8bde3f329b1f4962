"""Each rank takes the GPU of its local rank, although they share one."""

import os

import torch

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
print(torch.ones(1, device="cuda"), flush=True)
