"""Handwritten digits with Lightning, whose Trainer has the loop.

rankdeck run launcher/examples/digits_lightning.py -n 2 -- --epochs 5
rankdeck run launcher/examples/digits_lightning.py:train -n 2 --param epochs=5
torchrun --standalone --nproc-per-node 2 launcher/examples/digits_lightning.py
"""

from __future__ import annotations

import argparse
import os

import lightning
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import launcher
from launcher.examples import digits


class DigitsModule(lightning.LightningModule):
    """The model, a step of its training, and its optimizer."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.model = digits.make_model()
        self.lr = lr

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The loss of this rank's share of a batch."""
        del index
        images, labels = batch
        loss = cross_entropy(self.model(images), labels)
        total = int(self.trainer.estimated_stepping_batches)
        launcher.report(step=self.global_step + 1, loss=loss.item(), total_steps=total)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64) -> dict[str, float]:
    """Train on this rank's share of the digits; return the metrics on all test digits."""
    trainer = make_trainer(epochs)
    lightning.seed_everything(0, verbose=False)
    train_set, test_set = digits.split()
    # the Trainer adds a DistributedSampler
    loader = DataLoader(train_set, max(1, batch_size // trainer.world_size), shuffle=True, drop_last=True)
    module = DigitsModule(lr)
    trainer.fit(module, loader)
    metrics = digits.evaluate(module.model, test_set, module.device)
    if trainer.is_global_zero:
        print(f"test accuracy {metrics['test_accuracy']:.4f} after {trainer.global_step} steps", flush=True)
    return {**metrics, "ranks": trainer.world_size}


def make_trainer(epochs: int) -> lightning.Trainer:
    """A Trainer for all ranks. It has to be told how many there are on each host, and how many hosts."""
    local_world = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return lightning.Trainer(
        accelerator="gpu" if torch.cuda.device_count() >= local_world else "cpu",
        devices=local_world,  # under torchrun, "auto" is one on CPUs: every rank would train for itself
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with Lightning")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
