"""Handwritten digits with DistributedDataParallel, on GPUs or CPUs, from one rank to as many as you like.

    rankdeck run launcher/examples/digits_ddp.py -n 2 -- --epochs 5
    rankdeck run launcher/examples/digits_ddp.py:train -n 2 --param epochs=5
    torchrun --standalone --nproc-per-node 2 launcher/examples/digits_ddp.py

`launcher.report` and `launcher.publish` do nothing outside a run, so torchrun and plain python do as well.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import digits


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64) -> dict[str, float]:
    """Train on this rank's share of the digits; return its last loss, and the metrics on all test digits.

    `batch_size` counts the samples of one step over all ranks, so the number of ranks does not change the
    result.
    """
    device = join_gang()
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    train_set, test_set = digits.split()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(train_set, seed=0)
    loader = DataLoader(train_set, max(1, batch_size // world), sampler=sampler, drop_last=True)
    model = DistributedDataParallel(digits.make_model().to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    step, loss = 0, torch.zeros(())
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # another order, and another share, in every epoch
        for images, labels in loader:
            loss = cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            launcher.report(step=step, loss=loss.item(), total_steps=epochs * len(loader))
        print(f"rank {rank} of {world}: epoch {epoch + 1} of {epochs}, loss {loss.item():.4f}", flush=True)
    metrics = digits.evaluate(model, test_set, device)
    if rank == 0:
        print(f"test accuracy {metrics['test_accuracy']:.4f} after {step} steps on {device}", flush=True)
    dist.destroy_process_group()
    return {"loss": loss.item(), **metrics, "ranks": world}


def join_gang() -> torch.device:
    """Initialise the process group and choose this rank's device. Without a launcher, it has one rank."""
    if torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1")):
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    backend = "nccl" if device.type == "cuda" else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        alone = dist.HashStore()  # type: ignore[attr-defined]  # torch has it, but its stubs do not
        dist.init_process_group(backend, store=alone, rank=0, world_size=1)
    return device


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with DistributedDataParallel")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    options = parser.parse_args()
    launcher.publish(train(options.epochs, options.lr, options.batch_size))


if __name__ == "__main__":
    main()
