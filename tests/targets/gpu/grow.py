"""Keep 6 GiB more of the GPU in every step, until there is none left."""

import time

import torch

import launcher

kept: list[torch.Tensor] = []


def step() -> None:
    kept.append(torch.ones(6 << 30, dtype=torch.uint8, device="cuda"))
    torch.cuda.synchronize()


for number in range(1, 100):
    step()
    launcher.report(step=number)
    time.sleep(0.4)  # for a course of some samples
