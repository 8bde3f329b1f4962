"""Multiply matrices for so many seconds. busy.py SECONDS"""

import sys
import time

import torch

import launcher

one = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
until, step = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < until:
    for _ in range(20):
        other = one @ one
    torch.cuda.synchronize()
    step += 1
    launcher.report(step=step)
print(other.isfinite().all().item(), flush=True)
