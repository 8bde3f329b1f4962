"""Handwritten digits with Horovod, which averages the gradients of all ranks in its optimizer.

rankdeck run launcher/examples/digits_horovod.py -n 2 -- --epochs 5
rankdeck run launcher/examples/digits_horovod.py:train -n 2 --param epochs=5
horovodrun -np 2 python launcher/examples/digits_horovod.py
"""

from __future__ import annotations

import argparse

import horovod.torch as hvd
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import digits


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64) -> dict[str, float]:
    """Train on this rank's share of the digits; return its last loss, and the metrics on all test digits.

    `batch_size` counts the samples of one step over all ranks, so the number of ranks does not change the
    result.
    """
    hvd.init()
    rank, world = hvd.rank(), hvd.size()
    device = choose_device()
    torch.manual_seed(0)
    train_set, test_set = digits.split()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(train_set, world, rank, seed=0)
    loader = DataLoader(train_set, max(1, batch_size // world), sampler=sampler, drop_last=True)
    model = digits.make_model().to(device)
    adam = torch.optim.Adam(model.parameters(), lr=lr)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(adam, root_rank=0)
    optimizer = hvd.DistributedOptimizer(adam, named_parameters=model.named_parameters())
    step, loss = 0, torch.zeros(())
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # another order, and another share, in every epoch
        for images, labels in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            step += 1
            launcher.report(step=step, loss=loss.item(), total_steps=epochs * len(loader))
        print(f"rank {rank} of {world}: epoch {epoch + 1} of {epochs}, loss {loss.item():.4f}", flush=True)
    metrics = digits.evaluate(model, test_set, device)
    if rank == 0:
        print(f"test accuracy {metrics['test_accuracy']:.4f} after {step} steps on {device}", flush=True)
    hvd.shutdown()
    return {"loss": loss.item(), **metrics, "ranks": world}


def choose_device() -> torch.device:
    """This rank's GPU, if there is one for each rank of its host."""
    if torch.cuda.device_count() < hvd.local_size():
        return torch.device("cpu")
    device = torch.device("cuda", hvd.local_rank())
    torch.cuda.set_device(device)
    return device


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with Horovod")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
