"""Handwritten digits with Hugging Face's Trainer, on a model and data of one's own; nothing is downloaded.

rankdeck run launcher/examples/digits_trainer.py -n 2 -- --epochs 5
rankdeck run launcher/examples/digits_trainer.py:train -n 2 --param epochs=5
torchrun --standalone --nproc-per-node 2 launcher/examples/digits_trainer.py
"""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainerCallback, TrainingArguments

import launcher
from launcher.examples import digits


class Classifier(nn.Module):
    """The model as the Trainer wants it: it takes a batch by names, and returns the loss with the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = digits.make_model()

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss and the logits of a batch."""
        logits = self.layers(images)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


class Report(TrainerCallback):
    """Reports what the Trainer logs."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **more: Any) -> None:
        """The mean loss since the last time; the last log of a training has none."""
        del args, control, more
        if "loss" in logs:
            launcher.report(step=state.global_step, loss=logs["loss"], total_steps=state.max_steps)


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64) -> dict[str, float]:
    """Train on this rank's share of the digits; return the metrics on all test digits."""
    train_set, test_set = digits.split()
    rows = [{"images": images, "labels": labels} for images, labels in zip(*train_set.tensors, strict=True)]
    torch.manual_seed(0)
    model = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, arguments(folder, epochs, lr, batch_size), train_dataset=rows)
        trainer.add_callback(Report)
        trainer.train()
    metrics = digits.evaluate(model.layers, test_set, trainer.args.device)
    if trainer.is_world_process_zero():
        steps = trainer.state.global_step
        print(f"test accuracy {metrics['test_accuracy']:.4f} after {steps} steps", flush=True)
    return {**metrics, "ranks": trainer.args.world_size}


def arguments(folder: str, epochs: int, lr: float, batch_size: int) -> TrainingArguments:
    """As the other examples train: a constant rate, no clipping, and the same order of images."""
    return TrainingArguments(
        output_dir=folder,
        num_train_epochs=epochs,
        learning_rate=lr,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        per_device_train_batch_size=max(1, batch_size // int(os.environ.get("WORLD_SIZE", "1"))),
        dataloader_drop_last=True,
        seed=0,
        use_cpu=torch.cuda.device_count() < int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with Hugging Face's Trainer")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
