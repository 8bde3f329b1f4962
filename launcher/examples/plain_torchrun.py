"""A script written for torchrun, with nothing of rankdeck in it: it runs here as it is.

rankdeck run launcher/examples/plain_torchrun.py -n 2 -- --checkpoint sine.pt
torchrun --standalone --nproc-per-node 2 launcher/examples/plain_torchrun.py --checkpoint sine.pt
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def sample(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on a sine."""
    x = torch.rand(count, 1, generator=generator) * 6.28
    return x, x.sin()


def main() -> None:
    """Fit a sine and save the model if asked to."""
    parser = argparse.ArgumentParser(description="Fit a sine with DistributedDataParallel")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--checkpoint", help="where rank 0 saves the model")
    options = parser.parse_args()

    local_rank = int(os.environ["LOCAL_RANK"])
    use_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if use_gpu else "gloo", init_method="env://")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world} on {device}, local rank {local_rank}", flush=True)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(parallel.parameters(), lr=options.lr)
    generator = torch.Generator().manual_seed(rank)  # every rank draws points of its own
    for step in range(1, options.steps + 1):
        x, y = (part.to(device) for part in sample(128, generator))
        loss = nn.functional.mse_loss(parallel(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"rank {rank}: step {step} of {options.steps}, loss {loss.item():.5f}", flush=True)

    if rank == 0 and options.checkpoint:
        torch.save({"model": model.state_dict(), "steps": options.steps}, options.checkpoint)
        print(f"saved {options.checkpoint}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
