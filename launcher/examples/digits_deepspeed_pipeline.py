"""Handwritten digits with DeepSpeed's pipeline parallelism: each rank has some layers.

rankdeck run launcher/examples/digits_deepspeed_pipeline.py -n 2 -- --epochs 5
rankdeck run launcher/examples/digits_deepspeed_pipeline.py:train -n 2 --param epochs=5
torchrun --standalone --nproc-per-node 2 launcher/examples/digits_deepspeed_pipeline.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.pipe import PipelineModule
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import digits
from launcher.examples.digits_pipeline import gathered


def train(
    epochs: int = 10, lr: float = 0.01, batch_size: int = 64, microbatches: int = 4
) -> dict[str, float]:
    """Train this rank's stage; return its metrics and the share of it that this rank holds."""
    deepspeed.init_distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    whole = digits.make_model()
    size = sum(p.numel() for p in whole.parameters())
    stage = PipelineModule(list(whole), num_stages=world, loss_fn=cross_entropy, partition_method="uniform")
    share = sum(p.numel() for p in stage.parameters()) / size
    print(f"rank {rank} of {world}: holds {share:.0%} of the parameters", flush=True)
    engine, *_ = deepspeed.initialize(
        model=stage,
        optimizer=torch.optim.Adam(stage.parameters(), lr=lr),
        config={
            "train_micro_batch_size_per_gpu": batch_size // microbatches,
            "gradient_accumulation_steps": microbatches,
            "gradient_clipping": 0.0,  # it would be 1.0
        },
    )
    train_set, test_set = digits.split()
    steps = len(train_set) // batch_size
    loss = torch.zeros(())
    for epoch in range(epochs):
        images_and_labels = in_microbatches(train_set, epoch, batch_size // microbatches)
        for _ in range(steps):
            loss = engine.train_batch(images_and_labels)  # the mean loss of the batch, in all ranks
            launcher.report(step=engine.global_steps, loss=loss.item(), total_steps=epochs * steps)
        print(f"rank {rank} of {world}: epoch {epoch + 1} of {epochs}, loss {loss.item():.4f}", flush=True)
    whole = whole.to(engine.device)
    whole.load_state_dict(gathered(stage))
    metrics = digits.evaluate(whole, test_set, engine.device)
    if rank == 0:
        accuracy, taken = metrics["test_accuracy"], engine.global_steps
        print(f"test accuracy {accuracy:.4f} after {taken} steps on {engine.device}", flush=True)
    dist.destroy_process_group()
    return {"loss": loss.item(), **metrics, "ranks": world, "held_share": share}


def in_microbatches(
    dataset: torch.utils.data.TensorDataset, epoch: int, size: int
) -> Iterator[list[torch.Tensor]]:
    """The dataset in the order of an epoch; the first rank uses the images, and the last one the labels."""
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(
        dataset, num_replicas=1, rank=0, seed=0
    )
    sampler.set_epoch(epoch)
    return iter(DataLoader(dataset, size, sampler=sampler, drop_last=True))


def main() -> None:
    """Train as the command line says, and make the metrics the result of the run."""
    parser = argparse.ArgumentParser(description="Handwritten digits with DeepSpeed's pipeline")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--microbatches", type=int, default=4, help="parts of a batch")
    launcher.publish(train(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
