"""Handwritten digits with ColossalAI's Booster.

    rankdeck run launcher/examples/digits_colossalai.py -n 2 -- --epochs 5
    rankdeck run launcher/examples/digits_colossalai.py:train -n 2 --param epochs=5
    torchrun --standalone --nproc-per-node 2 launcher/examples/digits_colossalai.py

Version 0.5.0 asks for an older torch than it needs; `pip install --no-deps colossalai` keeps the newer one.
"""

from __future__ import annotations

import argparse

import colossalai
import torch
import torch.distributed as dist
from colossalai.accelerator import get_accelerator
from colossalai.booster import Booster
from colossalai.booster.plugin import TorchDDPPlugin
from torch.nn.functional import cross_entropy

import launcher
from launcher.examples import digits


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64) -> dict[str, float]:
    """Train on this rank's share of the digits; return its last loss, and the metrics on all test digits."""
    accelerator = get_accelerator()
    colossalai.launch_from_torch(backend=accelerator.communication_backend, verbose=False)
    rank, world = dist.get_rank(), dist.get_world_size()
    device = accelerator.get_current_device()
    train_set, test_set = digits.split()
    plugin = TorchDDPPlugin()
    loader = plugin.prepare_dataloader(
        train_set, max(1, batch_size // world), shuffle=True, seed=0, drop_last=True
    )
    torch.manual_seed(0)
    model = digits.make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    booster = Booster(plugin=plugin)
    model, optimizer, *_ = booster.boost(model, optimizer)
    step, loss = 0, torch.zeros(())
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            booster.backward(loss, optimizer)
            optimizer.step()
            step += 1
            launcher.report(step=step, loss=loss.item(), total_steps=epochs * len(loader))
        print(f"rank {rank} of {world}: epoch {epoch + 1} of {epochs}, loss {loss.item():.4f}", flush=True)
    metrics = digits.evaluate(model, test_set, device)
    if rank == 0:
        print(f"test accuracy {metrics['test_accuracy']:.4f} after {step} steps on {device}", flush=True)
    dist.destroy_process_group()
    return {"loss": loss.item(), **metrics, "ranks": world}


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with ColossalAI")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
