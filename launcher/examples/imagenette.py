"""ResNet-50 on imagenette with DistributedDataParallel, and how its speed grows with the number of GPUs.

    rankdeck run launcher/examples/imagenette.py -n 1 -- --data imagenette2-160
    rankdeck run launcher/examples/imagenette.py -n 4 -- --data imagenette2-160 --one-rank-s 42.5
    rankdeck run launcher/examples/imagenette.py:train -n 2 --param epochs=1
    torchrun --standalone --nproc-per-node 2 launcher/examples/imagenette.py
    python -m launcher.examples.imagenette --table RUN RUN

Each rank has batches of its own size, as published tables have it: twice the ranks, half the steps. Without
`--data` images are generated, and the figures leave out what reading and decoding photographs costs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, DistributedSampler

import launcher
from launcher.examples import imagenette_data, resnet
from launcher.examples.digits_ddp import join_gang
from launcher.examples.imagenette_data import Labelled

REPORT_EVERY = 10  # steps: a report waits for the device
LEAST = {"epochs": 1, "batch_size": 2, "images": 1, "image_size": 32, "workers": 0}
COLUMNS = ("ranks", "nodes", "s/epoch", "images/s", "speed-up", "efficiency")


@dataclass(frozen=True)
class Recipe:
    """What a training is told, under the names of `train`'s parameters.

    Raises:
        SpecError: a value is not allowed.
    """

    epochs: int
    batch_size: int
    lr: float
    data: str
    images: int | None
    image_size: int
    net: str
    workers: int
    amp: bool
    one_rank_s: float | None

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise launcher.SpecError(f"{name} is {value}, but must be at least {least}")
        for name in ("lr", "one_rank_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise launcher.SpecError(f"{name} is {value}, but must be positive")
        if self.net not in resnet.NETS:
            raise launcher.SpecError(f"net is {self.net!r}, but must be one of {', '.join(resnet.NETS)}")


class Meter:
    """Times epochs from barrier to barrier, so by the slowest rank, and reports the progress.

    Attributes:
        epoch_s: the seconds of each epoch so far.
        loss: this rank's mean of the last epoch.

    Args:
        recipe: of the training.
        images: that there are to train on.
        device: of this rank.
    """

    def __init__(self, recipe: Recipe, images: int, device: torch.device) -> None:
        self.ranks = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.recipe, self.device = recipe, device
        self.steps = images // self.ranks // recipe.batch_size
        self.images = self.steps * recipe.batch_size * self.ranks  # the rest of them makes no whole step
        self.images_alone = images // recipe.batch_size * recipe.batch_size  # what one rank has in an epoch
        self.epoch_s: list[float] = []
        self.loss = 0.0

    def begin_epoch(self) -> None:
        """Wait for all ranks, then start the clock."""
        self._losses: list[Tensor] = []
        self._began = self._now()

    def count(self, loss: Tensor) -> None:
        """A step is done. Its loss is rarely looked at, because that waits for the device."""
        self._losses.append(loss.detach())
        done = len(self._losses)
        if done % REPORT_EVERY == 0 or done == self.steps:
            launcher.report(
                step=len(self.epoch_s) * self.steps + done,
                loss=loss.item(),
                images_per_s=self.images * done / self.steps / (time.perf_counter() - self._began),
                total_steps=self.recipe.epochs * self.steps,
            )

    def end_epoch(self) -> None:
        """Wait for all ranks, stop the clock, and print a line at rank 0."""
        seconds = self._now() - self._began
        self.epoch_s.append(seconds)
        self.loss = torch.stack(self._losses).mean().item()
        if self.rank == 0:
            epoch = f"epoch {len(self.epoch_s)} of {self.recipe.epochs}"
            speed = f"{seconds:.3g} s, {self.images / seconds:,.1f} images/s"
            print(f"{epoch}: loss {self.loss:.4f}, {speed}", flush=True)

    def result(self, val_accuracy: float) -> dict[str, float | None]:
        """The training's figures. An epoch's time is the median without the first, which warms up.

        The efficiency is the speed of a rank, as a share of one that is alone. By images, not by epochs: the
        more ranks, the more images make no whole step.
        """
        epoch_s = statistics.median(self.epoch_s[1:] or self.epoch_s)
        speed, one_rank_s = self.images / epoch_s, self.recipe.one_rank_s
        efficiency = one_rank_s and speed / self.ranks * one_rank_s / self.images_alone
        launcher.report(epoch_s=epoch_s, images_per_s=speed, val_accuracy=val_accuracy)
        if efficiency is not None:
            launcher.report(efficiency=efficiency)
        result = {
            "ranks": self.ranks,
            "nodes": int(os.environ.get("GROUP_WORLD_SIZE", "1")),
            "epoch_s": epoch_s,
            "images_per_s": speed,
            "efficiency": efficiency,
            "loss": self.loss,
            "val_accuracy": val_accuracy,
        }
        if self.rank == 0:
            print(f"validation accuracy {val_accuracy:.4f} on {self.device}", flush=True)
            print(scaling_table([result]), flush=True)
        return result

    def _now(self) -> float:
        if dist.is_initialized():
            dist.barrier(device_ids=[self.device.index] if self.device.type == "cuda" else None)
        if self.device.type == "cuda":  # where a barrier is a kernel among others
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def train(
    epochs: int = 15,
    batch_size: int = 64,
    lr: float = 0.05,
    data: str = "",
    images: int | None = None,
    image_size: int = 160,
    net: str = "resnet50",
    workers: int = 4,
    amp: bool = False,
    one_rank_s: float | None = None,
) -> dict[str, float | None]:
    """Train on this rank's share of the images; return the figures of all ranks, and this rank's loss.

    Args:
        epochs: of the training; the first is not counted in the time of an epoch.
        batch_size: of each rank.
        lr: the learning rate at the peak of its cycle.
        data: a folder like imagenette2; if empty, images are generated.
        images: how many to train on; by default all.
        image_size: their height and width in pixels.
        net: ``resnet50`` or, for CPUs, ``small``.
        workers: processes of each rank that read images.
        amp: whether to compute in bfloat16 what can be.
        one_rank_s: an epoch's seconds of one rank alone, to which the speed is compared.
    """
    recipe = Recipe(epochs, batch_size, lr, data, images, image_size, net, workers, amp, one_rank_s)
    train_set, val_set, classes = imagenette_data.split(data, images, image_size)
    device = join_gang()
    torch.manual_seed(dist.get_rank())  # for other crops; DDP gives all ranks the weights of rank 0
    torch.backends.cudnn.benchmark = True  # all batches have one shape
    place = dist.get_rank(), dist.get_world_size()
    loader, val_loader = imagenette_data.loaders(train_set, val_set, *place, batch_size, workers)
    model = resnet.make_model(net, classes).to(device)
    meter = Meter(recipe, len(train_set), device)
    fit(recipe, model, loader, meter)  # frees DDP's buckets before the group that they belong to
    result = meter.result(accuracy(model, val_loader, device, amp=amp))
    dist.destroy_process_group()
    return result


def fit(recipe: Recipe, model: nn.Module, loader: DataLoader[Labelled], meter: Meter) -> None:
    """Train the model, every rank on its own batches."""
    sampler, device = loader.sampler, meter.device
    assert isinstance(sampler, DistributedSampler)
    wrapped = DistributedDataParallel(model)
    optimizer, schedule = make_optimizer(model, recipe.lr, recipe.epochs * len(loader))
    for epoch in range(recipe.epochs):
        sampler.set_epoch(epoch)  # another order, and another share, in every epoch
        meter.begin_epoch()
        for batch in loader:
            images, labels = (part.to(device, non_blocking=True) for part in batch)
            with torch.autocast(device.type, torch.bfloat16, enabled=recipe.amp):
                loss = cross_entropy(wrapped(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            meter.count(loss)
        meter.end_epoch()


def make_optimizer(model: nn.Module, lr: float, steps: int) -> tuple[SGD, OneCycleLR]:
    """Stochastic gradient descent with momentum, and its learning rate: up to `lr`, then down to nothing."""
    optimizer = SGD(model.parameters(), lr, momentum=0.9, weight_decay=1e-4)
    return optimizer, OneCycleLR(optimizer, lr, total_steps=steps)


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader[Labelled], device: torch.device, *, amp: bool) -> float:
    """The share of all ranks' images that the model classifies correctly."""
    for statistic in model.buffers():
        dist.broadcast(statistic, 0)  # each rank has had its own since the last step
    model.eval()
    counts = torch.zeros(2, device=device)
    for batch in loader:
        images, labels = (part.to(device, non_blocking=True) for part in batch)
        with torch.autocast(device.type, torch.bfloat16, enabled=amp):
            right = model(images).argmax(1) == labels
        counts += torch.stack([right.sum(), torch.tensor(len(labels), device=device)])
    dist.all_reduce(counts)
    right_ones, seen = counts.tolist()
    return right_ones / seen


def scaling_table(results: Iterable[Mapping[str, Any]]) -> str:
    """Results as a table: each compared to what it was told of one rank, else to the first of one rank."""
    found = sorted(results, key=lambda each: (each["ranks"], each["nodes"]))
    alone = next((each["images_per_s"] for each in found if each["ranks"] == 1), None)
    rows = [COLUMNS]
    for each in found:
        ranks, speed = each["ranks"], each["images_per_s"]
        efficiency = each["efficiency"] or (alone and speed / alone / ranks)
        gain = ("-", "-") if not efficiency else (f"{efficiency * ranks:.2f}", f"{efficiency:.0%}")
        rows.append((str(ranks), str(each["nodes"]), f"{each['epoch_s']:.3g}", f"{speed:,.1f}", *gain))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def published(run: str) -> Mapping[str, Any]:
    """What rank 0 of a run published.

    Raises:
        SpecError: there is no such run, or it is no such training, or has not ended.
    """
    from launcher.runs.catalog import find_run
    from launcher.runs.paths import runs_root
    from launcher.runs.reader import read_summary

    values = [each["value"] for each in read_summary(find_run(runs_root(), run)) if each["rank"] == 0]
    if not values or not isinstance(values[0], Mapping) or "images_per_s" not in values[0]:
        raise launcher.SpecError(f"run {run} has no result of a training on imagenette")
    return values[0]


def make_parser(description: str) -> argparse.ArgumentParser:
    """The options of `train`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64, help="images of one step, of each rank")
    parser.add_argument("--lr", type=float, default=0.05, help="the learning rate at its peak")
    parser.add_argument(
        "--data", default="", metavar="FOLDER", help="of imagenette2; without, images are generated"
    )
    parser.add_argument("--images", type=int, metavar="N", help="train on so many; by default on all")
    parser.add_argument("--image-size", type=int, default=160, help="height and width in pixels")
    parser.add_argument("--net", choices=resnet.NETS, default="resnet50", help="small is for CPUs")
    parser.add_argument("--workers", type=int, default=4, help="processes of each rank that read images")
    parser.add_argument("--amp", action="store_true", help="compute in bfloat16 what can be")
    parser.add_argument("--one-rank-s", type=float, metavar="SECONDS", help="of an epoch of one rank alone")
    return parser


def main() -> None:
    """Train as the command line says, and make the figures the result of the run."""
    parser = make_parser("ResNet-50 on imagenette with DistributedDataParallel")
    parser.add_argument("--table", nargs="+", metavar="RUN", help="instead, compare runs that have ended")
    options = vars(parser.parse_args())
    runs = options.pop("table")
    try:
        if runs:
            print(scaling_table(map(published, runs)))
        else:
            launcher.publish(train(**options))
    except launcher.SpecError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
