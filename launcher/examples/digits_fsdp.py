"""Handwritten digits with parameters sharded by `fully_shard` (FSDP2): no rank ever holds the whole model.

rankdeck run launcher/examples/digits_fsdp.py -n 2 -- --epochs 5
rankdeck run launcher/examples/digits_fsdp.py:train -n 2 --param hidden=512
torchrun --standalone --nproc-per-node 2 launcher/examples/digits_fsdp.py
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import digits
from launcher.examples.digits_ddp import join_gang


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64, hidden: int = 128) -> dict[str, float]:
    """Train a sharded model; return its metrics and the share of it that this rank holds."""
    device = join_gang()
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh(device.type, (world,))
    torch.manual_seed(0)
    train_set, test_set = digits.split()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(train_set, seed=0)
    loader = DataLoader(train_set, max(1, batch_size // world), sampler=sampler, drop_last=True)

    model = digits.make_model(hidden)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)  # moves the shards to the mesh's device, too
    share = held_share(model)
    print(f"rank {rank} of {world}: holds {share:.0%} of the parameters", flush=True)

    optimizer = torch.optim.Adam(model.parameters(), lr=lr)  # after sharding: its state is sharded too
    step, loss = 0, torch.zeros(())
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
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
    return {"loss": loss.item(), **metrics, "ranks": world, "held_share": share}


def held_share(model: nn.Module) -> float:
    """The share of all parameters that lies in this process."""
    sharded = [p for p in model.parameters() if isinstance(p, DTensor)]
    assert len(sharded) == len(list(model.parameters())), "a parameter was left whole"
    return sum(p.to_local().numel() for p in sharded) / sum(p.numel() for p in sharded)


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with fully sharded parameters")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    parser.add_argument("--hidden", type=int, default=128, help="width of the hidden layer")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
