"""Imagenette's photographs from its folder, or generated images of the same shape and number.

https://github.com/fastai/imagenette has the photographs. Generated images need no download and almost no
work: the speed of a training on them leaves out what reading, decoding and augmenting photographs costs.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

import launcher

CLASSES, TRAINING_IMAGES, VALIDATION_IMAGES = 10, 9469, 3925
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue in ImageNet's photographs."""
ENDINGS = {".jpeg", ".jpg", ".png"}

Labelled = tuple[Tensor, int]
Box = tuple[float, float, float, float]


class GeneratedImages(Dataset[Labelled]):
    """A pattern for each class below noise, sorted by class; the same for the same seed in every process.

    Nothing is drawn for an image: its noise is a window, by its index, of noise that was drawn before.
    """

    def __init__(self, count: int, size: int, seed: int) -> None:
        coarse = torch.randn(CLASSES, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        self.patterns = interpolate(coarse, size=(size, size), mode="bilinear")
        self.noise = torch.randn(3, 2 * size, 2 * size, generator=torch.Generator().manual_seed(seed))
        self.count, self.size = count, size
        self.classes = CLASSES

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Labelled:
        label = index * CLASSES // self.count
        top, left = divmod(index * 7919 % self.size**2, self.size)  # a prime: neighbours differ
        return self.patterns[label] + self.noise[:, top : top + self.size, left : left + self.size], label


class Photographs(Dataset[Labelled]):
    """Photographs in a folder for each class, sorted by class, and decoded when they are asked for.

    Args:
        folder: with the folders of the classes.
        names: of the classes, by label.
        size: of the images that are made of them.
        augment: whether each time another part of a photograph is taken, and half of them mirrored.
    """

    def __init__(self, folder: Path, names: list[str], size: int, *, augment: bool) -> None:
        self.files = [
            (path, label)
            for label, name in enumerate(names)
            for path in sorted((folder / name).glob("[!.]*"))
            if path.suffix.lower() in ENDINGS
        ]
        self.size, self.augment = size, augment
        self.classes = len(names)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Labelled:
        from PIL import Image

        path, label = self.files[index]
        size = (self.size, self.size)
        with Image.open(path) as photo:
            box = random_box(*photo.size) if self.augment else central_box(*photo.size)
            pixels = bytearray(photo.convert("RGB").resize(size, Image.Resampling.BILINEAR, box).tobytes())
        image = torch.frombuffer(pixels, dtype=torch.uint8).view(*size, 3).permute(2, 0, 1) / 255
        image = (image - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)
        return image.flip(2) if self.augment and torch.rand(()) < 0.5 else image, label


def split(data: str, images: int | None, size: int) -> tuple[Subset[Labelled], Subset[Labelled], int]:
    """The images to train on, those to validate on, and the number of classes.

    Args:
        data: a folder like imagenette2; if empty, images are generated.
        images: how many to train on, evenly of all classes, and in proportion to validate on; by default all.
        size: their height and width in pixels.

    Raises:
        SpecError: the folder has no such structure, Pillow is missing, or there are fewer images.
    """
    train: GeneratedImages | Photographs
    val: GeneratedImages | Photographs
    if data:
        train, val = photographs(Path(data), size)
    else:
        train = GeneratedImages(TRAINING_IMAGES, size, seed=1)
        val = GeneratedImages(VALIDATION_IMAGES, size, seed=2)
    wanted = len(train) if images is None else images
    if wanted > len(train):
        raise launcher.SpecError(f"there are {len(train)} images to train on, which is fewer than {wanted}")
    return fewer(train, wanted), fewer(val, math.ceil(len(val) * wanted / len(train))), train.classes


def photographs(folder: Path, size: int) -> tuple[Photographs, Photographs]:
    """The photographs of a folder to train on, and those to validate on.

    Raises:
        SpecError: the folder has no such structure, or Pillow is missing.
    """
    if not folder.is_dir():
        raise launcher.SpecError(f"{folder} is not a folder")
    train = folder / "train"
    names = sorted(each.name for each in train.glob("[!.]*") if each.is_dir()) if train.is_dir() else []
    sets = [Photographs(folder / part, names, size, augment=part == "train") for part in ("train", "val")]
    if not all(map(len, sets)):
        raise launcher.SpecError(f"{folder} has no photographs in train/CLASS and val/CLASS as imagenette2")
    if find_spec("PIL") is None:
        raise launcher.SpecError("photographs are read with Pillow: pip install pillow")
    return sets[0], sets[1]


def fewer(images: GeneratedImages | Photographs, wanted: int) -> Subset[Labelled]:
    """So many of the images, evenly of all classes: they are sorted by class."""
    return Subset(images, [i * len(images) // wanted for i in range(wanted)])


def loaders(
    train: Subset[Labelled], val: Subset[Labelled], rank: int, world: int, batch_size: int, workers: int
) -> tuple[DataLoader[Labelled], DataLoader[Labelled]]:
    """This rank's batches: of its share of the training images, and of its share of those to validate on.

    Every rank has as many training batches, of another share in each epoch. No image is validated on twice.

    Args:
        train: all images to train on.
        val: all images to validate on.
        rank: this rank.
        world: the number of ranks.
        batch_size: of one rank.
        workers: processes of each rank that read images.

    Raises:
        SpecError: some rank would have no batch.
    """
    if len(train) < world * batch_size or len(val) < world:
        have = f"{len(train)} images to train on and {len(val)} to validate on"
        raise launcher.SpecError(f"{have} are too few for a batch of {batch_size} on every rank of {world}")
    sampler: DistributedSampler[Labelled] = DistributedSampler(train, world, rank, drop_last=True)
    share = Subset(val, range(rank, len(val), world))
    common: dict[str, Any] = {"num_workers": workers, "pin_memory": torch.cuda.is_available()}
    kept = {**common, "persistent_workers": workers > 0}  # for the next epoch
    return (
        DataLoader(train, batch_size, sampler=sampler, drop_last=True, **kept),
        DataLoader(share, batch_size, **common),
    )


def random_box(width: int, height: int) -> Box:
    """A part of a photograph: from 8 to 100 % of it, from 3:4 to 4:3, cut off where it does not fit."""
    area = width * height * float(torch.empty(()).uniform_(0.08, 1))
    ratio = math.exp(float(torch.empty(()).uniform_(-math.log(4 / 3), math.log(4 / 3))))
    wide, high = min(width, math.sqrt(area * ratio)), min(height, math.sqrt(area / ratio))
    left, top = (torch.rand(2) * torch.tensor([width - wide, height - high])).tolist()
    return left, top, min(left + wide, width), min(top + high, height)  # not beyond it by a rounding error


def central_box(width: int, height: int) -> Box:
    """The square in a photograph's middle, of 7/8 of its shorter side."""
    side = min(width, height) * 7 / 8
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side
