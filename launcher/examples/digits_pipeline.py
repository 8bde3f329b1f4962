"""Handwritten digits with pipeline parallelism: each rank has some layers, and hands on what they compute.

    rankdeck run launcher/examples/digits_pipeline.py -n 2 -- --epochs 5
    rankdeck run launcher/examples/digits_pipeline.py:train -n 3
    torchrun --standalone --nproc-per-node 2 launcher/examples/digits_pipeline.py

A batch is cut into microbatches, so that a rank works on one while the next rank works on the one before.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import digits
from launcher.examples.digits_ddp import join_gang


def train(
    epochs: int = 10, lr: float = 0.01, batch_size: int = 64, microbatches: int = 4
) -> dict[str, float]:
    """Train this rank's stage; return its metrics and the share of it that this rank holds.

    The loss is known to the last stage only; elsewhere it is NaN.
    """
    device = join_gang()
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # all ranks make the same model, and each keeps its own layers
    model = digits.make_model()
    layers = stage_of(model, rank, world).to(device)
    share = sum(p.numel() for p in layers.parameters()) / sum(p.numel() for p in model.parameters())
    print(f"rank {rank} of {world}: has {', '.join(map(str, layers))}", flush=True)
    stage = PipelineStage(layers, rank, world, device)
    schedule = ScheduleGPipe(stage, microbatches, loss_fn=cross_entropy)

    train_set, test_set = digits.split()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(
        train_set, num_replicas=1, rank=0, seed=0
    )  # the first rank needs the images of every batch, and the last one its labels
    loader = DataLoader(train_set, batch_size, sampler=sampler, drop_last=True)
    parameters = list(layers.parameters())
    optimizer = torch.optim.Adam(parameters, lr=lr) if parameters else None
    step, loss = 0, float("nan")
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            losses: list[torch.Tensor] = []
            inputs = [images.to(device)] if stage.is_first else []
            target = labels.to(device) if stage.is_last else None
            layers.zero_grad()
            schedule.step(*inputs, target=target, losses=losses)
            if optimizer:
                optimizer.step()
            step += 1
            if stage.is_last:
                loss = torch.stack(losses).mean().item()
            launcher.report(step=step, loss=loss, total_steps=epochs * len(loader))
        print(f"rank {rank} of {world}: epoch {epoch + 1} of {epochs}, loss {loss:.4f}", flush=True)
    whole = digits.make_model().to(device)
    whole.load_state_dict(gathered(layers))
    metrics = digits.evaluate(whole, test_set, device)
    if rank == 0:
        print(f"test accuracy {metrics['test_accuracy']:.4f} after {step} steps on {device}", flush=True)
    dist.destroy_process_group()
    return {"loss": loss, **metrics, "ranks": world, "held_share": share}


def stage_of(model: nn.Sequential, rank: int, world: int) -> nn.Sequential:
    """The layers of one stage, under the names that they have in the whole model."""
    if world > len(model):
        raise ValueError(f"a model of {len(model)} layers cannot be divided among {world} ranks")
    named = list(model.named_children())
    begin, end = (-(-len(named) * i // world) for i in (rank, rank + 1))
    return nn.Sequential(OrderedDict(named[begin:end]))


def gathered(layers: nn.Module) -> dict[str, torch.Tensor]:
    """The state of all stages, in every rank, as one would save it."""
    states: list[dict[str, torch.Tensor]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(states, layers.state_dict())
    return {name: value for state in states for name, value in state.items()}


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with pipeline parallelism")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--microbatches", type=int, default=4, help="parts of a batch")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
