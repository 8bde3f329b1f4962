"""Handwritten digits with Hugging Face's accelerate, which divides whatever the loop below uses.

rankdeck run launcher/examples/digits_accelerate.py -n 2 -- --epochs 5
rankdeck run launcher/examples/digits_accelerate.py:train -n 2 --param epochs=5
torchrun --standalone --nproc-per-node 2 launcher/examples/digits_accelerate.py
"""

from __future__ import annotations

import argparse
import os

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import launcher
from launcher.examples import digits


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64) -> dict[str, float]:
    """Train on this rank's share of the digits; return its last loss, and the metrics on all test digits."""
    accelerator = Accelerator(
        cpu=torch.cuda.device_count() < int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        # another order of the images in every epoch, but the same in every run
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=0),
    )
    rank, world = accelerator.process_index, accelerator.num_processes
    torch.manual_seed(0)
    train_set, test_set = digits.split()
    model = digits.make_model()
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.Adam(model.parameters(), lr=lr),
        DataLoader(train_set, max(1, batch_size // world), shuffle=True, drop_last=True),
    )
    step, loss = 0, torch.zeros(())
    for epoch in range(epochs):
        for images, labels in loader:
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            launcher.report(step=step, loss=loss.item(), total_steps=epochs * len(loader))
        print(f"rank {rank} of {world}: epoch {epoch + 1} of {epochs}, loss {loss.item():.4f}", flush=True)
    metrics = digits.evaluate(model, test_set, accelerator.device)
    accelerator.print(f"test accuracy {metrics['test_accuracy']:.4f} after {step} steps", flush=True)
    return {"loss": loss.item(), **metrics, "ranks": world}


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with accelerate")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
