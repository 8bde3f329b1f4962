"""TorchDistributor and DeepspeedTorchDistributor as documentation shows them, by the originals' names.

Usage: SETTINGS PACKAGES CASE NUMBER, as for `drop_ins.py`. With settings, the ranks are on executors.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(sys.argv[2])

from launcher.compat import installed

EXAMPLES = Path(__file__).parents[2] / "launcher" / "examples"
DEEPSPEED = {
    "train_micro_batch_size_per_gpu": 32,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


def torch_function(number: int) -> Any:
    """One function that holds its imports and its helpers, with positional arguments."""
    from pyspark.ml.torch.distributor import TorchDistributor

    def train(learning_rate: float, use_gpu: bool) -> Any:
        import os

        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

        dist.init_process_group("nccl" if use_gpu else "gloo")
        device = int(os.environ["LOCAL_RANK"]) if use_gpu else "cpu"
        torch.manual_seed(0)
        x = torch.randn(256, 4)
        data = TensorDataset(x, x.sum(1, keepdim=True))
        model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device))
        optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
        loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data))
        for _ in range(40):
            for inputs, wanted in loader:
                optimizer.zero_grad()
                loss: Any = torch.nn.functional.mse_loss(model(inputs), wanted)
                loss.backward()
                optimizer.step()
        weights = model.module.weight.detach().round(decimals=2).tolist()
        value = {"weights": weights, "ranks": dist.get_world_size()}
        dist.destroy_process_group()
        return value

    return TorchDistributor(num_processes=number, local_mode=LOCAL, use_gpu=False).run(train, 1e-1, False)


def torch_file(number: int) -> Any:
    """A script with its own arguments, each a word."""
    from pyspark.ml.torch.distributor import TorchDistributor

    args = ["--epochs=1", "--batch-size=64"]
    distributor = TorchDistributor(num_processes=number, local_mode=LOCAL, use_gpu=False)
    return distributor.run(str(EXAMPLES / "digits_ddp.py"), *args)


def deepspeed_function(number: int) -> Any:
    """A function whose configuration is a dict of the notebook."""
    from pyspark.ml.deepspeed.deepspeed_distributor import DeepspeedTorchDistributor

    def train(epochs: int) -> Any:
        import argparse

        import deepspeed
        import torch
        from deepspeed import comm

        parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
        parser.add_argument("--local_rank", type=int, default=-1)
        deepspeed.init_distributed()
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        engine, *_ = deepspeed.initialize(
            args=parser.parse_args(), model=model, model_parameters=model.parameters()
        )
        x = torch.randn(64, 4)
        loss = torch.zeros(())
        for _ in range(epochs):
            loss = torch.nn.functional.mse_loss(engine(x), x.sum(1, keepdim=True))
            engine.backward(loss)
            engine.step()
        return {
            "small": loss.item() < 0.1,
            "stage": engine.zero_optimization_stage(),
            "ranks": comm.get_world_size(),
        }

    dist = DeepspeedTorchDistributor(
        numGpus=number, nnodes=1, localMode=LOCAL, useGpu=False, deepspeedConfig=DEEPSPEED
    )
    return dist.run(train, 300)


def deepspeed_file(number: int) -> Any:
    """A script that takes DeepSpeed's arguments."""
    from pyspark.ml.deepspeed.deepspeed_distributor import DeepspeedTorchDistributor

    dist = DeepspeedTorchDistributor(
        numGpus=1, nnodes=number, localMode=LOCAL, useGpu=False, deepspeedConfig=DEEPSPEED
    )
    return dist.run(str(Path(__file__).with_name("deepspeed_script.py")), "--steps", 20)


LOCAL = sys.argv[1] == "null"

if __name__ == "__main__":
    settings, _, case, number = sys.argv[1:]
    session = None
    if not LOCAL:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("documented")
        for key, value in json.loads(settings).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    with installed():
        told = globals()[case](int(number))
    print(json.dumps(told), flush=True)
    if session is not None:
        session.stop()
