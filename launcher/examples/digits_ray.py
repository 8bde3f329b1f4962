"""Handwritten digits with Ray Train, one worker on every node of the run's own Ray cluster.

rankdeck run launcher/examples/digits_ray.py -n 2 -- --epochs 5
rankdeck run launcher/examples/digits_ray.py:train -n 2 --param epochs=5
python launcher/examples/digits_ray.py

This is the driver: it runs once, beside rank 0, and its ranks are the nodes.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import ray
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_model
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import digits


def train_worker(options: dict[str, Any]) -> dict[str, float]:
    """What each of Ray's workers does: train on its share of the digits, and return the metrics."""
    rank, world, device = dist.get_rank(), dist.get_world_size(), get_device()
    torch.manual_seed(0)
    train_set, test_set = digits.split()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(train_set, seed=0)
    loader = DataLoader(train_set, max(1, options["batch_size"] // world), sampler=sampler, drop_last=True)
    model = prepare_model(digits.make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=options["lr"])
    loss = torch.zeros(())
    for epoch in range(options["epochs"]):
        sampler.set_epoch(epoch)  # another order, and another share, in every epoch
        for images, labels in loader:
            loss = cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"worker {rank} of {world}: epoch {epoch + 1}, loss {loss.item():.4f}", flush=True)
    return {"loss": loss.item(), **digits.evaluate(model, test_set, device), "ranks": world}


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64, storage: str = "") -> dict[str, float]:
    """Train with one worker on each node; return the first worker's metrics.

    `batch_size` counts the samples of one step over all workers. `storage` is a folder that all nodes share,
    for what Ray Train keeps; without one, a temporary folder does where all nodes are on one host.
    """
    ray.init()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    with tempfile.TemporaryDirectory() as folder:
        trainer = TorchTrainer(
            train_worker,
            train_loop_config={"epochs": epochs, "lr": lr, "batch_size": batch_size},
            scaling_config=ScalingConfig(
                num_workers=len(nodes),
                use_gpu=all("GPU" in node for node in nodes),
                resources_per_worker={"CPU": 1},
                placement_strategy="SPREAD",
            ),
            run_config=RunConfig(name="digits", storage_path=storage or folder),
        )
        metrics: dict[str, float] = trainer.fit().return_value
    print(f"test accuracy {metrics['test_accuracy']:.4f} on {len(nodes)} nodes", flush=True)
    return metrics


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with Ray Train")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all workers")
    parser.add_argument("--storage", default="", help="a folder that all nodes share, for Ray Train")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
