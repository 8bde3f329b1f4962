"""Ranks that share GPUs: what each sees, and an operation of all. together.py BACKEND"""

import os
import sys

import torch
import torch.distributed as dist

import launcher

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.cuda.set_device(device)
dist.init_process_group(sys.argv[1])
mine = torch.full((1024,), float(dist.get_rank() + 1), device=device)
dist.all_reduce(mine)
launcher.publish(
    {
        "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "devices": torch.cuda.device_count(),
        "sum": mine.mean().item(),
    }
)
dist.destroy_process_group()
