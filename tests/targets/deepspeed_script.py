"""A script for DeepSpeed as its own documentation has them: its arguments are added to the script's."""

from __future__ import annotations

import argparse

import deepspeed
import torch

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--local_rank", type=int, default=-1)
    args = deepspeed.add_config_arguments(parser).parse_args()
    deepspeed.init_distributed()
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    engine, *_ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    for _ in range(args.steps):
        inputs = torch.randn(32, 4)
        loss = torch.nn.functional.mse_loss(engine(inputs), inputs.sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()
    print(
        f"rank {engine.global_rank} of {engine.world_size}: stage {engine.zero_optimization_stage()}",
        flush=True,
    )
