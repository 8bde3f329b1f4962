"""What ranks of `TorchEstimator` do: the usual loop, on this rank's rows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ..agent.report import report
from ..data import DataError, partition_loader
from .diverging import diverged


@dataclass(frozen=True, slots=True)
class TorchRecipe:
    """How to train.

    Attributes:
        model: the module to begin with, or a function that makes it.
        loss: of (output, label), one number.
        optimizer: makes the optimizer of (parameters, lr=…).
        learning_rate: what it is given.
        epochs: how often each row is used.
        seed: of the weights that a function makes, and of the order of rows.
    """

    model: torch.nn.Module | Callable[[], torch.nn.Module]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    optimizer: Callable[..., torch.optim.Optimizer]
    learning_rate: float
    epochs: int
    seed: int

    def make_model(self) -> torch.nn.Module:
        """The module to begin with, the same in every process."""
        if isinstance(self.model, torch.nn.Module):
            return self.model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self.model()


class TorchTrained(NamedTuple):
    """What rank 0 returns.

    Attributes:
        state: the trained module's state.
        shape: of a row's features.
    """

    state: dict[str, Any]
    shape: list[int]


def fit(recipe: TorchRecipe) -> TorchTrained | None:
    """Train on this rank's rows together with all ranks; rank 0 returns the state.

    Raises:
        DataError: there are no rows.
        FloatingPointError: the loss is no finite number any more.
    """
    device = _join()
    torch.manual_seed(recipe.seed)
    model = recipe.make_model().to(device).train()
    together = DistributedDataParallel(model) if dist.is_initialized() else model
    optimizer = recipe.optimizer(model.parameters(), lr=recipe.learning_rate)
    rows = partition_loader(shuffle=True, seed=recipe.seed, dtype=floating_type(model))
    step, shape = 0, None
    for epoch in range(recipe.epochs):
        loss = torch.zeros((), device=device)
        for batch in rows:
            shape = batch.features.shape[1:]
            output = as_labels(together(batch.features.to(device)), batch.label)
            loss = recipe.loss(output, batch.label.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 16 == 1:  # a number of the device is waited for
                report(step=step, loss=loss.item(), epoch=epoch)
        if shape is None:
            raise DataError("the DataFrame has no rows to learn from")
        if not math.isfinite(loss.item()):
            raise FloatingPointError(diverged(loss.item(), epoch, recipe.learning_rate))
        report(step=step, loss=loss.item(), epoch=epoch, total_steps=step // (epoch + 1) * recipe.epochs)
    if dist.is_initialized():
        dist.destroy_process_group()
    if int(os.environ["RANK"]):
        return None
    return TorchTrained({name: value.cpu() for name, value in model.state_dict().items()}, list(shape or ()))


def floating_type(model: torch.nn.Module) -> torch.dtype:
    """The type of floating-point numbers that a module computes with."""
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def as_labels(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """The output of one number a row as a vector, as labels are.

    As a matrix of one column, a loss would silently compare every row with every label.
    """
    return output.squeeze(1) if output.shape[1:] == (1,) and label.dim() == 1 else output


def _join() -> torch.device:
    """Initialise the process group if there are several ranks, and choose this rank's device."""
    local = int(os.environ["LOCAL_RANK"])
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if on_gpu:
        torch.cuda.set_device(local)
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    return torch.device("cuda", local) if on_gpu else torch.device("cpu")
