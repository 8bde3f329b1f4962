"""The examples' trainings: what each needs, and the result that all of them must have."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from launcher.job import Job
from tests import framework_envs

FOLDER = Path(__file__).parents[1] / "launcher" / "examples"
TOLERANCE = 1e-5
BATCH = 64
LIMIT_S = 200.0


@dataclass(frozen=True)
class Example:
    """An example, and where it runs.

    Attributes:
        name: of its file, without the data's.
        environment: that it needs; empty if torch is enough, which is installed here.
        options: of its training.
        held_share: of the model, by rank, where it divides the model between two ranks.
        data: what its module's name begins with.
        samples: of an epoch.
        is_driver: whether it runs at rank 0 only, and has workers of its own on every rank.
    """

    name: str
    environment: str = ""
    options: Mapping[str, int] = field(default_factory=dict)
    held_share: tuple[float, ...] = ()
    data: str = "digits"
    samples: int = 1350
    is_driver: bool = False

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{key}{value}" for key, value in self.options.items())])

    @property
    def module(self) -> str:
        """The module's name, without its package."""
        return f"{self.data}_{self.name}"

    @property
    def script(self) -> Path:
        """The file."""
        return FOLDER / f"{self.module}.py"

    @property
    def framework(self) -> str:
        """By whose rules its ranks get their places."""
        names = {"deepspeed_pipeline": "deepspeed", "trainer": "transformers"}
        return names.get(self.name, self.name) if self.environment else "torch"

    def steps(self, epochs: int, ranks: int) -> list[int | None]:
        """How many steps each rank reports."""
        return [None if self.is_driver else epochs * (self.samples // BATCH)] * ranks

    def argv(self, epochs: int) -> list[str]:
        """The arguments of its script."""
        return [f"--{key}={value}" for key, value in {"epochs": epochs, **self.options}.items()]

    def launch(self) -> dict[str, Any]:
        """The options of its launch; the test is skipped where it cannot run."""
        if not self.environment:
            return {}
        if self.name.startswith("deepspeed") and not framework_envs.can_compile():
            pytest.skip("DeepSpeed needs a C++ compiler")
        made = framework_envs.made(self.environment)
        return {"python": made.python, "env": made.variables}


_FIRST_LAYER = (64 + 1) * 128 / ((64 + 1) * 128 + (128 + 1) * 10)
STAGES = (_FIRST_LAYER, 1 - _FIRST_LAYER)
HALVES = (0.5, 0.5)

EXAMPLES = (
    Example("ddp"),
    Example("fsdp", held_share=HALVES),
    Example("tensor_parallel", held_share=HALVES),
    Example("pipeline", held_share=STAGES),
    Example("lightning", "torch-family"),
    Example("deepspeed", "torch-family", {"stage": 1}, HALVES),
    Example("deepspeed", "torch-family", {"stage": 2}, HALVES),
    Example("deepspeed", "torch-family", {"stage": 3}, HALVES),
    Example("deepspeed_pipeline", "torch-family", held_share=STAGES),
    Example("accelerate", "torch-family"),
    Example("trainer", "torch-family"),
    Example("colossalai", "colossalai"),
    Example("horovod", "horovod"),
    Example("tensorflow", "tensorflow", data="spirals", samples=1024),
    Example("ray", "ray", is_driver=True),
)


def examples(*names: str) -> list[Example]:
    """The examples of these names, in their order."""
    by_name = {str(each): each for each in EXAMPLES}
    return [by_name[name] for name in names]


def reference(example: Example, epochs: int) -> dict[str, float]:
    """The metrics of the same training in one process, which divides nothing."""
    return spirals_alone(epochs) if example.data == "spirals" else digits_alone(epochs)


@cache
def spirals_alone(epochs: int) -> dict[str, float]:
    """The metrics of TensorFlow without a strategy."""
    env = framework_envs.made("tensorflow")
    around = {**os.environ, **env.variables, "PYTHONPATH": str(FOLDER.parents[1])}
    script = Path(__file__).parent / "targets" / "spirals_alone.py"
    command = [str(word) for word in (env.python, script, epochs, BATCH)]
    done = subprocess.run(command, env=around, stdout=subprocess.PIPE, check=True)
    metrics: dict[str, float] = json.loads(done.stdout)
    return metrics


@cache
def digits_alone(epochs: int) -> dict[str, float]:
    """The metrics of the same training in one process, without any framework: the same model and batches."""
    torch = pytest.importorskip("torch")
    from torch.nn.functional import cross_entropy

    from launcher.examples import digits

    state = torch.get_rng_state()
    torch.manual_seed(0)
    model = digits.make_model()
    torch.set_rng_state(state)
    train_set, test_set = digits.split()
    images, labels = train_set.tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        order = torch.randperm(len(train_set), generator=torch.Generator().manual_seed(epoch))
        for batch in order[: len(order) // BATCH * BATCH].view(-1, BATCH):
            optimizer.zero_grad()
            cross_entropy(model(images[batch]), labels[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return digits.evaluate(model, test_set, torch.device("cpu"))


def results(job: Job) -> list[Any]:
    """Every rank's value; one that does not end in time is stopped, so that others find its slots free."""
    try:
        return job.results(timeout=LIMIT_S)
    except TimeoutError:
        job.stop(force=True, reason="the test's time is over")
        job.wait(30)
        raise


def check(example: Example, values: list[Any], epochs: int, ranks: int = 2) -> None:
    """All ranks trained together, and their result is that of one process."""
    expected = pytest.approx(reference(example, epochs), abs=TOLERANCE)
    if example.is_driver:
        assert [None] * (ranks - 1) == values[1:]
        values = values[:1] * ranks
    assert [expected] * ranks == [{k: v for k, v in r.items() if k.startswith("test_")} for r in values]
    assert [ranks] * ranks == [value["ranks"] for value in values]
    if example.held_share:
        held = [value["held_share"] for value in values]
        assert held == pytest.approx(example.held_share, abs=0.001)  # the halves of a bias are not quite so
