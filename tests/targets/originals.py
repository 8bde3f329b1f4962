"""What ranks do in tests of the stand-ins of other distributors."""

from __future__ import annotations

import json
import os
import time
from typing import Any

# as a user's module has them, which ranks import too
from launcher.compat import HorovodRunner, MirroredStrategyRunner, TorchDistributor

STAND_INS = (HorovodRunner, MirroredStrategyRunner, TorchDistributor)
SEEN = ("RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES")


def seen() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in SEEN}


def slower_by_rank(value: str) -> str:
    """The later the rank, the later it ends."""
    rank = int(os.environ["RANK"])
    time.sleep(0.3 * rank)  # the training's own pace
    return f"{value} of rank {rank}"


def unlucky(words: str) -> None:
    print("before", flush=True)
    if os.environ["RANK"] == "1":
        raise ValueError(words)
    time.sleep(60)  # the others are stopped


def rows_by_file() -> list[Any]:
    """The rows of this rank's partition, and its schema, as the variables of pyspark tell them."""
    import pyarrow as pa

    with open(os.environ["SPARK_PARTITION_ARROW_DATA_FILE"], "rb") as file:
        rows = pa.ipc.open_stream(file).read_all().to_pylist()
    with open(os.environ["SPARK_DATAFRAME_SCHEMA_FILE"]) as text:
        names = [field["name"] for field in json.load(text)["fields"]]
    return [names, [[row[name] for name in names] for row in rows]]


def all_rows() -> list[Any]:
    """The rows of all ranks, gathered by gloo."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, rows_by_file())
    dist.destroy_process_group()
    return gathered


def batches(samples: int, size: int) -> list[list[float]]:
    """What pyspark's own loader makes of the partition."""
    from pyspark.ml.torch.distributor import _get_spark_partition_data_loader

    loader = _get_spark_partition_data_loader(samples, size, num_workers=0)
    return [x.tolist() for x, *_ in loader]
