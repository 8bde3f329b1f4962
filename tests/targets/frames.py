"""Functions of ranks that share a DataFrame whose column `id` numbers its rows."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from launcher.data import partition_loader


def numbers(**options: Any) -> list[int]:
    """The numbers of this rank's rows of one epoch, without padding."""
    loader = partition_loader(**options)
    found: list[int] = []
    for batch in loader:
        real = batch.id if not hasattr(batch, "valid") else batch.id[batch.valid]
        found += real.tolist()
    return found


def epochs(count: int, **options: Any) -> list[list[int]]:
    """The same of several epochs, with the number of steps of each."""
    loader = partition_loader(**options)
    found = []
    for _ in range(count):
        batches = [batch.id.tolist() for batch in loader]
        found.append([len(batches), *(number for batch in batches for number in batch)])
    return found


def together(**options: Any) -> list[list[int]]:
    """The numbers in each batch, without padding. Ranks meet at each: one more on any of them would hang."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    found = []
    for batch in partition_loader(**options):
        dist.all_reduce(batch.id.double().sum())
        found.append((batch.id[batch.valid] if hasattr(batch, "valid") else batch.id).tolist())
    dist.destroy_process_group()
    return found


def kinds() -> dict[str, str]:
    """What the columns of the first batch are."""
    batch = next(iter(partition_loader(2)))
    return {name: describe(value) for name, value in batch._asdict().items()}


def describe(value: Any) -> str:
    return type(value[0]).__name__ if isinstance(value, list) else f"{value.dtype} {tuple(value.shape[1:])}"


def dies_once(marker: str, after: int) -> list[int]:
    """Take an epoch; in the first attempt rank 1 dies after some batches."""
    found = []
    for step, batch in enumerate(partition_loader(10)):
        if step == after and os.environ["RANK"] == "1" and not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), 9)
        found += batch.id.tolist()
    return found


def first_before_last(marker: str) -> int:
    """Take a batch, and only then let the rows that come after it be computed."""
    batches = iter(partition_loader(10))
    first = next(batches)
    Path(marker).touch()
    return len(first.id) + sum(len(batch.id) for batch in batches)


def wrong_column() -> None:
    """Want a column that is not there."""
    partition_loader(10, columns=["y"])


def takes_one() -> int:
    """Take a batch of many, and return."""
    return len(next(iter(partition_loader(10))).id)


def waits() -> None:
    """Take what comes, and then wait for somebody."""
    print("begun", flush=True)
    for _ in partition_loader(10):
        pass
    time.sleep(600)


def memory() -> int:
    """The largest memory of this rank in an epoch, in bytes."""
    import resource

    for _ in partition_loader(1024):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def prints_modules() -> list[str]:
    """What a rank has of Spark."""
    list(partition_loader(10))
    return sorted(name for name in sys.modules if name.split(".")[0] in {"pyspark", "py4j"})
