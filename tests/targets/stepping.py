"""Handwritten digits for some seconds; writes the median seconds of a step to FOLDER/RANK.

stepping.py FOLDER SECONDS
"""

import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import launcher
from launcher.examples import digits
from launcher.examples.digits_ddp import join_gang


def main(folder: Path, seconds: float) -> None:
    join_gang()
    took = steps(seconds)
    (folder / str(dist.get_rank())).write_text(repr(statistics.median(took)))
    # after the model: what is left of it would be freed without its group, and torch 2.13 may abort
    dist.destroy_process_group()


def steps(seconds: float) -> list[float]:
    """The seconds that each step took, but for the first hundred."""
    torch.manual_seed(0)
    images, labels = digits.split()[0][:]
    model = DistributedDataParallel(digits.make_model(1024))
    optimizer = torch.optim.Adam(model.parameters())
    took: list[float] = []
    enough = torch.zeros(1)
    begun = time.perf_counter()
    while not enough:
        began = time.perf_counter()
        loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        launcher.report(step=len(took) + 1, loss=loss.item())
        took.append(time.perf_counter() - began)
        if len(took) % 100 == 0:  # all ranks end after the same step
            enough[0] = time.perf_counter() - begun > seconds
            dist.broadcast(enough, 0)
    return took[100:]


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
