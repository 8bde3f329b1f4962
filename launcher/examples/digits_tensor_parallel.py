"""Handwritten digits with tensor parallelism: every layer is divided among ranks, and each batch goes to all.

    rankdeck run launcher/examples/digits_tensor_parallel.py -n 2 -- --epochs 5
    rankdeck run launcher/examples/digits_tensor_parallel.py -n 4 -- --tensor 2
    torchrun --standalone --nproc-per-node 2 launcher/examples/digits_tensor_parallel.py

With `--tensor 2` on four ranks it is two-dimensional: two ranks share the layers of one copy of the model,
and the two copies, which are sharded by `fully_shard`, share the batch.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import digits
from launcher.examples.digits_ddp import join_gang
from launcher.examples.digits_fsdp import held_share


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64, tensor: int = 0) -> dict[str, float]:
    """Train a divided model; return its metrics and the share of it that this rank holds.

    `tensor` ranks share the layers of one copy of the model; 0 means all of them.
    """
    device = join_gang()
    rank, world = dist.get_rank(), dist.get_world_size()
    tensor = tensor or world
    if world % tensor:
        raise ValueError(f"the number of ranks, {world}, is not a multiple of {tensor}")
    mesh = init_device_mesh(device.type, (world // tensor, tensor), mesh_dim_names=("data", "tensor"))
    copies, copy = mesh["data"].size(), mesh["data"].get_local_rank()

    torch.manual_seed(0)
    train_set, test_set = digits.split()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(
        train_set, num_replicas=copies, rank=copy, seed=0
    )  # ranks of one copy of the model get the same images
    loader = DataLoader(train_set, max(1, batch_size // copies), sampler=sampler, drop_last=True)

    model = digits.make_model().to(device)
    # the hidden units are divided: the first layer by its outputs, the last one by its inputs
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    if copies > 1:
        fully_shard(model, mesh=mesh["data"])
    share = held_share(model)
    print(f"rank {rank} of {world}: holds {share:.0%} of the parameters", flush=True)

    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
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


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with tensor parallelism")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    parser.add_argument("--tensor", type=int, default=0, help="ranks that share one model; 0 for all")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
