"""Generated images of handwritten digits, 8×8 pixels, drawn from strokes that are randomly bent and blurred.

Needs only torch, no download and no accelerator. Nothing here is distributed: every rank draws the same
images.

Every example trains the same model on the same batches in the same order, so all of them have the same
result, whichever framework divides the work and among however many ranks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

SIDE, CLASSES = 8, 10
FEATURES = SIDE * SIDE
POINTS = 40

# The corners of each digit's line in the order of a pen: x to the right, y downwards, in hundredths.
_STROKES = (
    "50,5 82,25 86,50 82,75 50,95 18,75 14,50 18,25 50,5",
    "32,25 54,5 54,95",
    "18,25 50,5 80,25 50,60 18,93 86,93",
    "18,8 78,8 45,42 82,68 60,95 15,88",
    "66,95 66,5 14,66 90,66",
    "80,6 25,6 22,46 62,42 82,68 55,95 15,86",
    "72,6 30,38 18,70 50,95 80,72 50,50 22,66",
    "12,6 86,6 42,95",
    "50,48 20,26 50,5 80,26 50,48 82,72 50,95 18,72 50,48",
    "78,34 50,54 22,30 50,5 78,28 74,62 50,95",
)


def split(seed: int = 0) -> tuple[TensorDataset, TensorDataset]:
    """1,350 images to train on and 450 to test on, equally many of each digit."""
    generator = torch.Generator().manual_seed(seed)
    return draw(135, generator), draw(45, generator)


def draw(each: int, generator: torch.Generator) -> TensorDataset:
    """`each` images of every digit, in random order."""
    digits = torch.arange(CLASSES).repeat_interleave(each)
    digits = digits[torch.randperm(len(digits), generator=generator)]
    lines = torch.stack([_line(digit) for digit in range(CLASSES)])[digits]
    return TensorDataset(_ink(_bent(lines, generator), generator), digits)


def make_model(hidden: int = 128) -> nn.Sequential:
    """A classifier of such images. One hidden layer is plenty for 64 pixels."""
    return nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))


@torch.no_grad()
def evaluate(model: nn.Module, dataset: TensorDataset, device: torch.device) -> dict[str, float]:
    """The mean loss, and the share of the dataset that the model classifies correctly.

    Every rank evaluates the whole dataset, which is small; so a sharded model works as well.
    """
    images, labels = (part.to(device) for part in dataset.tensors)
    logits = model(images)
    right = (logits.argmax(dim=1) == labels).sum()
    loss = cross_entropy(logits, labels)
    return {"test_loss": loss.item(), "test_accuracy": right.item() / len(dataset)}


def _line(digit: int) -> Tensor:
    """`POINTS` points along a digit's strokes, around the origin."""
    corners = torch.tensor([[int(v) / 100 for v in pair.split(",")] for pair in _STROKES[digit].split()]).T
    even = torch.nn.functional.interpolate(corners[None], POINTS, mode="linear", align_corners=True)
    return even[0].T - 0.5


def _bent(lines: Tensor, generator: torch.Generator) -> Tensor:
    """Each line slanted, stretched and moved at random."""
    noise = torch.randn(len(lines), 2, 2, generator=generator) * 0.12
    moved = torch.randn(len(lines), 1, 2, generator=generator) * 0.05
    return lines @ (torch.eye(2) + noise) + moved


def _ink(lines: Tensor, generator: torch.Generator) -> Tensor:
    """The darkness of each pixel: the nearer to the line, the darker."""
    grid = (torch.arange(SIDE) + 0.5) / SIDE - 0.5
    pixels = torch.cartesian_prod(grid, grid).flip(1)
    nearest = torch.cdist(pixels.expand(len(lines), -1, -1), lines).amin(dim=2)
    dark = torch.exp(-((nearest / 0.09) ** 2))
    return (dark + torch.randn(dark.shape, generator=generator) * 0.1).clamp(0, 1)
