"""Handwritten digits with DeepSpeed's ZeRO: optimizer state, gradients and parameters are sharded, by stage.

    rankdeck run launcher/examples/digits_deepspeed.py -n 2 -- --stage 3
    rankdeck run launcher/examples/digits_deepspeed.py:train -n 2 --param stage=1
    torchrun --standalone --nproc-per-node 2 launcher/examples/digits_deepspeed.py

DeepSpeed compiles its extensions when they are first used, which needs a C++ compiler and ninja.
"""

from __future__ import annotations

import argparse
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import digits


def train(epochs: int = 10, lr: float = 0.01, batch_size: int = 64, stage: int = 2) -> dict[str, float]:
    """Train a sharded model; return its metrics and the share of Adam's state that this rank holds.

    Stage 0 shards nothing, 1 the optimizer's state, 2 the gradients too, 3 the parameters too.
    """
    deepspeed.init_distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    train_set, test_set = digits.split()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(train_set, seed=0)
    loader = DataLoader(train_set, max(1, batch_size // world), sampler=sampler, drop_last=True)
    model = digits.make_model()
    size = sum(p.numel() for p in model.parameters())
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=lr),
        config={
            "train_micro_batch_size_per_gpu": max(1, batch_size // world),
            "gradient_clipping": 0.0,  # it would be 1.0
            "zero_optimization": {"stage": stage},
        },
    )
    step, loss = 0, torch.zeros(())
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = cross_entropy(engine(images.to(engine.device)), labels.to(engine.device))
            engine.backward(loss)
            engine.step()
            step += 1
            launcher.report(step=step, loss=loss.item(), total_steps=epochs * len(loader))
        print(f"rank {rank} of {world}: epoch {epoch + 1} of {epochs}, loss {loss.item():.4f}", flush=True)
    share = held_numbers(engine) / size
    print(f"rank {rank} of {world}: holds {share:.0%} of Adam's state", flush=True)
    metrics = digits.evaluate(engine, test_set, engine.device)
    if rank == 0:
        print(
            f"test accuracy {metrics['test_accuracy']:.4f} after {step} steps on {engine.device}", flush=True
        )
    dist.destroy_process_group()
    return {"loss": loss.item(), **metrics, "ranks": world, "held_share": share}


def held_numbers(engine: Any) -> int:
    """How many parameters this process keeps a mean gradient of."""
    adam = getattr(engine.optimizer, "optimizer", engine.optimizer)  # inside of ZeRO's own
    return sum(state["exp_avg"].numel() for state in adam.state.values())


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with DeepSpeed's ZeRO")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of one step, over all ranks")
    parser.add_argument("--stage", type=int, default=2, choices=range(4))
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
